"""Runs that rest on answers from outside: recorded, replayed without asking, recomputed, marked."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.cli import main
from agentgym.core.queries import UNKNOWN, QueryContext
from agentgym.errors import UsageError
from agentgym.evaluation.board.leaderboard import build_leaderboard
from agentgym.evaluation.log.recorded_answers import (
    ANSWERS_FILE,
    RecordedAnswers,
    RecordingAnswers,
    ReplayedAnswers,
    read_answers,
)
from agentgym.evaluation.log.results import EPISODES_FILE, closed
from agentgym.evaluation.log.runfiles import file_sha256, read_episodes, read_run, write_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.verify.archives import open_run
from agentgym.evaluation.verify.packed import pack_run
from agentgym.evaluation.verify.submissions import Submission, verify_below
from agentgym.evaluation.verify.verification import verify_run
from tests.evaluation.asking import REFERENCE, Scale
from tests.evaluation.making import write_complete
from tests.suite_texts import RANDOM, env_table, suite_text, write_suite


@pytest.fixture(autouse=True)
def scale(monkeypatch, tmp_path):
    """A scale that works, and a cache of one's own."""
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    Scale.calls, Scale.questions, Scale.drift, Scale.gone, Scale.broken = 0, [], 0.0, False, set()
    return Scale


@pytest.fixture
def bench(tmp_path):
    """Play the suite with the random agent; returns the run's folder."""

    def play(standing="recomputable", *, sampled=False, attempts=1, num_envs=64):
        kwargs, moves = {"standing": standing, "sampled": sampled}, str(tmp_path / "moves.jsonl")
        text = suite_text(
            "weighing",
            env_table(REFERENCE, 5, label="Weigh", kwargs=kwargs),
            agents=(RANDOM, {"name": "heavy", "kind": "scripted", "options": {"path": moves}}),
            seed=3,
            attempts=attempts,
            oracle="heavy",
        )
        suite = write_suite(tmp_path, text)
        (folder,) = run_bench(suite, tmp_path / "results", agents=["random"], num_envs=num_envs)
        return folder

    return play


def verify(folder, **options):
    return verify_run(folder, allow=[REFERENCE], **options)


def forge_answers(folder: Path, change: Callable[[dict], None]) -> None:
    """Change every answer, and every digest with it."""
    lines = [json.loads(line) for line in (folder / ANSWERS_FILE).read_text().splitlines()]
    for line in lines:
        change(line["value"])
    text = "".join(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in lines)
    (folder / ANSWERS_FILE).write_text(text)
    run = read_run(folder)
    sha256 = file_sha256(folder / ANSWERS_FILE)
    write_run(folder, closed(run, read_episodes(folder), run.transcripts_sha256, sha256))


def test_answers_are_recorded_once_and_replayed_without_asking(bench, scale):
    folder = bench()
    run, book = read_run(folder), read_answers(folder / ANSWERS_FILE)
    assert run.answers_sha256 == file_sha256(folder / ANSWERS_FILE)
    assert len(book) == len(set(scale.questions)) == len(scale.questions)
    assert [pin.standing for pin in run.envs[0].answers] == ["recomputable"]
    scale.gone = True
    verdict = verify(folder)
    assert verdict.ok, verdict.problems
    assert verdict.earned == "re-run, answers recorded"
    assert (verdict.answers.recorded, verdict.answers.recomputed) == (len(book), 0)
    assert verdict.answers.absent == ("no scale on this machine: buy one",)


@pytest.mark.parametrize(
    "make", [lambda book: RecordingAnswers(book, "w", book.add), lambda book: ReplayedAnswers(book, "w")]
)
def test_what_is_exact_is_computed_each_time_and_never_recorded(make):
    book, backend = RecordedAnswers(), Scale("exact", sampled=False)
    source = make(book)
    asked = [QueryContext("iron", "t", 0, turn, 0) for turn in range(3)]
    assert source.find(backend, asked) == [UNKNOWN] * 3
    assert source.find(backend, []) == []
    assert source.keep(backend, asked, [1, 2, 3]) == [1, 2, 3]
    assert len(book) == 0


def test_slots_of_one_turn_are_one_call(bench, scale):
    bench(num_envs=64)
    assert scale.calls <= 3
    assert len(scale.questions) > 3


def test_what_is_at_hand_is_computed_again(bench, scale):
    folder = bench()
    scale.drift = 1e-4
    verdict = verify(folder)
    assert verdict.ok
    assert verdict.earned == "re-run, answers recomputed"
    scale.drift = 0.5
    verdict = verify(folder)
    assert {problem.kind for problem in verdict.problems} == {"answer"}
    assert "otherwise here" in str(verdict.problems[0])


def test_a_changed_bit_fails(bench):
    folder = bench()
    data = bytearray((folder / ANSWERS_FILE).read_bytes())
    data[data.index(b"0.0")] ^= 1
    (folder / ANSWERS_FILE).write_bytes(data)
    verdict = verify(folder)
    assert not verdict.ok
    assert "answers.jsonl" in str(verdict.problems[0])


