"""SOTOPIA with partner and judge behind endpoints: runs that verify, forgeries, estimates, spread."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentgym.core.hashing import canonical_json
from agentgym.evaluation.board.boards import make_boards
from agentgym.evaluation.board.tables import notes
from agentgym.evaluation.log.endpoint_runs import EndpointSettings
from agentgym.evaluation.log.recorded_answers import ANSWERS_FILE
from agentgym.evaluation.log.results import closed
from agentgym.evaluation.log.runfiles import file_sha256, read_episodes, read_run, write_run
from agentgym.evaluation.log.unreadable import unreadable_answers, unreadable_responses
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.play.estimate import estimate_suite
from agentgym.evaluation.suites.suite import load_suite
from agentgym.evaluation.verify.archives import open_run
from agentgym.evaluation.verify.packed import pack_run
from agentgym.evaluation.verify.rejudging import judge_again
from agentgym.evaluation.verify.submissions import Unranked, verify_below
from agentgym.evaluation.verify.verification import verify_run
from tests.evaluation.chat_server import ChatServer, serving
from tests.suite_texts import env_table, suite_text, write_suite


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with serving() as server:
        yield server


def play(root: Path) -> Path:
    settings = EndpointSettings(probe=False)
    (folder,) = run_bench(root / "suites" / "talks.toml", root / "results", endpoints=settings)
    return folder


@pytest.fixture
def root(server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the suite."""
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    tiny, critic = ({"endpoint": server.url, "model": name} for name in ("tiny", "critic"))
    bounded = {"metric": "score", "bounds": [0.0, 10.0], "measures": ["goal", "overall", "partner_goal"]}
    kwargs = {"partner": tiny | {"temperature": 0.7}, "judge": critic}
    text = suite_text(
        "talks",
        env_table("agentgym/Sotopia-v0", 6, label="talk", **bounded, kwargs=kwargs),
        agents=({"name": "asker", "kind": "react", "options": tiny},),
        seed=3,
        floor="",
        oracle="",
    )
    write_suite(tmp_path, text)
    return tmp_path


@pytest.fixture
def folder(root: Path) -> Path:
    return play(root)


def test_a_run_rests_on_what_was_answered(folder: Path, server: ChatServer) -> None:
    asked = len(server.bodies)
    verdict = verify_run(folder)
    assert (verdict.problems, verdict.earned) == ((), "replayed, answers recorded")
    assert len(server.bodies) == asked
    asked_by = {endpoint.model: endpoint.asked_by for endpoint in read_run(folder).endpoints}
    assert asked_by == {"tiny": ("agent", "talk: partner"), "critic": ("talk: judge",)}
    assert len({episode.score for episode in read_episodes(folder)}) > 1


def rating(answer: dict) -> bool:
    if not answer["kind"].startswith("judge"):
        return False
    for row in answer["value"]["ratings"]:
        row[-1] = (row[-1] + 5) % 11
    return True


def utterance(answer: dict) -> bool:
    if not answer["kind"].startswith("partner"):
        return False
    answer["value"] = "speak[Something that was never said.]"
    return True


def prompt(answer: dict) -> bool:
    answer["kind"] = answer["kind"].replace(" prompt ", " prompt 0")
    return True


@pytest.mark.parametrize("change", [rating, utterance, prompt])
def test_a_changed_rating_utterance_or_prompt_fails(folder: Path, change: Callable[[dict], bool]) -> None:
    path = folder / ANSWERS_FILE
    answers = [json.loads(line) for line in path.read_text().splitlines()]
    assert next(answer for answer in answers if change(answer))
    path.write_text("".join(f"{canonical_json(answer)}\n" for answer in answers))
    run = read_run(folder)  # with every digest that covers it
    write_run(folder, closed(run, read_episodes(folder), run.transcripts_sha256, file_sha256(path)))
    assert {problem.kind for problem in verify_run(folder).problems} == {"replay"}


def test_the_spread_of_its_judge(folder: Path) -> None:
    spread = judge_again(open_run(folder), ratings=2)
    judged = spread.envs["talk"]
    assert judged.judge.startswith("judge critic at http://127.0.0.1:")
    assert len(judged.episodes) == 6
    assert judged.deviations["score"] == 0.0  # this server says the same again


