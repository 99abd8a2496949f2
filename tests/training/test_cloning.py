import json
import math
from contextlib import closing
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import agentgym  # noqa: F401 (registers the environments)
from agentgym.agents.random import RandomPolicy
from agentgym.core.types import Completion
from agentgym.errors import UsageError
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.models.language_model import load_model, open_directory, save_model
from agentgym.inference.models.lora import has_adapter
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from agentgym.inference.policy.open import open_model, vocabulary_texts
from agentgym.inference.policy.prompted import make_policy, make_speller
from agentgym.inference.policy.saved import read_agent
from agentgym.prompts.settings import Prompting
from agentgym.registration import open_vector, suite_spec
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.cloning.clone import clone, examine
from agentgym.training.cloning.config import CloningConfig
from agentgym.training.cloning.dagger import correct
from agentgym.training.cloning.demonstrations import Demonstrator, demonstrate, demonstrator
from agentgym.training.cloning.supervised import Fit, open_learner
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.update import DivergenceError
from tests.training.batches import all_log_probs

EZPOINTS = "agentgym/EZPoints-v0"
TINY = Prompting.tiny(suite_spec(EZPOINTS).prompt)
FREE = Prompting(wording="terse", answer="think-action", max_tokens=60)


def make(**options):
    return gymnasium.make_vec(EZPOINTS, num_envs=8, autoreset_mode="Disabled", **options)


def fit(player, rows, config):
    """Train a model in place; yield each epoch when it is over."""
    fitting = Fit(open_learner(player, config, Ranks()), rows, config)
    while not fitting.done:
        yield fitting.step()


def test_what_is_fitted_is_read_from_the_models_files(tmp_path):
    model = tiny_model("0.1m", word_tokenizer(["Go up."]))
    save_model(tmp_path, model)
    opened = open_directory(tmp_path)
    assert opened.weights is not None
    learned = dict(open_learner(opened, CloningConfig(env_id=EZPOINTS), Ranks()).weights())
    expected = model.model.state_dict()
    assert learned.keys() <= expected.keys()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in learned.items())


@pytest.fixture(scope="module")
def envs():
    return make()


@pytest.fixture
def player(envs):
    return open_model("tiny:0.1m", vocabulary_texts("tiny:0.1m", [(envs, TINY)]), TINY, 0)


@pytest.mark.parametrize("prompting", [TINY, FREE], ids=["constrained", "free"])
def test_a_demonstration_is_what_the_policy_would_have_said(envs, player, prompting):
    speller = make_speller(prompting, player)
    writer = Demonstrator(envs.oracle(), prompting.builder(player.chat), player, speller)
    groups = RolloutWorker(envs, writer, env_id="").collect(envs.tasks.ids[:3], group_size=1, seed=0)
    policy = make_policy(prompting, player, HfEngine(player.model), envs)
    asked = []
    policy.act = lambda requests, act=policy.act: asked.extend(act(requests)) or envs.oracle().act(requests)
    RolloutWorker(envs, policy, env_id="").collect(envs.tasks.ids[:3], group_size=1, seed=0)
    steps = [step for group in groups for step in group.trajectories[0].steps]
    assert {step.completion.prompt_ids for step in steps} == {said.prompt_ids for said in asked}
    builder = prompting.builder(player.chat)
    for step in steps:
        ids = step.completion.response_ids
        if speller is None:
            assert ids[-1] in player.stop_ids
            assert builder.template.answer.parse(player.chat.decode(ids[:-1])).action == step.action
        else:
            assert speller.trie(step.admissible_actions).action(ids) == step.action


def test_only_what_is_won_is_learned_from():
    sokoban = gymnasium.make_vec(
        "agentgym/Sokoban-v0", num_envs=4, autoreset_mode="Disabled", max_steps=5
    )  # some tasks take the oracle longer
    player = open_model("tiny:0.1m", vocabulary_texts("tiny:0.1m", [(sokoban, TINY)]), TINY, 0)
    shown = demonstrate(sokoban, player, TINY, tasks=12, seed=0)
    assert 0 < shown.episodes < shown.played == 12
    assert shown.episodes <= len(shown.rows) <= 5 * shown.episodes
    with pytest.raises(UsageError, match=r"the oracle wins none of 12 tasks.*raise max_steps"):
        demonstrate(make(max_steps=1), player, TINY, tasks=12, seed=0)


