"""Changed files of runs: every change must be caught, or touch nothing that is published.

A change is made as it is, and with every digest recomputed that whoever made it could recompute: of lines,
files, request, result and record, and the episode's hash chain from the states that were visited. Fields that
the schema marks as stated by the submitter may change what is shown as such, and no rank.
"""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args, get_origin, get_type_hints

import numpy as np

from agentgym.endpoint.ledger import LedgerRow
from agentgym.evaluation.log.endpoint_runs import CALLS_FILE
from agentgym.evaluation.log.judge_spread import SPREAD_FILE, JudgeSpread
from agentgym.evaluation.log.recorded_answers import ANSWERS_FILE, RecordedAnswer
from agentgym.evaluation.log.results import EPISODES_FILE, RUN_FILE, VERIFY_FILE, EvalLog, EvalSample
from agentgym.evaluation.log.runfiles import RUN_FILES
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE, TranscriptRecord
from agentgym.evaluation.suites.suite import Suite
from agentgym.evaluation.verify.archives import ARCHIVE_SUFFIX, read_archive
from agentgym.evaluation.verify.packed import SUFFIX, PackedEpisode, PackedHeader
from agentgym.evaluation.verify.submissions import FAILED, Submission, Unranked, verify_below
from agentgym.evaluation.verify.submit import check_submission
from agentgym.evaluation.verify.verdicts import Verdict
from benchmarks.fuzz.arena import ALLOW, COLUMNS, ENDS, STATED_RESULTS, Arena, pages, ranking
from benchmarks.fuzz.changes import Change, bytes_of, changes
from benchmarks.fuzz.files import (
    CALLED,
    Content,
    RunFiles,
    Table,
    damages,
    joined,
    key_of,
    orders,
    packed_of,
    toml_of,
)
from benchmarks.fuzz.specials import ODD_NAMES, SPECIALS, archive, archives

Form: TypeAlias = Literal["as it is", "digests recomputed"]

AS_IT_IS: Form = "as it is"
RECOMPUTED: Form = "digests recomputed"

Outcome: TypeAlias = Literal["caught", "stated", "nothing published", "survived", "crashed", "no change"]
"""What became of a change; none may survive or crash. What comes out as it was before is no change."""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

CONTENTS: Mapping[tuple[Any, str], type] = {
    (PackedHeader, "run"): EvalLog,
    (PackedEpisode, "said"): EvalSample,
}
"""Records that fields of free JSON hold."""

RECORDS: Mapping[str, type] = {
    VERIFY_FILE: Verdict,
    ANSWERS_FILE: RecordedAnswer,
    SPREAD_FILE: JudgeSpread,
    CALLS_FILE: LedgerRow,
}
"""What some files hold; others go by their values."""

MAX_LINES = 3
"""Lines of a file, but for episodes, whose fields are changed."""

PACKED = SUFFIX
ARCHIVE = ARCHIVE_SUFFIX
SUITE_FILE = "suite"


@dataclass(frozen=True, slots=True)
class Place:
    """Where and how a mutation changes something."""

    file: str
    field: str
    form: Form


