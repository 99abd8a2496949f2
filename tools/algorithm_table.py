"""Write the table of algorithms into the page that shows it: ``python -m tools.algorithm_table``.

It lists the algorithms that have a page.
"""

from __future__ import annotations

import ast
import io
import os
import tokenize
from pathlib import Path

from agentgym.algos.algorithm import Algorithm
from agentgym.algos.table import ALGORITHMS
from agentgym.recipes import recipe_names
from tools.blocks import replaced, table_block

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "docs" / "algorithms" / "index.md",)
BLOCK = table_block("| algorithm | credit |")

SWEEP = "benchmarks/algorithms/report.md"
"""Algorithms on three small environments."""

MEASURED = {
    "ppo": ("benchmarks/studies/learning.md",),
    "grpo": (
        "benchmarks/studies/learning.md",
        "benchmarks/studies/search_learning.md",
        "benchmarks/studies/smollm2_training.md",
        "benchmarks/studies/sotopia_smollm2.md",
    ),
    "gigpo": (
        "benchmarks/studies/learning.md",
        "benchmarks/studies/search_learning.md",
        "benchmarks/studies/smollm2_training.md",
    ),
    "steppo": ("benchmarks/studies/learning.md",),
}
"""Algorithm -> committed pages with measured runs of it, beside the sweep."""

BLANK = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def code_lines(source: str) -> int:
    """Count the lines of code: no blank lines, comments, docstrings or records of algorithms.

    Example:
        >>> code_lines('''def f():
        ...     "Say one."
        ...
        ...     return (1  # the number
        ...     )''')
        3
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in BLANK:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Expr | ast.Assign):
            continue
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or is_record(node.value):
            lines.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines)


def is_record(value: ast.expr) -> bool:
    """Return whether an expression makes an `Algorithm`."""
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "Algorithm"


def needs(algorithm: Algorithm) -> str:
    """Say what an algorithm asks of a run, besides groups of episodes and a critic."""
    wanted = {
        "state ids": algorithm.states,
        "snapshots": algorithm.snapshot,
        "reward model": algorithm.reward_model,
        "reference": algorithm.reference,
    }
    return ", ".join(name for name, needed in wanted.items() if needed) or "nothing more"


def measured(name: str, page: Path) -> str:
    """Return links to what was measured of an algorithm."""
    swept = f"\n| {ALGORITHMS[name].title} |" in (ROOT / SWEEP).read_text(encoding="utf-8")
    links = (
        f"[{'sweep' if file == SWEEP else Path(file).stem}]({os.path.relpath(ROOT / file, page.parent)})"
        for file in ((SWEEP,) * swept + MEASURED.get(name, ()))
    )
    return ", ".join(links) or "not yet"


def table(page: Path) -> str:
    """Return the table, with links as they are written on the page."""
    heads = ("algorithm", "credit", "critic", "needs", "trains", "recipes", "measured", "lines of code")
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for name, algorithm in ALGORITHMS.items():
        if not algorithm.page:
            continue
        link = os.path.relpath(ROOT / "docs" / "algorithms" / f"{algorithm.page}.md", page.parent)
        source = ROOT / "agentgym" / "algos" / f"{algorithm.page}.py"
        size = code_lines(source.read_text(encoding="utf-8"))
        critic = f"per {algorithm.critic}" if algorithm.critic else "no"
        trains = "yes" if algorithm.trainable else "not yet"
        recipes = sum(each.partition("/")[2].startswith(f"{name}-") for each in recipe_names())
        cells = (
            algorithm.credit,
            critic,
            needs(algorithm),
            trains,
            str(recipes or "none"),
            measured(name, page),
            str(size),
        )
        lines.append(f"| [{algorithm.title}]({link}) | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def updated(page: Path) -> str:
    """Return the page's text with the table as it should be."""
    return replaced(page.read_text(encoding="utf-8"), BLOCK, table(page))


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(updated(path), encoding="utf-8")
