"""Judges behind endpoints: recorded ratings, forged ones, boards of their own, and their spread."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from agentgym.cli import main
from agentgym.core.hashing import canonical_json
from agentgym.core.queries import UnansweredError
from agentgym.errors import UsageError
from agentgym.evaluation.board.boards import make_boards
from agentgym.evaluation.board.exports import as_csv, as_json, schema
from agentgym.evaluation.board.published import Published
from agentgym.evaluation.board.tables import markdown
from agentgym.evaluation.log.endpoint_runs import EndpointSettings
from agentgym.evaluation.log.judge_spread import SPREAD_FILE, read_spread
from agentgym.evaluation.log.recorded_answers import ANSWERS_FILE
from agentgym.evaluation.log.results import closed
from agentgym.evaluation.log.runfiles import file_sha256, read_episodes, read_run, write_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.verify.archives import open_run
from agentgym.evaluation.verify.rejudging import judge_again
from agentgym.evaluation.verify.submissions import verify_below
from agentgym.evaluation.verify.verification import verify_run
from tests.evaluation.chat_server import ChatServer, serving
from tests.evaluation.judged import REFERENCE, Rater
from tests.suite_texts import RANDOM, env_table, suite_text, write_suite


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with serving() as server:
        yield server


Play = Callable[..., Path]


@pytest.fixture
def play(server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Play the suite with a judge; returns the run's folder."""
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    server.noise, server.calls_itself = 0.0, ""

    def run(
        model: str = "judge",
        name: str = "speeches",
        *,
        temperature: float = 0.7,
        probe: bool = False,
        scale: str | None = None,
    ) -> Path:
        judge = {"endpoint": server.url, "model": model, "temperature": temperature}
        bounded = {"metric": "score", "bounds": [0.0, 100.0], "measures": ["weight"]}
        text = suite_text(
            name,
            env_table(REFERENCE, 12, label="Speech", **bounded, kwargs={"judge": judge}),
            agents=(RANDOM, {"name": "oracle", "kind": "random-strings"}),
            seed=3,
            **({} if scale is None else {"floor": scale, "oracle": scale}),
        )
        path = write_suite(tmp_path / model, text)
        settings = EndpointSettings(probe=probe)
        (folder,) = run_bench(path, tmp_path / model / "results", agents=["random"], endpoints=settings)
        return folder

    return run


def verify(folder: Path):
    return verify_run(folder, allow=[REFERENCE])


def forge(folder: Path, change: Callable[[dict], None]) -> None:
    """Change the first recorded answer, with every digest that covers it."""
    path = folder / ANSWERS_FILE
    first, *others = path.read_text().splitlines()
    answer = json.loads(first)
    change(answer)
    path.write_text("\n".join([canonical_json(answer), *others]) + "\n")
    run = read_run(folder)
    write_run(folder, closed(run, read_episodes(folder), run.transcripts_sha256, file_sha256(path)))


def test_recorded_ratings_verify_without_asking(play: Play, server: ChatServer) -> None:
    folder = play()
    asked = len(server.bodies)
    verdict = verify(folder)
    assert (verdict.problems, verdict.earned) == ((), "re-run, answers recorded")
    assert verdict.answers.attested == verdict.answers.recorded == 12
    assert len(server.bodies) == asked
    (endpoint,) = read_run(folder).endpoints
    assert (endpoint.model, endpoint.asked_by) == ("judge", ("Speech: judge",))


@pytest.mark.parametrize(
    "change",
    [
        lambda answer: answer["value"].update(grams=[99.0]),
        lambda answer: answer.update(key="0" * 64),
        lambda answer: answer.update(kind=answer["kind"].replace("Rate", "Praise")),
    ],
    ids=["rating", "utterance", "prompt"],
)
def test_a_changed_rating_utterance_or_prompt_fails(play: Play, change) -> None:
    folder = play()
    forge(folder, change)
    assert {problem.kind for problem in verify(folder).problems} & {"replay", "re-run"}


def test_another_prompt_is_another_judge(play: Play, tmp_path: Path) -> None:
    folder = play()
    suite = tmp_path / "judge" / "suites" / "speeches.toml"
    suite.write_text(suite.read_text().replace("temperature = 0.7", 'temperature = 0.7, prompt = "Praise"'))
    kinds = {problem.kind for problem in verify(folder).problems}
    assert {"suite", "environment"} <= kinds


def test_judges_have_boards_of_their_own(play: Play, tmp_path: Path) -> None:
    for model in ("judge", "critic"):
        play(model)
    boards, unranked = make_boards(verify_below(tmp_path, allow=[REFERENCE]))
    assert not unranked
    assert len(boards) == 2
    assert {board.attested for board in boards} == {("Speech",)}
    page = markdown(boards, Published())
    for model in ("judge", "critic"):
        assert f"- **Speech**: `judge` is `judge {model} at http://127.0.0.1:" in page
    assert "temperature 0.7`, attested, sampled." in page
    assert "| Judge SD |" in " ".join(page.split())
    assert page.count("| not measured |") == 2


