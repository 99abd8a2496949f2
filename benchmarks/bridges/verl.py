"""verl's own classes on a processor: recorded episodes through its agent loop, advantages of its trainer.

``python -m benchmarks.bridges.verl`` in an environment with verl (`make bridge-verl`). Only the server that
samples is a stub. Recorded actions are what it says in one part; in the other verl's worker runs episodes of
random actions side by side, its TransferQueue holds them, and its trainer computes advantages, which are
compared with those of the same actions played in this package's own rollouts.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import hydra
import numpy as np
import ray
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import NonTensorData, NonTensorStack, TensorDict
from transfer_queue import KVBatchMeta
from transformers import AutoTokenizer
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.v1 import AgentLoopWorkerTQ, get_trainer_cls
from verl.workers.rollout.replica import TokenOutput

from agentgym.algos.batch import StepBatch
from agentgym.algos.table import ALGORITHMS
from agentgym.bridges.trl import EnvironmentFactory
from agentgym.bridges.verl import FIELD
from agentgym.core.types import Completion, Group, Request, Trajectory
from agentgym.inference.models.language_model import save_model
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from agentgym.registration import ENVIRONMENTS, open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from benchmarks.bridges.recorded import Reached, compare, record, write_report

EPISODES = int(__import__("os").environ.get("EP", "200"))
LOOP = "agentgym.bridges.verl.EnvironmentLoop"
SOKOBAN = "agentgym/Sokoban-v0"
LEVELS: dict[str, Any] = {"num_boxes": 1, "max_optimal": 2, "max_steps": 10}
GROUPS, MEMBERS = 4, 8
ROWS = EnvironmentFactory(SOKOBAN, **LEVELS).rows(GROUPS)
CARRIED = [env_id for env_id in ENVIRONMENTS if "Visual" not in env_id]
"""The loop passes no pictures on."""
CREDITED = ("gigpo", "hgpo", "graphgpo", "steppo")
ABOUT = """Episodes were recorded in each environment's vector form, half by the random agent and half by the
rules. Then verl's agent loop played them: its server, a stub, said each action as text, and every step is an
output with a prompt of its own. Rewards and hashes are compared bit for bit, ends as `terminated` and
`truncated`. "Else" counts episodes with another number of outputs, or a `reward_score` that is not the last
output's alone and the sum of the rewards."""


class Script:
    """A server that says what it is given, whatever the prompt."""

    def __init__(self, tokenizer: Any):
        """Bind the tokenizer."""
        self._tokenizer = tokenizer
        self.actions: Iterator[str] = iter(())

    async def generate(self, request_id: str, *, prompt_ids: list[int], **settings: Any) -> TokenOutput:
        """Say the next action."""
        ids = self._tokenizer.encode(next(self.actions))
        return TokenOutput(token_ids=[*ids, self._tokenizer.eos_token_id], extra_fields={})


class Chance:
    """A server that says a random one of the possible actions that the prompt ends with."""

    def __init__(self, tokenizer: Any):
        """Bind the tokenizer."""
        self._tokenizer, self._draws = tokenizer, random.Random(0)

    async def generate(self, request_id: str, *, prompt_ids: list[int], **settings: Any) -> TokenOutput:
        """Say an action, with its log-probabilities, as a server does."""
        prompt = self._tokenizer.decode(prompt_ids)
        listed = re.findall(r"Possible actions:\s*([^<]*)<", prompt)[-1].strip()
        ids = self._tokenizer.encode(self._draws.choice(listed.split(", ")))
        steps = {"global_steps": 0, "min_global_steps": 0, "max_global_steps": 0}
        ids.append(self._tokenizer.eos_token_id)
        return TokenOutput(token_ids=ids, log_probs=[-1.0] * len(ids), extra_fields=steps)


def configuration(folder: Path, *overrides: str) -> Any:
    """Return verl's configuration of a training run with the model and the agent loops of a folder."""
    chosen = [
        f"actor_rollout_ref.model.path={folder}",
        f"actor_rollout_ref.rollout.agent.agent_loop_config_path={folder}/loops.yaml",
        f"actor_rollout_ref.rollout.n={MEMBERS}",
        "actor_rollout_ref.rollout.name=vllm",
        "algorithm.adv_estimator=grpo",
        "data.max_prompt_length=60000",
        "data.max_response_length=8192",
        "trainer.device=cpu",
        "trainer.v1.trainer_mode=agentgym",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    ]
    with hydra.initialize_config_module("verl.trainer.config", version_base=None):
        config = hydra.compose("ppo_trainer", overrides=[*chosen, *overrides])
    OmegaConf.resolve(config)
    return config


