"""agentgym: environments, algorithms, trainer and leaderboard for language agents.

Importing the package registers its environments with Gymnasium:

    >>> import agentgym
    >>> env = agentgym.make("agentgym/EZPoints-v0")
    >>> observation, info = env.reset(seed=0)

`make` and `make_vec` are Gymnasium's functions of these names with the types that their results have.
"""

import agentgym.interrupts  # noqa: F401 (first, before what takes long to import)

# isort: split
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.namesake import refuse_namesake

refuse_namesake(Path(__file__).parent)  # first: nothing beside that project's files can be trusted

from agentgym.core.spaces import UnicodeText
from agentgym.core.tasks import ListTaskSet, Task, TaskSet
from agentgym.core.types import Completion, Group, Policy, Request, Snapshot, Step, Trajectory
from agentgym.env import AgentEnv, Outcome, Status
from agentgym.errors import MissingDataError, UsageError
from agentgym.registration import make, make_vec, register_environments
from agentgym.vector.core import AgentVectorEnv
from agentgym.vector.serial import SerialVectorEnv
from agentgym.version import __version__

if TYPE_CHECKING:
    from agentgym.agents.language.chat_env import ChatEnv, chat, chat_vec
    from agentgym.checking import check_agent_env, check_agent_vector_env
    from agentgym.serving.env.client import remote

__all__ = [
    "AgentEnv",
    "AgentVectorEnv",
    "ChatEnv",
    "Completion",
    "Group",
    "ListTaskSet",
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
    "chat",
    "chat_vec",
    "check_agent_env",
    "check_agent_vector_env",
    "make",
    "make_vec",
    "register_environments",
    "remote",
]

register_environments()


def __getattr__(name: str) -> Any:
    """Load the conformance kit, chat environments or the client of servers at first use."""
    if name in ("ChatEnv", "chat", "chat_vec"):
        from agentgym.agents.language import chat_env

        return getattr(chat_env, name)
    if name in ("check_agent_env", "check_agent_vector_env"):
        from agentgym import checking

        return getattr(checking, name)
    if name == "remote":
        from agentgym.serving.env.client import remote

        return remote
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