def test_the_spread_of_a_judge_is_measured_and_shown(play: Play, server: ChatServer, capsys) -> None:
    folder = play()
    server.noise = 2.0
    words = ["judge", str(folder), "--ratings", "5", "--sample", "10", "--allow", REFERENCE]
    assert main(words) == 0
    assert "Speech: 5 ratings of 10 transcripts: SD score " in capsys.readouterr().out
    run = read_run(folder)
    spread = read_spread(folder, run.request_id)
    (judged,) = spread.envs.values()
    assert judged.deviations["score"] == judged.deviations["weight"] == pytest.approx(2.0, rel=0.4)
    assert len(set(judged.episodes)) == 10
    assert verify(folder).problems == ()
    boards, _ = make_boards(verify_below(folder.parents[1], allow=[REFERENCE]))
    page = " ".join(markdown(boards, Published()).split())
    assert "| Success % | Score | Judge SD |" in page
    assert f"| {judged.deviations['score']:.2f} |" in page
    assert ",judge_sd_score," in as_csv(boards)
    jsonschema.validate(json.loads(as_json(boards, Published())), schema())


def test_a_steady_judge_has_no_spread(play: Play) -> None:
    spread = judge_again(open_run(play(temperature=0.0)), ratings=2, allow=[REFERENCE])
    assert spread.envs["Speech"].deviations == {"score": 0.0}
    assert len(spread.envs["Speech"].episodes) == 12


def test_a_rating_without_an_answer_is_counted_and_left_out(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = play()

    def submit(self: Rater, question: Any, *, sample: int = 0) -> Future[Any]:
        said: Future[Any] = Future()
        if sample == 2:
            said.set_exception(UnansweredError("no answer"))
        else:
            said.set_result({"grams": [10.0 * sample]})
        return said

    monkeypatch.setattr(Rater, "submit", submit)
    judged = judge_again(open_run(folder), ratings=3, sample=4, allow=[REFERENCE]).envs["Speech"]
    assert judged.unanswered == 4
    assert judged.deviations == pytest.approx({"score": 200**0.5, "weight": 200**0.5})  # of 10 and 30


def test_what_cannot_be_judged_again(play: Play, finished: Path, tmp_path: Path) -> None:
    folder = play()
    with pytest.raises(UsageError, match="at least 2 ratings of 1 transcript, got 1 of 50"):
        judge_again(open_run(folder), ratings=1, allow=[REFERENCE])
    replaying = EndpointSettings(cache=tmp_path / "x", mode="replay-only")
    with pytest.raises(UsageError, match="asked anew, and not the cache: leave out --cache-mode replay-only"):
        judge_again(open_run(folder), allow=[REFERENCE], endpoints=replaying)
    with pytest.raises(UsageError, match="asks a judge behind an endpoint: there is no spread"):
        judge_again(open_run(next((finished / "results" / "small").glob("oracle-*"))))
    judge_again(open_run(folder), ratings=2, sample=1, allow=[REFERENCE])
    (folder / SPREAD_FILE).write_text(
        (folder / SPREAD_FILE).read_text().replace('"request_id": "', '"request_id": "0')
    )
    (unranked,) = make_boards(verify_below(folder, allow=[REFERENCE]))[1]
    assert "is of another run or version; remove it" in unranked.reason


def test_a_pinned_judge_must_say_what_it_is(play: Play, server: ChatServer, tmp_path: Path) -> None:
    folder = play("open/weights@0123abc", name="unsaid", probe=False)
    (unranked,) = make_boards(verify_below(folder, allow=[REFERENCE]))[1]
    assert "claimed: the suite pins open/weights@0123abc, and no server is recorded" in unranked.reason
    said = play("open/weights@0123abc", name="said", probe=True)
    assert make_boards(verify_below(said, allow=[REFERENCE]))[1] == []
    server.calls_itself = "other/weights"
    other = play("open/weights@0123abc", name="other", probe=True)
    assert make_boards(verify_below(other, allow=[REFERENCE]))[1] != []


def test_scores_without_floor_and_oracle_are_normalised_by_their_bounds(play: Play, tmp_path: Path) -> None:
    folder = play(scale="")
    (board,), _ = make_boards(verify_below(folder.parents[1], allow=[REFERENCE]))
    (row,) = board.rows
    assert row.rank == 1
    assert row.aggregate.mean.value == pytest.approx(row.envs["Speech"].score.value / 100)
    assert "not at a floor and an oracle." in markdown([board], Published())
