"""How speed results are written down: one record for machines and people."""

from __future__ import annotations

import contextlib
import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple


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
        "| discipline | contestant | median | quartiles | agentgym is faster by |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = row.quartiles
        ratio = ""
        if row.ratio is not None and row.ratio_quartiles is not None:
            least, most = row.ratio_quartiles
            ratio = f"{row.ratio:,.3g} ({least:,.3g} to {most:,.3g})"
        figure = f"{_digits(row.median)} {row.unit} | {_digits(low)} to {_digits(high)}"
        lines.append(f"| {row.discipline} | {row.contestant} | {figure} | {ratio} |")
    if memory:
        sizes = [f"| {name} | {size:,.0f} |" for name, size in memory.items()]
        lines += ["", f"| {texts.memory} | bytes |", "|---|---|", *sizes]
    return "\n".join([*lines, "", texts.notes]) + "\n"


def _digits(number: float) -> str:
    """Write a figure: whole, or with two digits where it is small."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
