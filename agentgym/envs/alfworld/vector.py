"""ALFWorld's vector environment: episodes in one process that share what is compiled."""

from __future__ import annotations

from typing import ClassVar

from agentgym.envs.alfworld.env import ALFWorldEnv
from agentgym.vector.serial import SerialVectorEnv


class ALFWorldVectorEnv(SerialVectorEnv):
    """N episodes of `ALFWorldEnv`; those of one game share its compiled form."""

    env_class: ClassVar[type[ALFWorldEnv]] = ALFWorldEnv