def test_an_expert_that_gives_up_is_left_alone(envs, player):
    class Silent:
        def act(self, requests):
            return [Completion("", error="agent_error") for _ in requests]

    writer = Demonstrator(Silent(), TINY.builder(player.chat), player, make_speller(TINY, player))
    (group,) = RolloutWorker(envs, writer, env_id="").collect(envs.tasks.ids[:1], group_size=1, seed=0)
    assert group.trajectories[0].end_reason == "agent_error"


@pytest.mark.parametrize("prompting", [TINY, FREE], ids=["constrained", "free"])
def test_the_loss_is_the_likelihood_of_an_answer_and_falls(envs, prompting):
    player = open_model("tiny:0.1m", vocabulary_texts("tiny:0.1m", [(envs, prompting)]), prompting, 0)
    rows = demonstrate(envs, player, prompting, tasks=4, seed=0).rows
    config = CloningConfig(env_id=EZPOINTS, epochs=4, batch=len(rows), learning_rate=3e-3)

    def likelihood():
        return -all_log_probs(player.model, rows, token_budget=512).sum() / len(rows)

    before = likelihood()
    epochs = list(fit(player, rows, config))
    assert epochs[0].loss == pytest.approx(before, rel=1e-5)
    assert likelihood() < epochs[-1].loss < 0.9 * before
    assert [metrics.updates for metrics in epochs] == [1, 2, 3, 4]
    rates = [metrics.learning_rate for metrics in epochs]
    assert rates[0] == 3e-3
    assert rates == sorted(rates, reverse=True)


def test_how_a_batch_is_packed_changes_nothing(envs):
    weights = []
    for budget in (1, 100_000):
        player = open_model("tiny:0.1m", vocabulary_texts("tiny:0.1m", [(envs, TINY)]), TINY, 0)
        rows = demonstrate(envs, player, TINY, tasks=3, seed=0).rows
        config = CloningConfig(env_id=EZPOINTS, epochs=2, batch=8, learning_rate=1e-4, token_budget=budget)
        list(fit(player, rows, config))
        weights.append(np.concatenate([w.detach().numpy().ravel() for w in player.model.parameters()]))
    np.testing.assert_allclose(weights[0], weights[1], atol=2e-5)


def test_a_loss_that_is_no_number_takes_no_step(envs, player):
    rows = demonstrate(envs, player, TINY, tasks=2, seed=0).rows
    epochs = fit(player, rows, CloningConfig(env_id=EZPOINTS))
    next(epochs)
    with torch.no_grad():
        player.model.lm_head.weight[0, 0] = torch.nan
    weights = [weight.clone() for weight in player.model.parameters()]
    with pytest.raises(DivergenceError, match="is nan, so no step was taken: lower the learning rate"):
        next(epochs)
    pairs = zip(weights, player.model.parameters(), strict=True)
    assert all(torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in pairs)


def test_the_oracle_s_own_clone_agrees_with_it(envs, player, monkeypatch):
    monkeypatch.setattr("agentgym.training.cloning.clone.make_policy", lambda *_: envs.oracle())
    held_out = examine(envs, player, TINY, tasks=5, seed=0)
    assert (held_out.agreement, held_out.play.success, held_out.play.episodes) == (1.0, 1.0, 5)


