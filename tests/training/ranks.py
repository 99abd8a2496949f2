"""What several ranks train, and one: `python -m torch.distributed.run -m tests.training.ranks FOLDER`."""

import copy
import dataclasses
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from agentgym.errors import UsageError
from agentgym.inference.models.language_model import load_model, open_directory
from agentgym.inference.models.weights import WeightFiles
from agentgym.training.cloning.clone import clone
from agentgym.training.cloning.config import CloningConfig
from agentgym.training.config import TrainConfig, override
from agentgym.training.learner.config import LearnerConfig, RewardModelConfig
from agentgym.training.learner.critic import Critic
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.packing import StepRow
from agentgym.training.learner.reward_model import Answers, RewardModel
from agentgym.training.learner.update import DivergenceError, Learner
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.setup import TrainingSetup
from agentgym.training.stages.reward_model import OutcomeModelScorer, PreferenceScorer
from agentgym.training.track.checkpoint import check_shared, save_checkpoint
from tests.training.batches import OBJECTIVES, some_batch, some_rows, weights_of

RUNS = {
    "critic of tokens": ("token", "token", {"max_grad_norm": 0.5, "importance_cap": 1.1}),
    "critic of steps": ("step", "step", {"gradient_checkpointing": True, "entropy_coefficient": 0.01}),
    "adapter": ("response", None, {"lora_rank": 4, "gradient_checkpointing": True}),
    # a row a pack and two a mini-batch, whatever the number of ranks: in bfloat16 other packs round otherwise
    "bfloat16": (
        "response",
        "step",
        {"dtype": "bfloat16", "lora_rank": 4, "token_budget": 1, "minibatches": 6},
    ),
    "offloaded": ("token", None, {"offload": True}),
    "fewer packs than ranks": ("sequence", None, {"token_budget": 1000, "minibatches": 1}),
}
"""By name: the objective, what a critic values, and settings."""

REWARD_MODELS = ("pairs", "outcomes")
"""What reward models are trained on."""

LOOPS = ("istar", "grpo", "g2po", "sampo", "mixed")
"""Algorithms that whole iterations are compared of, GRPO's of a model that reads pictures; and a run of two
environments."""


def updates(name):
    """Return how many updates of a run are compared: of the cheapest five."""
    return 5 if name == "critic of tokens" else 2


def model_of(folder, ranks):
    """Return the model; of several ranks, each has to read its own part of the weights."""
    return (open_directory if ranks.size > 1 else load_model)(folder / "model")


def learner_of(name, folder, ranks):
    objective, valued, settings = RUNS[name]
    opened = model_of(folder, ranks)
    model = opened.model
    critic = None if valued is None else Critic(model, valued)
    given = {"learning_rate": 3e-4, "critic_learning_rate": 3e-4, "token_budget": 40, "minibatches": 2}
    config = LearnerConfig(**given | settings)
    return Learner(model, OBJECTIVES[objective], config, critic=critic, ranks=ranks, weights=opened.weights)


def batch_of(name, folder):
    """Return rows and a batch; the first response is longer than all others together."""
    model, rows = load_model(folder / "model").model, some_rows()
    rows[0] = dataclasses.replace(rows[0], response_ids=tuple(range(60)))
    batch = some_batch(model, rows, valued=RUNS[name][1] or "step")
    sampled = batch.old_log_probs + 0.2 * np.cos(np.arange(len(batch.old_log_probs)))
    return rows, dataclasses.replace(batch, rollout_log_probs=sampled)


def train(name, folder, ranks):
    """Return everything that ranks have to agree on with one process."""
    learner = learner_of(name, folder, ranks)
    rows, batch = batch_of(name, folder)
    metrics = [dataclasses.asdict(learner.update(rows, batch, seed=seed)) for seed in range(updates(name))]
    result = {
        "metrics": metrics,
        "weights": {key: tensor.clone() for key, tensor in learner.weights()},
        "log_probs": torch.from_numpy(learner.log_probs(rows)),
        "state": copy.deepcopy(learner.state_dict()),
    }
    if learner.reference is not None or learner.config.lora_rank is not None:
        result["ref_log_probs"] = torch.from_numpy(learner.ref_log_probs(rows))
    if learner.critic is not None:
        result["values"] = torch.from_numpy(learner.values(rows))
        result["values of steps"] = torch.from_numpy(learner.values(rows, "step"))
    return result


def diverge(name, folder, ranks):
    """Return a learner's weights before and after a step that is not taken, and after one that is."""
    learner = learner_of(name, folder, ranks)
    rows, batch = batch_of(name, folder)
    learner.update(rows, batch, seed=0)
    broken = batch.advantages.copy()
    broken[3] = np.nan
    seen = []

    def look():
        seen.append(torch.cat([tensor.flatten() for _, tensor in learner.weights()]))

    look()
    with pytest.raises(DivergenceError, match="no step was taken"):
        learner.update(rows, dataclasses.replace(batch, advantages=broken), seed=0)
    look()
    learner.update(rows, batch, seed=0)
    look()
    return seen