@dataclass(frozen=True, slots=True)
class Mutation:
    """A changed file."""

    agent: str
    """Whose run."""
    file: str
    field: str
    change: str
    form: Form
    content: Callable[[], Content]
    """Makes the files of the run that differ, by name; of a packed run or a suite the one file."""
    stated: bool = False
    """Whether the schema says that the field is the submitter's word."""
    ends: bool = False
    """Whether it says so of the values before and after alone."""

    @property
    def place(self) -> Place:
        """Where and how it changes something."""
        return Place(self.file, self.field, self.form)

    def __str__(self) -> str:
        """One line, by which it can be found again."""
        return f"{self.agent}, {self.file}, {self.field}: {self.change} ({self.form})"


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a mutation."""

    mutation: Mutation
    outcome: Outcome
    detail: str
    """Why it was caught, or which pages it changed."""


class Laboratory:
    """Makes mutations of an arena's files, and publishes them."""

    def __init__(self, arena: Arena):
        """Read the honest files."""
        self.arena = arena
        self.honest = {name: RunFiles(arena.folders[name], arena.packed[name]) for name in arena.folders}
        self._suite = arena.suite_file.read_bytes()
        self._rankings: dict[tuple[str, ...], str] = {}

    def mutations(self, agents: Iterable[str] | None = None) -> Iterator[Mutation]:
        """Yield every mutation of every file.

        Args:
            agents: whose runs are changed; None for all.
        """
        for agent in agents or self.honest:
            yield from self._of_run(agent)
            yield from self._of_lines(agent)
            yield from self._of_transcripts(agent)
            yield from self._of_others(agent)
            yield from self._of_packed(agent)
            yield from self._of_archive(agent)
            yield from self._of_places(agent)
        yield from self._of_suite()

    def find(self, mutation: Mutation) -> Finding:
        """Publish a mutation beside the honest runs; say what became of it."""
        content = mutation.content()
        if mutation.file != SUITE_FILE and not self.honest[mutation.agent].differs(content):
            return Finding(mutation, "no change", "")
        try:
            found = self.published(mutation, content)
            refused = [run for run in found if isinstance(run, Unranked)]
            if refused and refused[0].reason.startswith(FAILED):
                return Finding(mutation, "crashed", refused[0].reason)
            changed = [kind for kind, text in pages(found).items() if text != self.arena.pages[kind]]
        except Exception as error:  # noqa: BLE001  # whatever it is, it is what is looked for
            return Finding(mutation, "crashed", repr(error)[:300])
        if refused:
            return Finding(mutation, "caught", refused[0].reason)
        if not changed:
            return Finding(mutation, "nothing published", "")
        without = (*STATED_RESULTS, *ENDS * mutation.ends, *COLUMNS * (mutation.file == SUITE_FILE))
        if mutation.stated and self.same_ranking(found, without):
            return Finding(mutation, "stated", " ".join(changed))
        return Finding(mutation, "survived", " ".join(changed))

    def retries_without_trace(self) -> list[Finding]:
        """Take earlier attempts out without a trace: ``stated`` where that changes no rank."""
        honest, findings = self.honest["model"], []
        for index, line in enumerate(honest.lines):
            if any(key_of(other) == key_of(line) for other in honest.lines[index + 1 :]):
                name, make = "an attempt out, others renumbered", partial(honest.without_attempt, index)
                mutation = Mutation("model", EPISODES_FILE, "(line)", name, RECOMPUTED, make)
                found = self.published(mutation, make())
                passes = not any(isinstance(run, Unranked) for run in found)
                stated = passes and self.same_ranking(found, ("retries",))
                findings.append(Finding(mutation, "stated" if stated else "survived", ""))
        return findings

    # --- what is published --------------------------------------------------------------------------

    def published(self, mutation: Mutation, content: Content) -> Sequence[Submission | Unranked]:
        """Verify a changed run; return it among the honest ones."""
        arena = self.arena
        if mutation.file == SUITE_FILE:
            try:
                _put(arena.suite_file, content[SUITE_FILE])
                return list(verify_below(arena.results, allow=ALLOW))
            finally:
                arena.suite_file.write_bytes(self._suite)
        case, folder = arena.root / "case", arena.folders[mutation.agent]
        shutil.rmtree(case, ignore_errors=True)
        case.mkdir()
        called = content.get(CALLED, os.fsencode(folder.name))
        place = case / os.fsdecode(called if isinstance(called, bytes) else b"")
        if mutation.file in (PACKED, ARCHIVE):
            place = place.with_name(f"{place.name}{mutation.file}")
            _put(place, content[mutation.file])
        else:
            shutil.copytree(folder, place)
            for name in content.keys() - {CALLED}:
                _put(place / name, content[name])
        (run,) = verify_below(case, allow=ALLOW)
        if mutation.file == ARCHIVE:
            check_submission(place, allow=ALLOW)
        if isinstance(run, Submission) and mutation.file in (PACKED, ARCHIVE):  # which leave it behind
            run = replace(run, spread=arena.spread(mutation.agent))
        return arena.with_run(mutation.agent, run)

    def same_ranking(self, found: Sequence[Submission | Unranked], without: tuple[str, ...]) -> bool:
        """Whether ranks, scores and the like are those of the honest runs; see `ranking`."""
        if without not in self._rankings:
            self._rankings[without] = ranking(self.arena.found, without=without)
        return ranking(found, without=without) == self._rankings[without]

    # --- mutations of each file ---------------------------------------------------------------------

    def _of_run(self, agent: str) -> Iterator[Mutation]:
        honest = self.honest[agent]
        others = [files.table for name, files in self.honest.items() if name != agent]
        for change in changes(EvalLog, honest.table, others=others):
            made = partial(_mutation, agent, RUN_FILE, change, EvalLog, honest.table)
            yield made(AS_IT_IS, lambda table: {RUN_FILE: bytes_of(table, canonical=False)})
            yield made(RECOMPUTED, honest.with_run)
        for name, data in damages(honest.bytes[RUN_FILE]):
            yield Mutation(agent, RUN_FILE, "(bytes)", name, AS_IT_IS, partial(_file, RUN_FILE, data))

    def _of_lines(self, agent: str) -> Iterator[Mutation]:
        honest = self.honest[agent]
        for index in honest.kinds:
            line = honest.lines[index]
            others = [other for other in honest.lines if other is not line][:3]
            for change in changes(EvalSample, line, others=others):
                made = partial(_mutation, agent, EPISODES_FILE, change, EvalSample, line)
                yield made(AS_IT_IS, partial(_plain, honest, index))
                yield made(RECOMPUTED, partial(honest.with_line, index))
        for name, lines in orders(honest.lines):
            made = partial(Mutation, agent, EPISODES_FILE, "(line)", name)
            yield made(AS_IT_IS, partial(_file, EPISODES_FILE, joined(lines)))
            yield made(RECOMPUTED, partial(honest.closed, lines))
        for name, data in damages(honest.bytes[EPISODES_FILE]):
            place = (agent, EPISODES_FILE, "(bytes)", name)
            yield Mutation(*place, AS_IT_IS, partial(_file, EPISODES_FILE, data))

    def _of_transcripts(self, agent: str) -> Iterator[Mutation]:
        honest = self.honest[agent]
        for index, line in enumerate(honest.transcripts[:MAX_LINES]):
            for change in changes(TranscriptRecord, line):
                made = partial(_mutation, agent, TRANSCRIPTS_FILE, change, TranscriptRecord, line)
                yield made(AS_IT_IS, partial(_plain_transcript, honest, index))
                yield made(RECOMPUTED, partial(honest.with_transcript, index))
        if honest.transcripts:
            altered = [("(line)", name, joined(lines)) for name, lines in orders(honest.transcripts)]
            altered += [("(bytes)", name, data) for name, data in damages(honest.bytes[TRANSCRIPTS_FILE])]
            for field, name, data in altered:
                content = partial(_file, TRANSCRIPTS_FILE, data)
                yield Mutation(agent, TRANSCRIPTS_FILE, field, name, AS_IT_IS, content)

    def _of_others(self, agent: str) -> Iterator[Mutation]:
        """Every other file that the run has: by its record, or by its values where no record is named."""
        honest = self.honest[agent]
        for file in honest.bytes.keys() & RUN_FILES.keys() - {RUN_FILE, EPISODES_FILE, TRANSCRIPTS_FILE}:
            data, kind = honest.bytes[file], RECORDS.get(file)
            rows = [json.loads(line) for line in (data.splitlines() if file.endswith("l") else [data])]
            for index, row in enumerate(rows[:MAX_LINES]):
                for change in changes(kind, row, others=rows[index + 1 :][:3]):
                    made = partial(_mutation, agent, file, change, kind, row)
                    mutations = [made(AS_IT_IS, partial(_other, file, rows, index))]
                    if file == ANSWERS_FILE:
                        mutations.append(made(RECOMPUTED, partial(_answers, honest, rows, index)))
                    yield from (replace(each, stated=file == SPREAD_FILE) for each in mutations)
            altered = [("(line)", name, joined(lines)) for name, lines in orders(rows) if len(rows) > 1]
            altered += [("(bytes)", name, damaged) for name, damaged in damages(data)]
            for field, name, damaged in altered:
                yield Mutation(agent, file, field, name, AS_IT_IS, partial(_file, file, damaged))

    def _of_archive(self, agent: str) -> Iterator[Mutation]:
        if agent not in self.arena.archived:
            return
        path = self.arena.archived[agent]
        members = read_archive(path)
        altered = [("(bytes)", name, data) for name, data in damages(path.read_bytes())]
        altered += [("(members)", name, data) for name, data in archives(members)]
        for member, whole in members.items():
            for name, data in damages(whole):
                altered.append((member, name, archive({**members, member: data})))
        for field, name, data in altered:
            yield Mutation(agent, ARCHIVE, field, name, AS_IT_IS, partial(_file, ARCHIVE, data))

    def _of_places(self, agent: str) -> Iterator[Mutation]:
        """What is no file in the place of every file that a run may have, and odd names of its folder."""
        honest = self.honest[agent]
        for file in (*RUN_FILES, PACKED, ARCHIVE):
            for name, put in SPECIALS.items():
                yield Mutation(agent, file, "(place)", name, AS_IT_IS, partial(_special, file, put))
        forms: dict[str, Content] = {RUN_FILE: {}, PACKED: {PACKED: honest.bytes[PACKED]}}
        if agent in self.arena.archived:
            forms[ARCHIVE] = {ARCHIVE: self.arena.archived[agent].read_bytes()}
        for file, content in forms.items():
            for name, called in ODD_NAMES.items():
                yield Mutation(agent, file, CALLED, name, AS_IT_IS, partial(_called, content, called))

    def _of_packed(self, agent: str) -> Iterator[Mutation]:
        honest = self.honest[agent]
        header, *lines = honest.packed
        for change in changes(PackedHeader, header, contents=CONTENTS):
            made = partial(_mutation, agent, PACKED, change, PackedHeader, header)
            yield made(AS_IT_IS, partial(_packed_header, lines))
            if change.path[:1] == ("run",):
                yield made(RECOMPUTED, partial(_packed_run, honest, lines))
        for index in honest.kinds:
            line = lines[index]
            for change in (*changes(PackedEpisode, line, contents=CONTENTS), *_of_actions(line)):
                made = partial(_mutation, agent, PACKED, change, PackedEpisode, line)
                yield made(AS_IT_IS, partial(_packed_line, honest, index))
                if change.path[:1] == ("said",):
                    yield made(RECOMPUTED, partial(_packed_said, honest, index))
        for name, order in orders(lines):
            content = partial(packed_of, [header, *order])
            yield Mutation(agent, PACKED, "(line)", name, AS_IT_IS, content)
        for name, data in damages(honest.bytes[PACKED]):
            yield Mutation(agent, PACKED, "(bytes)", name, AS_IT_IS, partial(_file, PACKED, data))

    def _of_suite(self) -> Iterator[Mutation]:
        """The suite that stands beside the runs: theirs must follow from it."""
        table = tomllib.loads(self._suite.decode())
        for change in changes(Suite, table):
            made = partial(_mutation, "all", SUITE_FILE, change, Suite, table)
            yield made(AS_IT_IS, lambda table: {SUITE_FILE: toml_of(table)})