def test_an_estimate_counts_partner_and_judge(folder: Path, server: ChatServer) -> None:
    asked = len(server.bodies)
    suite = load_suite(folder.parents[2] / "suites" / "talks.toml")
    found = estimate_suite(suite, suite.agent)
    assert len(server.bodies) == asked
    by_model = {part.model: part for part in found.parts}
    assert by_model["tiny"].asked_by == "agent, talk: partner"
    assert by_model["critic"].likely.calls == 6
    assert by_model["critic"].likely.prompt_tokens > 6 * 200
    assert 6 * 14 * 20 < by_model["critic"].likely.completion_tokens < 6 * 14 * 50  # a reason for each rating


def test_episodes_without_a_rating_stay_and_are_played_again(root: Path, server: ChatServer) -> None:
    server.mute = True
    try:
        folder = play(root)
    finally:
        server.mute = False
    assert {episode.end_reason for episode in read_episodes(folder)} == {"env_error"}
    assert verify_run(folder).problems == ()
    (lost,) = unreadable(folder)
    assert lost == 'talk: judge 100 % unreadable (6 of 6 answers), first: "I would rather not say."'
    assert play(root) == folder
    episodes = read_episodes(folder)
    assert [episode.attempt for episode in episodes] == [1] * 6 + [2] * 6
    assert "env_error" not in {episode.end_reason for episode in episodes[6:]}
    assert unreadable(folder) == []
    assert len(file_lines(folder, "judge")) == 12  # what could not be read is kept
    assert verify_run(folder).problems == ()


def unreadable(folder: Path) -> list[str]:
    run = open_run(folder)
    return [str(each) for each in (*unreadable_responses(run), *unreadable_answers(run))]


def file_lines(folder: Path, who: str) -> list:
    answers = map(json.loads, (folder / ANSWERS_FILE).read_text().splitlines())
    return [answer["value"] for answer in answers if answer["kind"].startswith(who)]


def test_a_run_whose_partner_is_not_understood_is_not_ranked(root: Path, server: ChatServer) -> None:
    server.mumbles = 2
    try:
        folder = play(root)
    finally:
        server.mumbles = 0
    said = file_lines(folder, "partner")
    assert said
    assert all(value == {"unreadable": ["Hm,\x1b[2J let me see."] * 2} for value in said)
    assert verify_run(folder).problems == ()
    opening, partner = unreadable(folder)
    assert opening.startswith("talk: opening 100 % unreadable (3 of 3 answers), first: ")
    assert partner.startswith(f"talk: partner 100 % unreadable ({len(said)} of {len(said)} answers)")
    assert partner.endswith('first: "Hm, [2J let me see."')
    (found,) = verify_below(root / "results")
    assert isinstance(found, Unranked)
    assert found.reason == f"unreadable: {opening}; at most 5 % may be"


def test_a_partner_that_is_asked_again_is_shown_and_ranked(root: Path, server: ChatServer) -> None:
    server.mumbles = 1
    try:
        folder = play(root)
    finally:
        server.mumbles = 0
    assert verify_run(folder).problems == ()
    (found,) = verify_below(root / "results")
    ((board,), ()) = make_boards([found])
    shown = ["".join(text for _, text in note) for note in notes(board)]
    assert [f"{board.rows[0].name}: {line}." for line in unreadable(folder)] == [
        note for note in shown if "unreadable" in note
    ]
    assert "partner 0 % unreadable (0 of" in unreadable(folder)[1]
    assert "more asked again" in unreadable(folder)[1]


def test_a_packed_run_verifies(folder: Path, tmp_path: Path) -> None:
    path = pack_run(open_run(folder), tmp_path / "packed")
    again = open_run(path, {"talks": tmp_path / "suites" / "talks.toml"}).folder
    assert (again / "run.json").read_bytes() == (folder / "run.json").read_bytes()
    assert verify_run(again, suite=tmp_path / "suites" / "talks.toml").problems == ()
