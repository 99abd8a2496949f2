"""Copies of ALFWorld's data: archives, folders, and the stores they are imported into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from agentgym.core.hashing import content_id
from agentgym.core.options import check_choice
from agentgym.core.suite_spec import DataSource
from agentgym.data.archives import Progress, find_members, is_archive
from agentgym.data.directory import cache_directory, data_directory, find
from agentgym.data.importing import Importer, copy_file
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
from agentgym.envs.alfworld.engine.dialects import FILES, MOVE, PUT, current_logic, putting_words
from agentgym.envs.alfworld.engine.gametext import GameText
from agentgym.envs.alfworld.engine.grammar import parse_grammar
from agentgym.envs.alfworld.engine.packing import pack_problem, problem_digest
from agentgym.envs.alfworld.engine.pddl import parse_domain
from agentgym.envs.alfworld.suite import ALFWORLD, ALFWORLD_MOVE
from agentgym.errors import MissingDataError, UsageError
from agentgym.io.untrusted import read_text

OFFICIAL = "official"
"""Name of the published data set, in the data directory."""

SOURCES: Mapping[str, DataSource] = {OFFICIAL: ALFWORLD, f"{ALFWORLD_MOVE.name}/{OFFICIAL}": ALFWORLD_MOVE}
"""Sources of the published data sets, by the names of these."""

UPSTREAM_FOLDERS = ("", "json_2.1.1", "json_2.1.2", "json_2.1.3")
"""Folders in which upstream's own download keeps those of its splits."""

LOGIC = "logic"
"""Folder beside a copy that holds a domain and its grammar."""

_WORDS = {ALFWORLD.name: PUT, ALFWORLD_MOVE.name: MOVE}


# ---- what `agentgym.data.importing` asks of a source -------------------------------------------------


def find_files(origin: Path) -> Iterator[Path]:
    """Yield the files of a copy, sorted: games, recordings, archives and stores, then the domain and grammar.

    ``origin`` may be one archive.
    """
    if origin.is_file():
        yield origin
    elif origin.is_dir():
        games = sorted([*origin.glob(f"*{SUFFIX}"), *find_members(origin, (GAME, RECORDING))])
        yield from games
        logic = [origin / LOGIC / name for name in FILES]
        if games and all(path.is_file() for path in logic):
            yield from logic


def check_file(source: DataSource, path: Path) -> int:
    """Return the number of games in a file; a store's games must match their ids."""
    if path.name in FILES:
        (parse_domain if path.suffix == ".pddl" else parse_grammar)(read_text(path))
        return 1
    if path.suffix == SUFFIX:
        store = open_store(path)
        for number, entry in enumerate(store.entries):
            if game_id(store.read(number)) != entry.id:
                raise UsageError(f"{path}: {entry.name} is not what was imported; import the games again")
        return len(store.entries)
    harvest = Harvest()
    count = 0
    for trial in read_trials([path], harvest, progress=lambda done, total: None):
        check_generation(source, trial.text, trial.name)
        count += 1
    _refuse_failures(harvest)
    return count


def convert(source: DataSource, files: Sequence[Path], folder: Path, *, progress: Progress) -> dict[str, int]:
    """Write one store for each split, and copy the newest domain and grammar; return the records by file.

    ``progress`` is called with bytes read and in all.
    """
    stores = [file for file in files if file.suffix == SUFFIX]
    if stores:
        raise UsageError(f"{stores[0]} has been imported before: name a copy of the upstream data")
    harvest = Harvest()
    counts: dict[str, int] = {}
    games = [file for file in files if file.name not in FILES]
    names: set[str] = set()
    with ExitStack() as stack:
        writers: dict[str, GameStoreWriter] = {}
        for trial in read_trials(games, harvest, progress=progress):
            check_generation(source, trial.text, trial.name)
            if not trial.split:
                known = ", ".join(f"{split}/" for split in SPLITS)
                raise UsageError(f"nothing says which split {trial.name} belongs to: put it below {known}")
            if trial.name in names:
                raise UsageError(f"{trial.name} is there twice: name one copy of the games, or one archive")
            names.add(trial.name)
            name = f"{trial.split}{SUFFIX}"
            if name not in writers:
                writers[name] = stack.enter_context(GameStoreWriter(folder / name))
            writers[name].add(with_grounded(trial))
            counts[name] = counts.get(name, 0) + 1
        _refuse_failures(harvest)
        for writer in writers.values():
            writer.finish(left_out=harvest.left_out)
    return counts | _copy_logic(source, [file for file in files if file.name in FILES], folder)


def _copy_logic(source: DataSource, files: Sequence[Path], folder: Path) -> dict[str, int]:
    """Copy a domain and its grammar; those of the older generation stand in its games, and are left out."""
    if not files or any(putting_words(read_text(path)) == PUT for path in files):
        return {}
    counts = {f"{LOGIC}/{path.name}": check_file(source, path) for path in files}
    for path in files:
        copy_file(path, folder / LOGIC / path.name)
    return counts


