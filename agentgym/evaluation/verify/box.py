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
import stat
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from errno import EACCES
from math import ceil
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium

from agentgym.errors import UsageError
from agentgym.io.paths import CACHE_VARIABLE, cache_directory, data_directory, scratch_directory

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

PACKAGE = Path(__file__).parents[2]

MAX_SECONDS = 2e6
"""Longest wait in seconds that the system's calls accept."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a job in a box."""

    memory: float = 8.0
    """GiB of private memory, and of any one file that it writes."""
    processor: float = 900.0
    """Seconds of processor time."""
    wall: float = 3600.0
    """Seconds of wall-clock time."""
    files: float = 256.0
    """Most open files."""

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
    """Return what a module's function returns in a box, or raise what it raises; all of it is pickled.

    It may read ``files`` of strangers and the user's own ``trusted`` ones, with what links in them lead
    to, and read and write ``writes``. The function gets ``allow``, of which full paths of folders are
    trusted too, and ``console``: where it is a terminal, standard error instead. `LimitError` where it
    took too much.
    """
    limits = limits or Limits()
    allowed = [folder for folder in allow if os.path.isabs(folder)]
    specs = [spec for spec in map(_pickled, gymnasium.registry.values()) if spec]
    trusts_here = specs or len(allow) > len(allowed)  # then modules of the current folder may be loaded
    path = [entry for entry in sys.path if trusts_here or entry not in ("", os.getcwd())]
    scratch = _scratch(console)
    here = [Path.cwd()] if len(allow) > len(allowed) else []  # `import_named` looks for modules there first
    known = [scratch, *trusted, *here, *map(Path, allowed)]
    places = _places([*files, *writes], [scratch, *writes], known, path)
    state = ({**os.environ, "TMPDIR": str(scratch)}, os.getcwd(), path, specs)
    named |= {"allow": allow, "console": console is not None and console.is_terminal}
    job = pickle.dumps((limits, places, state, call, arguments, named))
    try:
        box = _IDLE.pop()
    except IndexError:
        box = _Box()
    try:
        answer = box.ask(job, limits)
        if answer is None and box.used:  # perhaps an earlier job broke the box
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
    scratch = scratch_directory(cache)  # made here, since a job may create no folder above it
    if scratch != cache:
        _TEMPORARY[cache] = scratch
        if console is not None:
            remark = (
                f"verdicts are not kept: {cache} cannot be written; set {CACHE_VARIABLE} to another folder"
            )
            console.print(remark, style="yellow", markup=False, soft_wrap=True)
    return scratch


_TEMPORARY: dict[Path, Path] = {}
"""Folders in which jobs write instead of a cache, by cache."""


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
"""Boxes without a job."""


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
        with suppress(Exception):  # a main module that no other process can import, such as a script
            spec = pickle.loads(pickled)
            gymnasium.registry.setdefault(spec.id, spec)
    # a module that a run names registers its environments again
    warnings.filterwarnings("ignore", ".*Overriding environment", UserWarning)
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
    most = limits.memory / 8  # a small part, since the caller holds the results of all runs
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


@dataclass(frozen=True, slots=True)
class Places:
    """The folders and files of a job, by their full paths."""

    reads: Collection[str]
    """Readable paths; a link counts as its target."""
    writes: Collection[str]
    """Writable paths; a link counts as its target."""
    strange: Collection[str]
    """Readable paths that may hold a stranger's links."""
    trusted: Collection[str]
    """Paths of the user, where links may lead anywhere."""
    code: Collection[str]
    """Paths of Python modules."""


_PLACES: list[Places] = []
"""Places of the present job, if any."""


@contextmanager
def confined(places: Places) -> Iterator[None]:
    """Let `check_event`, which the process has as an audit hook, refuse all but some places."""
    _PLACES.append(places)
    try:
        yield
    finally:
        _PLACES.clear()


_READS = ("open", "os.listdir", "os.scandir", "sqlite3.connect")
_WRITES = {
    **dict.fromkeys(("os.chmod", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"), 1),
    **dict.fromkeys(("os.link", "os.rename", "os.symlink"), 2),
}
"""Number of leading arguments that are paths, by audit event."""
_NEVER = ("socket.connect", "socket.getaddrinfo", "socket.sendto", "os.system", "os.exec")
_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CODE = (".py", ".pyc", ".so", ".pth")


def check_event(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse, as an audit hook, events that a job may not cause."""
    if not _PLACES:
        return
    if event in _READS:
        _check_path(event, arguments[0], writes=event == "open" and bool(arguments[2] & _TO_WRITE))
    for path in arguments[: _WRITES.get(event, 0)]:
        _check_path(event, path, writes=True)
    if event in _NEVER:
        raise PermissionError(EACCES, "verification may not do that", event)


def _check_path(event: str, path: Any, *, writes: bool) -> None:
    if isinstance(path, int) or path in (":memory:", os.devnull):  # handles and devices of every process
        return
    given, places = os.fsdecode("." if path is None else path), _PLACES[0]
    if event == "sqlite3.connect":
        given = given.removeprefix("file:").partition("?")[0]
    real = os.path.realpath(given)
    plain = real if ".." in Path(given).parts else os.path.abspath(given)  # a link changes what .. is
    if below(real, places.writes if writes else places.reads):
        if os.path.exists(real) and stat.S_IFMT(os.stat(real).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
            raise PermissionError(EACCES, "it is not a regular file", given)
    elif writes or below(plain, places.strange) or not below(plain, places.trusted):
        is_code = event != "open" or plain.endswith(_CODE)
        if writes or not is_code or not below(plain, places.code):
            reason = "verification opens nothing there unless --allow names the folder"
            raise PermissionError(EACCES, reason, given)


def below(path: str, roots: Collection[str]) -> bool:
    """Return whether a path is one of some, or lies below one."""
    return any(path == root or path.startswith(root.rstrip(os.sep) + os.sep) for root in roots)
