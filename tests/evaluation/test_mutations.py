"""Changed files of runs: a sample of what ``make fuzz`` tries, and what it has found."""

import json
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from typing import Any

import pytest

from agentgym.evaluation.log.results import EPISODES_FILE, RUN_FILE, EvalLog, EvalSample
from agentgym.evaluation.log.runfiles import RUN_FILES
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE, TranscriptRecord
from agentgym.evaluation.verify.packed import PackedHeader
from benchmarks.fuzz.arena import Arena, make_arena
from benchmarks.fuzz.changes import changes
from benchmarks.fuzz.files import packed_of
from benchmarks.fuzz.mutations import (
    ARCHIVE,
    CALLED,
    PACKED,
    SUITE_FILE,
    Finding,
    Laboratory,
    Mutation,
    drawn,
)

SAMPLE = 50

FILES = {*RUN_FILES, PACKED, ARCHIVE, SUITE_FILE}


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    root = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_CACHE", str(root / "cache"))
        yield make_arena(root)


@pytest.fixture(scope="module")
def laboratory(arena: Arena) -> Laboratory:
    return Laboratory(arena)


@pytest.fixture(scope="module")
def every(laboratory: Laboratory) -> list[Mutation]:
    return list(laboratory.mutations(agents=["model", "narrow", "asker"]))


def test_no_mutation_of_a_sample_survives(laboratory: Laboratory, every: list[Mutation]) -> None:
    sample = drawn(every, SAMPLE, seed=0)
    sample += [next(m for m in every if m.file == file) for file in FILES - {m.file for m in sample}]
    findings = [laboratory.find(mutation) for mutation in sample]
    assert [str(f.mutation) for f in findings if f.outcome in ("survived", "crashed")] == []
    assert {f.mutation.file for f in findings} == FILES
    assert sum(f.outcome == "caught" for f in findings) > SAMPLE // 2


@pytest.mark.parametrize(
    ("record", "file"),
    [(EvalLog, RUN_FILE), (EvalSample, EPISODES_FILE), (TranscriptRecord, TRANSCRIPTS_FILE)],
)
def test_every_field_is_changed(every: list[Mutation], record: type, file: str) -> None:
    attacked = {
        mutation.field.partition(".")[0].removesuffix("[]") for mutation in every if mutation.file == file
    }
    assert {field.name for field in fields(record)} <= attacked
    packed = {
        mutation.field.split(".")[1].removesuffix("[]") for mutation in every if mutation.field.count(".")
    }
    assert {field.name for field in fields(EvalLog)} <= packed


def test_values_change_by_their_types() -> None:
    table = {"schema": 2, "format": "x", "run": {"a": None}}
    found = {(change.field, change.name) for change in changes(PackedHeader, table)}
    assert {
        ("schema", "+2**-40"),
        ("schema", "removed"),
        ("format", "a newline"),
        ("run.a", "to text"),
        ("unknown", "put in"),
    } <= found


def test_an_attempt_that_leaves_no_trace_is_the_only_thing_that_passes(laboratory: Laboratory) -> None:
    """Whoever made a run alone can leave out what went wrong: nothing tells of it, and no rank changes."""
    findings = laboratory.retries_without_trace()
    assert {finding.outcome for finding in findings} == {"stated"}


def the_finding(laboratory: Laboratory, every: list[Mutation], file: str, field: str, change: str) -> Finding:
    mutation = next(m for m in every if (m.file, m.field, m.change) == (file, field, change))
    return laboratory.find(mutation)