def check_generation(source: DataSource | None, game: GameText, where: str) -> None:
    """Raise a UsageError that names the right source where a game's words are not those of its source."""
    words = putting_words(game.grammar)
    if source is None or words == _WORDS[source.name]:
        return
    other = next((each for each in SOURCES.values() if _WORDS[each.name] == words), None)
    found = "is of no published generation" if other is None else f"says `{words}`, as {other.generation}"
    remedy = source.upstream if other is None else f"run `agentgym data import {other.name} PATH`"
    raise UsageError(
        f"{where} {found}, and {source.name} is {source.generation}, `{_WORDS[source.name]}`: {remedy}"
    )


# ---- what the environment asks -----------------------------------------------------------------------


def open_games(dataset: str, split: str) -> GameStore:
    """Return the games of a split, imported into the cache at first use.

    ``dataset``: ``"official"`` (or ``"alfworld/official"``), the published games in the data directory;
    ``"alfworld-2.1.3/official"``, those in the words of ALFWorld since 0.4; or the path of a store, an
    archive, a game, or a folder of any of these. A data set without splits is taken whole.
    """
    dataset = official_or_path(dataset)
    source = SOURCES.get(dataset)
    root = data_directory() / source.folder if source is not None else _path(dataset)
    if root.suffix == SUFFIX:
        return open_store(root)
    if (root / f"{split}{SUFFIX}").exists():
        return _checked(open_store(root / f"{split}{SUFFIX}"), source)
    files = _files_of(root, split)
    if not files and source is not None:
        find(f"{source.folder}/{split}", source)  # the error says what to do
    if not files:
        raise MissingDataError(
            f"no game of split {split!r} in {root}: name a folder or archive that has some"
        )
    state = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    path = cache_directory() / "alfworld" / f"{split}-{content_id((FORMAT, state))[:16]}{SUFFIX}"
    if not path.exists():
        _import(files, split, path, source)
    return _checked(open_store(path), source)


def _checked(store: GameStore, source: DataSource | None) -> GameStore:
    """Return a store, unless its first game is of another generation than its source, as of an old import."""
    if store.entries:
        check_generation(source, store.read(0), str(store.path))
    return store


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
    folders = [root / part / split for part in UPSTREAM_FOLDERS if (root / part / split).is_dir()]
    if len(folders) > 1:
        raise UsageError(f"{folders[0]} and {folders[1]} are one split of two copies: name the folder of one")
    if folders:
        return find_members(folders[0], (GAME, RECORDING))
    archives = sorted(path for path in root.glob("*") if path.is_file() and is_archive(path))
    named = [path for path in archives if split_of_archive(path) == split]
    if named:
        return named
    return [
        path
        for path in find_members(root, (GAME, RECORDING))
        if not (split_of_archive(path) if is_archive(path) else split_of(path.relative_to(root)))
    ]


def with_grounded(trial: Trial) -> Trial:
    """Return a trial with its problem grounded in its own domain and in the newest published one.

    A game that cannot be grounded is left as it is: playing it raises an error that says why.
    """
    domains = dict.fromkeys([trial.text.domain])
    with suppress(UsageError):
        domains[current_logic()[0]] = None
    grounded: dict[str, bytes] = {}
    for domain in domains:
        with suppress(UsageError):
            grounded[problem_digest(domain, trial.text.problem)] = pack_problem(domain, trial.text.problem)
    return replace(trial, text=replace(trial.text, grounded=grounded))


def _import(files: Sequence[Path], split: str, path: Path, source: DataSource | None) -> None:
    """Import the games of a split, or those of no split where there is none, into a store."""
    harvest = Harvest()
    others: set[str] = set()
    count = 0
    with GameStoreWriter(path) as writer, progress_bar(f"importing ALFWorld {split}") as progress:
        for trial in read_trials(files, harvest, progress=progress):
            check_generation(source, trial.text, trial.name)
            if trial.split in ("", split):
                writer.add(with_grounded(trial))
                count += 1
            else:
                others.add(trial.split)
        if not count and not harvest.failures:
            if others:
                check_choice("split", split, sorted(others), where=f"{files[0].parent}: ")
            reasons = ", ".join(f"{count} {reason}" for reason, count in harvest.left_out.items())
            raise UsageError(
                f"no game of the published families in {files[0].parent} ({reasons or 'none at all'})"
            )
        writer.finish(harvest.failures, harvest.left_out)


def _refuse_failures(harvest: Harvest) -> None:
    if harvest.failures:
        raise UsageError(harvest.failures[0].reason)


IMPORTER = Importer(find_files, partial(check_file, ALFWORLD), partial(convert, ALFWORLD))
MOVE_IMPORTER = Importer(find_files, partial(check_file, ALFWORLD_MOVE), partial(convert, ALFWORLD_MOVE))
