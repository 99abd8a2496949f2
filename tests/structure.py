"""The package's structure in figures: ``python -m tests.structure [PACKAGE]``, to compare commits by.

A room is a module or a folder right below the package; an arrow leads from a room to another that it imports;
a room's floor is the longest way of arrows down from it. The same is shown of every folder that has rooms of
its own, and the longest chain of imports from module to module. `tests.ratchet` records these figures.
"""

from __future__ import annotations

import ast
import io
import re
import signal
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

SMALL = 60
SHOWN = 5
"""Folders of more rooms than this are listed."""

CLAUSES = re.compile(
    r"(above|after|as|at|because|before|behind|below|besides?|between|beyond|by|during|except|for|from|how|if"
    r"|in|of|on|over|since|so|than|that|throughout|to|under|until|up|while|with(in|out)?"
    r"|(what|when|where|which|who)(ever)?|whom|whose"
    r"|none|begins|divides|follows|holds|precedes|stands|tells"
    r"|(\w+ed|drawn|empty|given|held|kept|left|made|read|sent|shown|taken|told|written)"
    r" (as|at|before|beside|by|each|for|from|in|off|on|only|out|since|so|to|under|when|where|with))\b",
    re.IGNORECASE,
)
"""Beginning of a text that is a clause without a subject: "Of the engine.", "Left out, since ..."."""

DIRECTIVES = re.compile(r"-{4}|fmt:|noqa|pragma:|type:|mypy:|ruff:")
"""Beginning of a comment that is a heading or is read by a tool."""

Graph = Mapping[str, frozenset[str]]
"""What each module, or room, imports."""


class Lines(NamedTuple):
    """Lines of source, by kind."""

    code: int
    docstring: int
    comment: int
    blank: int


