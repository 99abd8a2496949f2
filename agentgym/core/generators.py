"""States of random generators, as values for snapshots."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from agentgym.core.types import Snapshot


class GeneratorState(NamedTuple):
    """State of a generator of Gymnasium's (PCG64), as a value."""

    state: int
    inc: int
    has_uint32: int
    uinteger: int

    @classmethod
    def of(cls, generator: np.random.Generator | None) -> Self | None:
        """Return the state of ``generator``; None for none."""
        if generator is None:
            return None
        parts = generator.bit_generator.state
        return cls(parts["state"]["state"], parts["state"]["inc"], parts["has_uint32"], parts["uinteger"])


def restored_generator(
    snapshot: Snapshot, generator: np.random.Generator | None
) -> np.random.Generator | None:
    """Return a generator in the snapshot's state; None if it had none.

    ``generator`` is set and returned where there is one, which is cheaper than a new one.
    """
    if snapshot.rng is None:
        return None
    if generator is None:
        generator = np.random.Generator(np.random.PCG64(0))
    state, inc, has_uint32, uinteger = snapshot.rng
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": state, "inc": inc},
        "has_uint32": has_uint32,
        "uinteger": uinteger,
    }
    return generator
