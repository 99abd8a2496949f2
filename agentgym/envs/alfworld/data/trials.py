"""Trials of ALFWorld's data: those of the published splits, with family and recording."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from agentgym.data.archives import Member, Progress, read_members, stem_of
from agentgym.envs.alfworld.engine.gametext import GameText
from agentgym.errors import UsageError
from agentgym.io.untrusted import loads_json

SPLITS = ("train", "valid_seen", "valid_unseen", "valid_train")
"""Folders of the published data."""

TYPES = {
    "pick_and_place_simple": "pick",
    "look_at_obj_in_light": "look",
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "heat",
    "pick_cool_then_place_in_recep": "cool",
    "pick_two_obj_and_place": "pick2",
}
"""The six published families, by their upstream names. A seventh has movable receptacles."""

GAME = "game.tw-pddl"
RECORDING = "traj_data.json"
"""Recording that a game was made from; it names the family where the folder does not."""

MAX_TYPE_LENGTH = 80
"""Characters of a family's name that are kept."""

MAX_WAITING = 256 << 20
"""Bytes of games that wait for their recordings at most."""

_FOLDER = re.compile(r"(?P<type>[a-z_]+)-(?P<object>\w+)-(?P<movable>\w+)-(?P<target>\w+)-(?P<scene>\d+)")


@dataclass(frozen=True, slots=True)
class Trial:
    """A game of a published split."""

    name: str
    """``SPLIT/TASK/TRIAL``; the folder's path where nothing says which split it is."""
    split: str
    """Name of the split; empty where it is unknown."""
    type: str
    """Name of the family, one of the values of `TYPES`; empty where it is unknown."""
    text: GameText
    facts: dict[str, str]
    """Facts from the folder's name: ``object``, ``target`` and ``scene``."""


class Failure(NamedTuple):
    """A file that cannot be read."""

    source: str
    reason: str
    """The whole message; it names the file."""


@dataclass(slots=True)
class Harvest:
    """By-products of reading a copy: unreadable files, and games left out."""

    failures: list[Failure] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of games outside the published splits, by reason."""


def read_trials(files: Collection[Path], harvest: Harvest, *, progress: Progress) -> Iterator[Trial]:
    """Read every trial in files and archives.

    ``harvest`` collects unreadable files and counts of games left out. Trials come in the order of the files;
    where only a recording names the family, after it.
    """
    total = sum(file.stat().st_size for file in files)
    before = 0
    desk = _Desk(harvest)
    for file in files:
        split = split_of_archive(file)
        try:
            for member in read_members(file, (GAME, RECORDING)):
                progress(before + member.done, total)
                yield from desk.take(member, split)
        except UsageError as error:
            harvest.failures.append(Failure(str(file), str(error)))
        before += file.stat().st_size
        progress(before, total)
    yield from desk.rest()


def split_of(folder: PurePath) -> str:
    """Return the split that a path names: its last part that is one; else nothing."""
    return next((part for part in reversed(folder.parts) if part in SPLITS), "")


def split_of_archive(archive: Path) -> str:
    """Return the split that an archive is named after, as ``json_2.1.1_valid_seen.tar.xz``; else nothing."""
    stem = stem_of(archive)
    return max((split for split in SPLITS if stem.endswith(split)), key=len, default="")


@dataclass(slots=True)
class _Desk:
    """Games that wait for the recordings that name their family."""

    harvest: Harvest
    waiting: dict[PurePosixPath, tuple[Member, str]] = field(default_factory=dict)
    families: dict[PurePosixPath, str] = field(default_factory=dict)
    held: int = 0
    """Bytes of the games that wait."""

    def take(self, member: Member, split: str) -> Iterator[Trial]:
        """Take the next file, of an archive of ``split``; yield the trial that it completes."""
        folder = member.path.parent
        if _FOLDER.match(folder.parent.name):
            if member.path.name == GAME:
                yield from self._trial(member, split)
            return
        if member.path.name == GAME:
            self.held += len(member.data)
            if self.held > MAX_WAITING:
                raise UsageError(
                    f"{member.source}: the games before it, whose recordings tell their family, come to more "
                    f"than {MAX_WAITING:,} bytes: put each {RECORDING} beside its {GAME}"
                )
            self.waiting[folder] = (member, split)
        else:
            self._record(member)
        if folder in self.waiting and folder in self.families:
            waited, named = self.waiting.pop(folder)
            self.held -= len(waited.data)
            yield from self._trial(waited, named)

    def rest(self) -> Iterator[Trial]:
        """Yield the trials whose recording has not come."""
        for member, split in self.waiting.values():
            yield from self._trial(member, split)

    def _record(self, recording: Member) -> None:
        try:
            table = loads_json(recording.data, recording.source, repeated_keys=True)
            self.families[recording.path.parent] = str(table["task_type"])[:MAX_TYPE_LENGTH]
        except (ValueError, KeyError, TypeError):
            reason = f"{recording.source}: no JSON with a 'task_type'; get the file again"
            self.harvest.failures.append(Failure(recording.source, reason))

    def _trial(self, member: Member, named: str) -> Iterator[Trial]:
        """Yield the trial of a game unless the published splits leave it out."""
        folder = member.path.parent
        match = _FOLDER.match(folder.parent.name)
        family = self.families.get(folder, "") if match is None else match["type"]
        if "movable" in str(folder) or "Sliced" in str(folder):
            self.harvest.left_out["with movable receptacles or sliced objects"] += 1
            return
        if family and family not in TYPES:
            self.harvest.left_out[f"of the family {family}"] += 1
            return
        try:
            text = GameText.parse(member.data, member.source)
        except UsageError as error:
            self.harvest.failures.append(Failure(member.source, str(error)))
            return
        if not text.solvable:
            self.harvest.left_out["not marked as solvable"] += 1
            return
        facts = {} if match is None else {key: match[key] for key in ("object", "target", "scene")}
        split = split_of(folder) or named
        yield Trial(_name(folder, split), split, TYPES.get(family, ""), text, facts)


def _name(folder: PurePosixPath, split: str) -> str:
    """Return the name of a trial by its folder."""
    parts = folder.parts[-2:]
    if split in folder.parts:
        parts = folder.parts[len(folder.parts) - folder.parts[::-1].index(split) :]
    return "/".join((split, *parts) if split else parts)
