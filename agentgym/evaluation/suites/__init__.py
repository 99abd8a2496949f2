"""Benchmark suites that ship with the package, and their lookup by name."""

from __future__ import annotations

from pathlib import Path

from agentgym.core.options import check_choice
from agentgym.errors import MissingSuiteError, UsageError

FOLDER = Path(__file__).parent

NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))
"""Names of the shipped suites."""


def suite_file(suite: str) -> Path:
    """Return the file of a suite.

    Args:
        suite: the path of a TOML file, or one of `NAMES`. A path goes before a name.

    Raises:
        UsageError: neither.

    Example:
        >>> suite_file("quick").name
        'quick.toml'
    """
    path = Path(suite)
    if path.is_file():
        return path
    if path.suffix == ".toml":
        raise UsageError(
            f"there is no suite file {suite}: name an existing file, or one of {', '.join(NAMES)}"
        )
    check_choice("suite", suite, NAMES, ", or name a TOML file")
    return FOLDER / f"{suite}.toml"


def suite_file_of_run(folder: Path, name: str) -> Path:
    """Return the file of the suite that a run names.

    The shipped suite of that name goes before ``suites/NAME.toml`` in a folder above the run, which the run's
    author may have changed.
    """
    path = FOLDER / f"{name}.toml" if name in NAMES else own_suite_file(folder, name)
    if path is None:
        raise MissingSuiteError(
            f"no suites/{name}.toml in a folder above {folder}; name the suite file with --suite"
        )
    return path


def own_suite_file(folder: Path, name: str) -> Path | None:
    """Return the nearest ``suites/NAME.toml`` in a folder above a run; None without one."""
    paths = (above / "suites" / f"{name}.toml" for above in folder.resolve().parents)
    return next((path for path in paths if path.is_file()), None)
