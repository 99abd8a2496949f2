"""Boxes: processes with limits, where files of strangers are judged.

Whatever such files do, the caller gets a value or one line. A box runs none of their code. It has limits of
memory, processor time and open files, is ended after some time, and opens only what its job names, this
package, the data directory and the cache. Elsewhere than on Linux the limit of memory may not hold.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
import signal
import stat
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from errno import EACCES
from math import ceil
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium

from agentgym.errors import UsageError
from agentgym.io.paths import cache_directory, data_directory

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

PACKAGE = str(Path(__file__).parents[2])


@dataclass(frozen=True, slots=True)
class Limits:
    """What one job of a box may take."""

    memory: float = 8.0
    """GiB of private memory; also of what it writes into one file."""
    processor: float = 900.0
    """Seconds of processor time."""
    wall: float = 3600.0
    """Seconds."""
    files: float = 256.0
    """Open files."""

    def __post_init__(self) -> None:
        """Check that all are above 0."""
        for name, value in asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
                raise UsageError(f"the limit {name} is a number above 0, got {value!r}")


class LimitError(UsageError):
    """A job took more than a limit allows. The message names the option that raises it."""


@dataclass(frozen=True, slots=True)
class _Places:
    """The folders and files of a job, by their full paths."""

    reads: Collection[str]
    """Of strangers, where links count by what they lead to."""
    writes: Collection[str]
    trusted: Collection[str]
    """The user's, links too."""
    code: Collection[str]
    """Where modules are looked for."""


def boxed(
    call: Callable[..., T],
    *arguments: Any,
    files: Collection[Path],
    allow: Collection[str] = (),
    limits: Limits | None = None,
    console: Console | None = None,
    **named: Any,
) -> T:
    """Return what a function returns in a box, or raise what it raises.

    Args:
        call: a module's function; it, its arguments and its value are pickled.
        *arguments: its arguments.
        files: the files and folders that it may read, and write.
        allow: its argument ``allow``; those that are the full path of a folder may be read, too.
        limits: None for those of `Limits`.
        console: its argument ``console``, where it is a terminal: the function gets standard error instead.
        **named: its other named arguments.

    Raises:
        LimitError: it took too much.
    """
    limits = limits or Limits()
    mine = [os.path.realpath(path) for path in files]
    allowed = [os.path.realpath(folder) for folder in allow if os.path.isabs(folder)]
    specs = [spec for spec in gymnasium.registry.values() if _registered_here(spec)]
    trusts_here = specs or len(allow) > len(allowed)  # modules of the current folder
    path = [entry for entry in sys.path if trusts_here or entry not in ("", os.getcwd())]
    cache = str(cache_directory().absolute())
    own = (cache, str(data_directory().absolute()), PACKAGE, sys.prefix, sys.base_prefix)
    places = _Places([*mine, *allowed], [*mine, cache], own, [os.path.abspath(entry) for entry in path])
    state = (dict(os.environ), os.getcwd(), path, specs)
    named |= {"allow": allow, "console": console is not None and console.is_terminal}
    job = pickle.dumps((limits, places, state, call, arguments, named))
    box = _IDLE.pop() if _IDLE else _Box()
    try:
        answer = box.ask(job, limits)
        if answer is None and box.used:  # by what came before, perhaps
            box.stop()
            box = _Box()
            answer = box.ask(job, limits)
        if answer is None:
            raise _beyond("memory", f"{limits.memory:g} GiB of memory")
    except BaseException:
        box.stop()
        raise
    value, error, full = answer
    if full:
        box.stop()
    else:
        _IDLE.append(box)
    if error is not None:
        raise error
    return value  # type: ignore[no-any-return]


def _registered_here(spec: Any) -> bool:
    """Return whether an environment is of neither Gymnasium nor this package, and can be told to a box."""
    if spec.namespace in (None, "agentgym"):
        return False
    with suppress(Exception):
        return bool(pickle.dumps(spec))
    return False


def _beyond(name: str, most: str) -> LimitError:
    return LimitError(f"it takes more than {most}: raise that with --bound {name}=NUMBER if it is no attack")


