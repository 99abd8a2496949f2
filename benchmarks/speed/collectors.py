"""verl-agent's rollout collector beside ours: ``.venv-verl-agent/bin/python -m benchmarks.speed.collectors``.

The checkout's ``TrajectoryCollector`` plays ALFWorld's built-in games over our environments, and our rollout
worker plays the same tasks with the same responses. A model stands in on both sides that has its answers
ready, so that what is left are the collectors: prompts, tokens, parsed actions and training rows. Both use
one tokenizer. Processor seconds per step of an episode, of the model and of the environment apart.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch

from agentgym.algos.batch import StepBatch
from agentgym.core.types import Group
from agentgym.inference.engines.types import Generation, GenerationRequest, Sampling
from agentgym.inference.models.tiny import environment_texts, word_tokenizer
from agentgym.inference.policy.policy import LanguageModelPolicy
from agentgym.prompts.chat_tokenizer import ChatTokenizer
from agentgym.prompts.settings import Prompting
from agentgym.registration import open_vector, suite_spec
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.training.learner.packing import step_rows
from agentgym.vector.core import AgentVectorEnv
from benchmarks.bridges.verl_agent_peer import configuration
from benchmarks.bridges.verl_agent_texts import RESPONSES
from benchmarks.harness.report import machine, parser, publish, table
from benchmarks.speed.stage_times import StageTimes
from benchmarks.speed.webshop_original import commit_of

OUT = Path(__file__).with_suffix(".json")
ENV_ID = "agentgym/ALFWorld-v0"
TASKS, MEMBERS, STEPS = 8, 8, 50
PROMPT, RESPONSE = 2048, 512
"""Most tokens, those of the checkout's script for ALFWorld, which pads to them."""

OPTIONS = {"dataset": "builtin", "difficulty": "easy", "reward": "sparse10", "max_steps": STEPS}
SETTINGS = (
    *("env.env_name=alfworld/AlfredTWEnv", f"env.max_steps={STEPS}", f"env.rollout.n={MEMBERS}"),
    *(f"data.train_batch_size={TASKS}", "data.val_batch_size=1", f"data.max_prompt_length={PROMPT}"),
    *("data.truncation=error", "algorithm.filter_groups.enable=False", "trainer.log_llm_steps=False"),
    *(f"env.agentgym.{name}={value}" for name, value in OPTIONS.items()),
)
Played = list[list[tuple[tuple[int, ...], tuple[int, ...]]]]
"""Prompt and response tokens of each row's steps."""


class Actor:
    """Model of the checkout's side, which chooses an admissible command by the prompt and the row."""

    world_size = 1

    def __init__(self, tokenizer: Any, rows: Any):
        """Answer for ``rows``, which know what is admissible."""
        self._tokenizer, self._rows = tokenizer, rows
        self.asked = 0

    def generate_sequences(self, prompts: Any) -> Any:
        """Return a response to each prompt, as verl's rollout does."""
        verl: Any = importlib.import_module("verl")
        texts = []
        for row, commands in enumerate(self._rows.get_admissible_commands):
            chosen = crc32(f"{self.asked} {row}".encode()) % max(len(commands), 1)
            texts.append(RESPONSES["well formed"]([*commands, "look"][chosen]))
        self.asked += 1
        given = {"padding": "max_length", "padding_side": "right", "max_length": RESPONSE}
        encoded = self._tokenizer([text + self._tokenizer.eos_token for text in texts], **given)
        responses, mask = (torch.tensor(encoded[name]) for name in ("input_ids", "attention_mask"))
        batch = prompts.batch.clone()
        batch["prompts"], batch["responses"] = batch["input_ids"], responses
        batch["input_ids"] = torch.cat([batch["prompts"], responses], dim=1)
        batch["attention_mask"] = torch.cat([batch["attention_mask"], mask], dim=1)
        return verl.DataProto(batch=batch)


