"""Optional packages, and references ``module:attribute``, imported on first use."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from agentgym.errors import MissingPackageError, UntrustedReferenceError, UsageError, nearest

if TYPE_CHECKING:  # a seventh of `import agentgym`, which only options and failures need
    from importlib.metadata import EntryPoint

DISTRIBUTION = "agentgym-suite"
"""Name of the distribution that holds this package."""

_PACKAGE = __name__.partition(".")[0]


class _Trust:
    """Modules that may be imported because some text names them; None for all."""

    modules: frozenset[str] | None = None


@contextmanager
def only_trusted(allowed: Iterable[str] = ()) -> Iterator[None]:
    """Refuse imports, for the time being, that only a text names, such as the file of another person's run.

    What ships with this package and what installed packages declare as entry points is imported; so are
    modules that are registered with Gymnasium already. The current directory is not searched. The whole
    process is bound by it, threads included.

    Args:
        allowed: references ``module:name`` whose modules may be imported nevertheless.
    """
    before = _Trust.modules
    _Trust.modules = frozenset(reference.partition(":")[0] for reference in allowed)
    try:
        yield
    finally:
        _Trust.modules = before


def load(module: str, extra: str, purpose: str, package: str = "") -> Any:
    """Import a module of an optional package, or raise a `MissingPackageError` that names the extra.

    ``purpose``: the subject of the message; ``package``: its name in the package index, where that is not the
    module's first name.

    Example:
        >>> load("no_such_package", "plot", "drawing", "matplotlib")
        Traceback (most recent call last):
        agentgym.errors.MissingPackageError: drawing needs matplotlib: pip install 'matplotlib<4,>=3.11'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        name = package if package and missing == module else missing.partition(".")[0]
        command = install_command(extra)
        brings = "" if name.lower() in command.lower() else f", which brings {name}"
        raise MissingPackageError(f"{purpose} needs {name}: {command}{brings}") from error


def install_command(extra: str) -> str:
    """Return the command that installs an extra's packages.

    It names the packages rather than the extra: that works wherever agentgym itself came from. Where no
    package of the extra runs on this Python, it says so.

    Example:
        >>> install_command("plot")
        "pip install 'matplotlib<4,>=3.11'"
    """
    quoted = [f"'{name}'" for name in packages_of(extra)]
    missing = f"use an older Python, which the extra {extra} needs"
    return " ".join(["pip install", *quoted]) if quoted else missing


def packages_of(extra: str) -> list[str]:
    """Return what an extra of this distribution, and extras within it, require on this Python."""
    from importlib import metadata

    wanted = re.compile(rf"""extra == ['"]{extra}['"]""")
    found = [text for text in metadata.requires(DISTRIBUTION) or () if wanted.search(text)]
    limits = [re.search(r"python_version < .3\.(\d+)", text) for text in found]
    fits = [limit is None or sys.version_info < (3, int(limit[1])) for limit in limits]
    return [text.partition(";")[0].strip() for text, fit in zip(found, fits, strict=True) if fit]


def load_reference(reference: str, *, trusted: bool = False, option: bool = False) -> Any:
    """Return what ``module:attribute`` names; the module is found as `import_named` finds it.

    ``option``: whether an option names it, which under `only_trusted` refuses this package's own attributes
    too, since something else than a judge, selector or agent would be called. `UntrustedReferenceError` as
    `import_named`.

    Example:
        >>> load_reference("agentgym.io.optional:load").__name__
        'load'
        >>> load_reference("agentgym.env:Outcomes")
        Traceback (most recent call last):
        agentgym.errors.UsageError: module agentgym.env has no 'Outcomes' (did you mean 'Outcome'?)
    """
    module, colon, name = reference.partition(":")
    if not (module and colon and name):
        raise UsageError(f"{reference!r} names nothing: write module:attribute")
    loaded = import_named(module, trusted=trusted, option=option)
    try:
        return getattr(loaded, name)
    except AttributeError as error:
        raise UsageError(f"module {module} has no {name!r}{nearest(name, dir(loaded))}") from error


def load_function(reference: str, setting: str, takes: str) -> Any:
    """Return the function that a setting names as ``module:function``; ``takes``: its argument, in words."""
    found = load_reference(reference, option=True)
    if not callable(found) or isinstance(found, type):
        raise UsageError(f"{setting}={reference} is not a function: name one that takes {takes}")
    return found


def source_sha256(reference: str, setting: str, function: Any, recorded: str) -> str:
    """Return the SHA-256 of a function's source; `UsageError` where another one is ``recorded``."""
    try:
        digest = sha256(inspect.getsource(function).encode()).hexdigest()
    except (OSError, TypeError) as error:
        raise UsageError(
            f"{setting}={reference} has no source to record: write a function with def in a file"
        ) from error
    if recorded not in ("", digest):
        raise UsageError(
            f"the source of {setting}={reference} has changed since the run began (SHA-256 "
            f"{recorded[:12]}...): restore it, or begin a new run"
        )
    return digest


def import_named(module: str, *, trusted: bool = False, option: bool = False) -> ModuleType:
    """Import a module that a user names, from the current directory first, as ``python -m`` does.

    The current directory stays on ``sys.path``, since such a module may import its neighbours at any time. It
    is not put there for modules of this package, nor before a module outside it is imported. ``trusted``:
    whether code names it that has been installed or run already, and no mere text: then it is imported within
    `only_trusted` too, but not from the current directory. `UntrustedReferenceError` where `only_trusted`
    forbids it.
    """
    here = str(Path.cwd())
    own = module.partition(".")[0] == _PACKAGE
    named = _Trust.modules is None or module in _Trust.modules
    if not ((own and not option) or named or trusted):
        raise UntrustedReferenceError(
            f"module {module!r} is named by a file that may not be yours, and is not imported: "
            f"give --allow {module}:NAME if you trust it"
        )
    if named and not own and not {here, ""} & set(sys.path):
        # a checkout of this package there must not take the place of the installed one in other processes
        sys.path.insert(len(sys.path) if Path(here, _PACKAGE).is_dir() else 0, here)
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise UsageError(f"module {module} needs {error.name or error}: install it") from error
        raise UsageError(
            f"there is no module {error.name!r} in {here} or among the installed packages: "
            "run from its folder, or put that on PYTHONPATH"
        ) from error
    except (TypeError, ValueError) as error:
        if module and not module.startswith("."):
            raise  # the module exists, and an import inside it fails
        raise UsageError(f"{module!r} names no module: write it as import does, package.module") from error


def plugins(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name: what installed packages add. Nothing is imported.

    Where two packages use a name, the one that comes first on ``sys.path`` has it.
    """
    from importlib.metadata import entry_points

    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, entry)
    return found


def load_plugin(entry: EntryPoint) -> Any:
    """Import the object of an entry point."""
    try:
        return load_reference(entry.value, trusted=True)
    except UsageError as error:
        package = entry.dist.name if entry.dist is not None else "a package"
        raise UsageError(f"entry point {entry.name!r} of {package}: {error}") from error
