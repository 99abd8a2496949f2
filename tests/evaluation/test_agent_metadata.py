"""Agents made of saved models: what a suite says about them is true, and their runs are like any other's."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import pytest

from agentgym.agents.language.settings import WINDOW
from agentgym.agents.metadata import Model
from agentgym.cli.bench_agents import words_of_tiny_models
from agentgym.errors import UsageError
from agentgym.evaluation.log.results import RUN_FILE
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.agent_metadata import complete, contradictions, options_as_played, with_facts
from agentgym.evaluation.suites.suite import SuiteAgent, load_suite
from agentgym.evaluation.verify.verification import verify_run
from agentgym.inference.models.language_model import save_model
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from agentgym.inference.policy.saved import SavedAgent, Training, weights_sha256
from agentgym.prompts.settings import Prompting
from tests.evaluation.corridor import ENV_ID
from tests.evaluation.making import board_below, write_complete
from tests.saved_agents import save_agent

TOKENIZER = word_tokenizer(["left right", "You are at cell"])
PROMPTING = Prompting(wording="terse", answer="bare", history=1, choice="constrained")


def save(path: Path, seed: int = 0) -> Path:
    training = Training(
        env_id=ENV_ID,
        algorithm="grpo",
        base_model="tiny:0.1m",
        seed=seed,
        run="corridor-grpo",
        iterations=3,
        episodes=24,
        tokens=100 + seed,
    )
    made = tiny_model("0.1m", TOKENIZER, context=2600, seed=seed)
    save_agent(path, made, SavedAgent(PROMPTING, training))
    return path


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("saved") / "model")


def agent(path: Path, **said: object) -> SuiteAgent:
    options = {"path": str(path)}
    return replace(SuiteAgent("tiny", "model", options), **said)  # type: ignore[arg-type]


def test_a_conversation_from_before_it_had_a_window_is_derived_as_it_was_played() -> None:
    plain = SuiteAgent("asked", "react", {"endpoint": "http://localhost:1/v1", "model": "m"})
    assert with_facts(plain).sampling["history"] == WINDOW
    earlier = replace(with_facts(plain), sampling={**with_facts(plain).sampling, "history": "all"})
    assert complete(earlier).identity == earlier.identity
    assert options_as_played(earlier) == {"history": "all", **plain.options}


def test_what_a_suite_leaves_open_is_filled_in(saved: Path) -> None:
    full = complete(agent(saved, model=Model(algorithm="grpo")))
    assert full.model == Model(
        algorithm="grpo",
        base_model="tiny:0.1m",
        weights_sha256=weights_sha256(saved),
        training_run="corridor-grpo",
        training_seed=0,
        training_episodes=24,
        training_tokens=100,
    )
    assert full.prompt_sha256 == PROMPTING.template.sha256
    assert full.parser == "plain"
    assert full.sampling["temperature"] == 1.0
    assert full.sampling["choice"] == "constrained"
    assert complete(full) == full
    cool = complete(agent(saved, options={"path": str(saved), "temperature": 0}))
    assert cool.sampling == {**full.sampling, "temperature": 0.0}
    assert complete(SuiteAgent("r", "random")) == SuiteAgent("r", "random")
    assert not {"system", "template_options"} & full.sampling.keys()
    brief = complete(agent(saved, options={"path": str(saved), "system": "Be brief."}))
    assert brief.sampling == {**full.sampling, "system": "Be brief."}
    assert brief.prompt_sha256 != full.prompt_sha256


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"model": Model(weights_sha256="0" * 64)}, "weights_sha256 is '0000"),
        ({"model": Model(training_seed=1)}, "training_seed is 1 in the suite, but 0 by its files"),
        ({"prompt_sha256": "0" * 64}, "prompt_sha256 is '0000"),
        ({"parser": "think-action"}, "parser is 'think-action' in the suite, but 'plain' by its files"),
        ({"sampling": {"temperature": 0.4}}, r"sampling\.temperature is 0\.4 in the suite, but 1\.0 by its"),
        ({"options": {"path": "nowhere"}}, "the model directory nowhere does not exist"),
        ({"options": {"path": 3}}, "option path must be a string, got 3"),
        ({"options": {"path": "x", "temperatur": 3}}, r"no option 'temperatur' \(did you mean 'temperature'"),
        ({"options": {}}, "agent 'model' needs the option 'path'"),
    ],
)
def test_what_is_not_true_is_refused(saved: Path, said: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        complete(agent(saved, **said))


def test_a_directory_that_says_nothing_takes_its_prompts_from_the_suite(tmp_path: Path) -> None:
    save_model(tmp_path, tiny_model("0.1m", TOKENIZER))
    with pytest.raises(UsageError, match=r"no agent\.json.*give the agent's option 'wording', for example"):
        complete(agent(tmp_path))
    options = {"path": str(tmp_path), "wording": "terse", "answer": "plain", "history": 0}
    full = complete(agent(tmp_path, options=options, model=Model(base_model="of mine", training_episodes=7)))
    assert full.model == Model(
        base_model="of mine", training_episodes=7, weights_sha256=weights_sha256(tmp_path)
    )
    assert full.sampling["history"] == 0
    assert full.sampling["choice"] == "free"
    with pytest.raises(UsageError, match="option history must be a whole number or None, got '0'"):
        complete(agent(tmp_path, options={**options, "history": "0"}))


def test_a_suite_without_words_contradicts_nothing(saved: Path) -> None:
    full = complete(agent(saved))
    assert list(contradictions(agent(saved), full)) == []
    other = replace(full, model=replace(full.model, checkpoint="best-of-9"), sampling={"temperature": 0.0})
    assert {name for name, *_ in contradictions(full, other)} >= {"sampling.choice", "sampling.temperature"}
    assert [name for name, *_ in contradictions(agent(saved, model=Model(checkpoint="9")), full)] == [
        "checkpoint"
    ]


@pytest.fixture
def bench(suite_file: Path, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a suite with a saved model, under a relative path; return the suite."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(saved, tmp_path / "models" / "tiny")
    table = '\n[[agent]]\nname = "tiny"\nkind = "model"\noptions = { path = "models/tiny" }\n'
    suite_file.write_text(suite_file.read_text() + table)
    return suite_file


def test_a_saved_model_plays_a_suite_and_its_run_can_be_replayed(
    bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder,) = run_bench(bench, tmp_path / "results", agents=["tiny"])
    run = read_run(folder)
    assert folder.name.startswith("tiny-seed0-")
    assert run.agent == complete(agent(Path("models/tiny")))
    assert len({episode.actions for episode in read_episodes(folder)}) > 5
    assert verify_run(folder, rerun=True).badge == "re-run"
    (again,) = run_bench(bench, tmp_path / "results", agents=["tiny"])
    assert again == folder
    shutil.move(tmp_path / "models" / "tiny", tmp_path / "models" / "gone")
    assert verify_run(folder).badge == "replayed"  # which needs no model
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UsageError, match="there is no directory models/tiny here"):
        verify_run(folder, rerun=True)


def test_a_name_that_ends_with_the_training_seed_has_it_once() -> None:
    names = ("tiny", "tiny-seed5", "tiny-seed50")
    shown = [SuiteAgent(name, "model", model=Model(training_seed=5)).display_name for name in names]
    assert shown == ["tiny-seed5", "tiny-seed5", "tiny-seed50-seed5"]
    assert SuiteAgent("tiny-seed5", "model").display_name == "tiny-seed5"


def test_other_weights_in_the_same_place_are_another_agent(bench: Path, tmp_path: Path) -> None:
    (folder,) = run_bench(bench, tmp_path / "results", agents=["tiny"])
    shutil.rmtree(tmp_path / "models" / "tiny")
    save(tmp_path / "models" / "tiny", seed=5)
    with pytest.raises(UsageError, match=r"weights_sha256 is '.*' in the suite, but '.*' by its files"):
        verify_run(folder, rerun=True)
    (other,) = run_bench(bench, tmp_path / "results", agents=["tiny"])
    assert other.name.startswith("tiny-seed5-")
    assert read_episodes(other) != read_episodes(folder)


def test_the_place_of_the_weights_is_no_part_of_a_run(bench: Path, tmp_path: Path, saved: Path) -> None:
    (folder,) = run_bench(bench, tmp_path / "results", agents=["tiny"])
    elsewhere = complete(agent(saved))
    assert elsewhere.identity == read_run(folder).agent.identity
    table = json.loads((folder / RUN_FILE).read_text())
    table["agent"]["options"]["path"] = "/any/where"
    (folder / RUN_FILE).write_text(json.dumps(table))
    assert {problem.kind for problem in verify_run(folder).problems} == {"record"}
    write_complete(folder, read_run(folder), read_episodes(folder))
    assert verify_run(folder).ok
    table["agent"]["options"]["temperature"] = 0.5
    (folder / RUN_FILE).write_text(json.dumps(table))
    assert {problem.kind for problem in verify_run(folder).problems} == {"agent", "request", "record"}


def test_a_record_that_says_otherwise_than_the_suite_is_a_problem(bench: Path, tmp_path: Path) -> None:
    (folder,) = run_bench(bench, tmp_path / "results", agents=["tiny"])
    suite = bench.read_text()
    bench.write_text(suite + f'[agent.model]\nweights_sha256 = "{"0" * 64}"\n')
    (problem,) = verify_run(folder).problems
    assert str(problem).startswith("agent: tiny: weights_sha256 is ")
    bench.write_text(suite + "[agent.model]\ntraining_seed = 4\n")  # another agent of that name
    assert verify_run(folder).ok


def test_models_the_suite_does_not_name_may_play_too(bench: Path, tmp_path: Path) -> None:
    further = [
        SuiteAgent("mine", "model", options={"path": str(save(tmp_path / str(seed), seed))})
        for seed in (1, 2)
    ]
    folders = run_bench(bench, tmp_path / "results", agents=["mine", "random", "oracle"], further=further)
    names = sorted(folder.name.rpartition("-")[0] for folder in folders)
    assert names == ["mine-seed1", "mine-seed2", "oracle", "random"]
    board = board_below(tmp_path / "results")
    assert {row.name: row.seeds for row in board.rows} == {"mine": 2, "oracle": 0, "random": 0}
    with pytest.raises(UsageError, match="two agents are named 'mine-seed1'"):
        run_bench(bench, tmp_path / "results", agents=["mine"], further=[further[0], further[0]])
    with pytest.raises(UsageError, match="agent name 'a/b' must be letters"):
        run_bench(bench, tmp_path / "results", further=[replace(further[0], name="a/b")])


def test_the_suite_itself_stays_as_it_was(bench: Path) -> None:
    assert load_suite(bench).agent[-1].model == Model()


def test_a_tiny_model_is_said_to_know_the_words_of_its_own_environment_only(saved: Path) -> None:
    (line,) = words_of_tiny_models([agent(saved)], [ENV_ID, "agentgym/WebShop-v0"])
    assert line.startswith(f"tiny was trained from random weights on {ENV_ID} and knows its words only")
    assert not list(words_of_tiny_models([agent(saved), SuiteAgent("rules", "rules")], [ENV_ID]))