class Theirs:
    """The checkout's collector over our environments."""

    def __init__(self, checkout: Path, tokenizer: Any, tasks: Sequence[str]):
        """Open its managers."""
        sys.path.insert(0, str(checkout))
        importlib.import_module("agentgym.bridges.verl_agent").replace_workers()
        # a type for pictures alone, which newer transformers name otherwise
        pictured = vars(importlib.import_module("transformers.models.qwen2_vl.modeling_qwen2_vl"))
        pictured.setdefault("Qwen2VLCausalLMOutputWithPast", object)
        config = configuration(checkout, SETTINGS)
        self._manager, _ = importlib.import_module("agent_system.environments").make_envs(config)
        loop: Any = importlib.import_module("agent_system.multi_turn_rollout.rollout_loop")
        self._collector = loop.TrajectoryCollector(config, tokenizer)
        self._verl: Any = importlib.import_module("verl")
        self._actor, self._tasks = Actor(tokenizer, self._manager.envs), tasks

    def collect(self) -> Any:
        """Play every task, and return the batch that the checkout trains on."""
        self._actor.asked = 0
        count = len(self._tasks)
        columns = {
            "raw_prompt": [[{"role": "user", "content": ""}]] * count,
            "data_source": ["text"] * count,
            "env_kwargs": [{"task": task} for task in self._tasks],
        }
        objects = {name: np.empty(count, dtype=object) for name in columns}
        for name, values in columns.items():
            objects[name][:] = values
        given = self._verl.DataProto.from_single_dict({"input_ids": torch.zeros(count, 1), **objects})
        return self._collector.multi_turn_loop(given, self._actor, self._manager, is_train=True)


def tokens_of(batch: Any) -> Played:
    """Return the tokens of each row of the checkout's batch, without padding."""
    played: dict[str, list[Any]] = defaultdict(list)
    width = batch.batch["prompts"].shape[1]
    for row, name in enumerate(batch.non_tensor_batch["traj_uid"].tolist()):
        ids, mask = batch.batch["input_ids"][row], batch.batch["attention_mask"][row].bool()
        prompt, response = ids[:width][mask[:width]], ids[width:][mask[width:]]
        played[name].append((tuple(prompt.tolist()), tuple(response.tolist())))
    return list(played.values())


class Replay:
    """Engine of our side, which answers with the responses that were played on the other."""

    version, context_length = 0, PROMPT + RESPONSE

    def __init__(self, played: Played):
        """Bind what was played, by row and turn."""
        self.played, self.first, self.turns = played, 0, [0] * len(played)

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Return each episode's next response."""
        found = []
        for request in requests:
            row = request.episode - self.first
            _, ids = self.played[row][self.turns[row]]
            self.turns[row] += 1
            found.append(Generation(ids, (0.0,) * len(ids), 0, "stop"))
        return found

    def again(self) -> None:
        """Begin anew, with the episodes that come next."""
        self.first, self.turns = self.first + len(self.played), [0] * len(self.played)


class Ours:
    """Our rollout worker over the same environments, with the rows that a learner takes."""

    def __init__(self, tokenizer: Any, tasks: Sequence[str], played: Played):
        """Open the environment and bind the responses."""
        self.envs = open_vector(ENV_ID, TASKS * MEMBERS, options=OPTIONS)
        self._tasks, self.engine = tasks, Replay(played)
        chat, prompting = ChatTokenizer(tokenizer), Prompting.default(suite_spec(ENV_ID).prompt)
        builder = prompting.builder(chat, self.envs.prototype.tools)
        sampling = Sampling(max_tokens=RESPONSE, stop_ids=(tokenizer.eos_token_id,))
        engine: Any = self.engine
        policy = LanguageModelPolicy(
            engine, chat, builder.build, sampling=sampling, read=builder.parse, keep_messages=False
        )
        self._worker = RolloutWorker(self.envs, policy, env_id=ENV_ID)

    def collect(self) -> tuple[list[Group], list[Any], StepBatch]:
        """Play every task, and return groups, rows and step batch."""
        specs = [EpisodeSpec(task, 0, member) for task in self._tasks for member in range(MEMBERS)]
        order = {(spec.task_id, spec.rollout): place for place, spec in enumerate(specs)}
        members = sorted(self._worker.run(specs), key=lambda each: order[each.task_id, each.rollout])
        self.engine.again()
        split = [tuple(members[i : i + MEMBERS]) for i in range(0, len(members), MEMBERS)]
        groups = [Group(group[0].task_id, group[0].initial_hash, group) for group in split]
        return groups, step_rows(groups), StepBatch.from_groups(groups)


def measure(collect: Any, times: StageTimes, steps: int) -> dict[str, float]:
    """Return microseconds of the processor per step of an episode, by part, of one round."""
    times.seconds.clear()
    began = time.process_time()
    collect()
    total = time.process_time() - began
    parts = {**times.seconds, "collector": total - sum(times.seconds.values())}
    return {name: seconds / steps * 1e6 for name, seconds in parts.items()}


