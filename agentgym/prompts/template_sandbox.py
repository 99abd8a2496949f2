"""Sandbox of chat templates: Jinja as `transformers` sets it up, and a child process with limits.

A chat template is a program in Jinja's language, by the author of the model directory. The sandbox keeps it
from reaching anything but its arguments. It may still run forever or fill the memory, so a template is
rendered in a child process with limits of memory, processor time and text, unless the caller has declared it
`trusted`. One child serves all renderings of a process, and is replaced after a limit ended one.

The child runs this file by its path, and so imports nothing but Jinja and the standard library.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from multiprocessing.connection import Connection, Pipe
from typing import Any

import jinja2
from jinja2 import meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MAX_TEMPLATE_SIZE = 1 << 18
"""Characters of a template at most."""

MAX_TEXT = 1 << 24
"""Bytes of text at most that a stranger's template makes, beside eight times what it is handed."""

MAX_REASON = 1 << 12
"""Characters at most of why a stranger's template is refused."""

MEMORY = 1 << 29
"""Bytes of address space of the child process."""

PROCESSOR_SECONDS = 5
"""Processor time of one rendering in the child process."""

WALL_SECONDS = 300
"""Longest wait for one rendering; long, because a busy machine may give the child little of its time."""


class TemplateLimitError(ValueError):
    """A template would take too long, or too much memory."""


_TRUSTED: set[str] = set()