def test_a_run_is_repeated_by_its_seed_and_leaves_a_whole_policy(tmp_path):
    config = CloningConfig(
        env_id=EZPOINTS, model="tiny:0.1m", tasks=8, epochs=3, batch=16, num_envs=8, held_out=4
    )
    seen = []
    first = clone(config, tmp_path / "one", report=seen.append)
    again = clone(config, tmp_path / "two")
    other = clone(replace(config, seed=1), tmp_path / "three")
    assert (first.epochs, first.held_out) == (again.epochs, again.held_out)
    assert first.epochs != other.epochs
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    for name in {*names} - {"agent.json"}:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    lines = (tmp_path / "one" / "epochs.jsonl").read_text().splitlines()
    assert [json.loads(line)["loss"] for line in lines] == [metrics.loss for metrics in seen]
    assert tuple(seen) == first.epochs
    saved = read_agent(tmp_path / "one")
    assert saved.prompting == TINY
    assert (saved.training.algorithm, saved.training.run, saved.training.iterations) == ("bc", "one", 3)
    assert saved.training.tokens == 3 * first.demonstrations.tokens
    summary = json.loads((tmp_path / "one" / "cloning.json").read_text())
    assert summary["held_out"]["play"]["success"] == first.held_out.play.success
    assert summary["config"]["seed"] == 0
    player = load_model(tmp_path / "one")
    assert examine(make(split="valid"), player, TINY, tasks=4, seed=0) == first.held_out
    with pytest.raises(UsageError, match="one is in use: choose another folder"):
        clone(config, tmp_path / "one")