def compare(checkout: Path, rounds: int) -> dict[str, Any]:
    """Play the same episodes on both sides in turns; return times per step, and what is equal."""
    with_texts = open_vector(ENV_ID, 8, options=OPTIONS)
    texts = list(environment_texts(with_texts, episodes=16, seed=0))
    tasks = list(with_texts.tasks.ids[:TASKS])
    tokenizer = word_tokenizer([*texts, *[RESPONSES["well formed"]("look")] * 2])
    theirs = Theirs(checkout, tokenizer, tasks)
    batch = theirs.collect()
    played = tokens_of(batch)
    steps = sum(map(len, played))
    ours = Ours(tokenizer, tasks, played)
    groups, rows, _ = ours.collect()
    rewards = sum(member.episode_return for group in groups for member in group.trajectories)
    answers = [row.response_ids for row in rows]
    times = StageTimes()
    for name in ("reset_at", "step_at"):
        times.watch(AgentVectorEnv, name, "environment")
    times.watch(Actor, "generate_sequences", "model")
    times.watch(Replay, "generate", "model")
    sides = {"agentgym": ours.collect, "verl-agent": theirs.collect}
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, collect in sides.items():
            found[side].append(measure(collect, times, steps))
    return {
        "episodes": len(played),
        "steps": {"agentgym": len(rows), "verl-agent": steps},
        "rewards": {"agentgym": rewards, "verl-agent": float(batch.non_tensor_batch["rewards"].sum())},
        "same responses": answers == [response for row in played for _, response in row],
        "prompt tokens": {
            "agentgym": statistics.mean(len(row.prompt_ids) for row in rows),
            "verl-agent": statistics.mean(len(prompt) for row in played for prompt, _ in row),
        },
        "microseconds": found,
        "medians": {
            **{side: statistics.median(turn["collector"] for turn in turns) for side, turns in found.items()},
            "ratio": statistics.median(
                other["collector"] / own["collector"]
                for own, other in zip(found["agentgym"], found["verl-agent"], strict=True)
            ),
        },
    }


def markdown(record: Mapping[str, Any]) -> str:
    """Write the report for people."""
    about, found, steps = record["machine"], record["microseconds"], record["steps"]
    prompts = record["prompt tokens"]
    medians = {
        side: {part: statistics.median(turn[part] for turn in turns) for part in turns[0]}
        for side, turns in found.items()
    }
    pairs = zip(found["agentgym"], found["verl-agent"], strict=True)
    ratios = [other["collector"] / own["collector"] for own, other in pairs]
    rows = [
        (part, f"{medians['agentgym'][part]:,.0f}", f"{medians['verl-agent'][part]:,.0f}")
        for part in ("collector", "environment", "model")
    ]
    lines = [
        "# Rollout collectors beside verl-agent's",
        "",
        f"`{record['command']}` on {about['cpu']}; verl-agent {record['commit'][:10]}, "
        f"torch {about['torch']},",
        f"transformers {about['transformers']}, ray {record['ray']}.",
        "",
        f"{record['episodes']} episodes of built-in ALFWorld games ({TASKS} tasks, groups of {MEMBERS}), "
        "over our environments on both",
        f"sides: the same {steps['verl-agent']:,} responses and rewards. Each side words its own prompts, of "
        f"{prompts['agentgym']:,.0f} and {prompts['verl-agent']:,.0f} tokens.",
        "Microseconds of the processor per step, medians over turns; the model has its answers ready.",
        "",
        *table(("part", "agentgym", "verl-agent"), rows),
        "",
        f"verl-agent's collector takes {statistics.median(ratios):.1f} times as long ({min(ratios):.1f} to "
        f"{max(ratios):.1f}). It pads prompts to {PROMPT:,} tokens and responses to {RESPONSE},",
        "as its script for ALFWorld does, encodes each prompt twice, and also asks for rows that are over.",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, and write a record and a table."""
    given = parser(__spec__.name, __doc__, OUT, rounds=5)
    given.add_argument("--checkout", type=Path, required=True, help="of verl-agent")
    given.add_argument("--commit", help="of the checkout, where it is no git repository")
    options = given.parse_args()
    torch.set_num_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    record = {
        "command": f"python -m {__spec__.name} --rounds {options.rounds}",
        "machine": machine("torch", "transformers"),
        "ray": version("ray"),
        "commit": options.commit or commit_of(options.checkout),
        **compare(options.checkout.resolve(), options.rounds),
    }
    compared = {name: record[name] for name in ("rewards", "same responses")}
    if not record["same responses"] or len(set(record["rewards"].values())) > 1:
        raise SystemExit(f"the sides played different episodes: {json.dumps(compared)}")
    publish(options.out, record, markdown(record))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
