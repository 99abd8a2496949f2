"""Requests to policies: any one, and that of an episode as it stands."""

from collections.abc import Iterable, Mapping
from typing import Any

from agentgym.core.types import Completion, Request, Step
from agentgym.env import AgentEnv

Turn = tuple[str, tuple[str, ...], str, bool]
"""An observation, the actions that it admits, the one that was played and whether it was accepted."""


def request(**changes: Any) -> Request:
    """Return a request of an episode that has just begun, unless it is changed.

    Args:
        changes: fields of the request; ``history`` moves its turn along.
    """
    turn = len(changes.get("history", ()))
    fields: dict[str, Any] = {
        "episode": 0, "task_id": "t", "task_type": "", "turn": turn, "observation": "",
        "admissible_actions": (), "state_hash": "0", "seed": 7,
    }  # fmt: skip
    return Request(**fields | changes)


def request_of(env: AgentEnv[Any], info: Mapping[str, Any], **changes: Any) -> Request:
    """Return what an episode asks its policy after a reset or step, with a snapshot for oracles.

    Args:
        env: the episode's environment.
        info: what the reset or step returned.
        changes: other fields of the request.
    """
    names = ("task_id", "task_type", "turn", "admissible_actions", "state_hash")
    return request(**{name: info[name] for name in names} | {"seed": 0, "snapshot": env.snapshot} | changes)


def steps_of(turns: Iterable[Turn]) -> tuple[Step, ...]:
    """Return turns as steps of a request's history."""
    return tuple(
        Step(seen, "0", actions, Completion(action), 0.0, "0", valid, False, False)
        for seen, actions, action, valid in turns
    )