def drawn(mutations: Sequence[Mutation], most: int | None, *, seed: int) -> list[Mutation]:
    """Draw some mutations: first one at every place of every file in either form, then any.

    Args:
        mutations: all that there are.
        most: how many; None for all.
        seed: draws them.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    order = rng.permutation(len(mutations)).tolist()
    places = {mutations[i].place: i for i in reversed(order)}
    first = set(places.values())
    ranked = [i for i in order if i in first] + [i for i in order if i not in first]
    return [mutations[i] for i in ranked[:most]]


# --- pieces -----------------------------------------------------------------------------------------


def _mutation(
    agent: str,
    file: str,
    change: Change,
    kind: Any,
    honest: Table,
    form: Form,
    write: Callable[[Any], Content],
) -> Mutation:
    stated, ends = _stated(kind, change, honest)

    def content() -> Content:
        return write(change.applied(honest))

    return Mutation(agent, file, change.field, change.name, form, content, stated, ends)


@cache
def _type_hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _stated(kind: Any, change: Change, table: Any) -> tuple[bool, bool]:
    """Return whether the schema says that a field is stated, and whether only among some values."""
    value = table
    for key in change.path:
        if is_dataclass(kind) and isinstance(key, str):
            field = next((field for field in fields(kind) if field.name == key), None)
            if field is None:
                return False, False
            value = value.get(key)
            if field.metadata.get("stated"):
                return True, False
            among = field.metadata.get("stated_among", ())
            if value in among and change.value in among:
                return True, True
            kind = CONTENTS.get((kind, key), _type_hints(cast(Any, kind))[key])
        elif get_origin(kind) is tuple and isinstance(key, int):
            kind, value = get_args(kind)[0], value[key]
        else:
            return False, False
    return False, False


def _file(name: str, data: bytes) -> Content:
    return {name: data}


def _special(name: str, put: Callable[[Path], None]) -> Content:
    return {name: put}


def _called(content: Content, name: bytes) -> Content:
    return {**content, CALLED: name}


def _run_table(content: Content) -> Any:
    data = content[RUN_FILE]
    return json.loads(data) if isinstance(data, bytes) else None


def _put(path: Path, content: bytes | Callable[[Path], None]) -> None:
    path.unlink(missing_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content(path)


def _other(file: str, rows: Sequence[Table], index: int, row: Table) -> Content:
    if file.endswith("l"):
        return {file: joined([*rows[:index], row, *rows[index + 1 :]])}
    return {file: bytes_of(row, canonical=False)}


def _answers(honest: RunFiles, rows: Sequence[Table], index: int, row: Table) -> Content:
    return honest.with_answers([*rows[:index], row, *rows[index + 1 :]])


def _plain(honest: RunFiles, index: int, line: Table) -> Content:
    return {EPISODES_FILE: joined(honest.replaced(index, line))}


def _plain_transcript(honest: RunFiles, index: int, line: Table) -> Content:
    lines = [*honest.transcripts[:index], line, *honest.transcripts[index + 1 :]]
    return {TRANSCRIPTS_FILE: joined(lines)}


def _packed_header(lines: Sequence[Table], header: Table) -> Content:
    return packed_of([header, *lines])


def _packed_run(honest: RunFiles, lines: Sequence[Table], header: Table) -> Content:
    """Return a packed run with the digests that follow from its changed ``run.json``."""
    if isinstance(header.get("run"), dict):
        header = {**header, "run": _run_table(honest.with_run(header["run"]))}
    return packed_of([header, *lines])


def _packed_line(honest: RunFiles, index: int, line: Table) -> Content:
    header, *lines = honest.packed
    return packed_of([header, *lines[:index], line, *lines[index + 1 :]])


def _packed_said(honest: RunFiles, index: int, line: Table) -> Content:
    """Return a packed run with the digests that follow from what a changed line says."""
    header, *lines = honest.packed
    if isinstance(line.get("said"), dict):
        run = honest.with_line(index, {**honest.lines[index], **line["said"]})
        header = {**header, "run": _run_table(run)}
    return packed_of([header, *lines[:index], line, *lines[index + 1 :]])


def _of_actions(line: Table) -> Iterator[Change]:
    """Yield changes of the JSON that a packed line writes its actions as."""
    pieces = json.loads(line["actions"])
    for change in changes(None, pieces):
        text = bytes_of(change.applied(pieces), canonical=True).decode()
        yield Change(("actions",), f"{change.field or 'list'}: {change.name}", text)