def modules(package: str = "agentgym", root: Path = ROOT) -> dict[str, Path]:
    """Return the files of a package of a checkout by the names of their modules."""
    found = {}
    for path in sorted((root / package.replace(".", "/")).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(package: str = "agentgym", root: Path = ROOT) -> Graph:
    """Return what each module of a package imports of it, inside functions and for types included."""
    known = modules(package, root)
    return {name: frozenset(_imported(path, known) - {name}) for name, path in known.items()}


def _imported(path: Path, known: Mapping[str, Path]) -> set[str]:
    found = set()
    for node in ast.walk(_tree(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            full = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {full[name] if full[name] in known else node.module for name in full}
    return {name for name in found if name in known}


def rooms(graph: Graph, folder: str) -> Graph:
    """Return the rooms of a folder and the arrows between them."""
    arrows: dict[str, set[str]] = {}
    for name, imported in graph.items():
        room = _room(name, folder)
        if room:
            arrows.setdefault(room, set()).update(filter(None, (_room(other, folder) for other in imported)))
    return {room: frozenset(others - {room}) for room, others in arrows.items()}


@cache
def _tree(source: str) -> ast.Module:
    return ast.parse(source)


def _room(module: str, folder: str) -> str:
    return module.removeprefix(f"{folder}.").partition(".")[0] if module.startswith(f"{folder}.") else ""


def floors(graph: Graph) -> dict[str, int]:
    """Return the floor of each room, from 1; rooms that import each other in a circle are refused.

    Raises:
        ValueError: names the circle's rooms.
    """
    open_: list[str] = []

    @cache
    def floor(room: str) -> int:
        if room in open_:
            raise ValueError(f"a circle of imports: {' -> '.join([*open_[open_.index(room) :], room])}")
        open_.append(room)
        height = 1 + max((floor(other) for other in graph[room]), default=0)
        open_.pop()
        return height

    return {room: floor(room) for room in graph}


def longest_chain(graph: Graph) -> list[str]:
    """Return the longest chain of imports, from the top down."""
    height = floors(graph)
    chain = [max(graph, key=lambda name: height[name])]
    while below := graph[chain[-1]]:
        chain.append(max(sorted(below), key=lambda name: height[name]))
    return chain


def lines_of(source: str) -> Lines:
    """Count a module's lines by kind; a line with code and a comment is code."""
    documented: set[int] = set()
    for node in ast.walk(_tree(source)):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            documented.update(range(value.lineno, (value.end_lineno or value.lineno) + 1))
    rows = dict(enumerate(source.splitlines(), start=1))
    plain = {number: row.strip() for number, row in rows.items() if number not in documented}
    comments = sum(row.startswith("#") for row in plain.values())
    blank = sum(not row for row in plain.values())
    return Lines(len(plain) - comments - blank, len(documented), comments, blank)


def attribute_docstrings(source: str) -> Iterator[str]:
    """Yield the docstrings below attributes of modules and classes."""
    bodies: list[list[ast.stmt]] = [_tree(source).body]
    for body in bodies:  # grows
        bodies.extend(node.body for node in body if isinstance(node, ast.ClassDef))
        for attribute, text in pairwise(body):
            value = text.value if isinstance(text, ast.Expr) else None
            if isinstance(attribute, ast.Assign | ast.AnnAssign) and isinstance(value, ast.Constant):
                yield str(value.value)


def comments(source: str) -> Iterator[str]:
    """Yield the first lines of comments, without directives and headings."""
    end = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            alone, (line, _) = token.line.lstrip().startswith("#"), token.start
            text = token.string.lstrip("#: ")
            if not (alone and end == line - 1) and DIRECTIVES.match(text) is None:
                yield text
            end = line if alone else 0


def messages(source: str) -> Iterator[str]:
    """Yield the beginnings of the messages of errors, up to a first value."""
    for node in ast.walk(_tree(source)):
        raised = node.exc if isinstance(node, ast.Raise) else None
        text = raised.args[0] if isinstance(raised, ast.Call) and raised.args else None
        while isinstance(text, ast.BinOp | ast.JoinedStr) and (isinstance(text, ast.BinOp) or text.values):
            text = text.left if isinstance(text, ast.BinOp) else text.values[0]
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            yield text.value


def is_clause(text: str) -> bool:
    """Return whether a docstring, comment or message begins as a clause without a subject does."""
    return CLAUSES.match(text.lstrip()) is not None


def function_lengths(source: str) -> Iterator[int]:
    """Yield how many lines each function has."""
    for node in ast.walk(_tree(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


def report(package: str = "agentgym") -> Iterator[str]:
    """Yield the figures, a line each."""
    known, graph = modules(package), imports(package)
    sources = {name: path.read_text() for name, path in known.items()}
    sizes = {name: len(source.splitlines()) for name, source in sources.items()}
    kinds = Lines(*map(sum, zip(*map(lines_of, sources.values()), strict=True)))
    lengths = [length for source in sources.values() for length in function_lengths(source)]
    importers = Counter(other for imported in graph.values() for other in imported)
    small = sum(importers[name] == 1 and size < SMALL for name, size in sizes.items())
    yield f"modules           {sum(path.name != '__init__.py' for path in known.values())}"
    yield f"module's lines    median {median(sizes.values()):.0f}, most {max(sizes.values())}"
    yield f"lines             {sum(kinds):,}: code {kinds.code:,}, docstrings {kinds.docstring:,}, " + (
        f"comments {kinds.comment:,}, blank {kinds.blank:,}"
    )
    yield f"docstrings' share {100 * kinds.docstring / sum(kinds):.1f} %"
    yield f"functions         {len(lengths):,}; lines: median {median(lengths):.0f}, most {max(lengths)}"
    yield f"imports           {sum(map(len, graph.values())):,}"
    yield f"small modules     {small} of under {SMALL} lines with one importer"
    yield f"\n{'folder':<36} rooms  floors  arrows"
    folders = {name.rpartition(".")[0] for name in known if "." in name}
    for folder in sorted(folders, key=lambda name: (name.count("."), name)):
        inside = rooms(graph, folder)
        if len(inside) > SHOWN:
            floor = max(floors(inside).values())
            yield f"{folder:<36} {len(inside):>5}  {floor:>6}  {sum(map(len, inside.values())):>6}"
    chain = longest_chain({name: imported - {package} for name, imported in graph.items() if name != package})
    yield f"\nlongest chain of imports, {len(chain)} modules:"
    yield from (f"  {name}" for name in chain)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it without a traceback
    sys.stdout.writelines(f"{line}\n" for line in report(*sys.argv[1:2]))