def test_a_forged_answer_with_every_digest_made_anew_fails(bench):
    folder = bench()
    forge_answers(folder, lambda value: value.update(grams=[99.0]))
    problems = verify(folder).problems
    assert {problem.kind for problem in problems} == {"replay"}, "rewards do not follow from it"


def test_a_forged_answer_with_episodes_to_match_fails_where_the_part_is_at_hand(bench, scale):
    folder = bench()
    lines = read_answers(folder / ANSWERS_FILE)
    scale.drift = 1000.0  # the forger's own scale
    forged = folder.parent / "forged"
    (folder / EPISODES_FILE).unlink()
    (folder / ANSWERS_FILE).unlink()
    (folder / "run.json").unlink()
    bench()
    folder.rename(forged)
    scale.drift = 0.0
    verdict = verify(forged)
    assert {problem.kind for problem in verdict.problems} == {"answer"}
    assert len(lines) == len(read_answers(forged / ANSWERS_FILE))


def test_a_missing_answer_fails(bench, scale):
    folder = bench()
    path = folder / ANSWERS_FILE
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    run = read_run(folder)
    write_run(folder, closed(run, read_episodes(folder), run.transcripts_sha256, file_sha256(path)))
    verdict = verify(folder)
    assert not verdict.ok
    assert "has no answer" in str(verdict.problems[0])
    path.unlink()
    assert "missing" in str(verify(folder).problems[0])


@pytest.mark.parametrize(
    "text", ["{}\n", "[1]\n", '{"env":"Weigh"', '{"env":1,"key":"","kind":"","value":0}\n', "\xff\n"]
)
def test_a_file_of_answers_that_cannot_be_read_is_one_line(tmp_path, text):
    path = tmp_path / ANSWERS_FILE
    path.write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match=r"answers\.jsonl") as caught:
        read_answers(path)
    assert "\n" not in str(caught.value)


def test_equal_questions_of_two_attempts_have_answers_of_their_own_where_they_are_sampled(bench, scale):
    folder = bench("attested", sampled=True, attempts=2)
    book = list(read_answers(folder / ANSWERS_FILE))
    assert len(book) == len(scale.questions), "each asked for itself"
    assert len({str(question) for question in scale.questions}) < len(book)
    assert len({str(answer.value) for answer in book}) == len(book)
    asked = scale.calls
    verdict = verify(folder)
    assert verdict.ok, verdict.problems
    assert scale.calls == asked
    assert (verdict.answers.attested, verdict.answers.recomputed) == (len(book), 0)


def test_rerun_asks_again(bench, scale):
    folder = bench()
    before = scale.calls
    assert verify(folder, rerun=True).ok
    assert scale.calls > before
    scale.drift = 1.0
    assert {problem.kind for problem in verify(folder, rerun=True).problems} == {"re-run"}


def test_an_unanswered_question_ends_its_episode_and_a_resumed_run_asks_again(bench, scale):
    scale.broken = {"wool"}
    folder = bench()
    ends = {episode.id: episode.end_reason for episode in read_episodes(folder)}
    assert "env_error" in ends.values()
    assert set(ends.values()) > {"env_error"}
    assert verify(folder).ok
    scale.broken = set()
    bench()
    again = read_episodes(folder)
    assert len(again) == len(ends) + list(ends.values()).count("env_error")
    verdict = verify(folder)
    assert verdict.ok, verdict.problems


def test_a_packed_run_holds_its_answers(bench, tmp_path, scale):
    folder = bench()
    packed = pack_run(open_run(folder), tmp_path / "packed", allow=[REFERENCE])
    scale.gone = True
    suites = {"weighing": tmp_path / "suites" / "weighing.toml"}
    again = open_run(packed, suites, allow=[REFERENCE]).folder
    assert (again / ANSWERS_FILE).read_bytes() == (folder / ANSWERS_FILE).read_bytes()
    assert (again / EPISODES_FILE).read_bytes() == (folder / EPISODES_FILE).read_bytes()


def test_another_part_is_another_request(bench, monkeypatch):
    folder = bench()
    monkeypatch.setattr(Scale, "__init__", other_scale)
    problems = verify(folder).problems
    assert "answered by another part: here it is scale 2" in str(problems[0])


def other_scale(self, standing, sampled):
    from agentgym.core.queries import AnswerKind

    self.kind = AnswerKind("scale 2", standing, sampled, 1e-3)


def test_attested_rows_are_marked_as_such(bench, tmp_path, scale):
    bench("attested")
    (submission,) = verify_below(tmp_path / "results", allow=[REFERENCE])
    assert isinstance(submission, Submission)
    page = tmp_path / "LEADERBOARD.md"
    build_leaderboard(tmp_path / "results", page, allow=[REFERENCE])
    text = page.read_text()
    assert "attested" in text
    assert "answers recorded" in text


def test_the_command_line_says_what_answers_rest_on(bench, capsys, scale):
    folder = bench()
    assert main(["verify", str(folder), "--allow", REFERENCE]) == 0
    said = capsys.readouterr().out
    assert "answers recomputed" in said
    assert main(["view", str(folder), "--episode", "1", "--allow", REFERENCE]) == 0
    assert write_complete  # the forgeries of test_forgeries are of runs without answers
    assert replace
