"""The record of an iteration, under the trainer's own name; it is defined where torch is not needed."""

from agentgym.history.metrics import Evaluated, IterationMetrics, StageSeconds

__all__ = ["Evaluated", "IterationMetrics", "StageSeconds"]