class _Box:
    """One process, for one job after another."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.used = False
        self._pipe, far_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(far_end,), daemon=True)
        self._process.start()
        far_end.close()

    def ask(self, job: bytes, limits: Limits) -> tuple[Any, Exception | None, bool] | None:
        """Return a job's value and error, and whether the process is full; None where memory ended it."""
        try:
            self._pipe.send_bytes(job)
            if not self._pipe.poll(limits.wall):
                raise _beyond("wall", f"{limits.wall:g} seconds")
            answer = self._pipe.recv_bytes(int(limits.memory * 2**30))
        except (EOFError, OSError) as error:
            self._process.join(60)
            if (code := self._process.exitcode) == -signal.SIGXCPU:
                raise _beyond("processor", f"{limits.processor:g} seconds of processor time") from error
            raise LimitError(f"the process that verified it ended with code {code}") from error
        found = pickle.loads(answer)
        self.used |= found is not None
        return found  # type: ignore[no-any-return]

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


_IDLE: list[_Box] = []
"""Boxes that wait for a job."""


# --- in the box -------------------------------------------------------------------------------------

_PLACES: list[_Places] = []
"""Those of the job that is being done, if any."""


def _serve(pipe: Connection) -> None:
    """Do jobs until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    sys.addaudithook(_check_event)
    with suppress(EOFError, ConnectionError):
        while True:
            pipe.send_bytes(_do(*pickle.loads(pipe.recv_bytes())))


def _do(
    limits: Limits,
    places: _Places,
    state: tuple[dict[str, str], str, list[str], list[Any]],
    call: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: dict[str, Any],
) -> bytes:
    environ, folder, sys.path[:], specs = state
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    for spec in specs:
        gymnasium.registry.setdefault(spec.id, spec)
    full = _limit(limits) > limits.memory * 2**29
    named["console"] = _console() if named["console"] else None
    value, error = None, None
    _PLACES.append(places)
    try:
        value = call(*arguments, **named)
    except MemoryError:
        return pickle.dumps(None)
    except Exception as raised:  # noqa: BLE001 (sent to the parent, which raises it)
        error = raised
    finally:
        _PLACES.clear()
    try:
        return pickle.dumps((value, error, full))
    except MemoryError:
        return pickle.dumps(None)


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def _limit(limits: Limits) -> int:
    """Set this process's limits; return the most memory it has had, in bytes."""
    used, memory = resource.getrusage(resource.RUSAGE_SELF), int(limits.memory * 2**30)
    wanted = {
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_FSIZE: memory,
        resource.RLIMIT_NOFILE: int(limits.files),
        resource.RLIMIT_CPU: ceil(used.ru_utime + used.ru_stime + limits.processor),
        resource.RLIMIT_CORE: 0,
    }
    for which, most in wanted.items():
        hard = resource.getrlimit(which)[1]
        resource.setrlimit(which, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    return used.ru_maxrss << 10


_READS = ("open", "os.listdir", "os.scandir", "sqlite3.connect")
_WRITES = {
    **dict.fromkeys(("os.chmod", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"), 1),
    **dict.fromkeys(("os.link", "os.rename", "os.symlink"), 2),
}
"""How many of the arguments are paths."""
_NEVER = ("socket.connect", "os.system", "os.exec")
_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CODE = (".py", ".pyc", ".so", ".pth")


def _check_event(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse, as an audit hook, what a job may not do."""
    if not _PLACES:
        return
    if event in _READS:
        _check_path(event, arguments[0], writes=event == "open" and bool(arguments[2] & _TO_WRITE))
    for path in arguments[: _WRITES.get(event, 0)]:
        _check_path(event, path, writes=True)
    if event in _NEVER:
        raise PermissionError(EACCES, "verification may not do that", event)


def _check_path(event: str, path: Any, *, writes: bool) -> None:
    if isinstance(path, int) or path == ":memory:":
        return
    given, places = os.fsdecode("." if path is None else path), _PLACES[0]
    if event == "sqlite3.connect":
        given = given.removeprefix("file:").partition("?")[0]
    real = os.path.realpath(given)
    plain = real if ".." in Path(given).parts else os.path.abspath(given)  # .. leads elsewhere behind a link
    if _below(real, places.writes if writes else places.reads):
        if os.path.exists(real) and stat.S_IFMT(os.stat(real).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
            raise PermissionError(EACCES, "it is no regular file", given)
    elif not _below(plain, places.writes if writes else places.trusted):
        is_code = event != "open" or plain.endswith(_CODE)
        if writes or not is_code or not _below(plain, places.code):
            said = "verification opens nothing there unless --allow names the folder"
            raise PermissionError(EACCES, said, given)


def _below(path: str, roots: Collection[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip(os.sep) + os.sep) for root in roots)
