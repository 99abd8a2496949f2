"""Results printed in papers: shown beside the leaderboard, never ranked with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from agentgym.errors import UsageError


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
    """Number of the table; for a figure with that word."""
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
        return f"{self.name}, {self.table if self.table.startswith('Figure') else f'Table {self.table}'}"


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
