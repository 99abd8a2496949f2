"""Demonstrators: oracle and rule-based agents, as teachers of trained and of prompted models."""

from __future__ import annotations

from collections.abc import Mapping

DEMONSTRATORS: Mapping[str, bool] = {"rules": False, "oracle": True}
"""Names of the agents that demonstrate, and whether each sees what a player does not."""

DEMONSTRATED_SPLIT = "train"
"""The only split that is demonstrated: the others are for evaluation."""
