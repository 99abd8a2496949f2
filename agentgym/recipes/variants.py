"""Variants of algorithms, as papers report them beside their main rows: extensions and ablations by name.

``agentgym train graphgpo --variant ds`` adds a variant's settings to the preset's; ``--set`` changes either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from agentgym.errors import UsageError, nearest

VariantSettings: TypeAlias = Mapping[str, Any]
"""Settings by dotted name."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Settings that a variant changes."""

    about: str
    """What it is, and where a paper has it."""
    settings: VariantSettings
    """By the dotted names of `agentgym.training.config.override`."""


def _of(**variants: tuple[str, VariantSettings]) -> Mapping[str, Variant]:
    return MappingProxyType(
        {
            name.replace("_", "-"): Variant(about, MappingProxyType(settings))
            for name, (about, settings) in variants.items()
        }
    )


_EMBEDDING = {"switches.match": "embedding", "switches.threshold": 0.95, "encoder": "minilm"}
_SIMILAR = {"switches.match": "similar", "switches.threshold": 0.95}

VARIANTS: Mapping[str, Mapping[str, Variant]] = {
    "gigpo": _of(
        dynamic=(
            "GiGPO-dynamic: DAPO's dynamic sampling and clip-higher (public code)",
            {"rollout.attempts": 10, "rollout.filter_on": "return", "objective.clip_high": 0.28},
        ),
        no_episode=("without A^E (Figure 4)", {"switches.episode_weight": 0.0}),
        no_step=("without A^S (Figure 4)", {"switches.weight": 0.0}),
        no_std=("F_norm 1 instead of the deviation (Figure 4)", {"switches.std": False}),
        text=("states told apart by their exact text, as the paper does", {"switches.match": "text"}),
        similar=("states joined by difflib's ratio, as public code can", _SIMILAR),
        embedding=("states joined by the cosine of a sentence encoder", _EMBEDDING),
    ),
    "graphgpo": _of(
        ds=(
            "+DS: groups in which all succeed or all fail are played again, ten times at most",
            {"rollout.attempts": 10, "rollout.filter_on": "won"},
        ),
        costs=("edges cost what the environment says, such as tool calls", {"switches.costs": "environment"}),
        embedding=("nodes and groups joined by the cosine of a sentence encoder", _EMBEDDING),
        similar=("nodes and groups joined by difflib's ratio", _SIMILAR),
        text=("nodes told apart by their exact text", {"switches.match": "text"}),
        no_graph=("without A^G: GRPO (Table 3)", {"switches.graph_weight": 0.0}),
        no_episode=("without A^E (Table 3)", {"switches.episode_weight": 0.0}),
        no_std=("without the deviation", {"switches.std": False}),
        unique_edges=("Equation 5 over a set of edges", {"switches.edges": "unique"}),
        reference=("R without the step's own cost, as public code", {"switches.convention": "reference"}),
    ),
}
"""By algorithm and name."""


def variant(algorithm: str, name: str) -> Variant:
    """Return a variant by name.

    Raises:
        UsageError: the algorithm has none of this name.

    Example:
        >>> dict(variant("graphgpo", "ds").settings)
        {'rollout.attempts': 10, 'rollout.filter_on': 'won'}
    """
    known = VARIANTS.get(algorithm, {})
    if name not in known:
        listed = f"{nearest(name, known)}; it has {', '.join(known)}" if known else ": set options by --set"
        raise UsageError(f"{algorithm} has no variant {name!r:.60}{listed}")
    return known[name]