def fit(kind, folder, ranks):
    """Return what a reward model has after two updates on two groups of steps that lie in several packs."""
    opened = model_of(folder, ranks)
    learner = LearnerConfig(token_budget=30)
    settings = RewardModelConfig(learning_rate=3e-4, beta=0.5, minibatches=2)
    trained = RewardModel(
        opened.model, settings, learner, reference=kind == "outcomes", ranks=ranks, weights=opened.weights
    )
    rows = some_rows()
    sampled = np.sin(np.arange(sum(len(row.response_ids) for row in rows))) - 4.0
    answer = np.array([0, 0, 1, 2, 2, 2, 3, 4, 4, 5, 5])
    outcome, group = np.array([1.0, 0, 1, 0, 1, 0])[answer], np.array([0, 0, 0, 1, 1, 1])[answer]
    compared = sampled
    if kind == "outcomes":  # not quite the reference's: of scores of 0 the sign of rounding would be compared
        compared = trained.ref_log_probs(rows) + 0.1 * np.cos(np.arange(len(sampled)))
    answers = Answers(rows, compared, answer, outcome, group)
    scorer = OutcomeModelScorer if kind == "outcomes" else PreferenceScorer
    metrics = [trained.fit(answers, partial(scorer.loss, None), seed=seed) for seed in range(2)]
    trained.save(folder / f"{kind} saved by {ranks.size}", load_model(folder / "model").tokenizer)
    return {
        "metrics": metrics,
        "weights": {key: tensor.clone() for key, tensor in trained.weights()},
        "log_probs": torch.from_numpy(trained.log_probs(rows)),
        "state": copy.deepcopy(trained.state_dict()),
    }


def iterate(algorithm, folder, ranks):
    """Return the weights of a policy, and of its reward model if it has one, after two iterations."""
    seen = algorithm == "grpo"
    env_id, model = ("VisualSokoban-v0", "tiny-vl:0.1m") if seen else ("Sokoban-v0", "tiny:0.1m")
    mixed = algorithm == "mixed"
    plain = TrainConfig(algorithm="grpo" if mixed else algorithm, env_id=f"agentgym/{env_id}", model=model)
    given = {"tasks": 4, "group_size": 4, "num_envs": 16}
    settings = {f"rollout.{name}": number for name, number in given.items()}
    settings |= {f"learner.{name}learning_rate": 1e-3 for name in ("", "critic_")}
    settings |= {"env_options.max_optimal": 2, "env_options.max_steps": 5, "evaluation.every": 0}
    settings["learner.epsilon"] = 1e-6  # AdamW's steps along gradients that are but rounding stay small
    if algorithm == "istar":
        settings |= {"reward_model.learning_rate": 1e-3, "algorithm_options.prm_reward": "after"}
    if mixed:
        settings["mix"] = [{"env_id": "agentgym/EZPoints-v0", "tasks": 3, "algorithm": "gigpo"}]
    config = override(plain, settings)
    setup = TrainingSetup.open(resolve(config), ranks)
    trainer = Trainer(setup, folder)
    metrics = [trainer.iterate() for _ in range(2)]
    trained = [setup.learner, *([setup.reward_model] if setup.reward_model else [])]
    weights = {
        f"{place} {key}": tensor.clone()
        for place, learner in enumerate(trained)
        for key, tensor in learner.weights()
    }
    setup.close()
    return {"env_steps": metrics[-1].env_steps, "weights": weights}


def cloned(folder, ranks):
    """Return the weights and epochs of a run of behaviour cloning with a round of DAgger."""
    config = CloningConfig(
        env_id="agentgym/EZPoints-v0", model="tiny:0.1m", tasks=3, epochs=2, batch=4, learning_rate=1e-4,
        rounds=1, round_tasks=1, num_envs=2, held_out=2, token_budget=100,
    )  # fmt: skip
    out = folder / f"cloned by {ranks.size}"
    result = clone(config, out, ranks=ranks)
    weights = dict(load_model(out).model.state_dict())
    return {
        "weights": weights,
        "epochs": [dataclasses.asdict(each) for each in result.epochs],
        "held": result.held_out,
    }


PICTURED = {
    "pictures": {"packing": "tree"},
    "pictures in rows": {"packing": "rows", "gradient_checkpointing": True},
    "adapted pictures": {"packing": "tree", "lora_rank": 4},
}
"""Runs of a model that reads pictures, of which the first mini-batch has some for one of two ranks only."""


def pictured_rows(folder):
    """Return rows with pictures of different sizes, and longer ones without."""
    model, draws = load_model(folder / "vl"), np.random.default_rng(0)
    base = model.chat.encode_chat("push the box")
    rows = []
    for number, side in enumerate((96, 64, 96)):
        picture = model.pictures.read(draws.integers(0, 256, (side, 96, 3)))
        ids = (*base[:3], *model.pictures.tokens_of(picture), *base[3:])
        rows.append(StepRow(ids, (3 + number, 4), None, model.pictures.prompt(ids, (picture,))))
    plain = [StepRow(tuple(draws.integers(0, 9, 44).tolist()), (5, number)) for number in range(3)]
    return [*rows, *plain]


