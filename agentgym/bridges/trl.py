"""TRL: environments for the ``environment_factory`` of its ``GRPOTrainer`` and ``AsyncGRPOTrainer``.

A model plays by calling tools: each tool of a suite is a typed, documented method, each call a step, and its
result the next observation as prompts of this package tell it. Nothing of TRL is imported here.

Example:
    >>> sokoban = EnvironmentFactory("agentgym/Sokoban-v0", num_boxes=1)
    >>> rows = sokoban.rows(64)  # for GRPOTrainer's train_dataset, as Dataset.from_list(rows)
    >>> player = sokoban()  # what GRPOTrainer does with environment_factory=sokoban
    >>> opening = player.reset(**rows[0])
    >>> print(player.move(direction="up").splitlines()[0], player.get_reward())
    The warehouse now, after 1 turns: -0.1
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from threading import Lock
from typing import Any

from agentgym.core.tools import Tool
from agentgym.core.types import Request
from agentgym.env import AgentEnv
from agentgym.errors import UsageError
from agentgym.io.optional import load
from agentgym.prompts.formats.calls import action_of_raw_call
from agentgym.prompts.rendering import render_opening, render_present
from agentgym.prompts.template import Template, load_template
from agentgym.reading import RawCall, UnreadableError
from agentgym.registration import class_of, open_env


class ToolEnvironment:
    """An environment with its suite's tools as methods. Reward functions can read its attributes."""

    info: dict[str, Any]
    """Info of the last step, as Gymnasium's ``info``: ``won``, ``score``, ``state_hash``, ..."""
    rewards: list[float]
    """Reward of each step so far."""
    terminated: bool
    truncated: bool

    _template: Template
    _lock: Lock
    """Lock of the world that instances share: the asynchronous trainer calls tools in threads."""

    def __init__(self, env: AgentEnv[Any]):
        """Bind an environment, which has no episode yet."""
        self._env = env

    def reset(self, *, task: str | None = None, seed: int | None = None, **row: Any) -> Any:
        """Start the episode of a row; return the end of the prompt: instructions and observation."""
        if task is None and seed is None:
            raise UsageError(
                "the rows of the dataset name no task: give them a column 'task' or 'seed', as "
                "EnvironmentFactory.rows does, so that all generations of a group play the same one"
            )
        options = None if task is None else {"task": task}
        with self._lock:
            observation, self.info = self._env.reset(seed=seed, options=options)
        self.rewards, self.terminated, self.truncated = [], False, False
        return self._shown(observation)

    def get_reward(self) -> float:
        """Return the sum of the episode's rewards."""
        return float(sum(self.rewards))

    def _play(self, action: str) -> Any:
        """Play the action of a call; return the observation."""
        if self.terminated or self.truncated:
            raise ValueError("Game over")
        with self._lock:
            observation, reward, self.terminated, self.truncated, self.info = self._env.step(action)
        self.rewards.append(reward)
        return self._shown(observation)

    def _shown(self, observation: Any) -> Any:
        """Return the text of an observation, or a picture and its text as the blocks of a message."""
        info, turn = self.info, len(self.rewards)
        known = {key: info[key] for key in ("task_id", "task_type", "admissible_actions", "state_hash")}
        request = Request(episode=0, turn=turn, observation=observation, seed=0, extra=info, **known)
        fields = self._template.fields(request, history=0)
        text = render_present(self._template, fields) if turn else render_opening(self._template, fields)
        if isinstance(observation, str):
            return text
        images = load("PIL.Image", "plot", "an observation with a picture", "pillow")
        picture = {"type": "image", "image": images.fromarray(observation["image"])}
        return [picture, {"type": "text", "text": text}]


class EnvironmentFactory:
    """Makes environments for TRL, over one read-only world; pickles by its arguments."""

    def __init__(self, env_id: str, *, wording: str = "", **options: Any):
        """Name an environment, as `agentgym.make` does.

        Args:
            env_id: its id.
            wording: wording of observations (`agentgym.prompts.wordings`); empty for the suite's own.
            **options: options of its constructor, ``split`` among them.

        Raises:
            UsageError: unknown id.
        """
        self._arguments = (env_id, wording, options)
        class_of(env_id)

    def __call__(self) -> ToolEnvironment:
        """Return another environment."""
        return self._class(self._env.spawn())

    def rows(self, tasks: int) -> list[dict[str, Any]]:
        """Return the rows of a training set: the first tasks of the split, as many as it has at most."""
        prompt = [{"role": "user", "content": ""}]
        return [
            {"prompt": prompt, "task": task.id, "seed": seed}
            for seed, task in enumerate(self._env.tasks[:tasks])
        ]

    def __reduce__(self) -> Any:
        """Pickle the arguments alone."""
        env_id, wording, options = self._arguments
        return partial(EnvironmentFactory, env_id, wording=wording, **options), ()

    @cached_property
    def _env(self) -> AgentEnv[Any]:
        env_id, _, options = self._arguments
        return open_env(env_id, options=options)

    @cached_property
    def _class(self) -> type[ToolEnvironment]:
        template = load_template(self._arguments[1] or self._env.suite_spec.prompt.wording, "bare")
        if template.remembers:
            raise UsageError(
                f"{template.id} tells past turns, which a conversation holds: choose another wording"
            )
        tools = {tool.name: tool.method(partial(_called, tool)) for tool in self._env.tools}
        reserved = (*vars(ToolEnvironment), *ToolEnvironment.__annotations__)
        if taken := [name for name in tools if name in reserved or name.startswith("_")]:
            raise UsageError(f"TRL calls no tool named {taken[0]!r}: rename it")
        members = {**tools, "_template": template, "_lock": Lock()}
        return type(type(self._env).__name__, (ToolEnvironment,), members)


def _called(tool: Tool, env: ToolEnvironment, arguments: dict[str, Any]) -> Any:
    """Play a call; `ValueError` where it does not fit: the trainer shows its message to the model."""
    try:
        action, _ = action_of_raw_call(RawCall(tool.name, arguments), (tool,))
    except UnreadableError as error:
        raise ValueError(str(error)) from error
    return env._play(action)


def mixed_rows(factories: Mapping[str, EnvironmentFactory], tasks: int) -> list[dict[str, Any]]:
    """Return the rows for several suites, a dict of factories: each with its factory's name."""
    return [{**row, "environment": name} for name in factories for row in factories[name].rows(tasks)]
