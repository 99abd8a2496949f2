"""Path measures of suites with a goal to reach: path length, and success weighted by it."""

from __future__ import annotations

from collections.abc import Callable

from agentgym.core.suite_spec import Measure

WITHIN = (15, 30)
"""Steps within which success counts in ``won_15`` and ``won_30``."""


def path_measures(reference: str) -> tuple[Measure, ...]:
    """Return the measures of `measured_path`; ``reference`` names the path compared with."""
    spl = Measure(name="spl", about=f"success weighted by path length, against {reference}")
    return (spl, *(Measure(name=f"won_{n}", about=f"success within {n} steps") for n in WITHIN))


def measured_path(*, won: bool, steps: int, reference: Callable[[], int | None]) -> dict[str, float]:
    """Return the values of `path_measures`.

    Success weighted by path length (Anderson et al. 2018, "On Evaluation of Embodied Navigation Agents") is
    ``won * l / max(steps, l)``: 1 for a way that is no longer than the reference, 0 for a lost episode.

    ``steps``: played so far, rejected actions too; ``reference`` computes l, None where it is not known: the
    path that was found is then the shortest known. It is called for episodes won only.

    Example:
        >>> measured_path(won=True, steps=20, reference=lambda: 5)
        {'spl': 0.25, 'won_15': 0.0, 'won_30': 1.0}
        >>> measured_path(won=False, steps=3, reference=lambda: 5)
        {'spl': 0.0, 'won_15': 0.0, 'won_30': 0.0}
    """
    spl = 0.0
    if won:
        length = reference()
        spl = 1.0 if length is None else length / max(steps, length)
    return {"spl": spl, **{f"won_{n}": float(won and steps <= n) for n in WITHIN}}
