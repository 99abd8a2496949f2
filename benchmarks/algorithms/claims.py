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
_ISTAR = "iStar, Qwen2.5-7B, WebShop"

CLAIMS = (
    Claim("GiGPO", "GRPO", f"86.7 and 72.8 ({_GIGPO})"),
    Claim("GRPO", "RLOO", f"72.8 and 69.7 ({_GIGPO})"),
    Claim("RLOO", "PPO", f"69.7 and 54.4 ({_GIGPO})"),
    Claim("GraphGPO", "GiGPO", "92.7 and 90.9 (GraphGPO, Qwen2.5-1.5B, ALFWorld)"),
    Claim("GraphGPO", "GRPO", "92.7 and 77.9 (GraphGPO, Qwen2.5-1.5B, ALFWorld)"),
    Claim("StepPO", "GiGPO", f"92.1 and 88.6 ({_STEPPO})"),
    Claim("StepPO", "PPO", f"92.1 and 76.4 ({_STEPPO})"),
    Claim("GRPO", "PPO", f"81.4 and 76.4 ({_STEPPO})"),
    Claim("PPO", "REINFORCE++", f"76.4 and 72.9 ({_STEPPO})"),
    Claim("GRPO", "GSPO", f"81.4 and 79.3 ({_STEPPO})"),
    Claim("3SPO", "HGPO", "95.4 and 92.8 (3SPO, Qwen2.5-1.5B, ALFWorld seen)"),
    Claim("PRIME", "RLOO", f"81.5 and 77.4 ({_ISTAR})"),
    Claim("GiGPO", "PRIME", f"84.1 and 81.5 ({_ISTAR})"),
    Claim("iStar", "GiGPO", f"86.5, over RLOO, and 84.1 ({_ISTAR})"),
)
