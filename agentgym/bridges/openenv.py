"""OpenEnv: environments as its `Environment` class, for servers and trainers that import one.

The name of a suite is the name of its class: ``agentgym.bridges.openenv.Sokoban`` plays
``agentgym/Sokoban-v0``. NeMo Gym's adapter takes that dotted path as ``env_class``, and
``agentgym.bridges.openenv.AgentAction`` as ``action_class``.

Example:
    >>> from agentgym.bridges.openenv import AgentAction, environment_class
    >>> env = environment_class("agentgym/Sokoban-v0", split="test")()
    >>> env.reset(seed=3).metadata["turn"], env.step(AgentAction(action="up")).reward
    (0, -0.1)
    >>> env.close()
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any, ClassVar

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import ConfigDict

from agentgym.endpoint.loop import BackgroundLoop
from agentgym.errors import UsageError
from agentgym.registration import ENVIRONMENTS
from agentgym.serving.env.service import Client, EnvService
from agentgym.serving.env.sessions import EnvLimits, SessionError


class AgentAction(Action):  # type: ignore[misc]
    """An action of an environment, as text."""

    action: str
    """One of the possible actions."""


class AgentObservation(Observation):  # type: ignore[misc]
    """An observation: ``text``, or ``image_base64`` beside it, as the environment's server writes them.

    ``metadata`` is the environment's info.
    """

    model_config = ConfigDict(extra="allow", validate_assignment=True, arbitrary_types_allowed=True)

    instructions: str = ""
    """Rules, task and possible actions after a reset, what is seen and possible now after a step."""
    terminated: bool = False
    """Whether the task ended."""
    truncated: bool = False
    """Whether the step limit was reached."""


class AgentEnvironment(Environment):  # type: ignore[misc]
    """Episodes of one environment, each instance its own; all instances of a class share its world.

    `environment_class` makes the classes that can be instantiated. A message that is not carried out is a
    `UsageError` of one line, and changes nothing.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True
    env_id: ClassVar[str]
    """Id of the environment."""
    options: ClassVar[dict[str, Any]] = {}
    """Options of its constructor."""

    def __init__(self) -> None:
        """Open the environment's world where no instance has; `reset` begins an episode."""
        super().__init__()
        own: Any = type(self)
        self._service, self._loop = _opened(own, os.getpid())
        self._client = Client()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **settings: Any) -> Observation:
        """Begin an episode; ``settings`` are those of the server's ``POST /reset``: ``task``, ``index``..."""
        given = {"snapshot": False, **settings, "seed": seed, "episode_id": episode_id}
        return _observation(self._answer("reset", given))

    def step(self, action: Action, timeout_s: float | None = None, **settings: Any) -> Observation:
        """Play an action: an `AgentAction`, or OpenEnv's ``CallToolAction`` or ``ListToolsAction``."""
        return _observation(self._answer("step", action.model_dump()))

    @property
    def state(self) -> State:
        """State of the episode: its id and length, the state's hash and the suite's measures."""
        return State(**self._answer("state", {}))

    def close(self) -> None:
        """End the episode, and leave its room to other instances."""
        left, self._client = self._client, Client()
        work = self._service.call(lambda: self._service.leave(left, owned=True))
        self._loop.submit(work).result()

    def _answer(self, kind: str, data: dict[str, Any]) -> Any:
        try:
            return self._loop.submit(self._service.handle(self._client, kind, data)).result().data
        except SessionError as error:
            raise UsageError(error.line) from error


def environment_class(
    env_id: str, *, sessions: int = 1_024, split: str | None = None, **options: Any
) -> type[AgentEnvironment]:
    """Return the class of an environment, for at most ``sessions`` instances with an episode at once.

    ``options`` are those of its constructor; errors as `agentgym.make`, at the first instance.
    """
    name = env_id.rpartition("/")[2].partition("-")[0]
    given = {"limits": EnvLimits(sessions=sessions), "split": split, "options": options}
    return type(name, (AgentEnvironment,), {"env_id": env_id, "options": given, "__module__": __name__})


@cache
def _opened(kind: type[AgentEnvironment], process: int) -> tuple[EnvService, BackgroundLoop]:
    """Return what plays a class's episodes in a process; a forked one has no threads of its parent's."""
    return EnvService.open(kind.env_id, **kind.options), BackgroundLoop()


def _observation(row: dict[str, Any]) -> Observation:
    """Return the observation of a service's row, in the class that OpenEnv has for it."""
    shown = row.pop("observation")
    ends = {name: row[name] for name in ("done", "reward", "metadata")}
    if "tools" not in shown and "tool_name" not in shown:
        return AgentObservation(**shown, **row)
    from openenv.core.env_server.mcp_types import CallToolObservation, ListToolsObservation

    if "tools" in shown:
        return ListToolsObservation(tools=shown["tools"], **ends)
    known = {name: shown.get(name) for name in ("tool_name", "result", "error")}
    return CallToolObservation(**known, **ends)


@cache
def __getattr__(name: str) -> type[AgentEnvironment]:
    """Return the class of a suite by its name."""
    env_id = f"agentgym/{name}-v0"
    if env_id not in ENVIRONMENTS:
        raise AttributeError(f"agentgym.bridges.openenv has no {name!r}")
    return environment_class(env_id)
