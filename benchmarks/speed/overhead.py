"""What an iteration takes beside the model: ``python -m benchmarks.speed.overhead``.

An iteration of GiGPO on the built-in ALFWorld, 16 tasks of 8 episodes of 50 steps, with responses of 200
tokens, as a model of 1.5 billion weights gives them. Sampling answers at once with made-up tokens, and the
learner packs every row but computes nothing, so that what is left is environments, prompts, tokens, groups,
advantages and packing. One process and thread; processor time, medians over iterations.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from time import process_time

import numpy as np
import torch
from torch import Tensor

from agentgym.algos.batch import StepBatch
from agentgym.algos.tokens import Batch
from agentgym.core.rng import TurnRng
from agentgym.prompts.chat_tokenizer import ChatTokenizer
from agentgym.prompts.settings import Prompting
from agentgym.registration import open_vector, suite_spec
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.config import TrainConfig, override
from agentgym.training.engines.types import Generation, GenerationRequest
from agentgym.training.learner.packing import sampled_log_probs, step_rows
from agentgym.training.learner.tree import PACKINGS
from agentgym.training.models.models import LanguageModel
from agentgym.training.models.tiny import environment_texts, tiny_model, word_tokenizer
from agentgym.training.policy.prompted import make_policy
from agentgym.training.pool import RolloutPool
from agentgym.training.task_order import TaskOrder
from benchmarks.speed.report import machine

ENV = "agentgym/ALFWorld-v0"
TASKS, GROUP, STEPS = 16, 8, 50
RESPONSE = 200
"""Tokens of a response."""
BUDGET = 16_384
"""Tokens of a pack."""
TARGET = 3.0
"""Seconds an iteration."""
STAGES = (
    "tokenizer: words into tokens and back, by `tokenizers`",
    "policy: prompts and answers",
    "environments and rollout",
    "columns and rows",
    "advantage",
    "packing",
)


class ScriptedEngine:
    """Answers at once: a made-up thought, then one of the words that the policy reads an action from."""

    def __init__(self, language_model: LanguageModel):
        """Take what responses are made of."""
        self._chat = language_model.chat
        self._end = language_model.stop_ids[-1]
        self._filler = self._chat.encode("look go shelf open take drawer ")
        self.context_length = 32_768
        self.version = 0
        self._answers: dict[str, tuple[int, ...]] = {}

    def answer(self, action: str, seed: int) -> tuple[int, ...]:
        """Return the tokens of a response."""
        head = self._answers.get(action)
        if head is None:
            head = tuple(self._chat.encode(f"</think><action>{action}</action>"))
            self._answers[action] = head
        room = RESPONSE - len(head) - 1
        shift = seed % len(self._filler)
        thought = (self._filler * (room // len(self._filler) + 2))[shift : shift + room]
        return (*thought, *head, self._end)

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Answer every prompt."""
        result = []
        for request in requests:
            place = TurnRng(request.seed, 0).below(4)
            action = ("look", "inventory", "go to shelf 1", "go to drawer 1")[place]
            ids = self.answer(action, request.seed)
            result.append(Generation(ids, (-0.5,) * len(ids), self.version, "stop"))
        return result

    def submit(self, request: GenerationRequest) -> Future[Generation]:
        """Answer at once."""
        future: Future[Generation] = Future()
        future.set_result(*self.generate([request]))
        return future

    def sync(self, state: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take nothing over."""
        self.version = version


class Rehearsal:
    """An iteration without a model's arithmetic."""

    def __init__(self) -> None:
        """Open environments, words and pool."""
        settings = {"rollout.tasks": TASKS, "rollout.group_size": GROUP, "rollout.num_envs": TASKS * GROUP}
        self.config = override(TrainConfig(algorithm="gigpo", env_id=ENV), settings)
        envs = open_vector(ENV, TASKS * GROUP, split="train", options={"max_steps": STEPS})
        words = word_tokenizer(environment_texts(envs, episodes=24, seed=0))
        tiny = tiny_model("0.1m", words, context=32_768)
        prompting = Prompting.default(suite_spec(ENV).prompt)
        self.seconds: dict[str, float] = {}
        engine = ScriptedEngine(tiny)
        policy = make_policy(prompting, tiny, engine, envs)
        inner = policy.act

        def act(requests: Sequence[object]) -> object:
            return self._timed(STAGES[1], lambda: inner(requests))  # type: ignore[arg-type]

        policy.act = act  # type: ignore[method-assign, assignment]
        for name in ("encode", "decode"):
            setattr(ChatTokenizer, name, self._watched(getattr(ChatTokenizer, name)))
        worker = RolloutWorker(envs, policy, env_id=ENV)
        self.pool = RolloutPool(worker, TaskOrder(envs.tasks, seed=0), self.config.rollout)

    def _timed(self, stage: str, work: Callable[[], object]) -> object:
        began = process_time()
        result = work()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + process_time() - began
        return result

    def _watched(self, method: Callable[..., object]) -> Callable[..., object]:
        """Return a tokenizer's method that is timed."""
        return lambda *args: self._timed(STAGES[0], lambda: method(*args))

    def iterate(self) -> dict[str, float]:
        """Play, score and pack once; return processor seconds by stage, and counts."""
        self.seconds = {}
        began = process_time()
        groups = self.pool.collect(0).groups
        played = process_time()
        steps, rows, sampled = StepBatch.from_groups(groups), step_rows(groups), sampled_log_probs(groups)
        read = process_time()
        batch = Batch.of(steps, self.config.advantage(steps), credit="step", old_log_probs=sampled)
        scored = process_time()
        chosen = np.random.default_rng(0).permutation(len(rows))
        packs = 0
        for part in np.array_split(chosen, max(1, round(len(rows) / 256))):
            batch.select(part)
            packs += len(PACKINGS["tree"]([rows[row] for row in part.tolist()], token_budget=BUDGET))
        ended = process_time()
        words, policy = (self.seconds[stage] for stage in STAGES[:2])
        parts = (words, policy - words, played - began - policy, read - played, scored - read, ended - scored)
        return {
            **dict(zip(STAGES, parts, strict=True)),
            "total": ended - began,
            "steps": float(len(rows)),
            "prompt tokens": float(np.mean([len(row.prompt_ids) for row in rows])),
            "response tokens": float(np.mean([len(row.response_ids) for row in rows])),
            "packs": float(packs),
        }


def main() -> int:
    """Measure, and write a record and a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rehearsal = Rehearsal()
    rehearsal.iterate()
    found = [rehearsal.iterate() for _ in range(options.iterations)]
    medians = {name: statistics.median(each[name] for each in found) for name in found[0]}
    about = machine("torch", "transformers")
    lines = [
        "# What an iteration takes beside the model",
        "",
        f"`python -m benchmarks.speed.overhead --iterations {options.iterations}` on {about['cpu']}; "
        f"torch {about['torch']}.",
        "",
        f"GiGPO on the built-in ALFWorld, {TASKS} tasks of {GROUP} episodes of at most {STEPS} steps: "
        f"{medians['steps']:,.0f} steps, prompts of {medians['prompt tokens']:,.0f} tokens and responses of "
        f"{medians['response tokens']:,.0f};",
        f"{medians['packs']:.0f} packs of {BUDGET:,} tokens. Answers are made up at once, and nothing is",
        "computed of the packs. Processor time on one core, medians over iterations; the aim is "
        f"{TARGET:g} s.",
        "",
        "| part | seconds |",
        "|---|---:|",
        *(f"| {name} | {medians[name]:.2f} |" for name in STAGES),
        f"| **all** | **{medians['total']:.2f}** |",
        "",
        "The tokenizer is a library's, and gives up the interpreter's lock: where every episode goes at its",
        "own pace (`rollout.asynchronous`) the engine samples meanwhile.",
    ]
    (options.out / "overhead.md").write_text("\n".join(lines) + "\n")
    (options.out / "overhead.json").write_text(
        json.dumps({"about": about, "iterations": found}, indent=1) + "\n"
    )
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
