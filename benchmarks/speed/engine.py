"""The engine's speed beside `generate` of transformers: ``python -m benchmarks.speed.engine``.

Both sample from one tiny model with random weights, on prompts of the built-in ALFWorld, eight attempts at
each, in one process and one thread. They take turns, round by round; a ratio compares them within a
round, and processor time is counted, so that what else the machine does disturbs little. Whole episodes
are replayed with and without the cache of prompts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, cast

import gymnasium
import torch
from torch import Tensor
from transformers import PreTrainedModel

import agentgym  # noqa: F401 (registers the environments)
from agentgym.inference.engines import Generation, GenerationRequest, Sampling
from agentgym.inference.engines.choices import ROOT, ActionSpeller, ActionTrie
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.models.language_model import LanguageModel
from agentgym.inference.models.tiny import environment_texts, tiny_model, word_tokenizer
from agentgym.training.config import TINY
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.setup import TrainingSetup
from agentgym.vector.core import AgentVectorEnv
from benchmarks.harness.report import Texts, parser
from benchmarks.harness.rounds import Discipline, Run, measure_all, publish_rows
from benchmarks.harness.rounds import timed as timed_by

OUT = Path(__file__).with_suffix(".json")
GROUPS, MEMBERS = 8, 8
TOKENS = 64
CACHED = 1_000_000
"""Tokens of the cache of prompts; more than an iteration reads."""
EPISODES = (("rebuilt", 30), ("window", 10), ("append", 10))
"""Context and turns of the episodes that are replayed, 4 tasks of 4 attempts."""
MEAN_LENGTH = 16
"""Of responses that end at a stop token: that many of the vocabulary stop."""


@dataclass(frozen=True, slots=True)
class Work:
    """What both continue."""

    tiny: LanguageModel
    prompts: list[tuple[int, ...]]
    """Each member's, group by group."""
    tries: list[ActionTrie]
    """Each member's admissible actions."""


def work(size: str) -> Work:
    """Make a model and prompts: what is seen first in eight tasks, and what can be done."""
    envs = gymnasium.make_vec(
        "agentgym/ALFWorld-v0", num_envs=GROUPS, autoreset_mode="Disabled", max_steps=10
    )
    texts = environment_texts(cast(AgentVectorEnv, envs), episodes=24, seed=0)
    tiny = tiny_model(size, word_tokenizer(texts))
    speller = ActionSpeller(tiny.chat, end=tiny.stop_ids[0])
    observations, infos = envs.reset(seed=0)
    prompts, tries = [], []
    for observation, actions in zip(observations, infos["admissible_actions"], strict=True):
        ids = tuple(tiny.chat.encode_chat("\n".join([observation, *actions])))
        prompts += [ids] * MEMBERS
        tries += [speller.trie(actions)] * MEMBERS
    return Work(tiny, prompts, tries)


# ---- this project ----------------------------------------------------------------------------


def ours(todo: Work, sampling: Sampling, *, choose: bool, seed: int) -> int:
    """Continue all prompts; return the number of tokens, or of actions."""
    requests = [
        GenerationRequest(prompt, trie if choose else None, sampling, seed=seed * 1000 + row)
        for row, (prompt, trie) in enumerate(zip(todo.prompts, todo.tries, strict=True))
    ]
    generations = HfEngine(todo.tiny.model).generate(requests)
    return len(generations) if choose else sum(len(generation.ids) for generation in generations)


def apart(todo: Work) -> Work:
    """Make each prompt differ from all others in its first token, so that none is read for another."""
    size = len(todo.tiny.tokenizer)
    prompts = [(row % size, *prompt[1:]) for row, prompt in enumerate(todo.prompts)]
    return replace(todo, prompts=prompts)


# ---- transformers ----------------------------------------------------------------------------


def theirs(todo: Work, sampling: Sampling, *, choose: bool, logprobs: bool, seed: int) -> int:
    """Do the same with `generate`: one padded batch, until its last row has ended."""
    model: Any = todo.tiny.model
    pad = model.config.pad_token_id
    width = max(map(len, todo.prompts))
    ids = torch.tensor([[*[pad] * (width - len(prompt)), *prompt] for prompt in todo.prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in todo.prompts])
    torch.manual_seed(seed)
    end = todo.tiny.stop_ids[0]
    allowed = {"prefix_allowed_tokens_fn": partial(_allowed, todo.tries, width, end)} if choose else {}
    output = model.generate(
        input_ids=ids,
        attention_mask=mask,
        do_sample=True,
        top_k=0,
        max_new_tokens=sampling.max_tokens,
        eos_token_id=list(sampling.stop_ids) or None,
        output_scores=logprobs,
        return_dict_in_generate=True,
        **allowed,
    )
    if logprobs:
        model.compute_transition_scores(output.sequences, output.scores, normalize_logits=True)
    if choose:
        return len(todo.prompts)
    stops = torch.tensor(sampling.stop_ids, dtype=torch.long)
    stopped: Tensor = torch.isin(output.sequences[:, width:], stops)
    return int((stopped.cumsum(1) - stopped.long() == 0).sum())


def _allowed(tries: Sequence[ActionTrie], width: int, end: int, row: int, ids: Tensor) -> list[int]:
    """Return what may come next; a complete action is followed by the end of the response."""
    trie, node = tries[row], ROOT
    for token in ids[width:].tolist():
        if not trie.allowed(node):
            break
        node = trie.child(node, token)
    return list(trie.allowed(node)) or [end]


