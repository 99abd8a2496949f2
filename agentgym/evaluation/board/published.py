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
    """What is measured, in the paper's word: success, score, accuracy, F1, recall, goal, or another."""
    detail: str = ""
    """A task type, a split or a setting; empty for the whole environment in the paper's usual setting."""
    unit: str = "%"
    """Of its numbers; empty for none."""
    model: str = ""
    """Of the rows that do not name theirs, where it is not the paper's usual one."""

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
    """One for each column: the number, and what the paper prints after its plus-minus sign where it does;
    empty where it prints none."""
    model: str = ""
    """Where it is not the paper's usual one."""


@dataclass(frozen=True, slots=True)
class Paper:
    """A table, or the numbers of a figure, of a paper."""

    name: str
    table: str
    """Its number; of a figure with the word."""
    model: str
    protocol: str
    """How the numbers came about, as far as the paper says."""
    title: str = ""
    column: tuple[PublishedColumn, ...] = ()
    row: tuple[PublishedRow, ...] = ()
    caveats: tuple[str, ...] = ()
    """What is known to be wrong with it, or must be known before it is compared."""

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
    """Percent."""
    spread: float | None
    """What the paper prints after its plus-minus sign; None where it prints none."""
    model: str


@dataclass(frozen=True, slots=True)
class Published:
    """The content of ``published.toml``."""

    paper: tuple[Paper, ...] = ()
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Suites below whose boards the success rates of an environment stand, by environment; the others stand
    at the end of the page."""

    def below(self, suite: str) -> list[tuple[Paper, PublishedSuccess]]:
        """Return the success rates that stand below a suite's boards."""
        return [each for each in self._rates() if suite in self.beside.get(each[1].environment, ())]

    def apart(self, suites: Collection[str]) -> list[tuple[Paper, PublishedSuccess]]:
        """Return the success rates that stand below no board, given the suites that have one."""
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
