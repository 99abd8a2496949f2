"""Best of k: of several responses, the one that a saved reward model rewards most is played."""

import json

import gymnasium
import pytest

import agentgym  # noqa: F401 (registers the environments)
from agentgym.cli import main
from agentgym.errors import UsageError
from agentgym.inference.models.language_model import save_model
from agentgym.inference.models.reward_model_file import REWARD_MODEL_FILE, read_reward_model
from agentgym.inference.policy.agent import make_model_agent, model_facts
from agentgym.inference.policy.recomputation import open_checker
from agentgym.inference.policy.saved import weights_sha256
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.training.config import TrainConfig, override
from agentgym.training.run import start

SETTINGS = {
    "model": "tiny:0.1m",
    "iterations": 1,
    "rollout.tasks": 4,
    "rollout.group_size": 4,
    "rollout.num_envs": 16,
    "evaluation.every": 0,
    "reward_model.learning_rate": 3e-3,
    "reward_model.outcome": "won",
    "env_options.max_optimal": 2,
    "env_options.max_steps": 5,
}
SOKOBAN = "agentgym/Sokoban-v0"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A checkpoint of each algorithm with a reward model."""
    folder = tmp_path_factory.mktemp("rerank")
    for algorithm in ("istar", "prime"):
        plain = TrainConfig(algorithm=algorithm, env_id=SOKOBAN)
        start(override(plain, SETTINGS), folder / algorithm, logs=[])
    return lambda algorithm: folder / algorithm / "checkpoints" / "last"


@pytest.fixture(scope="module")
def envs():
    return gymnasium.make_vec(
        SOKOBAN, num_envs=4, autoreset_mode="Disabled", max_optimal=2, max_steps=5, split="valid"
    )


def play(envs, folder, **options):
    agent = make_model_agent(envs, str(folder / "model"), temperature=1.0, **options)
    tasks = [EpisodeSpec(task.id, 7, 0) for task in envs.tasks[:4]]
    worker = RolloutWorker(envs, agent, env_id=SOKOBAN)
    return sorted(worker.run(tasks), key=lambda member: member.task_id)


def steps(played):
    return [step for member in played for step in member.steps]


def actions(played):
    return [step.action for step in steps(played)]


@pytest.mark.parametrize("algorithm", ["istar", "prime"])
def test_the_most_rewarded_candidate_is_played(checkpoint, envs, algorithm, monkeypatch):
    from agentgym.inference.policy.rerank import ResponseReward

    seen = []
    rewards = ResponseReward.rewards

    def watched(self, rows):
        result = rewards(self, rows)
        seen.append((rows, result))
        return result

    monkeypatch.setattr(ResponseReward, "rewards", watched)
    folder = checkpoint(algorithm)
    best = play(envs, folder, rerank=str(folder / "reward_model"), candidates=3)
    tokens = sum(len(row.response_ids) for rows, _ in seen for row in rows)
    assert sum(step.completion.completion_tokens for step in steps(best)) == tokens
    prompts = sum(len(row.prompt_ids) for rows, _ in seen for row in rows)
    assert sum(step.completion.prompt_tokens for step in steps(best)) == prompts
    assert {step.completion.response_ids for step in steps(best)} == {()}
    assert any(result.max() > result.min() + 1e-4 for _, result in seen)
    assert actions(best) == actions(play(envs, folder, rerank=str(folder / "reward_model"), candidates=3))


def test_one_candidate_is_the_policy_alone(checkpoint, envs):
    folder = checkpoint("istar")
    alone = play(envs, folder)
    single = play(envs, folder, rerank=str(folder / "reward_model"), candidates=1)
    assert actions(single) == actions(alone)
    assert [step.completion.response_ids for step in steps(single)] == [
        step.completion.response_ids for step in steps(alone)
    ]


def test_the_specification_records_both_models(checkpoint, tmp_path):
    folder = checkpoint("istar")
    plain = model_facts(str(folder / "model"))
    facts = model_facts(str(folder / "model"), rerank=str(folder / "reward_model"))
    digest = weights_sha256(folder / "reward_model")
    assert facts.model == plain.model
    assert facts.model.weights_sha256 == weights_sha256(folder / "model") != digest
    added = {"rerank": {"candidates": 4, "reward_model_sha256": digest}}
    assert facts.sampling == {**plain.sampling, **added}
    assert "rerank" not in plain.sampling


def test_the_command_line_benches_the_best_of_k(checkpoint, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def cli(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    folder = checkpoint("istar")
    words = [
        "bench",
        "demo",
        "--model",
        folder / "model",
        "--limit",
        2,
        "--out",
        "results",
        "--agent",
        "istar-reranked",
        "--no-baselines",
    ]
    code, _, err = cli(*words, "--rerank", folder / "reward_model", "--option", "temperature=0.7", "--verify")
    assert code == 0, err
    (run,) = (tmp_path / "results").glob("**/run.json")
    agent = json.loads(run.read_text())["agent"]
    assert agent["sampling"]["rerank"]["reward_model_sha256"] == weights_sha256(folder / "reward_model")
    assert agent["name"].endswith("-reranked")
    for more, message in (
        (["--candidates", 2], "name its folder with --rerank"),
        (["--rerank", folder / "model"], "holds no reward_model.json"),
    ):
        code, _, err = cli(*words, *more)
        assert (code, message in err, len(err.splitlines())) == (2, True, 1), err


def test_what_cannot_be_reranked_is_one_line(checkpoint, envs, tmp_path, language_model):
    folder = checkpoint("istar")
    model, rerank = str(folder / "model"), str(folder / "reward_model")
    for options, message in (
        ({"rerank": rerank, "temperature": 0.0}, "at temperature 0 all candidates are the same"),
        ({"rerank": rerank, "candidates": 0}, "candidates must be at least 1"),
        ({"rerank": rerank, "candidates": "two"}, "candidates is a whole number"),
        ({"candidates": 2}, "name its folder with rerank"),
        ({"rerank": str(tmp_path)}, "name the reward_model folder in a checkpoint"),
    ):
        with pytest.raises(UsageError, match=message) as raised:
            make_model_agent(envs, model, **options)
        assert "\n" not in str(raised.value)
    with pytest.raises(UsageError, match="cannot be recomputed"):
        open_checker(envs, path=model, rerank=rerank)
    save_model(tmp_path / "other", language_model)
    record = (folder / "reward_model" / REWARD_MODEL_FILE).read_text()
    (tmp_path / "other" / REWARD_MODEL_FILE).write_text(record)
    with pytest.raises(UsageError, match="another tokenizer than the policy"):
        make_model_agent(envs, model, rerank=str(tmp_path / "other"))


def test_a_damaged_file_is_refused(tmp_path):
    good = {"compared_with": "policy", "beta": 0.05, "temperature": 1.0, "schema": 1}
    for change, message in (
        ({"schema": 2}, "schema 2 is not 1"),
        ({"beta": 0.0}, "beta must be positive"),
        ({"temperature": -1.0}, "temperature must be positive"),
        ({"temperature": 1e999}, "Infinity is not a number"),
        ({"compared_with": "nobody"}, "compared_with"),
    ):
        (tmp_path / REWARD_MODEL_FILE).write_text(json.dumps({**good, **change}))
        with pytest.raises(UsageError, match=message):
            read_reward_model(tmp_path)
