"""Episodes that a foreign trainer's loop plays with texts, and the credit of the steps that it hands back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.table import ALGORITHMS, find_algorithm
from agentgym.core.arrays import Floats, Ints
from agentgym.core.episodes import taken_step
from agentgym.core.options import check_options
from agentgym.core.spaces import UnicodeText
from agentgym.core.types import Completion, Request, Step
from agentgym.env import AgentEnv
from agentgym.errors import UsageError
from agentgym.prompts.budget import PromptBuilder

_COLUMNS = ("reward", "valid", "terminated", "truncated", "cost", "progress", "won")
_OF_REQUEST = ("task_id", "task_type", "admissible_actions", "state_hash")


class TextEpisode:
    """An episode of an environment: token ids of prompts out, responses in, a plain record a step."""

    records: list[dict[str, Any]]
    """Record of each step so far; once the episode is over, their ``won`` is its outcome."""
    info: dict[str, Any]
    over: bool

    def __init__(self, env: AgentEnv[Any], builder: PromptBuilder):
        """Bind an environment that nothing else plays, and the builder of prompts."""
        if not isinstance(env.observation_space, UnicodeText):
            raise UsageError(
                f"{type(env).__name__} shows pictures, which are not passed on: choose one of text"
            )
        self._env, self._builder = env, builder

    def begin(self, *, task: str | None = None, seed: int | None = None) -> None:
        """Reset the environment to a task, or to one that the seed picks."""
        if task is None and seed is None:
            raise UsageError("the rows of the data set name no task: give them a column 'task' or 'seed'")
        options = None if task is None else {"task": task}
        self._observation, self.info = self._env.reset(seed=seed, options=options)
        self._steps: tuple[Step, ...] = ()
        self.records, self.over = [], False

    def prompt(self) -> tuple[int, ...]:
        """Return the token ids of the prompt; PromptTooLongError where they exceed the budget."""
        return self._builder.build(self._request()).ids

    def play(self, response: str) -> dict[str, Any]:
        """Play the action that a response states; return the step's record."""
        action, seen, before = self._builder.read(response, self._request()), self._observation, self.info
        outcome = self._env.step(action)
        self._observation, _, terminated, truncated, self.info = outcome
        step = taken_step(seen, before, Completion(action, text=response), outcome)
        names = ("state_hash", "next_state_hash", "action", *_COLUMNS[:-1])
        record = {name: getattr(step, name) for name in names} | {"index": len(self.records), "won": False}
        self.records.append(record | {"text": seen})
        self._steps, self.over = (*self._steps, step), terminated or truncated
        for each in self.records if self.over else ():
            each["won"] = bool(self.info["won"])
        return self.records[-1]

    def _request(self) -> Request:
        known = {name: self.info[name] for name in _OF_REQUEST}
        seen, turn = self._observation, len(self._steps)
        return Request(
            episode=0, turn=turn, observation=seen, seed=0, history=self._steps, extra=self.info, **known
        )


def step_batch(
    keys: Sequence[tuple[str, str]], records: Sequence[Mapping[str, Any]], **columns: Sequence[Any]
) -> tuple[StepBatch, Ints]:
    """Return n steps in any order as a batch, and (n,) the input's row of each of its rows.

    ``keys``: group of each step and episode within it; ``columns``: further columns of the batch, such as
    ``values``, in the order of the records. `ValueError` where a step of an episode is missing or there
    twice.
    """
    groups = {name: number for number, name in enumerate(dict.fromkeys(group for group, _ in keys))}
    episodes = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    order = sorted(range(len(keys)), key=lambda row: (episodes[keys[row]], records[row]["index"]))
    names = {"step": "index", "state": "state_hash", "next_state": "next_state_hash"}
    names |= {"texts": "text", "actions": "action"} | {name: name for name in _COLUMNS}
    batch = StepBatch.of(
        group=[groups[keys[row][0]] for row in order],
        trajectory=[episodes[keys[row]] for row in order],
        **{column: [records[row][name] for row in order] for column, name in names.items()},
        **{name: [column[row] for row in order] for name, column in columns.items()},
    )
    return batch, np.array(order, dtype=np.int64)


def step_advantages(algorithm: str, batch: StepBatch, options: Mapping[str, Any]) -> Floats:
    """Return (n,) advantages; UsageError where the algorithm needs more than steps or lacks an option."""
    found = find_algorithm(algorithm)
    if not _of_steps(found):
        others = ", ".join(name for name, known in ALGORITHMS.items() if _of_steps(known))
        raise UsageError(f"{found.title} needs more than steps: choose one of {others}")
    check_options(options, found.options, f"{found.title}: ")
    return found.advantage(batch, **options)


def _of_steps(algorithm: Algorithm) -> bool:
    unlike = algorithm.reward_model or algorithm.snapshot or algorithm.scored_by_reference
    return algorithm.unit == "step" and not unlike
