"""Level files: Boxoban's text files, .xsb collections and .slc collections.

Boxoban (github.com/google-deepmind/boxoban-levels) and .xsb share one grammar here: a run of board
lines is a level; any other line (a comment after ``;``, a title, a blank) separates levels. .slc is
XML with ``<Level><L>row</L>...</Level>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from agentgym.core.options import check_choice
from agentgym.data.directory import find
from agentgym.envs.sokoban.level import Level
from agentgym.envs.sokoban.suite import BOXOBAN
from agentgym.errors import MissingDataError, UsageError
from agentgym.io.untrusted import read_file

SUFFIXES = (".txt", ".xsb", ".sok", ".slc")

_BOARD_LINE = re.compile(r"[ \-_]*#[# .$*@+\-_]*")
_FLOOR_SIGNS = str.maketrans("-_", "  ")  # other signs of .xsb for floor


def locate(dataset: str, split: str) -> tuple[Path, bool]:
    """Return the path of a data set's split, and whether the split names a folder below it.

    ``dataset``: a path, or a name such as ``boxoban/unfiltered`` below the data directory's ``sokoban``
    folder (the prefix ``boxoban/`` may be left out).
    """
    path = Path(dataset).expanduser()
    if not path.exists():
        if path.is_absolute() or path.suffix in SUFFIXES:
            raise MissingDataError(f"no level file or folder {dataset!r}: check the path")
        path = find("/".join(("sokoban", *Path(dataset.removeprefix("boxoban/")).parts)), BOXOBAN)
    if path.is_file() or _level_files(path):
        return path, False
    folders = sorted(p.name for p in path.iterdir() if p.is_dir() and _level_files(p))
    if split in folders:
        return path / split, True
    if folders:
        check_choice("split", split, folders, where=f"{dataset}: ")
    raise UsageError(f"no level file ({', '.join(SUFFIXES)}) in {path}: name a folder that holds some")


def read(path: Path) -> Iterator[tuple[str, Level]]:
    """Read all levels of a file, or of a folder's files in order of name.

    Yields source ids ``file#k`` (k counts from 0 within the file) and levels.
    """
    for file in [path] if path.is_file() else _level_files(path):
        try:
            text = read_file(file).decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            raise UsageError(f"cannot read levels from {file}: {error}") from error
        blocks = _slc_blocks(file, text) if file.suffix == ".slc" else _text_blocks(text)
        count = 0
        for place, rows in blocks:
            try:
                level = Level.parse(rows)
            except UsageError as error:
                raise UsageError(f"{file}, {place}: {error}") from error
            yield f"{file.name}#{count}", level
            count += 1
        if not count:
            raise UsageError(f"{file} holds no level: a level is lines of # . $ * @ + and space")


def _level_files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix in SUFFIXES and p.is_file())


def _text_blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    rows: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if _BOARD_LINE.fullmatch(line):
            rows.append(line.translate(_FLOOR_SIGNS).rstrip())
        elif rows and line.lstrip().startswith("#"):
            # the line wants to be a board's: let the level's own check name the symbol
            rows.append(line.rstrip())
        elif rows:
            yield f"line {number - len(rows)}", rows
            rows = []


def _slc_blocks(file: Path, text: str) -> Iterator[tuple[str, list[str]]]:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        # entities could expand without bound; no level file needs them
        text = re.sub(r"<!DOCTYPE[^<>\[]*>", "", text)
        if "<!" in text.replace("<!--", ""):
            raise UsageError(f"{file}: document types with entities are not read, remove the <!DOCTYPE ...>")
    try:
        root = ElementTree.fromstring(text.encode())  # entities are refused above
    except ElementTree.ParseError as error:
        raise UsageError(f"{file}, line {error.position[0]}: not well-formed XML ({error})") from error
    for number, node in enumerate(root.iter("Level"), start=1):
        rows = [(line.text or "").translate(_FLOOR_SIGNS).rstrip() for line in node.iter("L")]
        yield f"level {number}", rows
