"""Sokoban as arrays: N episodes on one `BoardBatch`, equal to N single environments bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode

from agentgym.env import AgentEnv
from agentgym.envs.sokoban.arrays import BoardBatch, Ints
from agentgym.envs.sokoban.deadlock import is_deadlocked
from agentgym.envs.sokoban.env import REJECTED, SokobanEnv, VisualSokobanEnv
from agentgym.envs.sokoban.level import Level, walls
from agentgym.envs.sokoban.tiles import draw, grid
from agentgym.hashing import StateHasher, canonical
from agentgym.tasks import Task
from agentgym.types import Snapshot
from agentgym.vector.batching import Infos, object_array
from agentgym.vector.core import AgentVectorEnv, Moves, Starts, merge_step_limits
