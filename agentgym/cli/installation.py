"""Whether the installation is sound: packages, extras, folders, and one step of an environment."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from importlib import metadata
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from agentgym.agents.screen import printable
from agentgym.errors import UsageError
from agentgym.io.files import writing
from agentgym.io.optional import DISTRIBUTION, install_command, packages_of
from agentgym.io.paths import cache_directory, data_directory
from agentgym.version import __version__

if TYPE_CHECKING:
    from rich.console import Console

FAISS = ("faiss-cpu", "faiss-gpu", "faiss-gpu-cu12")
"""Packages that install the same module, of which only one may be present."""

_OF_DEVELOPERS = ("dev", "docs", "peers", "test")
_ENV = "agentgym/EZPoints-v0"


def check_installation(console: Console) -> int:
    """Print a line for each check; return 0 where all that every installation needs is sound, else 1."""
    sound = True
    for check in (_python, _core, _faiss, _cache, _step):
        try:
            state, line = "ok  ", check()
        except Exception as error:  # noqa: BLE001  # whatever is wrong with the installation is the report
            reason = " ".join(str(error).split()) or type(error).__name__
            state, line, sound = "FAIL", f"{check.__name__[1:]}: {reason}", False
        console.print(printable(f"{state} {line}"), markup=False, soft_wrap=True)
    for line in (_data(), *_extras()):
        console.print(printable(line), markup=False, soft_wrap=True)
    return 0 if sound else 1


def _python() -> str:
    here = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    tried = re.fullmatch(r"Python 3\.1[123]\.\S+ on Linux x86_64", here)
    return here if tried else f"{here}, which is not tested: Python 3.11 to 3.13 on Linux x86_64 are"


def _core() -> str:
    """Name what every installation needs."""
    versions = [f"agentgym {__version__}"]
    if not _is_installed(DISTRIBUTION):
        raise UsageError(f"{DISTRIBUTION} is not installed: pip install the checkout's folder")
    for text in metadata.requires(DISTRIBUTION) or ():
        if "extra ==" not in text:
            if not _is_installed(_name(text)):
                raise UsageError(f"{_name(text)} is missing: pip install '{text.partition(';')[0].strip()}'")
            versions.append(f"{_name(text)} {metadata.version(_name(text))}")
    return ", ".join(versions)


def _faiss() -> str:
    here = [name for name in FAISS if _is_installed(name)]
    if len(here) > 1:
        raise UsageError(
            f"{' and '.join(here)} overwrite each other: pip uninstall -y {' '.join(here)}, then install one"
        )
    return f"faiss: {here[0] if here else 'absent'}"


def _cache() -> str:
    folder = cache_directory()
    with writing(folder, "or set AGENTGYM_CACHE"):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    return f"cache: {folder}"


def _step() -> str:
    """Play one action."""
    from agentgym.registration import open_env

    env = open_env(_ENV)
    _, info = env.reset(seed=0)
    action = info["admissible_actions"][0]
    _, _, _, _, info = env.step(action)
    if not info["action_is_valid"]:
        raise UsageError(f"{_ENV} refuses {action!r}, which it had listed: install again")
    return f"one step of {_ENV}"


def _data() -> str:
    folder = data_directory()
    there = "" if folder.is_dir() else " (not there; built-in tasks need none, `agentgym data` brings others)"
    return f"     data: {folder}{there}"


def _extras() -> Iterator[str]:
    """Yield a line for each extra that users install: its missing packages, and how to install them."""
    if _is_installed(DISTRIBUTION):
        for extra in metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or ():
            names = [*map(_name, packages_of(extra))]
            missing = [name for name in names if not _is_installed(name)]
            if extra not in _OF_DEVELOPERS:
                absent = f"absent ({', '.join(missing)}): " if missing else ""
                state = "present" if names and not missing else f"{absent}{install_command(extra)}"
                yield f"     extra {extra}: {state}"


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]


def _is_installed(package: str) -> bool:
    try:
        return bool(metadata.version(package))
    except metadata.PackageNotFoundError:
        return False
