"""Submission archives: a run as one file to submit, with its card and verification claim.

A zip whose members are known by name and stored as they are, so that reading one opens nothing else and
takes no more memory than the file: the packed run (`agentgym.evaluation.verify.packed`), what verification
found, the card, and the transcripts where every environment's tasks are built in, so that no text of a data
set is passed on.
"""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.core.hashing import canonical_json, sha256_json
from agentgym.errors import UsageError
from agentgym.evaluation.log.runfiles import read_bytes
from agentgym.evaluation.log.stored_run import StoredRun, read_stored_run
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE
from agentgym.evaluation.verify.packed import SUFFIX, open_packed
from agentgym.evaluation.verify.verdicts import Badge, Verdict
from agentgym.io.records import parse
from agentgym.io.untrusted import loads_json, read_file

if TYPE_CHECKING:
    from rich.console import Console

ARCHIVE_SUFFIX = ".submission.zip"

RUN_MEMBER = f"run{SUFFIX}"
CARD_MEMBER = "card.md"
CLAIM_MEMBER = "verification.json"
TRANSCRIPTS_MEMBER = f"{TRANSCRIPTS_FILE}.xz"

MEMBERS: Mapping[str, int] = {
    RUN_MEMBER: 64 << 20,
    CARD_MEMBER: 64 << 10,
    CLAIM_MEMBER: 64 << 10,
    TRANSCRIPTS_MEMBER: 64 << 20,
}
"""Files that an archive may hold, with the largest size of each in bytes."""

REQUIRED = (RUN_MEMBER, CARD_MEMBER, CLAIM_MEMBER)

_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""Date of every member, the earliest of the zip format, so that equal content gives equal bytes."""


def open_run(
    path: Path,
    suites: Mapping[str, Path] | None = None,
    *,
    allow: Collection[str] = (),
    console: Console | None = None,
) -> StoredRun:
    """Open a run: its folder, a packed run, or an archive, which are unpacked into the cache.

    Packed ones have to replay. ``suites`` are suite files by name, before those that `suite_file_of_run`
    finds; ``allow`` are references ``module:name`` in the run and its suite that may be imported.
    """
    if path.name.endswith(ARCHIVE_SUFFIX):
        data, where = read_archive(path).get(RUN_MEMBER), RUN_MEMBER
        if data is None:
            raise UsageError(f"{path} holds no {RUN_MEMBER}; pack the run again")
    elif path.name.endswith(SUFFIX):
        data, where = read_bytes(path), str(path)
    else:
        return read_stored_run(path, suites)
    return open_packed(data, where, path, suites, allow=allow, console=console)


@dataclass(frozen=True, slots=True)
class VerificationClaim:
    """The packer's own verification of a run; compared, never trusted."""

    badge: Badge
    episodes: int
    steps: int
    suite_sha256: str
    run_sha256: str
    episodes_sha256: str
    together: tuple[str, ...] = ()
    """Record ids of all runs packed together, this one included; empty for a single run."""

    @classmethod
    def of(cls, verdict: Verdict, together: Collection[str] = ()) -> VerificationClaim:
        """Return the part of a verdict that does not depend on time and place."""
        found = {name: getattr(verdict, name) for name in cls.__slots__ if name != "together"}
        return cls(**found, together=tuple(sorted(together)))

    def encoded(self) -> bytes:
        """Return the archive's member."""
        table = asdict(self)
        if not self.together:
            del table["together"]
        return (canonical_json(table) + "\n").encode()


def origin_of(path: Path, record_id: str | None) -> str:
    """Return where a run is from: its folder; of an archive, the archives that it was packed together with.

    Each archive of such a set names all of them, so no further archive can join a set.
    """
    if not path.name.endswith(ARCHIVE_SUFFIX):
        return f"folder {path.absolute().parent}"
    table = loads_json(read_archive(path).get(CLAIM_MEMBER, b"null"), CLAIM_MEMBER)
    together = parse(VerificationClaim, table, CLAIM_MEMBER).together
    return sha256_json(sorted(together) if record_id in together else [record_id])


def read_archive(path: Path) -> dict[str, bytes]:
    """Return the members of an archive.

    `UsageError` unless it is a zip of plain, stored files with the names and sizes of `MEMBERS`, each once.
    """
    if not path.exists():
        raise UsageError(f"there is no file {path}: name one that `agentgym submit pack` wrote")
    most = sum(MEMBERS.values()) + (1 << 20)
    data = read_file(path, largest=most, remedy="pack the run again")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            for entry in entries:
                _check_entry(entry)
            if len({entry.filename for entry in entries}) != len(entries):
                raise UsageError(f"{path.name} holds a name twice; pack the run again")
            return {entry.filename: archive.read(entry) for entry in entries}
    except (ValueError, RuntimeError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{path.name} cannot be read as an archive ({error}); pack the run again") from error


def _check_entry(entry: zipfile.ZipInfo) -> None:
    name = ascii(entry.filename)[:60]
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if entry.filename not in MEMBERS:
        raise UsageError(f"it may not hold {name}; an archive has only {', '.join(MEMBERS)}")
    if kind not in (0, stat.S_IFREG) or entry.flag_bits & 1 or entry.compress_type != zipfile.ZIP_STORED:
        raise UsageError(f"{name} is not a plain file stored as it is; pack the run again")
    if max(entry.file_size, entry.compress_size) > MEMBERS[entry.filename]:
        raise UsageError(f"{name} has more than {MEMBERS[entry.filename]:,} bytes; pack the run again")


def zipped(members: Mapping[str, bytes]) -> bytes:
    """Return the bytes of an archive with these members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.create_system = 3  # Unix, on every system
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, members[name])
    return file.getvalue()
