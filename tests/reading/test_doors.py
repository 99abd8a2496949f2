"""One reader serves all doors: the same bytes are the same action, through whichever door they come in."""

import pytest

from benchmarks import doors as report
from tests.reading.bodies import CASES, of_corpus
from tests.reading.doors import bench, open_doors
from tests.reading.readers import corpus

CORPUS = {case["id"]: made for case in corpus() if (made := of_corpus(case)) is not None}
UNSURE = {case["id"] for case in corpus() if case.get("unsure")}
OTHERWISE = {"openai/good-and-broken"}
"""Agents of one call a step play the first of two calls whatever the second is; the others refuse both."""


@pytest.fixture(scope="module")
def doors():
    with open_doors() as opened:
        yield opened


@pytest.mark.parametrize("name", CASES)
def test_a_door_plays_what_every_other_one_does(doors, name):
    case = CASES[name]
    read = {door: made for door, read in doors.items() if (made := read(case)) is not None}
    assert {door: made.action for door, made in read.items()} == dict.fromkeys(read, case.action)
    assert all(bool(made.problem) == (not case.action) and "\n" not in made.problem for made in read.values())
    assert len(read) >= 4


@pytest.mark.parametrize("id", CORPUS)
def test_replies_of_the_corpus_are_the_same_action_everywhere(doors, id):
    case = CORPUS[id]
    names = [door for door in doors if door != "agent, streamed" or case.streamed]
    read = {door: made.action for door in names if (made := doors[door](case)) is not None}
    if id not in OTHERWISE:
        assert len(set(read.values())) == 1, read
    if id not in UNSURE:
        assert set(read.values()) == {case.action}


def test_the_corpus_has_bodies_and_streams_of_every_suite():
    assert {case.suite for case in CORPUS.values()} == {"alfworld", "hotpotqa", "sokoban"}
    assert len(CORPUS) > 80


@pytest.mark.parametrize("suite", ["alfworld", "hotpotqa"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_command_line_plays_them_too(tmp_path, suite, stream):
    cases = {name: each for name, each in CASES.items() if (each.suite, each.streamed) == (suite, stream)}
    read = bench(list(cases.values()), stream, tmp_path / "bench")
    actions = {name: made.action for name, made in zip(cases, read, strict=True)}
    assert actions == {name: case.action for name, case in cases.items()}


def test_whole_answers_are_the_same_from_a_stream_on_the_command_line(tmp_path):
    cases = [case for case in CASES.values() if case.suite == "hotpotqa" and not case.streamed]
    whole, streamed = (bench(cases, stream, tmp_path / str(stream)) for stream in (False, True))
    assert whole == streamed


def test_the_committed_table_is_current():
    """The command line's column is checked by the tests above."""
    committed = report.cells_of(report.PAGE.read_text(encoding="utf-8"))
    assert committed.keys() == CASES.keys()
    fresh = report.cheap()
    assert {name: {door: cells[door] for door in fresh[name]} for name, cells in committed.items()} == fresh
    assert all(
        cells[report.BENCH].startswith("`") == bool(CASES[name].action) for name, cells in committed.items()
    )
