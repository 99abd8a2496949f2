"""Packing a run as a submission archive, and checking one.

The same run gives the same bytes. What the archive says of itself is never believed: `check_submission` plays
the run again.
"""

from __future__ import annotations

import lzma
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.data.directory import cache_directory
from agentgym.errors import MissingDataError, MissingPackageError, MissingSuiteError, UsageError
from agentgym.evaluation.log.results import EvalLog
from agentgym.evaluation.log.runfiles import read_bytes
from agentgym.evaluation.log.stored_run import StoredRun
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE
from agentgym.evaluation.verify.archives import (
    ARCHIVE_SUFFIX,
    CARD_MEMBER,
    CLAIM_MEMBER,
    REQUIRED,
    RUN_MEMBER,
    TRANSCRIPTS_MEMBER,
    VerificationClaim,
    read_archive,
    zipped,
)
from agentgym.evaluation.verify.packed import MAX_UNPACKED_SIZE, open_packed, pack_run, redistributable
from agentgym.evaluation.verify.submission_card import CardFields, card_of, fields_of, missing_fields
from agentgym.evaluation.verify.verdicts import Verdict
from agentgym.evaluation.verify.verification import Verification
from agentgym.io.files import make_folder, replace_file
from agentgym.io.records import parse
from agentgym.io.untrusted import loads_json

if TYPE_CHECKING:
    from rich.console import Console

PROBLEMS_TOLD = 20
"""Most problems of a verification that are printed; the others are counted."""


@dataclass(frozen=True, slots=True)
class CheckedSubmission:
    """Result of checking an archive."""

    problems: tuple[str, ...]
    """Problems, a line each; empty where the run is complete and its replay agrees."""
    run: EvalLog | None = None
    """Run; None where it cannot be read."""
    verdict: Verdict | None = None
    """Verdict; None where nothing could be replayed."""

    @property
    def ok(self) -> bool:
        """Whether the run may be shown."""
        return not self.problems


def pack_submission(
    run: StoredRun,
    out_dir: Path,
    *,
    fields: CardFields | None = None,
    together: Collection[str] = (),
    allow: Collection[str] = (),
    console: Console | None = None,
) -> Path:
    """Verify a complete run and write its archive.

    ``fields`` replaces what the card takes from the run's agent; ``together`` has the record ids of all runs
    that are sent in together, whose training seeds a board joins; the file is ``out_dir/SUITE/RUN`` with the
    archive's suffix; ``allow`` and ``console`` as `verify_run`. `UsageError` where the run is not complete,
    does not verify, or lacks fields that `check_submission` requires.
    """
    log = run.log
    verdict = Verification(run, allow=allow, console=console).keep()
    if not verdict.ok:
        raise UsageError(f"{run.path} does not verify: {verdict.problems[0]}; run `agentgym verify` on it")
    fields = fields or CardFields.of(log)
    if missing := missing_fields(fields, verdict.badge):
        flags = ", ".join(f"--{name.replace(' ', '-')} TEXT" for name in missing)
        raise UsageError(f"{run.path} is {verdict.badge}, not re-run, so its card needs more: {flags}")
    with tempfile.TemporaryDirectory() as scratch:
        packed = pack_run(run, Path(scratch), allow=allow, transcripts=False).read_bytes()
    card = card_of(log, fields, verdict.badge)
    members = {
        CARD_MEMBER: card.encode(),
        RUN_MEMBER: packed,
        CLAIM_MEMBER: VerificationClaim.of(verdict, together).encoded(),
    }
    if run.has_transcripts and all(redistributable(found.env) for found in log.played):
        members[TRANSCRIPTS_MEMBER] = lzma.compress(read_bytes(run.folder / TRANSCRIPTS_FILE), preset=9)
    path = out_dir / log.suite.name / f"{log.folder_name}{ARCHIVE_SUFFIX}"
    make_folder(path.parent)
    replace_file(path, zipped(members))
    return path


def check_submission(
    path: Path,
    suites: Mapping[str, Path] | None = None,
    *,
    allow: Collection[str] = (),
    console: Console | None = None,
) -> CheckedSubmission:
    """List an archive's missing and forbidden files and failed replays; arguments as `open_run`."""
    try:
        members = read_archive(path)
        missing = tuple(f"missing: {name}; pack the run again" for name in REQUIRED if name not in members)
        if RUN_MEMBER not in members:
            return CheckedSubmission(missing)
        packed = members[RUN_MEMBER]
        run = open_packed(packed, RUN_MEMBER, path, suites, allow=allow, console=console)
        with tempfile.TemporaryDirectory(dir=cache_directory()) as scratch:
            copy = Path(scratch) / "run"  # a copy, since transcripts are written beside it
            shutil.copytree(run.folder, copy)
            lacking = list(_transcript_problems(members, run.log, copy))
            run = replace(run, folder=copy)
            verdict = Verification(run, allow=allow, console=console).keep()
    except UsageError as error:
        prefix = "does not replay: " if path.exists() else ""
        if isinstance(error, MissingDataError | MissingPackageError | MissingSuiteError):
            prefix = "cannot be checked here: "
        return CheckedSubmission((f"{prefix}{error}".replace(str(path.parent) + "/", ""),))
    problems = [*missing, *lacking, *_verdict_problems(verdict), *_card_problems(members, verdict)]
    return CheckedSubmission(tuple(problems), run.log, verdict)


def _transcript_problems(members: Mapping[str, bytes], run: EvalLog, folder: Path) -> Iterator[str]:
    """Put the transcripts beside the run; yield why they are not as they should be."""
    redistributed = all(redistributable(found.env) for found in run.played)
    if TRANSCRIPTS_MEMBER not in members:
        if redistributed and run.transcripts_sha256 is not None:
            yield f"missing: {TRANSCRIPTS_MEMBER}; the run has transcripts, pack it where they are"
        return
    if not redistributed:
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
            if verdict.ok and claim != VerificationClaim.of(verdict, claim.together):
                yield f"{CLAIM_MEMBER} says otherwise than was found here; pack the run again"
    if CARD_MEMBER in members:
        try:
            fields = fields_of(members[CARD_MEMBER].decode("utf-8"))
        except UnicodeDecodeError as error:
            yield f"damaged: {CARD_MEMBER} is not UTF-8 text (byte {error.start})"
            return
        for name in missing_fields(fields, verdict.badge):
            yield f"missing: {name} in {CARD_MEMBER}; pack the run with --{name.replace(' ', '-')}"