_PASSED = frozenset(
    ("HOME", "LANG", "LC_ALL", "LC_TIME", "LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "TMPDIR", "TZ")
)
"""Environment variables of the child; keys of endpoints are not among them."""


def trusted(source: str) -> str:
    """Declare a template the user's own, so that this process renders it without limits; return it."""
    _TRUSTED.add(source)
    return source


def render_template(source: str, values: Mapping[str, Any]) -> str:
    """Return what a template makes of its variables.

    Raises:
        TemplateLimitError: it is a stranger's, and takes too much.
        Exception: any exception of a trusted template; a `jinja2.TemplateError` of a stranger's.
    """
    if source in _TRUSTED:
        return compile_template(source).render(values)
    return _CHILD.ask("render", source, values)


def read_variables(source: str) -> frozenset[str]:
    """Return the variables that a template reads; raises as `render_template`.

    Jinja computes constant expressions to find them, so that this takes as much as rendering may.
    """
    if source in _TRUSTED:
        return _variables(source)
    return frozenset(_CHILD.ask("variables", source, {}).split())


class _Child:
    """The process that renders strangers' templates, one after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: tuple[subprocess.Popen[bytes], Connection] | None = None

    def ask(self, task: str, source: str, values: Mapping[str, Any]) -> str:
        """Return the answer to a task of `_TASKS`; raise as `render_template`."""
        try:
            job = pickle.dumps((task, source, values, PROCESSOR_SECONDS))
        except RecursionError:
            raise TemplateLimitError("it is handed what nests too deeply") from None
        with self._lock:
            if self._started is not None and self._started[0].poll() is not None:
                self.stop()  # something else ended it, between two questions
            process, pipe = self._started = self._started or _start()
            try:
                pipe.send_bytes(job)
                late = f"limit it takes more than {WALL_SECONDS} s".encode()
                answer = pipe.recv_bytes() if pipe.poll(WALL_SECONDS) else late
            except (EOFError, OSError):
                answer = _last_words(process.wait(WALL_SECONDS))
            except BaseException:  # else the next question would get this one's answer
                self.stop()
                raise
            # not unpickled: a template that broke out of the sandbox would choose what is
            try:
                kind, _, content = answer.decode("utf-8", "surrogatepass").partition(" ")
            except UnicodeDecodeError:
                kind = ""
            if kind not in ("made", "refused"):
                self.stop()
                raise TemplateLimitError(content if kind == "limit" else "its process answers nonsense")
        if kind == "refused":
            raise jinja2.TemplateError(content)
        return content

    def stop(self) -> None:
        """End the process; the next question starts another one."""
        if self._started is not None:
            process, pipe = self._started
            self._started = None
            process.kill()
            process.wait()
            pipe.close()


def _start() -> tuple[subprocess.Popen[bytes], Connection]:
    pipe, far_end = Pipe()
    with far_end:  # no fork, which copies threads' locks
        descriptor = far_end.fileno()
        process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(descriptor)],
            env={
                **{name: value for name, value in os.environ.items() if name in _PASSED},
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
            pass_fds=[descriptor],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,  # signals to the terminal's group are the parent's
        )
    return process, pipe


def _last_words(code: int) -> bytes:
    """Return the answer that a process gives by ending with a code."""
    if code == -signal.SIGPROF:
        return f"limit it takes more than {PROCESSOR_SECONDS} s of processor time".encode()
    return f"limit the process that renders it ended with code {code}".encode()


_CHILD = _Child()
_INHERITED: list[_Child] = []
"""Children of the processes that this one was forked from, which alone may end them."""


def _forget_after_fork() -> None:
    global _CHILD
    _INHERITED.append(_CHILD)
    if _CHILD._started is not None:
        _CHILD._started[1].close()  # or the child would not see its parent end
    _CHILD = _Child()


os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(lambda: _CHILD.stop())


# ---- in either process ---------------------------------------------------------------------------------


class _TemplateNamespace(Namespace):
    """Jinja's ``namespace``, without names that begin with an underscore."""

    def __init__(*args: Any, **attributes: Any) -> None:
        self, *rest = args
        members = dict(*rest, **attributes)  # once: a generator has them once
        for name in members:
            _check_name(name)
        Namespace.__init__(self, members)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        Namespace.__setitem__(self, name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace has no attribute {name!r}")


class _Generation(Extension):
    """The tag ``{% generation %}``, which marks what the assistant says; rendering leaves it out."""

    tags = {"generation"}  # noqa: RUF012 (jinja's)

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_generated"), [], [], body).set_lineno(line)

    def _generated(self, caller: Callable[[], str]) -> str:
        return caller()


@lru_cache(maxsize=1)
def _environment() -> ImmutableSandboxedEnvironment:
    """Return the environment of `transformers`, but for what draws random numbers."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    made.filters["tojson"] = _to_json
    made.globals |= {
        "dict": _dict,
        "namespace": _TemplateNamespace,
        "raise_exception": _raise,
        "strftime_now": _now,
    }
    del made.filters["random"], made.globals["lipsum"]
    return made


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _dict(*args: Any, **members: Any) -> dict[Any, Any]:
    return dict(*args, **members)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _now(layout: str) -> str:
    return datetime.now().strftime(layout)


@lru_cache(maxsize=16)
def compile_template(source: str) -> jinja2.Template:
    """Return a template to be rendered in this process, without limits of what it takes.

    Raises:
        TemplateLimitError: it is too long.
        jinja2.TemplateError: it is no template.
    """
    if len(source) > MAX_TEMPLATE_SIZE:
        raise TemplateLimitError(f"it has more than {MAX_TEMPLATE_SIZE:,} characters")
    return _environment().from_string(source)


def _variables(source: str) -> frozenset[str]:
    tree = _environment().parse(source)
    # jinja also finds what is set in a branch; that is the template's own, unless it is read before
    return frozenset(
        meta.find_undeclared_variables(tree) - _set_before_read(tree) - _environment().globals.keys()
    )


def _set_before_read(tree: nodes.Template) -> frozenset[str]:
    """Return the variables that a template sets before it first reads them, in the order of its text."""
    first: dict[str, str] = {}
    ahead: list[nodes.Node] = [tree]
    while ahead:
        node = ahead.pop()
        if isinstance(node, nodes.Name):
            first.setdefault(node.name, node.ctx)
        members = list(node.iter_child_nodes())
        if isinstance(node, nodes.Assign | nodes.For):  # the value is there before the name
            members[:2] = members[1::-1]
        ahead += reversed(members)
    return frozenset(name for name, use in first.items() if use != "load")


# ---- in the child process ------------------------------------------------------------------------------


def _serve(pipe: Connection) -> None:
    """Answer what the parent asks, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    for which, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(which)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (most, most))
    with suppress(EOFError, ConnectionError):
        while True:
            job = pipe.recv_bytes()
            pipe.send_bytes(_answered(*pickle.loads(job), most=MAX_TEXT + 8 * len(job)))


def _answered(task: str, source: str, values: Mapping[str, Any], seconds: int, *, most: int) -> bytes:
    """Return the kind of an answer, a blank and its text."""
    # a resource limit counts from the start, by another clock than any that this process can read
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        try:
            text = _made(task, source, values)
        except MemoryError:
            compile_template.cache_clear()  # large constants of other templates
            gc.collect()  # a template is one of its own variables
            text = _made(task, source, values)
    except MemoryError:
        return f"limit it takes more than {MEMORY >> 20:,} MiB of memory".encode()
    except RecursionError:
        return b"limit it nests too deeply"
    except TemplateLimitError as error:
        return f"limit {error}".encode()
    except Exception as error:  # noqa: BLE001 (a template raises anything)
        reason = (str(error) or type(error).__name__)[:MAX_REASON]
        return f"refused {reason}".encode("utf-8", "surrogatepass")
    return b"made " + text if len(text) <= most else b"limit it makes too much text"


def _made(task: str, source: str, values: Mapping[str, Any]) -> bytes:
    made = compile_template(source).render(values) if task == "render" else " ".join(_variables(source))
    return made.encode("utf-8", "surrogatepass")


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
