"""Results printed in papers: shown beside the leaderboard, never ranked with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agentgym.errors import UsageError, nearest


@dataclass(frozen=True, slots=True)
class PublishedColumn:
    """A column of a paper's table."""

    environment: str
    metric: str = "success"
    """Measured quantity, in the paper's word: success, score, accuracy, F1, recall, goal, or another."""
    detail: str = ""
    """Task type, split or setting; empty for the whole environment in the paper's usual setting."""
    unit: str = "%"
    """Unit of its numbers; empty for none."""
    model: str = ""
    """Model of the rows that do not name theirs; empty for the paper's usual one."""

    @property
    def name(self) -> str:
        """Its name in a paper's table, such as ``ALFWorld, Pick`` or ``WebShop, score``."""
        return ", ".join(filter(None, [self.environment, self.metric.replace("success", ""), self.detail]))

    @property
    def head(self) -> str:
        """Its heading."""
        parts = [self.environment, self.metric, self.detail, self.model]
        return ", ".join(part for part in parts if part) + (f" ({self.unit})" if self.unit else "")


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A line of a paper's table."""

    method: str
    cells: tuple[tuple[float, ...], ...]
    """Numbers of each column: the value, and the one after the paper's plus-minus sign where it prints one;
    empty where the paper has no value."""
    model: str = ""
    """Model of the row; empty for the paper's usual one."""


@dataclass(frozen=True, slots=True)
class Paper:
    """A table, or the numbers of a figure, of a paper."""

    name: str
    table: str
    """Number of the table; for a figure, or a section of a page, with its name."""
    model: str
    protocol: str
    """Protocol of the measurement, as far as the paper states it."""
    title: str = ""
    column: tuple[PublishedColumn, ...] = ()
    row: tuple[PublishedRow, ...] = ()
    caveats: tuple[str, ...] = ()
    """Known errors of the table, and conditions of any comparison with it."""

    @property
    def place(self) -> str:
        """Its source: paper and table."""
        return f"{self.name}, {'Table ' * self.table.isdecimal()}{self.table}"


@dataclass(frozen=True, slots=True)
class PublishedSuccess:
    """One success rate of a paper over a whole environment."""

    environment: str
    method: str
    success: float
    """Success rate, in percent."""
    spread: float | None
    """Number after the paper's plus-minus sign; None without one."""
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedCondition:
    """A paper's statement of how some of its results came about, each part with its place in the text.

    A part without a statement is not stated.
    """

    paper: str
    table: tuple[str, ...] = ()
    """Tables that it is about; empty for all."""
    environment: tuple[str, ...] = ()
    """Environments of columns that it is about; empty for all."""
    split: tuple[str, str] | None = None
    panel: tuple[int, str] | None = None
    """Number of tasks."""
    seeds: tuple[int, str] | None = None
    rule: tuple[str, str] | None = None
    """Rule by which the result was chosen among several."""

    def holds(self, paper: Paper, column: PublishedColumn) -> bool:
        """Return whether it is about a column of a table."""
        tables, environments = self.table or (paper.table,), self.environment or (column.environment,)
        return self.paper == paper.name and paper.table in tables and column.environment in environments


CONDITIONS = ("split", "panel", "seeds", "rule")
"""Parts of a `StatedCondition`, and facts of a result that an audit compares."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The content of ``conditions.toml``."""

    condition: tuple[StatedCondition, ...] = ()

    def of(self, paper: Paper, column: PublishedColumn) -> dict[str, tuple[str | int, str]]:
        """Return statements on a column and their places, by `CONDITIONS`; a later one counts."""
        found = [each for each in self.condition if each.holds(paper, column)]
        stated = ((name, getattr(each, name)) for each in found for name in CONDITIONS)
        return {name: value for name, value in stated if value is not None}


@dataclass(frozen=True, slots=True)
class Published:
    """The content of ``published.toml``."""

    paper: tuple[Paper, ...] = ()
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Suites whose boards show an environment's success rates, by environment; the others stand at the end of
    the page."""

    def below(self, suite: str) -> list[tuple[Paper, PublishedSuccess]]:
        """Return the success rates to show below a suite's boards."""
        return [each for each in self._rates() if suite in self.beside.get(each[1].environment, ())]

    def apart(self, suites: Collection[str]) -> list[tuple[Paper, PublishedSuccess]]:
        """Return the success rates to show at the end, given the suites with boards."""
        return [
            each for each in self._rates() if not set(suites) & set(self.beside.get(each[1].environment, ()))
        ]

    def cell(self, place: Sequence[str]) -> tuple[Paper, PublishedColumn, tuple[float, ...]]:
        """Return a result by paper, table, method, `PublishedColumn.name`, and model if not the usual.

        Its paper and column come with its numbers: the value, and its spread where there is one.

        Raises:
            UsageError: there is none.
        """
        wanted = (*place, *([""] * (5 - len(place))))
        cells = {
            (paper.name, paper.table, row.method, column.name, model): (paper, column, cell)
            for paper in self.paper
            for row in paper.row
            for column, cell in zip(paper.column, row.cells, strict=True)
            for model in (row.model, row.model or column.model or paper.model)
            if cell
        }
        if wanted not in cells:
            close = nearest("#".join(place), {"#".join(known).rstrip("#") for known in cells})
            raise UsageError(f"no result {'#'.join(place)!r}{close}; give PAPER#TABLE#METHOD#COLUMN[#MODEL]")
        return cells[wanted]

    def _rates(self) -> Iterator[tuple[Paper, PublishedSuccess]]:
        """Yield the success rates of all tables over whole environments."""
        for paper in self.paper:
            for row in paper.row:
                for column, cell in zip(paper.column, row.cells, strict=True):
                    if cell and column.metric == "success" and not column.detail:
                        spread = cell[1] if len(cell) > 1 else None
                        model = row.model or column.model or paper.model
                        rate = PublishedSuccess(column.environment, row.method, cell[0], spread, model)
                        yield paper, rate


def check_published(published: Published, where: str) -> None:
    """Refuse tables whose rows do not fit their columns."""
    for paper in published.paper:
        for row in paper.row:
            if len(row.cells) != len(paper.column):
                raise UsageError(
                    f"{where}: {paper.place}: row {row.method!r} has {len(row.cells)} cells "
                    f"for {len(paper.column)} columns: write [] where nothing is printed"
                )
            if any(len(cell) > 2 for cell in row.cells):
                raise UsageError(
                    f"{where}: {paper.place}: row {row.method!r}: a cell is a number and its spread"
                )
