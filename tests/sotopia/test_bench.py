"""Benchmarks with models as partner and judge: recorded, verified without a network, forgeries found."""

import json

import pytest

from agentgym import UsageError
from agentgym.endpoint.client import without_network
from agentgym.envs.sotopia.judgeprompt import judge_prompt
from agentgym.evaluation.log.recorded_answers import ANSWERS_FILE, read_answers
from agentgym.evaluation.log.results import closed
from agentgym.evaluation.log.runfiles import file_sha256, read_episodes, read_run, write_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.verify.verification import verify_run
from tests.endpoint.fake import URL, FakeEndpoint, completion
from tests.sotopia import models
from tests.suite_texts import RANDOM, env_table, suite_text, write_suite

KEY = "sk-marker-0f-a-k3y"


def answering(body):
    """Speak as a partner; rate as a judge, now and then only after a repair."""
    (first, *rest) = body["messages"]
    if body["model"] == "small":
        return completion(f"speak[I have heard {len(first['content'])} characters.]")
    broken = len(first["content"]) % 3 == 0 and not rest
    return completion("I would say ten." if broken else models.reply(len(first["content"]) % 11))


@pytest.fixture
def prompt(tmp_path):
    """A judge's prompt of one's own."""
    path = tmp_path / "judge.toml"
    own = judge_prompt()
    words = {"id": own.id, "version": own.version, "text": own.text, "repair": own.repair}
    path.write_text("\n".join(f"{name} = {json.dumps(value)}" for name, value in words.items()))
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch, prompt):
    """A run of the suite, after which nobody is asked any more."""
    monkeypatch.setenv("SOTOPIA_TEST_KEY", KEY)
    small, large = (
        {"endpoint": URL, "model": name, "key_env": "SOTOPIA_TEST_KEY"} for name in ("small", "large")
    )
    kwargs = {"max_turns": 6, "partner": small, "judge": large | {"prompt": str(prompt)}}
    talk = env_table("agentgym/Sotopia-v0", 4, label="Talk", kwargs=kwargs)
    text = suite_text("talking", talk, agents=(RANDOM,), seed=3, attempts=2, oracle="random")
    suite = write_suite(tmp_path, text)
    fake = FakeEndpoint(otherwise=answering)
    with without_network(fake.transport):
        (made,) = run_bench(suite, tmp_path / "results", agents=["random"], num_envs=8)
        asked = len(fake.bodies)
        yield made
    assert len(fake.bodies) == asked, "nothing is asked after the run"


def forge(folder, kind, change):
    """Change the answers of a kind, and every digest with them."""
    lines = [json.loads(line) for line in (folder / ANSWERS_FILE).read_text().splitlines()]
    for line in lines:
        if line["kind"].startswith(kind):
            line["value"] = change(line["value"])
    text = "".join(
        json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines
    )
    (folder / ANSWERS_FILE).write_text(text)
    run = read_run(folder)
    write_run(
        folder, closed(run, read_episodes(folder), run.transcripts_sha256, file_sha256(folder / ANSWERS_FILE))
    )


def test_a_run_is_verified_from_what_was_recorded(folder):
    verdict = verify_run(folder)
    assert verdict.ok, verdict.problems
    assert verdict.earned == "re-run, answers recorded"
    kinds = {answer.kind.split()[0] for answer in read_answers(folder / ANSWERS_FILE)}
    assert kinds == {"opening", "partner", "judge"}
    assert verdict.answers.attested == len(read_answers(folder / ANSWERS_FILE))


def another_goal(value):
    return value | {"ratings": [[*side[:6], (side[6] + 1) % 11] for side in value["ratings"]]}


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("judge", another_goal),
        ("partner", lambda value: "speak[I never said that.]"),
        ("opening", lambda value: "speak[I never said that.]"),
    ],
    ids=["rating", "utterance", "opening"],
)
def test_a_changed_answer_fails(folder, kind, change):
    forge(folder, kind, change)
    assert not verify_run(folder).ok


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("judge", lambda value: {"ratings": [[0] * 6 + [11]] * 2}),
        ("partner", lambda value: "I never said that."),
    ],
    ids=["rating", "utterance"],
)
def test_a_changed_answer_that_none_gives_is_refused(folder, kind, change):
    forge(folder, kind, change)
    with pytest.raises(UsageError, match=r"a judge rates both sides|a partner answers with an action"):
        verify_run(folder)


def test_another_prompt_fails(folder, prompt):
    assert verify_run(folder).ok
    prompt.write_text(
        prompt.read_text().replace("You rate how two people did", "You rate how well two people did")
    )
    assert not verify_run(folder).ok


def test_the_key_is_nowhere(folder):
    files = [path for path in folder.parent.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"run.json", "episodes.jsonl", ANSWERS_FILE}
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    assert "SOTOPIA_TEST_KEY" in (folder / "run.json").read_text()
