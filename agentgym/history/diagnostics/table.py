"""The diagnostics by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from agentgym.core.options import check_choice
from agentgym.errors import UsageError
from agentgym.history.diagnostics import credit, effort, golden, lengths, states, trees
from agentgym.history.diagnostics.run_source import RunSource
from agentgym.history.diagrams import Diagram

DiagnosticData: TypeAlias = Literal["metrics", "rollouts", "rollouts and environment"]
"""Data that a diagnostic reads: ``metrics.jsonl``, stored rollouts, or these and the oracle."""

COMPARING: Final = ("unique-states", "state-score", "golden-length")
"""Diagnostics that compare several runs; the others show one."""

_TABLE: Final[Mapping[str, tuple[DiagnosticData, Callable[..., Diagram]]]] = MappingProxyType(
    {
        "step-groups": ("rollouts", states.step_groups),
        "unique-states": ("metrics", states.unique_states),
        "high-score": ("metrics", states.high_score),
        "stage-seconds": ("metrics", effort.stage_seconds),
        "tokens": ("metrics", effort.tokens),
        "critic": ("metrics", effort.critic),
        "rewards": ("rollouts", credit.rewards),
        "progress": ("rollouts", credit.progress),
        "true-progress": ("rollouts and environment", lengths.true_progress),
        "golden-length": ("rollouts and environment", golden.golden_length),
        "values": ("rollouts", credit.values),
        "k-by-difficulty": ("metrics", trees.k_by_difficulty),
        "state-score": ("metrics", trees.state_score),
        "one-state": ("metrics", trees.one_state),
    }
)

DIAGNOSTICS: Final = tuple(_TABLE)
"""Names that `diagnose` takes."""


def describe_diagnostics() -> list[tuple[str, DiagnosticData, str]]:
    """Return name, data and first sentence of each diagnostic."""
    return [(name, data, (make.__doc__ or "").splitlines()[0]) for name, (data, make) in _TABLE.items()]


def diagnose(
    folder: Path, name: str, iterations: Sequence[int] = (), *, beside: Sequence[Path] = ()
) -> Diagram:
    """Compute one of `DIAGNOSTICS` of a run; of those in `COMPARING` with other runs ``beside`` it.

    ``iterations``: those whose kept rollouts it is computed from; empty for all, of which the sizes of step
    groups show the first and the last. `UsageError` names the setting that records what the run lacks.
    """
    check_choice("diagnostic", name, _TABLE)
    if beside and name not in COMPARING:
        raise UsageError(
            f"--what {name} draws one run at a time, got {1 + len(beside)}: name one; several are drawn by "
            f"{', '.join(COMPARING)}"
        )
    chosen = tuple(dict.fromkeys(iterations))
    return _TABLE[name][1](*(RunSource(each, chosen) for each in (folder, *beside)))
