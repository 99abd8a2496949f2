"""Submission archives: a run as one file to submit, with its card and verification claim.

A zip whose members are known by name and stored as they are, so that reading one opens nothing else and
takes no more memory than the file: the packed run (`agentgym.evaluation.verify.packed`), what verification
found, the card, and the transcripts where every environment's tasks are built in, so that no text of a data
set is passed on. The same run gives the same bytes. What the archive says of itself is never believed:
`check_submission` plays the run again.
"""

from __future__ import annotations

import io
import lzma
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.core.hashing import canonical_json
from agentgym.errors import UsageError
from agentgym.evaluation.log.results import EvalLog
from agentgym.evaluation.log.runfiles import read_bytes, read_run
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE
from agentgym.evaluation.suites import suite_file_of_run
from agentgym.evaluation.suites.suite import PlayedEnv
from agentgym.evaluation.verify.packed import MAX_UNPACKED_SIZE, SUFFIX, pack_run, run_folder
from agentgym.evaluation.verify.submission_card import CARD_FIELDS, CardFields, card_of, fields_of
from agentgym.evaluation.verify.verdicts import Badge, Verdict
from agentgym.evaluation.verify.verification import verify_run
from agentgym.io.files import make_folder, replace_file
from agentgym.io.records import parse
from agentgym.io.untrusted import loads_json, read_file
from agentgym.registration import ENVIRONMENTS

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
"""What an archive may hold, with the most bytes of each."""

REQUIRED = (RUN_MEMBER, CARD_MEMBER, CLAIM_MEMBER)

PROBLEMS_TOLD = 20
"""Of a verification; the rest is counted."""

_BUILT_IN = ("dataset", "corpus")
"""Options of environments that name where texts come from."""

_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The date of every member: a zip has to have one."""


@dataclass(frozen=True, slots=True)
class VerificationClaim:
    """The packer's own verification of a run; compared, never trusted."""

    badge: Badge
    episodes: int
    steps: int
    suite_sha256: str
    run_sha256: str
    episodes_sha256: str

    @classmethod
    def of(cls, verdict: Verdict) -> VerificationClaim:
        """Return the part of a verdict that does not depend on time and place."""
        return cls(**{name: getattr(verdict, name) for name in cls.__slots__})


@dataclass(frozen=True, slots=True)
class CheckedSubmission:
    """Result of checking an archive."""

    problems: tuple[str, ...]
    """One line each; empty where everything is there and replays."""
    run: EvalLog | None = None
    """None where it cannot be read."""
    verdict: Verdict | None = None
    """None where nothing could be played."""

    @property
    def ok(self) -> bool:
        """Whether the run may be shown."""
        return not self.problems


def redistributable(env: PlayedEnv) -> bool:
    """Return whether what an environment shows may be passed on: its tasks and texts ship with the package.

    Example:
        >>> redistributable(PlayedEnv("agentgym/ALFWorld-v0", "ALFWorld", "valid_seen", 5))
        True
        >>> official = {"dataset": "alfworld/json_2.1.1"}
        >>> redistributable(PlayedEnv("agentgym/ALFWorld-v0", "ALFWorld", "valid_seen", 5, kwargs=official))
        False
    """
    return env.id in ENVIRONMENTS and all(env.kwargs.get(name, "builtin") == "builtin" for name in _BUILT_IN)


def pack_submission(
    folder: Path,
    out_dir: Path,
    *,
    fields: CardFields | None = None,
    allow: Collection[str] = (),
    console: Console | None = None,
) -> Path:
    """Verify a complete run and write its archive.

    ``fields`` replaces what the card takes from the run's agent; the file is ``out_dir/SUITE/RUN`` with the
    archive's suffix; ``allow`` and ``console`` as `verify_run`. `UsageError` where the run is not complete,
    or does not verify.
    """
    run = read_run(folder)
    suite = suite_file_of_run(folder, run.suite.name)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "run"  # verification writes into a run's folder
        shutil.copytree(folder, copy)
        verdict = verify_run(copy, suite=suite, allow=allow, console=console)
        if not verdict.ok:
            raise UsageError(f"{folder} does not verify: {verdict.problems[0]}; run `agentgym verify` on it")
        packed = pack_run(folder, Path(scratch), allow=allow).read_bytes()
    card = card_of(run, fields or CardFields.of(run), verdict.badge)
    members = {
        CARD_MEMBER: card.encode(),
        RUN_MEMBER: packed,
        CLAIM_MEMBER: (canonical_json(asdict(VerificationClaim.of(verdict))) + "\n").encode(),
    }
    kept = folder / TRANSCRIPTS_FILE
    if kept.exists() and all(redistributable(found.env) for found in run.played):
        members[TRANSCRIPTS_MEMBER] = lzma.compress(read_bytes(kept), preset=9)
    path = out_dir / run.suite.name / f"{run.folder_name}{ARCHIVE_SUFFIX}"
    make_folder(path.parent)
    replace_file(path, _zipped(members))
    return path


