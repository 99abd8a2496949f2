"""File layouts of question sets."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from agentgym.data.packed import members_of, open_packed, stored_size
from agentgym.envs.multihop.data.records import (
    QuestionParser,
    parse_bare,
    parse_flashrag,
    parse_hotpot,
    parse_musique,
    parse_plain,
    parse_sample,
)
from agentgym.errors import UsageError

FileRole: TypeAlias = Literal[
    "hotpot",
    "plain-hotpotqa",
    "plain-twowiki",
    "musique",
    "sample",
    "bare",
    "flashrag",
    "search-r1",
    "passages",
    "corpus",
    "aliases",
]
"""Content of a file: questions of a form; questions of which only the passages count (``passages``, as
MuSiQue's); a corpus; names of entities."""

PARSERS: Mapping[FileRole, QuestionParser] = {
    "hotpot": parse_hotpot,
    "plain-hotpotqa": partial(parse_plain, separator=""),
    "plain-twowiki": partial(parse_plain, separator=" "),
    "musique": parse_musique,
    "sample": parse_sample,
    "bare": parse_bare,
    "flashrag": parse_flashrag,
    "search-r1": parse_flashrag,
    "passages": parse_musique,
}

SPLIT_ORDER = ("test", "dev", "valid", "train")
"""Splits in the order of writing: those for evaluation come first and stay whole."""

UPSTREAM_FOLDERS = ("", "data", "data_ids_april7", "data_ids")
"""Folders in which copies keep their files."""


@dataclass(frozen=True, slots=True)
class FileRule:
    """A kind of file, by its name."""

    pattern: re.Pattern[str]
    """Pattern of the path below the folder, with ``/``; its groups ``split`` and ``set`` fill empty
    fields."""
    role: FileRole
    set: str = ""
    split: str = ""
    needs: str = ""
    """File beside which alone the set is there."""
    subset: str = ""
    """List of ``subsets.toml`` that names the questions of the set; empty for all of the file."""


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
    subset: str = ""
    """As `FileRule.subset`."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files."""
        return tuple(file.path for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(map(stored_size, self.paths))


def _rule(
    pattern: str, role: FileRole, set: str = "", split: str = "", needs: str = "", subset: str = ""
) -> FileRule:
    return FileRule(re.compile(pattern), role, set, split, needs, subset)


def _subset(list_name: str, set: str, pattern: str, role: FileRole) -> tuple[FileRule, ...]:
    """Return the rules of a set of named questions, which the published file and a sample hold alike."""
    files: tuple[tuple[str, FileRole], ...] = ((pattern, role), (r"questions\.jsonl", "sample"))
    return tuple(_rule(name, kind, set, "dev", subset=list_name) for name, kind in files)


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
    *_subset("hotpotqa", "dev-200", r"hotpot_dev_distractor_v1\.json", "plain-hotpotqa"),
)

TWOWIKI_FILES = (
    _rule(r"(?P<split>train|dev|test)\.json", "hotpot", "official"),
    _rule(r"id_aliases\.json", "aliases", "official"),
    *_SAMPLE,
    _rule(r"corpus\.jsonl", "corpus", "sample-distractors"),
    _rule(r"distractor_corpus\.json", "corpus", "sample-distractors"),
    _rule(r"questions\.jsonl", "sample", "sample-distractors", "dev", needs="distractor_corpus.json"),
    *_subset("twowiki", "dev-120", r"dev\.json", "plain-twowiki"),
)

MUSIQUE_FILES = (
    _rule(r"musique_ans_v1\.0_(?P<split>train|dev|test)\.jsonl", "musique", "ans"),
    _rule(r"musique_full_v1\.0_(?P<split>train|dev|test)\.jsonl", "passages", "ans"),
    *_SAMPLE,
    *_subset("musique", "dev-200", r"musique_ans_v1\.0_dev\.jsonl", "musique"),
)

SEARCHQA_FILES = (
    _rule(r"(?P<set>[\w-]+)/(?P<split>train|dev|valid|test)\.jsonl", "flashrag"),
    _rule(r"(?:nq_hotpotqa_train/)?(?P<split>train|test)\.parquet", "search-r1", "nq_hotpotqa_train"),
)

_OLDER = "of 2WikiMultihopQA's older data.zip, whose questions are others: get data_ids_april7.zip"
LOOKALIKES: Mapping[str, tuple[int | None, str, str]] = {
    "hotpot_dev_distractor_v1.json": (
        61_065_698,
        "e3da074d",
        "another text of HotpotQA's dev split, of 61 MB: get that of 46,320,117 bytes",
    ),
    "dev.json": (None, "48b9bdc6", _OLDER),
    "train.json": (None, "b3fddb4d", _OLDER),
}
"""Other files of official names: size, where it is known, beginning of the sha256, and what they are."""


def find_files(rules: Sequence[FileRule], origin: Path) -> Iterator[Path]:
    """Yield the files of a copy that rules know, sorted in each folder and zip archive.

    ``origin`` may be one of them, or one archive.
    """
    if origin.is_file():
        yield from _known(rules, [origin, *sorted(members_of(origin))])
        return
    for folder in (origin / part for part in UPSTREAM_FOLDERS):
        if folder.is_dir():
            yield from sorted(
                path
                for path in (*folder.glob("*"), *folder.glob("*/*"))
                if any(rule.pattern.fullmatch(path.relative_to(folder).as_posix()) for rule in rules)
            )
            for archive in sorted(folder.glob("*.zip")):
                yield from _known(rules, sorted(members_of(archive)))


def _known(rules: Sequence[FileRule], paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if any(rule.pattern.fullmatch(name) for rule in rules for name in _names(path)):
            yield path


def refuse_lookalike(path: Path) -> None:
    """Raise a UsageError that says what a file is, if it is one of `LOOKALIKES`."""
    size, digest, about = LOOKALIKES.get(path.name, (-1, "", ""))
    if size in (None, stored_size(path)):
        with open_packed(path) as file:
            if hashlib.file_digest(file, "sha256").hexdigest().startswith(digest):
                raise UsageError(f"{path} is {about}")


def group_files(rules: Sequence[FileRule], paths: Iterable[Path]) -> dict[str, SetFiles]:
    """Return the sets of files, by name; a split of a set may be there only once."""
    found: dict[str, list[SetFile]] = {}
    subsets = {rule.set: rule.subset for rule in rules}
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
            sets[name] = SetFiles(name, tuple(sorted(files, key=_order)), subsets.get(name, ""))
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
