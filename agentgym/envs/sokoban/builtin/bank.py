"""Level banks: the first levels of each split of a configuration, packed, with their optimal lengths.

Three configurations ship with the package in ``levels.npz``; ``python -m agentgym.envs.sokoban.builtin.bank``
makes that file anew and ``--check`` compares it with what the generator says. Banks of other
configurations are made on first use and kept in the cache directory.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from agentgym.core.hashing import content_id
from agentgym.core.tasks import DEFAULT_SIZES, split_of
from agentgym.data.directory import CACHE_VARIABLE, cache_directory
from agentgym.envs.sokoban.builtin.generator import VERSION, Config, generate
from agentgym.envs.sokoban.level import FLOOR, TARGET, WALL, Level
from agentgym.envs.sokoban.masks import boxes, cells, targets
from agentgym.envs.sokoban.solver import solve
from agentgym.errors import UsageError
from agentgym.io.files import writing

SHIPPED = (Config(6, 6, 1), Config(6, 6, 2), Config(7, 7, 2))
"""Configurations in the package, with `DEFAULT_SIZES` levels each."""

CACHED_SIZES: Mapping[str, int] = {"train": 1_000, "valid": 100, "test": 100}
"""Levels in the banks of other configurations."""

PACKAGE_FILE = Path(__file__).with_name("levels.npz")

_ELSEWHERE = f"or set {CACHE_VARIABLE} to another folder"

MAX_REJECTED = 10_000
"""Candidates without a new level, one after another, before a configuration is given up."""

MAX_NODES = 100_000
"""Nodes expanded for a level's optimal length before it stays unknown; no shipped level needs as many."""

Columns: TypeAlias = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Bank:
    """The levels of one split, in order of candidate number."""

    config: Config
    boards: npt.NDArray[np.uint8]
    """Boards as text, shape (n, height * (width + 1) - 1)."""
    players: npt.NDArray[np.int64]
    """Index of the player in each board, shape (n,)."""
    optimal: npt.NDArray[np.int64]
    """Length of each level's shortest solution in moves, shape (n,); 0 where the search gave up."""
    candidates: npt.NDArray[np.int64]
    """Candidate number of each level, shape (n,), ascending."""


@lru_cache(maxsize=16)
def load(config: Config, split: str) -> Bank:
    """Return the bank of a split, from the package or the cache; made now if it is in neither.

    The configuration must allow enough levels.
    """
    path = PACKAGE_FILE
    if config not in SHIPPED:
        path = cache_directory() / "sokoban" / f"levels-v{VERSION}-{config.name}.npz"
        if not path.exists():
            with writing(path, _ELSEWHERE):  # an unwritable cache is refused before levels are generated
                path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, {f"{config.name}/{key}": column for key, column in make(config).items()})
    try:
        with path.open("rb") as file, np.load(file) as archive:
            names = ("walls", "pieces", "optimal", "gaps")
            columns = {name: archive[f"{config.name}/{split}/{name}"] for name in names}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UsageError(f"the level bank {path} is damaged ({error}): delete it to make it anew") from error
    return unpack(config, columns)


def make(config: Config) -> Columns:
    """Generate the packed columns of all splits of a configuration, keyed ``split/column``."""
    sizes = DEFAULT_SIZES if config in SHIPPED else CACHED_SIZES
    found: dict[str, list[tuple[Level, int]]] = {split: [] for split in sizes}
    seen: set[str] = set()
    candidate = last = 0
    with _progress(f"generating Sokoban levels {config.name}", sum(sizes.values())) as advance:
        while any(len(found[split]) < size for split, size in sizes.items()):
            if candidate - last > MAX_REJECTED:
                raise UsageError(
                    f"hardly any level fits {config.name}: take a larger dim_room or fewer num_boxes"
                )
            level = generate(config, candidate)
            if level is not None and (task_id := content_id(level.text)) not in seen:
                seen.add(task_id)
                last = candidate
                split = split_of(task_id)
                if len(found[split]) < sizes[split]:
                    found[split].append((level, candidate))
                    advance()
            candidate += 1
    with _progress(f"solving Sokoban levels {config.name}", sum(sizes.values())) as advance:
        return {
            f"{split}/{name}": column
            for split, levels in found.items()
            for name, column in pack(config, levels, advance).items()
        }