def _zipped(members: Mapping[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.create_system = 3  # as on Unix, wherever it is written
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, members[name])
    return file.getvalue()


def check_submission(
    path: Path,
    suites: Mapping[str, Path] | None = None,
    *,
    allow: Collection[str] = (),
    console: Console | None = None,
) -> CheckedSubmission:
    """List what an archive lacks, may not hold, or does not replay; arguments as `examine_below`."""
    try:
        members = read_archive(path)
        missing = tuple(f"missing: {name}; pack the run again" for name in REQUIRED if name not in members)
        if RUN_MEMBER not in members:
            return CheckedSubmission(missing)
        folder = _unpacked(members, path, suites, allow, console)
        run = read_run(folder)
        suite = (suites or {}).get(run.suite.name) or suite_file_of_run(path, run.suite.name)
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch) / "run"
            shutil.copytree(folder, copy)
            transcripts = list(_transcript_problems(members, run, copy))
            verdict = verify_run(copy, suite=suite, allow=allow, console=console)
    except UsageError as error:
        return CheckedSubmission((f"does not replay: {error}".replace(str(path.parent) + "/", ""),))
    problems = [*missing, *transcripts, *_verdict_problems(verdict), *_card_problems(members, verdict)]
    return CheckedSubmission(tuple(problems), run, verdict)


def archived_run(
    path: Path,
    suites: Mapping[str, Path] | None = None,
    *,
    allow: Collection[str] = (),
    console: Console | None = None,
) -> Path:
    """Return the folder of a run: a folder, a packed run, or the run of an archive, unpacked into the cache.

    Other arguments as `examine_below`.
    """
    if not path.name.endswith(ARCHIVE_SUFFIX):
        return run_folder(path, suites, allow=allow, console=console)
    members = read_archive(path)
    if RUN_MEMBER not in members:
        raise UsageError(f"{path} holds no {RUN_MEMBER}; pack the run again")
    return _unpacked(members, path, suites, allow, console)


def read_archive(path: Path) -> dict[str, bytes]:
    """Return the members of an archive.

    `UsageError` unless it is a zip of plain, stored files with the names and sizes of `MEMBERS`, each once.
    """
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
        raise UsageError(f"{name} is no plain file stored as it is; pack the run again")
    if max(entry.file_size, entry.compress_size) > MEMBERS[entry.filename]:
        raise UsageError(f"{name} has more than {MEMBERS[entry.filename]:,} bytes; pack the run again")


def _unpacked(
    members: Mapping[str, bytes],
    archive: Path,
    suites: Mapping[str, Path] | None,
    allow: Collection[str],
    console: Console | None,
) -> Path:
    with tempfile.TemporaryDirectory() as scratch:
        packed = Path(scratch) / f"submission{SUFFIX}"
        packed.write_bytes(members[RUN_MEMBER])
        try:
            return run_folder(packed, suites, allow=allow, console=console, place=archive)
        except UsageError as error:
            raise type(error)(str(error).replace(str(packed), RUN_MEMBER)) from error


def _transcript_problems(members: Mapping[str, bytes], run: EvalLog, folder: Path) -> Iterator[str]:
    """Put the transcripts beside the run; yield why they are not as they should be."""
    kept = all(redistributable(found.env) for found in run.played)
    if TRANSCRIPTS_MEMBER not in members:
        if kept and run.transcripts_sha256 is not None:
            yield f"missing: {TRANSCRIPTS_MEMBER}; the run has transcripts, pack it where they are"
        return
    if not kept:
        yield f"may not be passed on: {TRANSCRIPTS_MEMBER} shows texts of a data set; pack the run again"
        return
    decompressor = lzma.LZMADecompressor(memlimit=MAX_UNPACKED_SIZE)
    try:
        text = decompressor.decompress(members[TRANSCRIPTS_MEMBER], max_length=MAX_UNPACKED_SIZE)
    except (lzma.LZMAError, EOFError) as error:
        yield f"damaged: {TRANSCRIPTS_MEMBER} ({error}); pack the run again"
        return
    if not decompressor.eof or decompressor.unused_data:
        yield f"damaged: {TRANSCRIPTS_MEMBER} is cut off, or has more than {MAX_UNPACKED_SIZE >> 20} MiB"
        return
    (folder / TRANSCRIPTS_FILE).write_bytes(text)


def _verdict_problems(verdict: Verdict) -> Iterator[str]:
    shown: set[str] = set()
    for problem in verdict.problems:
        if problem.where not in shown and len(shown) < PROBLEMS_TOLD:
            shown.add(problem.where)
            yield f"does not replay: {problem}"
    more = len(verdict.problems) - len(shown)
    if more > 0:
        yield f"does not replay: and {more} more"


def _card_problems(members: Mapping[str, bytes], verdict: Verdict) -> Iterator[str]:
    if CLAIM_MEMBER in members:
        try:
            claim = parse(VerificationClaim, loads_json(members[CLAIM_MEMBER], CLAIM_MEMBER), CLAIM_MEMBER)
        except UsageError as error:
            yield f"damaged: {error}"
        else:
            if verdict.ok and claim != VerificationClaim.of(verdict):
                yield f"{CLAIM_MEMBER} says otherwise than was found here; pack the run again"
    if CARD_MEMBER in members:
        try:
            fields = fields_of(members[CARD_MEMBER].decode("utf-8"))
        except UnicodeDecodeError as error:
            yield f"damaged: {CARD_MEMBER} is not UTF-8 text (byte {error.start})"
            return
        if verdict.badge != "re-run":  # whoever plays by rule alone answers for itself
            for name in CARD_FIELDS:
                if not getattr(fields, name):
                    flag = "--" + name.replace("_", "-")
                    yield f"missing: {name.replace('_', ' ')} in {CARD_MEMBER}; pack the run with {flag}"
