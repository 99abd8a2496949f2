"""Provenance of a run: versions, commit, packages and machine."""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from importlib import metadata
from pathlib import Path

from agentgym.errors import UsageError
from agentgym.io.paths import cache_directory
from agentgym.version import __version__

PACKAGES = ("gymnasium", "numpy")
"""Packages whose version may change a result; their versions are recorded where installed."""


SALT_FILE = "host-salt"
"""Name of the salt's file in the cache directory."""

SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class Provenance:
    """One stretch of a run on one machine with one version of everything."""

    date: str
    """Time in UTC, to the second, ISO 8601."""
    agentgym: str
    commit: str | None
    """Git commit of the package's checkout; None for an installed package."""
    dirty: bool
    """Whether the package's files differ from that commit."""
    python: str
    packages: Mapping[str, str]
    host: str
    """Salted digest of the machine's name: distinguishes a user's machines without revealing names."""
    hardware: str
    """System, architecture and number of cores."""

    def same_place(self, other: Provenance) -> bool:
        """Whether only the date differs."""
        return replace(self, date=other.date) == other


def here_and_now() -> Provenance:
    """Describe this process."""
    package = Path(__file__).parents[1]
    commit = _git(package, "rev-parse", "HEAD")
    # the package's folder alone: results and caches elsewhere in the checkout change nothing
    changes = _git(package, "status", "--porcelain", "--untracked-files=all", "--", ".")
    tracked = _git(package, "ls-files", "--error-unmatch", "__init__.py") is not None
    return Provenance(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        agentgym=__version__,
        commit=commit if tracked else None,
        dirty=tracked and bool(changes),
        python=platform.python_version(),
        packages={name: metadata.version(name) for name in PACKAGES},
        host=host_digest(),
        hardware=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    )


def host_digest() -> str:
    """Return 8 hex digits that identify this machine.

    They are a keyed digest of its name. The key is random and stays in the user's cache directory, so that
    a machine's digits do not change, and others cannot test names against them. Where no key can be stored,
    each process has its own.
    """
    return blake2b(platform.node().encode(errors="replace"), digest_size=4, key=_salt()).hexdigest()


_OWN_SALT = secrets.token_bytes(SALT_BYTES)
"""Salt of this process, used where none can be stored."""


def _salt() -> bytes:
    """Return the user's salt, made on first use."""
    try:
        folder = cache_directory()
        path = folder / SALT_FILE
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            _keep_salt(path)
        salt = path.read_bytes()
    except (OSError, UsageError):
        return _OWN_SALT
    return salt if len(salt) == SALT_BYTES else _OWN_SALT


def _keep_salt(path: Path) -> None:
    """Write a new salt, whole, unless another process was faster."""
    handle, draft = tempfile.mkstemp(dir=path.parent)  # mkstemp's mode, readable by the user alone
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(SALT_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)


def _git(folder: Path, *arguments: str) -> str | None:
    """Return git's answer, or None where there is no git or no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
