"""Orderings that the papers print, to be held against the sweep's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """One ordering of two algorithms."""

    better: str
    worse: str
    """Titles of algorithms."""
    printed: str
    """The numbers, and where they are from."""


_GIGPO = "GiGPO, Qwen2.5-1.5B, ALFWorld"
_STEPPO = "StepPO, Qwen3-4B, ALFWorld seen"

_SPO3 = "3SPO, Qwen2.5-1.5B, ALFWorld seen"

COMPARED = ("GRPO", "RLOO", "PPO", "GiGPO", "GraphGPO", "StepPO", "3SPO", "iStar")
"""What the five papers propose, and the three algorithms that all of them compare with."""

DECLARED = (
    Claim("GiGPO", "GRPO", f"86.7 and 72.8 ({_GIGPO})"),
    Claim("GRPO", "RLOO", f"72.8 and 69.7 ({_GIGPO})"),
    Claim("RLOO", "PPO", f"69.7 and 54.4 ({_GIGPO})"),
    Claim("GraphGPO", "GiGPO", "92.7 and 90.9 (GraphGPO, Qwen2.5-1.5B, ALFWorld)"),
    Claim("GraphGPO", "GRPO", "92.7 and 77.9 (GraphGPO, Qwen2.5-1.5B, ALFWorld)"),
    Claim("StepPO", "GiGPO", f"92.1 and 88.6 ({_STEPPO})"),
    Claim("StepPO", "PPO", f"92.1 and 76.4 ({_STEPPO})"),
    Claim("GRPO", "PPO", f"81.4 and 76.4 ({_STEPPO})"),
    Claim("iStar", "GiGPO", "86.5, over RLOO, and 84.1 (iStar, Qwen2.5-7B, WebShop)"),
    Claim("3SPO", "GiGPO", f"95.4 and 90.2 ({_SPO3})"),
    Claim("3SPO", "GRPO", f"95.4 and 72.8 ({_SPO3})"),
)
"""Orderings of the study `orderings`, fixed before its first run, with the rule of their verdicts.

An ordering holds on a game, or is reversed, where both are true: the sign-flip test of the paired
differences of forty seeds has p <= .05 after Holm's adjustment over all orderings and games, and on the ten
seeds held back the difference has the same sign, with p <= .05 of the one-sided test. Where the first is
true alone the verdict is "not confirmed", else "open".
"""

_NOISE = "true credit has no noise"
_PRICE = "continuations cost most of the steps"

CEILING_CLAIMS = (
    Claim("Exact", "GRPO", _NOISE),
    Claim("Exact", "GiGPO", _NOISE),
    Claim("Exact", "PPO", _NOISE),
    Claim("Exact", "VinePPO, equal episodes", "three continuations are noisy"),
    Claim("VinePPO, equal episodes", "GRPO", "a value of every state"),
    Claim("VinePPO, equal episodes", "GiGPO", "a value of every state"),
    Claim("GRPO", "VinePPO, equal steps", _PRICE),
    Claim("GiGPO", "VinePPO, equal steps", _PRICE),
)
"""Orderings of the study `ceilings`, as they were expected before its first run; the rule is the same, with
ten seeds in the place of forty."""