# ---- whole episodes ----------------------------------------------------------------------------


def turns(size: str, context: str, count: int) -> tuple[PreTrainedModel, list[list[GenerationRequest]]]:
    """Play a few episodes as GiGPO's tiny preset does; return the model and the first turns' requests."""
    config = TINY.config(
        "gigpo",
        "agentgym/ALFWorld-v0",
        {
            "rollout.tasks": 4,
            "rollout.group_size": 4,
            "env_options.max_steps": count,
            "prompting.context": context,
            "evaluation.every": 0,
        },
        model=f"tiny:{size}",
    )
    setup = TrainingSetup.open(resolve(config))
    asked: list[list[GenerationRequest]] = []
    engine, sampled = cast(Any, setup.engine), setup.engine.generate

    def generate(requests: Sequence[GenerationRequest]) -> list[Generation]:
        asked.append(list(requests))
        return sampled(requests)

    engine.generate = generate
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(setup, Path(folder))
        trainer.collector.collect(setup.engine.version)
        trainer.close()
    return setup.language_model.model, asked


def replayed(size: str, context: str, count: int) -> Discipline:
    """Compare the cache of prompts with reading every prompt anew, on the same requests."""
    model, asked = turns(size, context, count)

    def contestant(cached: int) -> Callable[[], Run]:
        engine, weights = HfEngine(model, prompt_cache=cached), model.state_dict()

        def once() -> int:
            engine.sync(weights.items(), engine.version + 1)  # empties the cache, as each update does
            return sum(len(engine.generate(requests)) for requests in asked)

        return lambda: timed_by(once, time.process_time)

    contestants = {"agentgym": contestant(CACHED), "agentgym, without the cache": contestant(0)}
    return Discipline(f"{count} turns, context {context}", "steps/CPU-s", contestants)


# ---- what is compared ------------------------------------------------------------------------


def timed(once: Callable[[int], int]) -> Run:
    """Make a run of ``once``, which takes a seed and returns how much it produced; counts processor time."""
    seeds = count()
    return timed_by(lambda: once(next(seeds)), time.process_time)


def disciplines(todo: Work, size: str) -> list[Discipline]:
    """Return everything that is measured in rounds."""
    full = Sampling(max_tokens=TOKENS)
    ending = replace(full, stop_ids=tuple(range(0, len(todo.tiny.tokenizer), MEAN_LENGTH)))
    longest = max(trie.longest for trie in todo.tries)
    choice = Sampling(max_tokens=longest + 1, stop_ids=todo.tiny.stop_ids)

    def discipline(name: str, unit: str, sampling: Sampling, choose: bool) -> Discipline:
        def peer(logprobs: bool) -> Callable[[], Run]:
            return lambda: timed(
                lambda seed: theirs(todo, sampling, choose=choose, logprobs=logprobs, seed=seed)
            )

        contestants = {
            "agentgym": lambda: timed(lambda seed: ours(todo, sampling, choose=choose, seed=seed)),
            "transformers": peer(logprobs=True),
            "transformers, without log-probabilities": peer(logprobs=False),
        }
        return Discipline(name, unit, contestants)

    first, unequal = replace(full, max_tokens=1), apart(todo)
    reading = discipline("the first token after each prompt", "tokens/CPU-s", first, False)
    unshared = {
        "agentgym, no two prompts equal": lambda: timed(
            lambda seed: ours(unequal, first, choose=False, seed=seed)
        )
    }
    episodes = [replayed(size, context, count) for context, count in EPISODES]
    return [
        *episodes,
        replace(reading, contestants={**reading.contestants, **unshared}),
        discipline(f"{TOKENS} tokens each", "tokens/CPU-s", full, False),
        discipline(f"{MEAN_LENGTH} tokens on average, up to {TOKENS}", "tokens/CPU-s", ending, False),
        discipline("one of the admissible actions each", "actions/CPU-s", choice, True),
    ]


def texts(todo: Work) -> Texts:
    """Say what was measured."""
    lengths = sorted(map(len, todo.prompts))
    weights = sum(weight.numel() for weight in todo.tiny.model.parameters())
    return Texts(
        title="Speed of the engine",
        setting=f"A tiny model of {weights:,} weights and {len(todo.tiny.tokenizer):,} tokens; {GROUPS} "
        f"prompts of built-in ALFWorld, {lengths[0]} to {lengths[-1]} tokens long, {MEMBERS} responses to "
        "each.\nProcessor time of one thread.",
        notes="transformers is `generate` over the padded batch, with `prefix_allowed_tokens_fn` where "
        "actions are chosen.\nThe engine reads a group's prompt once, drops finished rows, and passes over "
        "tokens without an alternative.\nEpisodes are replayed from 4 tasks of 4 attempts with the tiny "
        f"preset's prompts; the cache (`rollout.prompt_cache`) has room for {CACHED:,} tokens and is empty "
        "at the start.",
    )


def main() -> int:
    """Measure, and write a record and a table."""
    arguments = parser(__spec__.name, __doc__, OUT, rounds=9, seconds=1.0)
    arguments.add_argument("--size", default="0.8m", help="of the tiny model")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    todo = work(given.size)
    rows = measure_all(disciplines(todo, given.size), given)
    command = f"python -m {__spec__.name} --size {given.size}"
    return publish_rows(command, given, rows, texts(todo), peers=("torch", "transformers"))


if __name__ == "__main__":
    raise SystemExit(main())
