"""Algorithms: one module each, pure functions that read like their papers.

`ALGORITHMS` (of `agentgym.algos.table`) lists them by name.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentgym.algos.table import ALGORITHMS

__all__ = ["ALGORITHMS"]


def __getattr__(name: str) -> Any:
    """Load the table when it is asked for, so that importing one algorithm imports no other."""
    if name == "ALGORITHMS":
        from agentgym.algos import table

        return table.ALGORITHMS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
