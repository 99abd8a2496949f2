"""What five papers print of their training runs, typed from the texts alone; the rows are in `papers`."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agentgym.io.records import parse

FOLDER = Path(__file__).with_name("papers")
PAPERS = ("steppo", "graphgpo", "gigpo", "3spo", "istar")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Training runs behind a table's rows or a figure's curves: each algorithm on each environment."""

    place: str
    algorithms: tuple[str, ...]
    envs: tuple[str, ...]
    models: tuple[str, ...]
    """Empty where the paper does not name one."""
    variant: str = ""
    """What is changed, in the paper's words; empty for the main run."""
    evaluated_on: tuple[str, ...] = ()
    """Where the numbers are from other data than what is trained on, or from several parts of it."""
    ambiguous: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Print:
    """A value of a setting that is printed."""

    algorithms: tuple[str, ...]
    """Empty for all of the paper's, as is ``envs``."""
    envs: tuple[str, ...]
    setting: str
    """By its dotted name; empty where there is no such setting."""
    value: Any
    """Empty where a rule is printed and no value, or where the text has lost it."""
    printed: str
    """What stands there, shortened to eight words."""
    place: str
    variant: str = ""
    """Of the runs that it holds for; empty for all, but for those with a value of their own."""
    ambiguous: str = ""
    """How two places contradict each other, or what the text leaves open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent:
    """A setting that a run needs and the paper does not print."""

    setting: str
    algorithms: tuple[str, ...] = ()
    """Empty for all of the paper's, as is ``envs``."""
    envs: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A paper's runs and settings."""

    title: str
    arxiv: str
    text: str
    runs: tuple[Run, ...]
    prints: tuple[Print, ...]
    silent: tuple[Silent, ...]

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Those of its runs."""
        return tuple(dict.fromkeys(name for run in self.runs for name in run.algorithms))

    @property
    def envs(self) -> tuple[str, ...]:
        """Those that it trains on."""
        return tuple(dict.fromkeys(name for run in self.runs for name in run.envs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table or figure."""

    paper: str
    place: str
    kind: Literal["training", "evaluation", "analysis", "settings", "drawing"]
    shows: str
    quantity: str = ""
    """What a reader would measure to re-create it."""


def read_paper(name: str) -> Paper:
    """Return a paper by its file's name."""
    return parse(Paper, tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8")), name)


def read_tables() -> list[Table]:
    """Return all tables and figures."""
    rows = tomllib.loads((FOLDER / "tables.toml").read_text(encoding="utf-8"))["tables"]
    return [parse(Table, row, f"tables.toml: {index}") for index, row in enumerate(rows)]
