"""Opening the environment that a command names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agentgym.vector.core import AgentVectorEnv


@contextmanager
def open_slots(
    env_id: str,
    *,
    split: str = "train",
    options: Mapping[str, Any] | None = None,
) -> Iterator[AgentVectorEnv]:
    """Open one slot of an environment, and close it afterwards.

    Args:
        env_id: a registered id.
        split: whose tasks are played.
        options: further options of the environment.

    Raises:
        UsageError: unknown id, split, option or option value.
        MissingDataError: its data is not on this machine.
    """
    from agentgym.evaluation.suite import SuiteEnv
    from agentgym.evaluation.worlds import open_vector

    envs = open_vector(SuiteEnv(env_id, label=env_id, split=split, tasks=1, kwargs=dict(options or {})), 1)
    try:
        yield envs
    finally:
        envs.close()