def see(name, folder, ranks):
    """Return what ranks learn from rows with pictures."""
    opened = (open_directory if ranks.size > 1 else load_model)(folder / "vl")
    settings = {"learning_rate": 3e-4, "token_budget": 60, "minibatches": 2, **PICTURED[name]}
    weights = None if ranks.size == 1 else opened.weights
    learner = Learner(
        opened.model, OBJECTIVES["token"], LearnerConfig(**settings), ranks=ranks, weights=weights
    )
    rows = pictured_rows(folder)
    batch = some_batch(load_model(folder / "vl").model, rows, valued="step")
    metrics = [dataclasses.asdict(learner.update(rows, batch, seed=seed)) for seed in range(3)]
    return {
        "weights": {key: tensor.clone() for key, tensor in learner.weights()},
        "log_probs": torch.from_numpy(learner.log_probs(rows)),
        "grad_norms": [each["grad_norm"] for each in metrics],
    }


SHARDED = ("critic of steps", "bfloat16")
"""Runs whose states are written and read in shards."""


def shards(name, folder, size):
    """Return where so many ranks write their shards of a run."""
    return folder / "shards" / f"{name} of {size}"


def save_shards(name, folder, ranks):
    """Train once, write the state, and return the weights after one more update."""
    learner = learner_of(name, folder, ranks)
    learner.update(*batch_of(name, folder), seed=0)
    learner.save_state(shards(name, folder, ranks.size))
    learner.update(*batch_of(name, folder), seed=9)
    return {key: tensor.clone() for key, tensor in learner.weights()}


def go_on(name, folder, ranks, state=None, *, size=None):
    """Return the weights after one more update from a state, or from the shards of so many ranks."""
    learner = learner_of(name, folder, ranks)
    if size is None:
        learner.load_state_dict(state)
    else:
        learner.load_state(shards(name, folder, size))
    learner.update(*batch_of(name, folder), seed=9)
    if size is None:
        learner.save_model(folder / f"saved by {ranks.size}", load_model(folder / "model").tokenizer)
    return {key: tensor.clone() for key, tensor in learner.weights()}


def read_part(folder, ranks):
    """Return this rank's rows of each weight, and how many numbers it has read for them."""
    opened, sizes = open_directory(folder / "model"), []
    read = WeightFiles._read

    def count(files, name, target, first):
        sizes.append(target.numel())
        read(files, name, target, first)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WeightFiles, "_read", count)
        fill = partial(opened.weights.fill, opened.model)
        ranks.shard(opened.model, torch.float32, fill=fill)
    parts = {name: weight.to_local().detach() for name, weight in opened.model.named_parameters()}
    return {"read": parts, "elements read": sum(sizes)}


def refused_checkpoint(folder, ranks):
    """Return what is said of a checkpoint where each rank has a disk of its own, and what is left there."""
    disk = folder / f"disk {ranks.rank}"
    disk.mkdir()
    save = learner_of("critic of steps", folder, ranks).save_state
    make = partial(Path.mkdir, parents=True)
    with pytest.raises(UsageError) as raised:
        save_checkpoint(disk, "000001", {}, make, keep=1, ranks=ranks, save_shards=save)
    with pytest.raises(UsageError, match="give --out a folder that all machines share"):
        check_shared(disk, ranks)
    check_shared(folder, ranks)
    return str(raised.value), [path.name for path in disk.rglob("*")]


def main(folder):
    torch.set_num_threads(1)
    with Ranks.join() as ranks:
        result = {name: train(name, folder, ranks) for name in RUNS}
        result |= {kind: fit(kind, folder, ranks) for kind in REWARD_MODELS}
        result |= {algorithm: iterate(algorithm, folder, ranks) for algorithm in LOOPS}
        result |= {name: see(name, folder, ranks) for name in PICTURED}
        result["cloned"] = cloned(folder, ranks)
        result["diverged"] = diverge("critic of steps", folder, ranks)
        result["diverged with adapter"] = diverge("adapter", folder, ranks)
        one = torch.load(folder / "one.pt", weights_only=False)
        result["continued"] = {
            name: go_on(name, folder, ranks, one[name]["state"]) for name in ("critic of steps", "adapter")
        }
        result["resharded"] = {
            name: {
                "through": save_shards(name, folder, ranks),
                "own": go_on(name, folder, ranks, size=ranks.size),
                "of one": go_on(name, folder, ranks, size=1),
            }
            for name in SHARDED
        }
        result |= read_part(folder, ranks)
        result["gathered"] = ranks.gather([(ranks.rank, item) for item in range(2 - ranks.rank)])
        result["shared"] = ranks.gather(ranks.share(list("abcde")))
        result["told"] = ranks.from_first(f"by {ranks.rank}")
        result["refused checkpoint"] = refused_checkpoint(folder, ranks)
        result["alike"] = ranks.gather([float(weights_of(load_model(folder / "model").model).sum())])
        torch.save(result, folder / f"rank {ranks.rank} of {ranks.size}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
