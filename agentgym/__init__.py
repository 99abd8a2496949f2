"""agentgym: environments, algorithms, trainer and leaderboard for language agents.

Importing the package registers its environments with Gymnasium:

    >>> import gymnasium, agentgym
    >>> env = gymnasium.make("agentgym/EZPoints-v0")
    >>> observation, info = env.reset(seed=0)
"""

import agentgym.interrupts  # noqa: F401 (first, before what takes long to import)

# isort: split
from typing import TYPE_CHECKING, Any

from agentgym.env import AgentEnv, Outcome, Status
from agentgym.errors import MissingDataError, UsageError
from agentgym.registration import register_environments
from agentgym.spaces import UnicodeText
from agentgym.tasks import Task, TaskSet
from agentgym.types import Completion, Group, Policy, Request, Snapshot, Step, Trajectory
from agentgym.vector.core import AgentVectorEnv
from agentgym.vector.serial import SerialVectorEnv
from agentgym.version import __version__

if TYPE_CHECKING:
    from agentgym.checking import check_agent_env, check_agent_vector_env

__all__ = [
    "AgentEnv",
    "AgentVectorEnv",
    "Completion",
    "Group",
    "MissingDataError",
    "Outcome",
    "Policy",
    "Request",
    "SerialVectorEnv",
    "Snapshot",
    "Status",
    "Step",
    "Task",
    "TaskSet",
    "Trajectory",
    "UnicodeText",
    "UsageError",
    "__version__",
    "check_agent_env",
    "check_agent_vector_env",
    "register_environments",
]

register_environments()


def __getattr__(name: str) -> Any:
    """Load the conformance kit when it is first asked for: nothing else needs it."""
    if name in ("check_agent_env", "check_agent_vector_env"):
        from agentgym import checking

        return getattr(checking, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
