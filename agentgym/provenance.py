"""Provenance of a run: versions, commit, packages and machine."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from agentgym.hashing import content_id
from agentgym.version import __version__

PACKAGES = ("gymnasium", "numpy")
"""Packages whose version may change a result; their versions are recorded where installed."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """One stretch of a run on one machine with one version of everything."""

    date: str
    """UTC, to the second, ISO 8601."""
    agentgym: str
    commit: str | None
    """Git commit of the package's checkout; None for an installed package."""
    dirty: bool
    """Whether the package's files differ from that commit."""
    python: str
    packages: Mapping[str, str]
    host: str
    """Digest of the machine's name: tells machines apart without naming them."""
    hardware: str
    """System, architecture and number of cores."""

    def same_place(self, other: Provenance) -> bool:
        """Whether only the date differs."""
        return replace(self, date=other.date) == other


def here_and_now() -> Provenance:
    """Describe this process."""
    package = Path(__file__).parent
    commit = _git(package, "rev-parse", "HEAD")
    # results, caches and the like may be untracked; what matters is the code that ran
    changes = _git(package, "status", "--porcelain", "--untracked-files=all", "--", ".")
    tracked = _git(package, "ls-files", "--error-unmatch", "__init__.py") is not None
    return Provenance(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        agentgym=__version__,
        commit=commit if tracked else None,
        dirty=tracked and bool(changes),
        python=platform.python_version(),
        packages={name: metadata.version(name) for name in PACKAGES},
        host=content_id(platform.node())[:8],
        hardware=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    )


def _git(folder: Path, *arguments: str) -> str | None:
    """Return git's answer, or None where there is no git or no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