@pytest.mark.parametrize(
    ("file", "field", "change"),
    [
        (RUN_FILE, "envs[].env.bounds[]", "hugest"),
        (EPISODES_FILE, "score", "hugest"),
        (PACKED, "said.progress", "infinite"),
        (PACKED, "said.transcript", "half a character"),
        (PACKED, "said.seed", "negative"),
        (PACKED, "actions", "shorter"),
        (PACKED, "actions", "a newline"),
        (PACKED, "actions", "zeros"),
    ],
)
def test_what_cannot_be_read_is_refused_and_not_an_error(
    laboratory: Laboratory, every: list[Mutation], file: str, field: str, change: str
) -> None:
    """Each of these once ended the whole leaderboard with a traceback."""
    assert the_finding(laboratory, every, file, field, change).outcome == "caught"


def test_a_small_packed_run_does_not_stand_for_a_huge_one(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch, unboxed: None
) -> None:
    monkeypatch.setattr("agentgym.evaluation.verify.packed.MAX_TYPED", 10_000)
    header, line, *rest = laboratory.honest["model"].packed
    line = {**line, "actions": json.dumps([[[0, 20]] * 501])}
    content = partial(packed_of, [header, line, *rest])
    found = laboratory.find(Mutation("model", PACKED, "actions", "huge", "as it is", content))
    assert found.outcome == "caught"
    assert "more than 10,000 characters" in found.detail


def test_a_kept_verdict_ends_with_the_transcripts(laboratory: Laboratory, every: list[Mutation]) -> None:
    """The honest run's is in the cache, and was once taken for a run with other transcripts."""
    found = the_finding(laboratory, every, TRANSCRIPTS_FILE, "steps[].response", "longer")
    assert (found.outcome, found.detail.split(":")[1].strip()) == ("caught", "file")


def test_the_page_does_not_depend_on_the_order_of_keys(laboratory: Laboratory, arena: Arena) -> None:
    """A run with its options in another order once changed the page."""
    for agent, folder in arena.folders.items():
        turned = json.dumps(_turned(json.loads((folder / RUN_FILE).read_text()))).encode()
        mutation = Mutation(
            agent, RUN_FILE, "(keys)", "reversed", "as it is", partial(dict, {RUN_FILE: turned})
        )
        assert laboratory.find(mutation).outcome == "nothing published"


def _turned(value: Any) -> Any:
    """Return JSON with the keys of every object in reverse."""
    if isinstance(value, dict):
        return {key: _turned(member) for key, member in reversed(value.items())}
    return [_turned(member) for member in value] if isinstance(value, list) else value


def test_every_file_that_a_run_may_have_is_changed(arena: Arena, every: list[Mutation]) -> None:
    """By the package's own list: what a run writes is in it, and all of it is made something else, too."""
    written = {path.name for folder in arena.folders.values() for path in folder.iterdir()}
    assert written == set(RUN_FILES)
    for file in (*RUN_FILES, PACKED, ARCHIVE):
        changed = {mutation.field for mutation in every if mutation.file == file}
        assert "(place)" in changed
        assert len(changed - {"(place)", CALLED}) >= 3, file


@pytest.mark.parametrize("field", ["(place)", CALLED])
def test_special_files_links_and_odd_names(laboratory: Laboratory, every: list[Mutation], field: str) -> None:
    """A pipe in the place of a file once waited for ever, and an odd name ended the board."""
    asked = [m for m in every if m.agent == "asker" and m.field == field and m.file in (RUN_FILE, PACKED)]
    outcomes = {str(m): laboratory.find(m).outcome for m in asked}
    assert len(outcomes) == 18
    harmless = {"nothing published"} if field == CALLED else {"caught"}
    assert {name: outcome for name, outcome in outcomes.items() if outcome not in harmless} == {}


def test_half_a_character_in_any_answer(laboratory: Laboratory, every: list[Mutation]) -> None:
    """Of a folder and of a packed run: each once ended the board."""
    halves = [m for m in every if m.agent == "asker" and m.change == "half a character"]
    asked = [m for m in halves if "answers" in f"{m.file} {m.field}"]
    assert {m.file for m in asked} >= {"answers.jsonl", PACKED}
    assert {laboratory.find(m).outcome for m in asked[::3]} == {"caught"}
