"""Copies of ALFWorld's data: archives, folders, and the stores they are imported into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from agentgym.core.hashing import content_id
from agentgym.core.options import check_choice
from agentgym.data.archives import Progress, find_members, is_archive
from agentgym.data.directory import cache_directory, data_directory, find
from agentgym.data.importing import Importer
from agentgym.data.progress import progress_bar
from agentgym.envs.alfworld.data.gamestore import (
    FORMAT,
    SUFFIX,
    GameStore,
    GameStoreWriter,
    game_id,
    open_store,
)
from agentgym.envs.alfworld.data.trials import (
    GAME,
    RECORDING,
    SPLITS,
    Harvest,
    Trial,
    read_trials,
    split_of,
    split_of_archive,
)
from agentgym.envs.alfworld.engine.dialects import current_logic
from agentgym.envs.alfworld.engine.packing import pack_problem, problem_digest
from agentgym.envs.alfworld.suite import ALFWORLD
from agentgym.errors import MissingDataError, UsageError

OFFICIAL = "official"
"""Name of the published data set, in the data directory."""

UPSTREAM_FOLDERS = ("", "json_2.1.1")
"""Where a copy made by upstream's own download keeps the folders of its splits."""


# ---- what `agentgym.data.importing` asks of a source -------------------------------------------------


def find_files(origin: Path) -> Iterator[Path]:
    """Yield the games, recordings, archives and stores of a copy, sorted; ``origin`` may be one archive."""
    if origin.is_file():
        yield origin
    elif origin.is_dir():
        yield from sorted([*origin.glob(f"*{SUFFIX}"), *find_members(origin, (GAME, RECORDING))])


def check_file(path: Path) -> int:
    """Return the number of games in a file; a store's games must match their ids."""
    if path.suffix == SUFFIX:
        store = open_store(path)
        for number, entry in enumerate(store.entries):
            if game_id(store.read(number)) != entry.id:
                raise UsageError(f"{path}: {entry.name} is not what was imported; import the games again")
        return len(store.entries)
    harvest = Harvest()
    count = sum(1 for _ in read_trials([path], harvest, progress=lambda done, total: None))
    _refuse_failures(harvest)
    return count


def convert(files: Sequence[Path], folder: Path, *, progress: Progress) -> dict[str, int]:
    """Write one store for each split; return the number of games by store.

    ``progress`` is called with bytes read and in all.
    """
    stores = [file for file in files if file.suffix == SUFFIX]
    if stores:
        raise UsageError(f"{stores[0]} has been imported before: name a copy of the upstream data")
    harvest = Harvest()
    counts: dict[str, int] = {}
    with ExitStack() as stack:
        writers: dict[str, GameStoreWriter] = {}
        for trial in read_trials(files, harvest, progress=progress):
            if not trial.split:
                known = ", ".join(f"{split}/" for split in SPLITS)
                raise UsageError(f"nothing says which split {trial.name} belongs to: put it below {known}")
            name = f"{trial.split}{SUFFIX}"
            if name not in writers:
                writers[name] = stack.enter_context(GameStoreWriter(folder / name))
            writers[name].add(with_grounded(trial))
            counts[name] = counts.get(name, 0) + 1
        _refuse_failures(harvest)
        for writer in writers.values():
            writer.finish(left_out=harvest.left_out)
    return counts


# ---- what the environment asks -----------------------------------------------------------------------


def open_games(dataset: str, split: str) -> GameStore:
    """Return the games of a split, imported into the cache at first use.

    ``dataset``: ``"official"`` (or ``"alfworld/official"``), the published games in the data directory; or
    the path of a store, an archive, a game, or a folder of any of these. A data set without splits is taken
    whole.
    """
    dataset = official_or_path(dataset)
    root = data_directory() / ALFWORLD.folder if dataset == OFFICIAL else _path(dataset)
    if root.suffix == SUFFIX:
        return open_store(root)
    if (root / f"{split}{SUFFIX}").exists():
        return open_store(root / f"{split}{SUFFIX}")
    files = _files_of(root, split)
    if not files and dataset == OFFICIAL:
        find(f"alfworld/{split}", ALFWORLD)  # tells what to do about it
    if not files:
        raise MissingDataError(
            f"no game of split {split!r} in {root}: name a folder or archive that has some"
        )
    path = cache_directory() / "alfworld" / f"{split}-{_fingerprint(files)}{SUFFIX}"
    if not path.exists():
        _import(files, split, path)
    return open_store(path)


def official_or_path(dataset: str) -> str:
    """Return ``"official"`` for either of its names; anything else as it is."""
    return OFFICIAL if dataset == f"alfworld/{OFFICIAL}" else dataset


def _path(dataset: str) -> Path:
    path = Path(dataset).expanduser().absolute()
    if not path.exists():
        raise MissingDataError(f"no games at {dataset!r}: name a folder or an archive, or {OFFICIAL!r}")
    return path


def _files_of(root: Path, split: str) -> list[Path]:
    """Return the files that may hold games of a split, as few as names tell."""
    if not root.is_dir():
        return [root] if root.exists() else []
    for folder in (root / part / split for part in UPSTREAM_FOLDERS):
        if folder.is_dir():
            return find_members(folder, (GAME, RECORDING))
    archives = sorted(path for path in root.glob("*") if path.is_file() and is_archive(path))
    named = [path for path in archives if split_of_archive(path) == split]
    if named:
        return named
    return [
        path
        for path in find_members(root, (GAME, RECORDING))
        if not (split_of_archive(path) if is_archive(path) else split_of(path.relative_to(root)))
    ]


def _fingerprint(files: Sequence[Path]) -> str:
    """Return a name for files as they are now: it changes when one of them, or the store's format, does."""
    state = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return content_id((FORMAT, state))[:16]


def with_grounded(trial: Trial) -> Trial:
    """Return a trial with its problem grounded in its own domain and in the newest published one.

    A game that cannot be grounded is left as it is: whoever plays it is told why.
    """
    domains = dict.fromkeys([trial.text.domain])
    with suppress(MissingDataError):
        domains[current_logic().domain] = None
    grounded: dict[str, bytes] = {}
    for domain in domains:
        with suppress(UsageError):
            grounded[problem_digest(domain, trial.text.problem)] = pack_problem(domain, trial.text.problem)
    return replace(trial, text=replace(trial.text, grounded=grounded))


def _import(files: Sequence[Path], split: str, path: Path) -> None:
    """Import the games of a split, or those of no split where there is none, into a store."""
    harvest = Harvest()
    others: set[str] = set()
    count = 0
    with GameStoreWriter(path) as writer, progress_bar(f"importing ALFWorld {split}") as progress:
        for trial in read_trials(files, harvest, progress=progress):
            if trial.split in ("", split):
                writer.add(with_grounded(trial))
                count += 1
            else:
                others.add(trial.split)
        if not count and not harvest.failures:
            _refuse_nothing(files[0], split, others, harvest.left_out)
        writer.finish(harvest.failures, harvest.left_out)


def _refuse_nothing(where: Path, split: str, others: set[str], left_out: Mapping[str, int]) -> None:
    if others:
        check_choice("split", split, sorted(others), where=f"{where.parent}: ")
    reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
    raise UsageError(f"no game of the published families in {where.parent} ({reasons or 'none at all'})")


def _refuse_failures(harvest: Harvest) -> None:
    if harvest.failures:
        raise UsageError(harvest.failures[0].reason)


IMPORTER = Importer(find_files, check_file, convert)
