"""Checkpoints: folders that appear whole or not at all, from which a run resumes bit for bit.

A checkpoint holds the policy as an ordinary model directory, ``state``: weights and moments, sharded as the
ranks have them, and ``state.pt``: counters. A link named ``last`` leads to the newest, one named ``best`` to
that of the best evaluation where a run keeps it. There are no other random states: every draw of a run
follows from its seed and a counter.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from uuid import uuid4

import torch

from agentgym.errors import UsageError
from agentgym.history.run import CHECKPOINTS
from agentgym.io.files import trouble, writing
from agentgym.io.untrusted import check_regular
from agentgym.training.learner.distributed import Ranks

FOLDER = CHECKPOINTS
MODEL = "model"
"""Name of the model directory within a checkpoint."""
SHARDS = "state"
"""Name of the folder of weights and optimisers within a checkpoint."""
_STATE = "state.pt"
_LAST = "last"
_BEST = "best"


def checkpoint_name(iteration: int) -> str:
    """Return the name of the checkpoint after an iteration."""
    return f"{iteration:06d}"


def save_checkpoint(
    run: Path,
    name: str,
    state: dict[str, Any],
    save_policy: Callable[[Path], None],
    *,
    keep: int | None,
    best: str = "",
    ranks: Ranks | None = None,
    save_shards: Callable[[Path], None] = lambda _: None,
) -> Path:
    """Write a checkpoint, then remove the oldest ones; return its folder.

    Every rank calls it, since all have a part of the model; the first writes all but the others' shards.
    ``name``: six digits for those of iterations; ``state`` is returned by `load_checkpoint`; ``keep``: how
    many numbered checkpoints stay; None removes none, and does not make this one the one to resume from;
    ``best``: which one stays besides, with a link of its own; empty for none.
    ``save_policy`` writes the model directory, ``save_shards`` this rank's part of weights and optimisers.
    """
    ranks = ranks or Ranks()
    folder = run / FOLDER
    final, partial = folder / name, folder / f".{name}.partial"
    try:
        if ranks.is_first:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
        save_policy(partial / MODEL)
        save_shards(partial / SHARDS)
        _check_shards(partial / SHARDS, ranks)
        if not ranks.is_first:
            return final
        _save_state(state, partial / _STATE)
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
        if keep is not None:
            if best:  # first, since a run killed in between resumes by the other link and sets both again
                _point(folder, _BEST, best)
            _point(folder, _LAST, name)
            numbered = sorted(path for path in folder.iterdir() if path.name.isdecimal())
            for old in numbered[:-keep]:
                if old.name != best:
                    shutil.rmtree(old)
    except OSError as error:
        raise UsageError(f"cannot write the checkpoint {final}: {trouble(error)}") from error
    return final


def _check_shards(folder: Path, ranks: Ranks) -> None:
    """Refuse shards that the first rank, which publishes the checkpoint, cannot see."""
    written = ranks.gather([sorted(path.name for path in folder.glob("*.safetensors"))])
    found = [[(folder / name).is_file() for name in names] for names in written]
    apart = [rank for rank, seen in enumerate(ranks.from_first(found)) if not all(seen)]
    if apart:
        shutil.rmtree(folder.parent, ignore_errors=True)
        raise UsageError(_apart(folder, apart[0]))


def check_shared(run: Path, ranks: Ranks) -> None:
    """Refuse a run's folder that is not the same for all ranks, which all have to call."""
    if ranks.size == 1:
        return
    mark = run / ranks.from_first(f".{uuid4().hex}.shared")
    if ranks.is_first:
        with writing(mark):
            mark.touch()
    seen = ranks.gather([ranks.from_first(True) and mark.exists()])  # the first's has been made by then
    if ranks.is_first:
        mark.unlink()
    if not all(seen):
        raise UsageError(_apart(run, seen.index(False)))


def _apart(folder: Path, rank: int) -> str:
    return (
        f"{folder} is another folder on rank {rank} than on rank 0, so checkpoints would lack its part: give "
        "--out a folder that all machines share"
    )


def _save_state(state: dict[str, Any], path: Path) -> None:
    """Write a state; torch says of a file that cannot be written only where its writer stood."""
    with path.open("wb") as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise UsageError(
                f"cannot write {path}: not all of it fits ({reason}); free space, or raise the limit of file "
                "sizes (`ulimit -f`)"
            ) from error


def _point(folder: Path, name: str, target: str) -> None:
    link = folder / f".{name}.partial"
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    os.replace(link, folder / name)


def has_checkpoint(run: Path) -> bool:
    """Return whether there is a checkpoint to resume from."""
    return (run / FOLDER / _LAST).is_dir()


def last_checkpoint(run: Path) -> Path:
    """Return the folder of the checkpoint that a run resumes from."""
    link = run / FOLDER / _LAST
    if not has_checkpoint(run):
        raise UsageError(f"{run} has no checkpoint to resume from: name the folder of a run that wrote one")
    name = os.readlink(link) if link.is_symlink() else ""
    if not (name.isascii() and name.isdecimal()) or (link.parent / name).is_symlink():
        raise UsageError(
            f"{link} leads to {name or 'no link'!r:.100}, not to a checkpoint beside it: link it to the "
            "newest of those named by a number"
        )
    return link.parent / name


def load_checkpoint(checkpoint: Path) -> dict[str, Any]:
    """Return the state of a checkpoint; nothing in it is executed."""
    path = checkpoint / _STATE
    try:
        check_regular(path, path.stat())
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, UnpicklingError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UsageError(
            f"cannot read the checkpoint {path}: {reason}; point the link {checkpoint.parent / _LAST} to "
            "another one"
        ) from error
    return state


@contextmanager
def taking_over(checkpoint: Path) -> Iterator[None]:
    """Turn errors about a checkpoint of another version's form into a `UsageError`."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        reason = next(iter(str(error).splitlines()), "")
        raise UsageError(
            f"cannot resume from {checkpoint}: another version of agentgym wrote it, or its state is damaged "
            f"({type(error).__name__}: {reason}); begin anew in another folder, with --model "
            f"{checkpoint / MODEL} from its weights"
        ) from error