class LoopPlayer:
    """Plays recorded episodes, each from its beginning to its end, when it begins."""

    def __init__(self, env_id: str, recorded: Sequence[Trajectory], config: Any, tokenizer: Any):
        """Make the agent loop as verl's worker does, an episode each."""
        self._recorded = {(episode.task_id, episode.seed): episode for episode in recorded}
        self._server = Script(tokenizer)
        settings = {"_target_": LOOP, "env_id": env_id, "history": 1}
        self._make = partial(
            hydra.utils.instantiate,
            config=settings,
            trainer_config=DictConfigWrap(config),
            server_manager=self._server,
            tokenizer=tokenizer,
            processor=None,
            hf_model_type="qwen2",
            dataset_cls=None,
            data_config=DictConfigWrap(config.data),
            tools=ToolListWrap([]),
        )
        self._outputs: list[Any] = []
        self._left: Iterator[dict[str, Any]] = iter(())

    def begin(self, task: str, seed: int) -> str:
        """Let the loop play the recorded actions."""
        self._server.actions = iter([step.action for step in self._recorded[task, seed].steps])
        self._outputs = asyncio.run(self._run(task, seed))
        records = [output.extra_fields[FIELD] for output in self._outputs]
        self._left = iter(records)
        return str(records[0]["state_hash"])

    async def _run(self, task: str, seed: int) -> list[Any]:
        outputs: list[Any] = await self._make().run({}, task=task, seed=np.int64(seed), raw_prompt=[])
        return outputs

    def play(self, action: str) -> Reached:
        """Return the record of the next output."""
        each = next(self._left)
        return Reached(each["reward"], each["terminated"], each["truncated"], each["next_state_hash"])

    def end(self, trajectory: Trajectory) -> Iterator[str]:
        """Compare the number of outputs, and what verl takes for the episode's reward."""
        *others, last = (output.reward_score for output in self._outputs)
        if len(self._outputs) != len(trajectory.steps):
            yield f"{len(self._outputs)} outputs of {len(trajectory.steps)} steps"
        if last != sum(step.reward for step in trajectory.steps) or any(
            score is not None for score in others
        ):
            yield f"a reward_score of {last}, before it {others}"


def run_worker(config: Any, tokenizer: Any) -> Any:
    """Let verl's worker play groups; return the TransferQueue's keys and tags as its replay buffer does."""
    worker = AgentLoopWorkerTQ.remote(config, Chance(tokenizer), None, None)
    table = [{**row, "agent_name": "sokoban"} for row in ROWS]
    columns: dict[str, Any] = {name: NonTensorStack(*(row[name] for row in table)) for name in table[0]}
    columns["raw_prompt"] = columns.pop("prompt")
    columns |= {"uid": NonTensorStack(*(f"group_{number}" for number in range(GROUPS)))}
    columns |= {"index": NonTensorStack(*range(GROUPS)), "global_steps": NonTensorData(0)}
    ray.get(worker.generate_sequences.remote(TensorDict(columns, batch_size=GROUPS)))
    while True:
        tags = tq.kv_list("train").get("train", {})
        ended = [tag["status"] for tag in tags.values() if tag.get("status") in ("finished", "failure")]
        if len(ended) == GROUPS:
            break
        time.sleep(0.2)
    if "failure" in ended:
        raise RuntimeError("verl's worker has failed; its log says why")
    keys = [key for key, tag in tags.items() if tag["status"] == "success"]
    random.Random(1).shuffle(keys)  # as balancing does
    return KVBatchMeta(partition_id="train", keys=keys, tags=[tags[key] for key in keys])


class Replay:
    """Plays the actions that an episode's records hold, by task and number of the attempt."""

    def __init__(self, actions: dict[tuple[str, int], list[str]]):
        """Bind the actions of every episode."""
        self._actions = actions

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Say the action of each request's turn."""
        return [Completion(self._actions[each.task_id, each.rollout][each.turn]) for each in requests]


def own_batch(
    found: dict[tuple[str, int, int], dict[str, Any]],
) -> tuple[StepBatch, list[tuple[str, int, int]]]:
    """Play the actions of verl's steps in this package's rollouts; return a batch, and its rows' keys."""
    table = {f"group_{number}": row for number, row in enumerate(ROWS)}
    actions: dict[tuple[str, int], list[str]] = {}
    for (uid, session, _), each in sorted(found.items()):
        actions.setdefault((table[uid]["task"], session), []).append(each["action"])
    envs = open_vector(SOKOBAN, MEMBERS, options=LEVELS)
    worker = RolloutWorker(envs, Replay(actions), env_id=SOKOBAN)
    specs = [
        EpisodeSpec(row["task"], row["seed"], session) for row in table.values() for session in range(MEMBERS)
    ]
    played = {(each.task_id, each.rollout): each for each in worker.run(specs)}
    groups, keys = [], []
    for uid, row in table.items():
        members = tuple(played[row["task"], session] for session in range(MEMBERS))
        groups.append(Group(row["task"], members[0].initial_hash, members))
        keys += [
            (uid, number, step) for number, each in enumerate(members) for step in range(len(each.steps))
        ]
    return StepBatch.from_groups(groups), keys


