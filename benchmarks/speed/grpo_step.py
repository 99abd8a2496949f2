"""One GRPO step beside TRL's GRPOTrainer: ``python -m benchmarks.speed.grpo_step --python PYTHON``.

A step samples eight responses to each of eight prompts, compares their rewards and takes one optimiser step.
Both sides begin from the same tiny model and prompts, in a process each and one thread. They take turns,
step by step; processor seconds per sampled token are compared within a turn, and by stage.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agentgym.algos.batch import StepBatch
from agentgym.algos.table import ALGORITHMS
from agentgym.algos.tokens import Batch
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.rows import DecodingRows
from agentgym.inference.engines.types import GenerationRequest, Sampling
from agentgym.inference.models.language_model import LanguageModel, save_model
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from agentgym.training.learner import gradients
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.packing import StepRow
from agentgym.training.learner.update import Learner
from benchmarks.harness.processes import Peer
from benchmarks.harness.report import machine, parser, publish
from benchmarks.speed.stage_times import StageTimes

OUT = Path(__file__).with_suffix(".json")
THEIRS = OUT.with_name("grpo_step_trl.py")
PROMPTS, MEMBERS = 8, 8
LENGTHS = ((200, 64), (800, 128))
"""Tokens of a prompt, and of a response."""
WORDS = 400
STAGES = (
    *("prompt reading", "decoding", "sampling", "old log-probabilities", "forward", "backward", "optimizer"),
    "rest",
)
"""Parts of a step; "sampling" draws tokens and prepares passes, "rest" has rewards and advantages."""


@dataclass(frozen=True, slots=True)
class Work:
    """What both sides train on."""

    tiny: LanguageModel
    texts: list[str]
    prompts: list[tuple[int, ...]]
    tokens: int
    """Of a response."""

    @classmethod
    def of(cls, size: str, length: int, tokens: int) -> Work:
        """Make a model, and prompts of words that are one token each."""
        draws = np.random.default_rng(0)
        words = ["".join(draws.choice(list("abcdefghij"), 6)) for _ in range(WORDS)]
        tokenizer = word_tokenizer([" " + word for word in words for _ in range(2)])
        texts = ["".join(" " + word for word in draws.choice(words, length)) for _ in range(PROMPTS)]
        prompts = [tuple(tokenizer.encode(text)) for text in texts]
        return cls(tiny_model(size, tokenizer), texts, prompts, tokens)

    def write(self, folder: Path) -> None:
        """Write the model and what is trained on."""
        save_model(folder, self.tiny)
        table = {"prompts": self.texts, "members": MEMBERS, "tokens": self.tokens}
        (folder / "work.json").write_text(json.dumps(table), encoding="utf-8")


class Ours:
    """This project's step: the engine, GRPO's advantage and the learner."""

    def __init__(self, work: Work, token_budget: int):
        """Bind the model, which the engine and the learner share."""
        self._work = work
        self._engine = HfEngine(work.tiny.model)
        objective = replace(ALGORITHMS["grpo"].objective, kl_coefficient=0.0)
        config = LearnerConfig(learning_rate=1e-6, token_budget=token_budget)
        self._learner = Learner(work.tiny.model, objective, config)
        self._done = 0

    def step(self) -> tuple[int, float]:
        """Take a step; return the sampled tokens and the processor seconds."""
        TIMES.seconds.clear()
        began = time.process_time()
        sampling = Sampling(max_tokens=self._work.tokens)
        requests = [
            GenerationRequest(prompt, None, sampling, seed=(self._done * PROMPTS + row) * MEMBERS + member)
            for row, prompt in enumerate(self._work.prompts)
            for member in range(MEMBERS)
        ]
        generations = self._engine.generate(requests)
        self._work.tiny.tokenizer.batch_decode([list(generation.ids) for generation in generations])
        rows = [
            StepRow(request.prompt_ids, generation.ids)
            for request, generation in zip(requests, generations, strict=True)
        ]
        steps = StepBatch.of(
            group=[row // MEMBERS for row in range(len(rows))],
            trajectory=range(len(rows)),
            state=[row // MEMBERS for row in range(len(rows))],
            reward=[len(set(row.response_ids)) / len(row.response_ids) for row in rows],
            tokens=[len(row.response_ids) for row in rows],
        )
        sampled = np.concatenate([generation.logprobs for generation in generations])
        batch = Batch.of(steps, ALGORITHMS["grpo"].advantage(steps), credit="step", old_log_probs=sampled)
        self._learner.update(rows, batch, seed=self._done)
        self._done += 1
        self._engine.sync(self._learner.weights(), self._done)
        return len(sampled), time.process_time() - began


TIMES = StageTimes()


def watch() -> None:
    """Watch what this project's step consists of."""
    TIMES.watch(DecodingRows, "_prefill", "prompt reading")
    TIMES.watch(DecodingRows, "feed", "decoding")
    TIMES.watch(HfEngine, "generate", "sampling")
    TIMES.watch(gradients, "_policy_loss", "forward")
    TIMES.watch(torch.Tensor, "backward", "backward")
    TIMES.watch(Learner, "_clip", "optimizer")
    TIMES.watch(torch.optim.AdamW, "step", "optimizer")


