"""Ids file of the built-in scenarios, for making or finding any one without the others.

``python -m agentgym.envs.sotopia.builtin.idfile`` makes it anew where the generator has changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from agentgym.envs.sotopia.builtin.scenarios import ID_FILE, SIZES, VERSION, first_candidate


def columns(split: str, size: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint16]]:
    """Return ids, uint8[n, 16], and attempts, uint16[n], of the first scenarios of a split."""
    made = [first_candidate(split, number) for number in range(size)]
    ids = b"".join(bytes.fromhex(scenario.id) for scenario, _ in made)
    return (
        np.frombuffer(ids, dtype=np.uint8).reshape(size, -1),
        np.array([attempt for _, attempt in made], dtype=np.uint16),
    )


if __name__ == "__main__":
    tables: dict[str, npt.NDArray[Any]] = {"version": np.array(VERSION)}
    for split, size in SIZES.items():
        tables[f"{split}/ids"], tables[f"{split}/attempts"] = columns(split, size)
    with ID_FILE.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **tables)
