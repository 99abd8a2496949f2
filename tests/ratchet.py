"""Figures of the checkout that may fall and not rise unseen, recorded in `tests/ratchet.toml`.

``python -m tests.ratchet`` fails where a figure is above its record (a length by more than `SLACK`), so a
rise needs its record changed in the same commit. ``--lower`` records what fell, ``--write`` (`make ratchet`)
records every figure; `python -m tests.ratchet --table` prints them.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.structure import (
    ROOT,
    SHOWN,
    attribute_docstrings,
    floors,
    imports,
    is_clause,
    longest_chain,
    modules,
    rooms,
)

RECORD = "tests/ratchet.toml"
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
BESIDE = ("benchmarks", "examples", "tests", "tools")
"""Folders beside the package, whose lines count and whose rooms do not."""

HEAD = """# What may fall, and rises only together with its line here: `make ratchet` writes this file.
# Rooms, floors and arrows are those of tests/structure.py. `lines` of Python are with folders below;
# `clauses` are those of its `docstrings` of attributes that have no subject. `dialect` counts the words and
# openings that CONTRIBUTING.md's section "English" replaces.
"""

Figures = dict[str, dict[str, int]]
"""Figures by name, of each folder or group of pages by its path."""

NOT_BOUND = ("docstrings",)
"""Figures that may rise: a share is of them."""

DIALECT = re.compile(
    r"\b(?:[Ww]hoever|(?:un)?told|(?:is|are|was|were) none|comes? to (?:the same|nothing)|so manieth"
    r"|in (?:its|their|the) place of|not at hand|could not be had|can be had)\b"
    r"|(?:^|(?<=[.:;] ))(?:Of (?:a|an|the|all|models|\d+)|What) [^.?!]*\.",
    re.MULTILINE,
)
"""Words and openings that CONTRIBUTING's section "English" replaces: private words, clauses as subjects."""

SLACK = {"lines": 100, "words": 100}
"""What a length may stand above its record: a last line that a mend adds fails nobody's run."""


def measured(root: Path = ROOT) -> Figures:
    """Measure a checkout."""
    found: Figures = {}
    graph = imports("agentgym", root)
    for name, path in modules("agentgym", root).items():
        if path.name == "__init__.py":
            found[name.replace(".", "/")] = _structure(rooms(graph, name)) | _lines(path.parent)
    found |= {folder: {"lines": sum(map(_count, (root / folder).rglob("*.py")))} for folder in BESIDE}
    return found | pages(root)


def _structure(inside: Mapping[str, frozenset[str]]) -> dict[str, int]:
    height = max(floors(inside).values(), default=0)
    return {"rooms": len(inside), "floors": height, "arrows": sum(map(len, inside.values()))}


def _count(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def _lines(folder: Path) -> dict[str, int]:
    files = [line_figures(file) for file in folder.rglob("*.py")]
    names = ("lines", "clauses", "docstrings", "dialect")
    return {name: sum(file[name] for file in files) for name in names}


@cache
def line_figures(path: Path) -> dict[str, int]:
    """Count a file's lines, and its docstrings of attributes."""
    text = path.read_text(encoding="utf-8")
    documented = list(attribute_docstrings(text))
    return {
        "lines": text.count("\n"),
        "dialect": dialect(text),
        "clauses": sum(map(is_clause, documented)),
        "docstrings": len(documented),
    }


def pages(root: Path = ROOT) -> Figures:
    """Count the words of a checkout's pages."""
    top = {name: _pages([root / name]) for name in TOP if (root / name).exists()}
    return top | {"docs": _pages(sorted((root / "docs").rglob("*.md")))}


def _pages(files: list[Path]) -> dict[str, int]:
    texts = [file.read_text(encoding="utf-8") for file in files]
    words = sum(len(text.split()) for text in texts)
    return {"pages": len(files), "words": words, "dialect": sum(map(dialect, texts))}


def dialect(text: str) -> int:
    """Count a text's places that `DIALECT` finds."""
    return sum(1 for _ in DIALECT.finditer(text))


def recorded(root: Path = ROOT) -> Figures:
    """Read a checkout's record."""
    record: Figures = tomllib.loads((root / RECORD).read_text(encoding="utf-8"))
    return record


def rises(now: Figures, record: Figures) -> Iterator[str]:
    """Yield a line for each figure above its record, and for each path that has no record."""
    for path, figures in now.items():
        if path not in record:
            yield f"{path}: not in {RECORD}"
            continue
        for name, figure in figures.items():
            if name not in NOT_BOUND and figure > record[path].get(name, 0) + SLACK.get(name, 0):
                yield f"{path}: {name} rose from {record[path].get(name, 0):,} to {figure:,}"


def lowered(now: Figures, record: Figures) -> Figures:
    """Return a record with what fell, without paths that are gone; nothing in it rises."""
    return {
        path: {
            name: figure if name in NOT_BOUND else min(figure, record[path].get(name, figure))
            for name, figure in now[path].items()
        }
        for path in record
        if path in now
    }


def write(record: Figures, root: Path = ROOT) -> None:
    """Write a record, in which the words of pages are those of now."""
    record = record | pages(root)
    rows = [
        f'"{path}" = {{ {", ".join(f"{name} = {figure}" for name, figure in figures.items())} }}\n'
        for path, figures in record.items()
    ]
    (root / RECORD).write_text(HEAD + "".join(rows), encoding="utf-8")


def table(record: Figures, root: Path = ROOT) -> Iterator[str]:
    """Yield the rows of two tables: a record's folders, and the package as a whole."""
    yield "| folder | rooms | floors | arrows | lines | docstrings of attributes without a subject |"
    yield "|---|---:|---:|---:|---:|---:|"
    for path, row in record.items():
        if row.get("rooms", 0) > SHOWN and (path.count("/") <= 1):
            share = row["clauses"] / max(row["docstrings"], 1)
            figures = (row["rooms"], row["floors"], row["arrows"], f"{row['lines']:,}", f"{share:.0%}")
            yield f"| `{path}` | {' | '.join(map(str, figures))} |"
    graph = imports("agentgym", root)
    inner = {name: others - {"agentgym"} for name, others in graph.items() if name != "agentgym"}
    yield ""
    yield "| of the package | |"
    yield "|---|---:|"
    yield f"| modules | {len(graph):,} |"
    yield f"| imports | {sum(map(len, graph.values())):,} |"
    yield f"| longest chain of imports | {len(longest_chain(inner))} modules |"


def main() -> None:
    """Check, lower or write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lower", action="store_true", help="record what fell")
    parser.add_argument("--write", action="store_true", help="record every figure, rises too")
    parser.add_argument("--table", action="store_true", help="print the record's folders as a table")
    options = parser.parse_args()
    if options.table:
        sys.stdout.writelines(f"{row}\n" for row in table(recorded()))
        return
    now = measured()
    if options.write:
        write(now)
        return
    record = recorded()
    found = list(rises(now, record))
    if options.lower and not found:
        write(lowered(now, record))
    sys.stderr.writelines(f"{line}\n" for line in found)
    if found:
        sys.exit("above tests/ratchet.toml: take it back, or record it in this commit with `make ratchet`")


if __name__ == "__main__":
    main()