def credit(folder: Path, tokenizer: Any) -> list[dict[str, Any]]:
    """Compute advantages by verl's trainer and by this package; compare them by algorithm."""
    config = configuration(folder, "+algorithm.agentgym.name=gigpo")
    ray.init(num_cpus=16, include_dashboard=False, log_to_driver=False)
    tq.init(config.transfer_queue)
    try:
        meta = upsample_batch_to_divisible_size(run_worker(config, tokenizer), 100, tokenizer.eos_token_id)
        read = partial(tq.kv_batch_get, keys=meta.keys, partition_id=meta.partition_id)
        data = read(select_fields=["extra_fields", "rollout_log_probs", "rm_scores"])
        values = [np.random.default_rng(row).normal() for row in range(len(meta.keys))]
        written = {"old_log_probs": data["rollout_log_probs"]}  # as the trainer's steps before do
        written["values"] = torch.nested.as_nested_tensor(
            [
                torch.full_like(row, value)
                for row, value in zip(written["old_log_probs"].unbind(), values, strict=True)
            ],
            layout=torch.jagged,
        )
        tq.kv_batch_put(meta.keys, meta.partition_id, fields=TensorDict(written, batch_size=len(meta.keys)))
        rows_of, found, extra = {}, {}, list(data["extra_fields"])
        for row, (key, tag) in enumerate(zip(meta.keys, meta.tags, strict=True)):
            if not tag.get("is_padding"):
                uid, session, index = key.rsplit("_", 2)
                rows_of[uid, int(session), int(index)] = row
                found[uid, int(session), int(index)] = extra[row][FIELD]
        batch, keys = own_batch(found)
        batch = batch.with_columns(values=np.array([values[rows_of[key]] for key in keys]))
        order = np.array([rows_of[key] for key in keys])
        return [compared(name, folder, meta, batch, order, read) for name in CREDITED]
    finally:
        tq.close()
        ray.shutdown()


def compared(name: str, folder: Path, meta: Any, batch: StepBatch, order: Any, read: Any) -> dict[str, Any]:
    """Let a trainer with an algorithm compute advantages in place; compare them with those of a batch."""
    critic = ALGORITHMS[name].critic is not None
    config = configuration(folder, f"+algorithm.agentgym.name={name}", f"critic.enable={critic}")
    trainer = get_trainer_cls("agentgym")(config)
    trainer._compute_advantage(meta, {})
    masks, tokens = (read(select_fields=[field])[field].unbind() for field in ("response_mask", "advantages"))
    made = np.array([float(row[0]) for row in tokens])
    options = {"truncation": "zero"} if critic else {}
    expected = np.zeros(len(made))
    expected[order] = ALGORITHMS[name].advantage(batch, **options)
    spread = max(
        float((row - mask * row[0]).abs().max())
        for row, mask in zip(tokens, masks, strict=True)
        if mask.any()
    )
    return {
        "algorithm": ALGORITHMS[name].title,
        "episodes": len(batch.starts),
        "steps": len(batch),
        "padding": len(made) - len(batch),
        "not_zero": int((np.abs(expected) > 1e-9).sum()),
        "largest_difference": float(max(np.abs(made - expected).max(), spread)),
    }


def main() -> int:
    """Compare, and write the report."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_model(folder, tiny_model("0.1m", word_tokenizer(["up down left right search click answer"])))
        loop = {"name": "sokoban", "_target_": LOOP, "env_id": SOKOBAN, "options": LEVELS}
        OmegaConf.save(OmegaConf.create([loop]), folder / "loops.yaml")
        tokenizer = AutoTokenizer.from_pretrained(folder)
        credited = credit(folder, tokenizer)
        config = configuration(folder, "+algorithm.agentgym.name=gigpo")
        found = []
        for env_id in sys.argv[1:] or CARRIED:
            recorded = record(env_id, EPISODES)
            found.append(compare(env_id, recorded, partial(LoopPlayer, env_id, recorded, config, tokenizer)))
            print(found[-1], flush=True)
    table = [
        "| algorithm | episodes | steps | rows of padding | not 0 | largest difference |",
        "|---|" + "---:|" * 5,
    ]
    for each in credited:
        figures = [str(figure) for figure in each.values()][:-1]
        table.append(f"| {' | '.join(figures)} | {each['largest_difference']:.1e} |")
    if any(each["largest_difference"] > 1e-6 for each in credited):
        raise SystemExit("advantages differ:\n" + "\n".join(table))
    about = "\n".join([ABOUT, "", *table])
    packages = ("verl", "transferqueue", "ray", "torch", "transformers", "gymnasium")
    title = "Recorded episodes through verl's agent loop"
    return write_report("verl", title, about, found, packages, advantages=credited)


if __name__ == "__main__":
    raise SystemExit(main())