def by_stage(stages: Mapping[str, float], seconds: float, tokens: int) -> dict[str, float]:
    """Return microseconds per token of each of `STAGES`."""
    found = {**stages, "rest": seconds - sum(stages.values())}
    return {name: found.get(name, 0.0) / tokens * 1e6 for name in STAGES}


def compare(work: Work, python: Path, rounds: int, token_budget: int) -> dict[str, Any]:
    """Let both take turns; return microseconds of the processor per sampled token, and the ratios."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        work.write(folder)
        ours, theirs = Ours(work, token_budget), Peer(python, THEIRS, [str(folder)], folder / "log.txt")
        figures: dict[str, list[float]] = {"agentgym": [], "TRL": []}
        stages: dict[str, list[dict[str, float]]] = {"agentgym": [], "TRL": []}
        for turn in range(rounds + 1):
            (tokens, seconds), answer = ours.step(), theirs.ask("step")
            if turn:  # the first one warms up
                figures["agentgym"].append(seconds / tokens * 1e6)
                figures["TRL"].append(answer["seconds"] / answer["tokens"] * 1e6)
                stages["agentgym"].append(by_stage(TIMES.seconds, seconds, tokens))
                stages["TRL"].append(by_stage(answer["stages"], answer["seconds"], answer["tokens"]))
        theirs.end()
    ratios = [other / own for own, other in zip(figures["agentgym"], figures["TRL"], strict=True)]
    return {
        "prompt": len(work.prompts[0]),
        "response": work.tokens,
        "microseconds_per_token": figures,
        "ratios": ratios,
        "medians": {
            **{side: statistics.median(values) for side, values in figures.items()},
            "ratio": statistics.median(ratios),
        },
        "stages": {
            side: {name: statistics.median(turn[name] for turn in turns) for name in STAGES}
            for side, turns in stages.items()
        },
        "versions": theirs.versions,
    }


def markdown(record: Mapping[str, Any]) -> str:
    """Write the report for people."""
    rows: Sequence[Mapping[str, Any]] = record["rows"]
    about, versions = record["machine"], rows[0]["versions"]
    lines = [
        "# One GRPO step beside TRL",
        "",
        f"`{record['command']}` on {about['cpu']}; torch {about['torch']}, "
        f"transformers {about['transformers']}.",
        f"TRL {versions['trl']} with torch {versions['torch']}, transformers {versions['transformers']}.",
        "",
        f"{PROMPTS} prompts, {MEMBERS} responses of full length to each, one optimiser step; a model of "
        f"{record['weights']:,} weights",
        f"and {record['vocabulary']:,} tokens; one thread. Microseconds of the processor per sampled token, "
        "medians over turns.",
        "",
        "| prompt | response | agentgym | TRL | agentgym is faster by |",
        "|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        own, other = (statistics.median(row["microseconds_per_token"][side]) for side in ("agentgym", "TRL"))
        ratios = row["ratios"]
        lines.append(
            f"| {row['prompt']} | {row['response']} | {own:,.0f} | {other:,.0f} "
            f"| {statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f}) |"
        )
    columns = [row["stages"][side] for row in rows for side in ("agentgym", "TRL")]
    heads = [f"{row['prompt']} + {row['response']}: {side}" for row in rows for side in ("agentgym", "TRL")]
    lines += [
        "",
        "Where they go:",
        "",
        f"| | {' | '.join(heads)} |",
        "|---|---:|---:|---:|---:|",
        *(f"| {name} | {' | '.join(f'{column[name]:,.1f}' for column in columns)} |" for name in STAGES),
    ]
    lines += [
        "",
        "TRL's trainer has its defaults but for what must be equal: no divergence from a reference, all 64 "
        "responses",
        "in one batch, no response that ends early, nothing logged or saved. Neither side pads anything.",
        "agentgym reads a prompt once for its eight responses, while sampling and in the update.",
        "`rollout.prompt_cache` would change nothing: each prompt is read once between two updates.",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, and write a record and a table."""
    arguments = parser(__spec__.name, __doc__, OUT, rounds=7)
    arguments.add_argument("--python", type=Path, required=True, help="of an environment with TRL")
    arguments.add_argument("--size", default="0.8m", help="of the tiny model")
    arguments.add_argument("--token-budget", type=int, default=2048, help="of the learner's packs")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    watch()
    works = [Work.of(options.size, length, tokens) for length, tokens in LENGTHS]
    record = {
        "command": f"python -m benchmarks.speed.grpo_step --rounds {options.rounds} --size {options.size}",
        "machine": machine("torch", "transformers"),
        "weights": works[0].tiny.model.num_parameters(),
        "vocabulary": len(works[0].tiny.tokenizer),
        "rows": [compare(work, options.python, options.rounds, options.token_budget) for work in works],
    }
    publish(options.out, record, markdown(record))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