def pack(config: Config, levels: list[tuple[Level, int]], advance: Any) -> Columns:
    """Solve levels and write them as small columns; inverse of `unpack`."""
    inside = _inside(config)
    place = {cell: i for i, cell in enumerate(inside)}
    small = np.min_scalar_type(len(inside))
    boards = np.array([np.frombuffer(level.board, dtype=np.uint8) for level, _ in levels])
    pieces, lengths = [], []
    for level, _ in levels:
        lengths.append(len(solve(level.board, max_nodes=MAX_NODES) or ()))
        layout = (level.player, *cells(boxes(level.board)), *cells(targets(level.board)))
        pieces.append([place[cell] for cell in layout])
        advance()
    gaps = np.diff([candidate for _, candidate in levels], prepend=0)
    return {
        "walls": np.packbits(boards[:, inside] == WALL, axis=1),
        "pieces": np.array(pieces, dtype=small),
        "optimal": np.array(lengths, dtype=np.uint16),
        "gaps": gaps.astype(np.uint16),
    }


def unpack(config: Config, columns: Columns) -> Bank:
    """Rebuild the boards of a split from its columns."""
    inside = _inside(config)
    n, rows = len(columns["walls"]), np.arange(len(columns["walls"]))
    blank = (bytes([WALL]) * config.width + b"\n") * config.height
    boards = np.tile(np.frombuffer(blank[:-1], dtype=np.uint8), (n, 1))
    bricks = np.unpackbits(columns["walls"], axis=1, count=len(inside)).astype(bool)
    boards[:, inside] = np.where(bricks, np.uint8(WALL), np.uint8(FLOOR))
    pieces = inside[columns["pieces"]]
    players, crates, goals = np.split(pieces, [1, 1 + config.boxes], axis=1)
    boards[rows[:, None], goals] = TARGET
    boards[rows[:, None], crates] = np.frombuffer(b"$", dtype=np.uint8)
    on_target = boards[rows, players[:, 0]] == TARGET
    boards[rows, players[:, 0]] = np.where(on_target, np.uint8(ord("+")), np.uint8(ord("@")))
    boards.flags.writeable = False
    return Bank(
        config,
        boards,
        players[:, 0],
        columns["optimal"].astype(np.int64),
        np.cumsum(columns["gaps"], dtype=np.int64),
    )


def _inside(config: Config) -> npt.NDArray[np.int64]:
    """Return the board indices of the cells that the outer walls enclose."""
    rows = np.arange(1, config.height - 1)[:, None] * (config.width + 1)
    return (rows + np.arange(1, config.width - 1)).ravel()


def _write(path: Path, columns: Columns) -> None:
    """Write an archive whole or not at all."""
    with writing(path, _ELSEWHERE):
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez_compressed(file, allow_pickle=False, **columns)
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise


@contextmanager
def _progress(title: str, total: int) -> Iterator[Any]:
    """Yield a function to call once per level; draws a bar on a terminal."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console  # only where a person waits
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        row = bar.add_task(title, total=total)
        yield lambda: bar.advance(row)


def main() -> int:
    """Make the package's level file, or compare it with the generator."""
    prog = "python -m agentgym.envs.sokoban.builtin.bank"
    parser = argparse.ArgumentParser(prog=prog, description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the file differs")
    options = parser.parse_args()
    columns = {f"{config.name}/{key}": column for config in SHIPPED for key, column in make(config).items()}
    if not options.check:
        _write(PACKAGE_FILE, columns)
        return 0
    with np.load(PACKAGE_FILE) as archive:
        same = set(archive.files) == set(columns) and all(
            archive[name].dtype == column.dtype and np.array_equal(archive[name], column)
            for name, column in columns.items()
        )
    sys.stderr.write(f"{PACKAGE_FILE.name} {'equals' if same else 'differs from'} what the generator makes\n")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
