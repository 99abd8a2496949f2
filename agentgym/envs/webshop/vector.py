"""WebShop's vector environment: episodes in one process that share one shop."""

from __future__ import annotations

from typing import ClassVar

from agentgym.envs.webshop.env import WebShopEnv
from agentgym.vector.serial import SerialVectorEnv


class WebShopVectorEnv(SerialVectorEnv):
    """N episodes of `WebShopEnv`, which share the catalogue, its index and all pages made."""

    env_class: ClassVar[type[WebShopEnv]] = WebShopEnv
