"""The protocol of engines under its former name; `agentgym.inference.engines.types` has it."""

from agentgym.inference.engines.types import Engine

__all__ = ["Engine"]
