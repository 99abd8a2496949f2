"""Boxes: processes with limits, where files of strangers are judged.

Whatever such files do, the caller gets a value or one line. A box runs none of their code. It has limits of
memory, processor time and open files, is ended after some time, and opens only what its job names, this
package, the data directory and the cache. Elsewhere than on Linux the limit of memory may not hold.
"""

from __future__ import annotations

import atexit
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import ceil
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium

from agentgym.errors import UsageError
from agentgym.evaluation.verify.confinement import Places, below, check_event, confined
from agentgym.io.paths import CACHE_VARIABLE, cache_directory, data_directory, scratch_directory

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

PACKAGE = Path(__file__).parents[2]

MAX_SECONDS = 2e6
"""Longest wait that the system's calls take."""


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


def boxed(
    call: Callable[..., T],
    *arguments: Any,
    files: Collection[Path] = (),
    writes: Collection[Path] = (),
    trusted: Collection[Path] = (),
    allow: Collection[str] = (),
    limits: Limits | None = None,
    console: Console | None = None,
    **named: Any,
) -> T:
    """Return what a function returns in a box, or raise what it raises.

    Args:
        call: a module's function; it, its arguments and its value are pickled.
        *arguments: its arguments.
        files: files and folders of strangers, which it may read.
        writes: files and folders that it may read and write.
        trusted: the user's own, which it may read, and what links in them lead to.
        allow: its argument ``allow``; those that are the full path of a folder are trusted, too.
        limits: None for those of `Limits`.
        console: its argument ``console``, where it is a terminal: the function gets standard error instead.
        **named: its other named arguments.

    Raises:
        LimitError: it took too much.
    """
    limits = limits or Limits()
    allowed = [folder for folder in allow if os.path.isabs(folder)]
    specs = [spec for spec in map(_pickled, gymnasium.registry.values()) if spec]
    trusts_here = specs or len(allow) > len(allowed)  # modules of the current folder
    path = [entry for entry in sys.path if trusts_here or entry not in ("", os.getcwd())]
    scratch = _scratch(console)
    places = _places([*files, *writes], [scratch, *writes], [scratch, *trusted, *map(Path, allowed)], path)
    state = ({**os.environ, "TMPDIR": str(scratch)}, os.getcwd(), path, specs)
    named |= {"allow": allow, "console": console is not None and console.is_terminal}
    job = pickle.dumps((limits, places, state, call, arguments, named))
    try:
        box = _IDLE.pop()
    except IndexError:
        box = _Box()
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


def _scratch(console: Console | None) -> Path:
    """Return the cache, or where it cannot be written a temporary folder of the process, with one remark."""
    cache = cache_directory().absolute()
    if cache in _TEMPORARY:
        return _TEMPORARY[cache]
    scratch = scratch_directory(cache)  # a job makes no folders above it
    if scratch != cache:
        _TEMPORARY[cache] = scratch
        if console is not None:
            remark = (
                f"verdicts are not kept: {cache} cannot be written; set {CACHE_VARIABLE} to another folder"
            )
            console.print(remark, style="yellow", markup=False, soft_wrap=True)
    return scratch


_TEMPORARY: dict[Path, Path] = {}
"""Where jobs write in place of a cache."""


def _places(
    files: Collection[Path], writes: Collection[Path], trusted: Collection[Path], path: Collection[str]
) -> Places:
    """Return the places of a job; ``path``: where modules are looked for."""
    code = [os.path.abspath(entry) for entry in path]
    own = [cache_directory(), data_directory(), *trusted, PACKAGE, *map(Path, filter(_is_library, code))]
    strange = [os.path.realpath(place) for place in files]
    return Places(
        reads=[*strange, *map(os.path.realpath, own)],
        writes=[os.path.realpath(place) for place in (cache_directory(), *writes)],
        strange=strange,
        trusted=[os.path.abspath(place) for place in own],
        code=code,
    )


def _is_library(entry: str) -> bool:
    """Return whether a folder of the search path is Python's, or one of installed packages."""
    return below(entry, (sys.prefix, sys.base_prefix)) or any(Path(entry).glob("*.dist-info"))