def test_a_run_computes_on_its_device_and_in_its_type(tmp_path, monkeypatch):
    small = {"env_id": EZPOINTS, "model": "tiny:0.1m", "tasks": 2, "epochs": 1, "num_envs": 2}
    config = CloningConfig(**small, held_out=1, dtype="bfloat16")
    (tmp_path / "half").touch()
    with pytest.raises(UsageError, match="half is in use: choose another folder"):
        clone(config, tmp_path / "half")
    (tmp_path / "half").unlink()
    (tmp_path / "half").mkdir()  # an empty folder is not
    cloned = clone(config, tmp_path / "half")
    weights = load_file(tmp_path / "half" / "model.safetensors").values()
    assert {weight.dtype for weight in weights} == {torch.float32}  # as they are trained
    assert cloned.held_out.play.episodes == 1
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="no CUDA device here"):
            clone(CloningConfig(**small, device="cuda"), tmp_path / "gpu")
    asked = {}
    monkeypatch.setattr(
        "agentgym.training.cloning.clone.open_model", lambda *_, **given: asked.update(given) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        clone(config, tmp_path / "elsewhere", ranks=Ranks(device=torch.device("cuda", 1)))
    assert asked["device"] == "cuda:1"


def test_an_adapter_is_trained_and_added_to_what_plays_and_is_saved(tmp_path):
    small = {"env_id": EZPOINTS, "model": "tiny:0.1m", "tasks": 6, "num_envs": 4, "held_out": 4}
    config = CloningConfig(**small, epochs=3, batch=8, lora_rank=4, learning_rate=3e-2)
    cloned = clone(config, tmp_path / "run")
    assert cloned.epochs[-1].loss < 0.8 * cloned.epochs[0].loss
    player = load_model(tmp_path / "run")
    assert not has_adapter(player.model)
    assert examine(make(split="valid"), player, TINY, tasks=4, seed=0) == cloned.held_out
    texts = vocabulary_texts("tiny:0.1m", [(make(), TINY)])
    begun = open_model("tiny:0.1m", texts, TINY, 0).model.state_dict()
    moved = {name for name, one in player.model.state_dict().items() if not torch.equal(one, begun[name])}
    assert moved
    assert all("_proj" in name for name in moved)


def test_what_was_learned_before_an_interrupt_is_saved(tmp_path):
    def interrupt(metrics):
        raise KeyboardInterrupt

    config = CloningConfig(env_id=EZPOINTS, model="tiny:0.1m", tasks=4, num_envs=4, held_out=0)
    with pytest.raises(KeyboardInterrupt):
        clone(config, tmp_path / "run", report=interrupt)
    assert read_agent(tmp_path / "run").training.iterations == 1
    assert load_model(tmp_path / "run").model.config.model_type == "qwen2"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": 0}, "tasks must be a whole number of at least 1, got 0"),
        ({"held_out": -1}, "held_out must be a whole number of at least 0"),
        ({"learning_rate": 0.0}, "learning_rate must be a number above 0"),
        ({"max_grad_norm": math.inf}, "max_grad_norm must be a number above 0"),
        ({"weight_decay": math.nan}, "weight_decay must be a number of at least 0"),
        ({"beta2": 1.0}, "beta2 must be a number above 0 and below 1"),
        ({"teacher": "rule"}, "unknown teacher 'rule' .did you mean 'rules'.*choose one of oracle, rules"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(UsageError, match=message):
        CloningConfig(env_id=EZPOINTS, **settings)


ROUNDS = CloningConfig(
    env_id=EZPOINTS,
    also=({"max_steps": 4},),
    shuffled=True,
    model="tiny:0.1m",
    tasks=2,
    epochs=2,
    rounds=1,
    round_tasks=1,
    batch=8,
    num_envs=2,
    held_out=0,
)


@pytest.fixture(scope="module")
def corrected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rounds") / "whole"
    return folder, clone(ROUNDS, folder)


def test_a_round_adds_what_the_teacher_would_have_done(corrected):
    folder, cloned = corrected
    assert [metrics.epoch for metrics in cloned.epochs] == [1, 2, 1]
    assert cloned.demonstrations.played == 4
    assert cloned.epochs[2].updates > cloned.epochs[0].updates  # of more rows
    assert read_agent(folder).training.iterations == 3
    assert not (folder / "unfinished.pt").exists()


@pytest.mark.parametrize("stop", [1, 3])
def test_an_interrupted_run_goes_on_as_if_it_had_not_been(corrected, tmp_path, stop):
    folder, cloned = corrected
    done = []

    def interrupt(metrics):
        done.append(metrics)
        if len(done) == stop:
            raise KeyboardInterrupt

    half = tmp_path / "half"
    with pytest.raises(UsageError, match="half holds no interrupted run: leave out --resume"):
        clone(ROUNDS, half, resume=True)
    with pytest.raises(KeyboardInterrupt):
        clone(ROUNDS, half, report=interrupt)
    with pytest.raises(UsageError, match="in use: choose another folder, or resume"):
        clone(ROUNDS, half)
    with pytest.raises(UsageError, match="other settings"):
        clone(replace(ROUNDS, batch=4), half, resume=True)
    again = clone(ROUNDS, half, resume=True)
    assert again.epochs == cloned.epochs
    for name in ("model.safetensors", "epochs.jsonl", "cloning.json"):
        assert (half / name).read_bytes() == (folder / name).read_bytes()


def test_corrections_are_of_the_pupil_s_own_steps(envs, player):
    teacher = demonstrator(envs, player, TINY, "oracle")
    corrections = correct(envs, RandomPolicy(), teacher, envs.tasks.ids[:4], seed=0)
    assert corrections.played == 4
    assert 0 < corrections.agreed < len(corrections.rows)
    assert all(row.choices is not None for row in corrections.rows)
    shown = demonstrate(envs, player, TINY, tasks=envs.tasks.ids[:4], seed=0)
    assert {row.prompt_ids for row in corrections.rows} - {row.prompt_ids for row in shown.rows}


def test_the_rule_based_agent_is_a_teacher_too():
    with closing(open_vector("agentgym/ALFWorld-v0", 1, split="train", options={})) as worlds:
        texts = [str(worlds.prototype.reset(seed=0)[0])]
        player = tiny_model("0.1m", word_tokenizer(texts, numbers=20))
        prompting = Prompting(wording="alfworld-memory-terse", answer="bare", choice="constrained")
        shown = demonstrate(worlds, player, prompting, tasks=1, seed=0, teacher="rules")
    assert shown.episodes == 1
    first = player.chat.decode(shown.rows[0].prompt_ids)
    assert "seen: none" in first
    assert "held: none" in first
