"""The algorithms by name. Imports no torch.

Adding one is a module with an `agentgym.algos.algorithm.Algorithm`, a line here, and a test. Other packages
add theirs with an entry point of the group ``agentgym.algorithms`` whose name is the algorithm's and whose
value is ``module:attribute``; they are looked up when an unknown name is asked for, never by an import.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from agentgym.algos.algorithm import Algorithm
from agentgym.core.options import check_choice
from agentgym.errors import UsageError
from agentgym.io.optional import load_reference, plugins

ENTRY_POINTS = "agentgym.algorithms"
"""Group of the entry points by which other packages add algorithms."""

REFERENCES: Final[Mapping[str, str]] = {
    "ppo": "ppo:ALGORITHM",
    "reinforce_pp": "reinforce_pp:ALGORITHM",
    "reinforce_pp_baseline": "reinforce_pp:BASELINE_ALGORITHM",
    "rloo": "rloo:ALGORITHM",
    "grpo": "grpo:ALGORITHM",
    "dr_grpo": "grpo:DR_GRPO_ALGORITHM",
    "dapo": "dapo:ALGORITHM",
    "gspo": "gspo:ALGORITHM",
    "gigpo": "gigpo:ALGORITHM",
    "hgpo": "hgpo:ALGORITHM",
    "graphgpo": "graphgpo:ALGORITHM",
    "g2po": "g2po:ALGORITHM",
    "rtmc": "rtmc:ALGORITHM",
    "gagpo": "gagpo:ALGORITHM",
    "sampo": "sampo:ALGORITHM",
    "steppo": "steppo:ALGORITHM",
    "spo3": "spo3:ALGORITHM",
    "vine": "vine:ALGORITHM",
    "exact": "vine:EXACT_ALGORITHM",
    "istar": "istar:ALGORITHM",
    "prime": "prime:ALGORITHM",
}
"""Name -> module of this package, and the `Algorithm` in it."""


def find_algorithm(name: str) -> Algorithm:
    """Return an algorithm.

    Args:
        name: a key of `ALGORITHMS`, the name of an entry point, or ``module:attribute``.

    Raises:
        UsageError: there is none of that name, or what it names is no `Algorithm`.

    Example:
        >>> find_algorithm("gigpo").title, find_algorithm("agentgym.algos.gigpo:ALGORITHM").title
        ('GiGPO', 'GiGPO')
    """
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    if ":" in name:
        return _load(name)
    others = {name: entry.value for name, entry in plugins(ENTRY_POINTS).items()}
    check_choice("algorithm", name, (*ALGORITHMS, *others), ", or write module:attribute for one of your own")
    return _load(others[name])


def trainable(name: str) -> Algorithm:
    """Return an algorithm that the trainer has everything for.

    Args:
        name: name of the algorithm, as `find_algorithm` takes it.

    Raises:
        UsageError: there is none of that name, or it names no stages.
    """
    algorithm = find_algorithm(name)
    if not algorithm.trainable:
        others = ", ".join(key for key, other in ALGORITHMS.items() if other.trainable)
        raise UsageError(
            f"{name} names no stages, so that the trainer cannot run it: name some in its record, or choose "
            f"one of {others}"
        )
    return algorithm


def _load(reference: str) -> Algorithm:
    found = load_reference(reference)
    if not isinstance(found, Algorithm):
        raise UsageError(
            f"{reference} is a {type(found).__name__}, no agentgym.algos.algorithm.Algorithm: name one"
        )
    return found


ALGORITHMS: Final[Mapping[str, Algorithm]] = MappingProxyType(
    {name: _load(f"{__package__}.{reference}") for name, reference in REFERENCES.items()}
)
"""Name -> algorithm."""
