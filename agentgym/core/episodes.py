"""Rules of an episode, for all that play or record one: its end, its steps, texts, and suites' own keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.core.types import Completion, EndReason, Observation, Step

CONTRACT_KEYS = frozenset(
    [
        "task_id",
        "task_type",
        "turn",
        "state_hash",
        "admissible_actions",
        "action_is_valid",
        "won",
        "score",
        "progress",
    ]
)
"""Info keys that every environment has; the others are a suite's own."""


def game_end(*, terminated: bool, truncated: bool, won: bool) -> EndReason | None:
    """Return why a game is over after a step; None where it goes on.

    Example:
        >>> game_end(terminated=True, truncated=False, won=False)
        'failure'
    """
    if terminated:
        return "success" if won else "failure"
    return "step_limit" if truncated else None


def observed_text(observation: Observation) -> str:
    """Return the text of an observation, which may have a picture beside it."""
    return observation if isinstance(observation, str) else str(observation["text"])


def suite_keys(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the suite's own keys of an info."""
    return {key: value for key, value in info.items() if key not in CONTRACT_KEYS}


def own_steps(steps: tuple[Step, ...], extra: Mapping[str, Any]) -> tuple[Step, ...]:
    """Return the steps of the side to act, where a policy plays several.

    ``extra``: the suite's own info keys of the current state.
    """
    return tuple(step for step in steps if step.side == extra["side"])


def taken_step(
    observation: Observation,
    info: Mapping[str, Any],
    completion: Completion,
    outcome: tuple[Any, float, bool, bool, Mapping[str, Any]],
    *,
    sided: bool = False,
) -> Step:
    """Return the step that an answer took in a single environment.

    Args:
        observation: seen before.
        info: the one before.
        completion: the answer, whose action was played.
        outcome: returned by `AgentEnv.step`.
        sided: whether several sides play.
    """
    _, reward, terminated, truncated, after = outcome
    return Step(
        observation=observation,
        state_hash=info["state_hash"],
        admissible_actions=info["admissible_actions"],
        completion=completion,
        reward=float(reward),
        next_state_hash=after["state_hash"],
        valid=bool(after["action_is_valid"]),
        terminated=terminated,
        truncated=truncated,
        progress=float(after["progress"] - info["progress"]),
        cost=float(after.get("step_cost", 1.0)),
        side=info["side"] if sided else None,
    )