def _pickled(spec: Any) -> bytes:
    """Return an environment of another package, pickled; empty where it cannot be."""
    with suppress(Exception):
        return b"" if spec.namespace in (None, "agentgym") else pickle.dumps(spec)
    return b""


def _beyond(name: str, most: str) -> LimitError:
    return LimitError(f"it takes more than {most}: raise that with --bound {name}=NUMBER if it is no attack")


class _Box:
    """One process, for one job after another."""

    def __init__(self) -> None:
        self.used = False
        self._pipe, far_end = Pipe()
        with far_end:  # no fork, which copies threads' locks, and no main module, which may be a plain script
            command = [sys.executable, "-c", _START, str(far_end.fileno()), *sys.path]
            self._process = subprocess.Popen(command, pass_fds=[far_end.fileno()], stdin=subprocess.DEVNULL)

    def ask(self, job: bytes, limits: Limits) -> tuple[Any, Exception | None, bool] | None:
        """Return a job's value and error, and whether the process is full; None where memory ended it."""
        try:
            self._pipe.send_bytes(job)
            if not self._pipe.poll(min(limits.wall, MAX_SECONDS)):
                raise _beyond("wall", f"{limits.wall:g} seconds")
            answer = self._pipe.recv_bytes()
        except (EOFError, OSError) as error:
            if (code := self._process.wait(60)) == -signal.SIGXCPU:
                raise _beyond("processor", f"{limits.processor:g} seconds of processor time") from error
            raise LimitError(f"the process that verified it ended with code {code}") from error
        found = pickle.loads(answer)
        self.used |= found is not None
        return found  # type: ignore[no-any-return]

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()


_IDLE: list[_Box] = []
"""Boxes that wait for a job."""


@atexit.register
def _end_idle() -> None:
    while _IDLE:
        _IDLE.pop().stop()


_START = f"import sys; sys.path[:] = sys.argv[2:]; from {__name__} import serve; serve(int(sys.argv[1]))"


# --- in the box -------------------------------------------------------------------------------------


def serve(far_end: int) -> None:
    """Do the jobs that come through the pipe of a file descriptor, until the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    threading.Thread(target=_end_with_parent, args=(far_end,), daemon=True).start()
    sys.addaudithook(check_event)
    pipe = Connection(far_end)
    with suppress(EOFError, ConnectionError):
        while True:
            pipe.send_bytes(_do(*pickle.loads(pipe.recv_bytes())))


def _end_with_parent(pipe: int) -> None:
    """Wait until the parent's end of a pipe is closed, also by its death in the middle of a job."""
    hung_up = select.poll()
    hung_up.register(pipe, 0)
    hung_up.poll()
    os._exit(1)


def _do(
    limits: Limits,
    places: Places,
    state: tuple[dict[str, str], str, list[str], list[bytes]],
    call: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: dict[str, Any],
) -> bytes:
    environ, folder, sys.path[:], specs = state
    os.environ.clear()
    os.environ.update(environ)
    tempfile.tempdir = environ["TMPDIR"]
    os.chdir(folder)
    for pickled in specs:
        with suppress(Exception):  # of a script or a session, which no other process can import
            spec = pickle.loads(pickled)
            gymnasium.registry.setdefault(spec.id, spec)
    full = _limit(limits) > limits.memory * 2**29
    named["console"] = _console() if named["console"] else None
    value, error = None, None
    try:
        with confined(places):
            value = call(*arguments, **named)
    except MemoryError:
        return pickle.dumps(None)
    except Exception as raised:  # noqa: BLE001 (sent to the parent, which raises it)
        error = raised
    most = limits.memory / 8  # the caller keeps what was found, of every run
    try:
        answer = pickle.dumps((value, error, full))
    except MemoryError:
        return pickle.dumps(None)
    if len(answer) <= most * 2**30:
        return answer
    return pickle.dumps((None, _beyond("memory", f"{most:g} GiB of memory for what was found"), True))


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def _limit(limits: Limits) -> int:
    """Set this process's limits; return the memory that it holds, in bytes, where the system tells."""
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
    try:  # ru_maxrss would count the parent, too, as it was at the start
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * resource.getpagesize()
