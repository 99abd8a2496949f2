"""File layouts of question sets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from agentgym.envs.multihop.data.records import (
    QuestionParser,
    parse_bare,
    parse_flashrag,
    parse_hotpot,
    parse_musique,
    parse_sample,
)
from agentgym.errors import UsageError

FileRole: TypeAlias = Literal[
    "hotpot", "musique", "sample", "bare", "flashrag", "passages", "corpus", "aliases"
]
"""What a file holds: questions of a form; questions of which only the passages count (``passages``, as
MuSiQue's); a corpus; names of entities."""

PARSERS: Mapping[FileRole, QuestionParser] = {
    "hotpot": parse_hotpot,
    "musique": parse_musique,
    "sample": parse_sample,
    "bare": parse_bare,
    "flashrag": parse_flashrag,
    "passages": parse_musique,
}

SPLIT_ORDER = ("test", "dev", "valid", "train")
"""In which splits are written: what is evaluated on comes first and stays whole."""

UPSTREAM_FOLDERS = ("", "data", "data_ids_april7", "data_ids")
"""Where copies keep their files."""


@dataclass(frozen=True, slots=True)
class FileRule:
    """A kind of file, by its name."""

    pattern: re.Pattern[str]
    """Of the path below the folder, with ``/``; a group ``split`` or ``set`` gives what is empty here."""
    role: FileRole
    set: str = ""
    split: str = ""
    needs: str = ""
    """The set is there only where this file is, too."""


@dataclass(frozen=True, slots=True)
class SetFile:
    """A file in its part for one set."""

    path: Path
    role: FileRole
    split: str


@dataclass(frozen=True, slots=True)
class SetFiles:
    """The files of one set, in the order they are read."""

    name: str
    files: tuple[SetFile, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files."""
        return tuple(file.path for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in self.paths)


def _rule(pattern: str, role: FileRole, set: str = "", split: str = "", needs: str = "") -> FileRule:
    return FileRule(re.compile(pattern), role, set, split, needs)


_SAMPLE = (
    _rule(r"corpus\.jsonl", "corpus", "sample"),
    _rule(r"questions\.jsonl", "sample", "sample", "dev"),
)

HOTPOTQA_FILES = (
    _rule(r"hotpot_train_v1(?:\.1)?\.json", "hotpot", "distractor", "train"),
    _rule(r"hotpot_dev_distractor_v1\.json", "hotpot", "distractor", "dev"),
    _rule(r"hotpot_dev_fullwiki_v1\.json", "hotpot", "fullwiki", "dev"),
    _rule(r"dev_questions_7405\.jsonl", "bare", "questions", "dev"),
    *_SAMPLE,
)

TWOWIKI_FILES = (
    _rule(r"(?P<split>train|dev|test)\.json", "hotpot", "official"),
    _rule(r"id_aliases\.json", "aliases", "official"),
    *_SAMPLE,
    _rule(r"corpus\.jsonl", "corpus", "sample-distractors"),
    _rule(r"distractor_corpus\.json", "corpus", "sample-distractors"),
    _rule(r"questions\.jsonl", "sample", "sample-distractors", "dev", needs="distractor_corpus.json"),
)

MUSIQUE_FILES = (
    _rule(r"musique_ans_v1\.0_(?P<split>train|dev|test)\.jsonl", "musique", "ans"),
    _rule(r"musique_full_v1\.0_(?P<split>train|dev|test)\.jsonl", "passages", "ans"),
    *_SAMPLE,
)

SEARCHQA_FILES = (_rule(r"(?P<set>[\w-]+)/(?P<split>train|dev|valid|test)\.jsonl", "flashrag"),)


def find_files(rules: Sequence[FileRule], origin: Path) -> Iterator[Path]:
    """Yield the files of a copy that rules know, sorted in each folder; ``origin`` may be one of them."""
    if origin.is_file():
        if any(rule.pattern.fullmatch(name) for rule in rules for name in _names(origin)):
            yield origin
        return
    for folder in (origin / part for part in UPSTREAM_FOLDERS):
        if folder.is_dir():
            yield from sorted(
                path
                for path in (*folder.glob("*.json*"), *folder.glob("*/*.jsonl"))
                if any(rule.pattern.fullmatch(path.relative_to(folder).as_posix()) for rule in rules)
            )


def group_files(rules: Sequence[FileRule], paths: Iterable[Path]) -> dict[str, SetFiles]:
    """Return the sets of files, by name; a split of a set may be there only once."""
    found: dict[str, list[SetFile]] = {}
    paths = list(paths)
    present = {path.name for path in paths}
    for path in paths:
        for rule in rules:
            match = next((m for name in _names(path) if (m := rule.pattern.fullmatch(name))), None)
            if match is None or (rule.needs and rule.needs not in present):
                continue
            parts = match.groupdict()
            file = SetFile(path, rule.role, rule.split or parts.get("split") or "")
            found.setdefault(rule.set or parts["set"], []).append(file)
    sets = {}
    for name, files in found.items():
        if any(file.role in PARSERS and file.role != "passages" for file in files):
            sets[name] = SetFiles(name, tuple(sorted(files, key=_order)))
            _check_unique(name, sets[name].files)
    return sets


def role_of(rules: Sequence[FileRule], path: Path) -> FileRole:
    """Return the role of a file that `find_files` yielded."""
    return next(rule.role for rule in rules for name in _names(path) if rule.pattern.fullmatch(name))


def _names(path: Path) -> tuple[str, str]:
    return path.name, f"{path.parent.name}/{path.name}"


def _order(file: SetFile) -> tuple[int, int, str]:
    """Names of entities come first, then a corpus, whose numbers are its lines', then splits."""
    rank = {"aliases": 0, "corpus": 1, "passages": 3}.get(file.role, 2)
    return rank, SPLIT_ORDER.index(file.split) if file.split else 0, file.path.name


def _check_unique(name: str, files: Sequence[SetFile]) -> None:
    seen: dict[tuple[FileRole, str, str], Path] = {}
    for file in files:
        key = (file.role, file.split, file.path.name if file.role == "corpus" else "")
        if key in seen:
            raise UsageError(
                f"{seen[key]} and {file.path} are one part of the set {name!r}: name the folder of one"
            )
        seen[key] = file.path
