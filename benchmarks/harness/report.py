"""Reports: one record for machines, as JSON, and a page for people, as Markdown beside it."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant's result in one discipline."""

    discipline: str
    contestant: str
    unit: str
    median: float
    quartiles: tuple[float, float]
    """25 % and 75 % of the rounds."""
    ratio: float | None
    """Median over rounds of this project's figure by the contestant's; None for the project itself."""
    ratio_quartiles: tuple[float, float] | None


class Texts(NamedTuple):
    """What is said around the tables."""

    title: str
    setting: str
    notes: str
    memory: str = "memory for each further environment"


def machine(*peers: str) -> dict[str, str]:
    """Say what the figures were measured on; ``peers`` are packages compared with."""
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), cpu)
    return {
        "cpu": f"{cpu}, {os.cpu_count()} cores, one used",
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("gymnasium", "numpy", *peers, "agentgym-suite")},
    }


def parser(
    module: str, about: str | None, out: Path | None = None, *, rounds: int = 0, seconds: float = 0.0
) -> argparse.ArgumentParser:
    """Return a parser of the arguments that benchmarks have alike.

    Args:
        module: that is run with ``python -m``.
        about: docstring of the module.
        out: where ``--out`` writes the JSON report, beside which the page goes; None for no such argument.
        rounds: of ``--rounds``; 0 for no such argument.
        seconds: of ``--seconds``, of a contestant in a round; 0 for no such argument.
    """
    made = argparse.ArgumentParser(
        prog=f"python -m {module}", description=about, formatter_class=argparse.RawTextHelpFormatter
    )
    if rounds:
        made.add_argument("--rounds", type=int, default=rounds, help=f"(default: {rounds})")
    if seconds:
        about_seconds = f"of each contestant in a round (default: {seconds:g})"
        made.add_argument("--seconds", type=float, default=seconds, help=about_seconds)
    if out is not None:
        made.add_argument("--out", type=Path, default=out, help=f"the report as JSON (default: {out})")
    return made


def publish(out: Path, record: Any, page: str) -> None:
    """Write a record as JSON and its page beside it, and print the page.

    Args:
        out: the JSON file; its suffix may be left out.
        record: its content; dataclasses are written by their fields.
        page: Markdown.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".json").write_text(json.dumps(record, default=asdict, indent=1) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text(page, encoding="utf-8")
    print(page)


def table(head: Sequence[object], rows: Iterable[Sequence[object]], numbers: int = 0) -> list[str]:
    """Return the lines of a Markdown table.

    Args:
        head: cells of the first line.
        rows: cells of the others.
        numbers: columns at the end that are aligned to the right.
    """
    rule = ["---"] * (len(head) - numbers) + ["---:"] * numbers
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in (head, *rows)]
    return [lines[0], f"|{'|'.join(rule)}|", *lines[1:]]


def table_text(head: Sequence[object], rows: Iterable[Sequence[object]], numbers: int = 0) -> str:
    """Return a Markdown table as a text; arguments as `table`."""
    return "\n".join(table(head, rows, numbers)) + "\n"


def markdown(
    rows: list[Row], memory: dict[str, float], about: dict[str, str], command: str, texts: Texts
) -> str:
    """Write the tables; none of memory where there is nothing to say about it."""
    versions = ", ".join(f"{name} {about[name]}" for name in about if name not in ("cpu", "system"))
    lines = [
        f"# {texts.title}",
        "",
        f"`{command}` on {about['cpu']}; {versions}.",
        "",
        texts.setting,
        "Median and quartiles over rounds; a ratio compares contestants within a round.",
        "",
    ]
    cells = []
    for row in rows:
        low, high = row.quartiles
        ratio = ""
        if row.ratio is not None and row.ratio_quartiles is not None:
            least, most = row.ratio_quartiles
            ratio = f"{row.ratio:,.3g} ({least:,.3g} to {most:,.3g})"
        spread = f"{_digits(low)} to {_digits(high)}"
        cells.append((row.discipline, row.contestant, f"{_digits(row.median)} {row.unit}", spread, ratio))
    lines += table(("discipline", "contestant", "median", "quartiles", "agentgym is faster by"), cells)
    if memory:
        sizes = [(name, f"{size:,.0f}") for name, size in memory.items()]
        lines += ["", *table((texts.memory, "bytes"), sizes)]
    return "\n".join([*lines, "", texts.notes]) + "\n"


def _digits(number: float) -> str:
    """Write a figure: whole, or with two digits where it is small."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
