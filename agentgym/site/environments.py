"""Environment pages: the task, data sets, baselines and oracle, and reports on speed and parity."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from agentgym.core.suite_spec import Measure, SuiteDrawing
from agentgym.core.text_image import wrapped
from agentgym.errors import MissingDataError, MissingPackageError, UsageError
from agentgym.evaluation.board.boards import Board
from agentgym.evaluation.board.tables import environment_cells
from agentgym.evaluation.suites.datasets import EnvDataSet, data_sets
from agentgym.io.optional import load_reference
from agentgym.io.untrusted import read_json
from agentgym.registration import ENVIRONMENTS, class_of, open_env
from agentgym.site.rendering import slug
from agentgym.site.runs import RunPage

REPORTS: Mapping[str, tuple[str, ...]] = {
    "sokoban": ("parity/sokoban", "speed/results"),
    "ezpoints": (),
    "alfworld": ("parity/alfworld", "speed/alfworld"),
    "webshop": ("parity/webshop", "parity/webshop_search", "speed/webshop", "speed/webshop_original"),
    "hotpotqa": ("parity/qa",),
    "twowiki": ("parity/qa",),
    "musique": ("parity/qa",),
    "searchqa": (),
    "papersearch": ("retrieval/papers",),
    "sotopia": ("parity/sotopia", "speed/sotopia"),
}
"""Reports below the folder of benchmarks, by suite, without suffix."""

DEEP = 3
"""Deepest level of a report's tables on a page."""

WORDS_WIDE, WORDS_TALL = 25, 7
"""Most letters of a line and most lines of a text thumbnail."""

_TERM = re.compile(r"\*\*([A-Z][a-z]+)\*\*: ")


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A report of a benchmark: lines that compare contestants, and single numbers."""

    name: str
    lines: tuple[tuple[str, str, str, str], ...]
    """Discipline, contestant, median with its quartiles, and ratio."""
    numbers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """How an episode of an environment begins: as the viewer draws it, or else in words."""

    picture: Mapping[str, str]
    """Attributes of the ``img`` element; empty for a text thumbnail."""
    words: str
    """First lines of the first observation; empty beside a picture, and without data to open it."""


@dataclass(frozen=True, slots=True)
class EnvironmentPage:
    """The template's data of an environment."""

    id: str
    thumbnail: Thumbnail
    about: tuple[str, ...]
    """Paragraphs of the description."""
    contract: tuple[tuple[str, str], ...]
    """Task, observation, actions, reward, termination and so on, in words."""
    steps: int
    action_kind: str
    data: tuple[EnvDataSet, ...]
    measures: tuple[Measure, ...]
    boards: tuple[tuple[str, list[str]], ...]
    """Page of each board with this environment, and its line in the table of environments."""
    solved: tuple[str, str] | None
    """Address of a solved episode in the viewer, and its agent."""
    reports: tuple[ReportTable, ...]

    @property
    def file(self) -> str:
        """Name of its page."""
        return f"env-{slug(self.id)}.html"

    @property
    def name(self) -> str:
        """Its name without namespace and version."""
        return self.id.rpartition("/")[2].partition("-v")[0]


def environment_pages(
    boards: Sequence[Board], runs: Sequence[RunPage], reports: Path | None
) -> list[EnvironmentPage]:
    """Return the environments' pages; ``boards`` give floors and oracles, ``runs`` a solved episode."""
    return [_page(env_id, boards, runs, reports) for env_id in ENVIRONMENTS]


def _page(
    env_id: str, boards: Sequence[Board], runs: Sequence[RunPage], reports: Path | None
) -> EnvironmentPage:
    game = class_of(env_id)
    about, contract = documented(inspect.getdoc(game) or "")
    on_boards = []
    for number, board in enumerate(boards, start=1):
        _, lines = environment_cells(board)
        for env, line in zip(board.envs, lines, strict=True):
            if env.env.id == env_id:
                on_boards.append((f"board-{number}.html", [board.suite.name, *line[:1], *line[2:]]))
    return EnvironmentPage(
        id=env_id,
        thumbnail=thumbnail(env_id),
        about=about,
        contract=contract,
        steps=game.default_max_steps,
        action_kind=game.action_kind,
        data=tuple(data_sets(env_id)),
        measures=game.suite_spec.measures,
        boards=tuple(on_boards),
        solved=_solved(env_id, runs),
        reports=tuple(_reports(game.suite, reports)) if reports is not None else (),
    )


@cache
def thumbnail(env_id: str) -> Thumbnail:
    """Return the picture that a drawing of the first state holds, or the first lines of its text."""
    try:
        game = open_env(env_id)
    except (MissingDataError, MissingPackageError):
        return Thumbnail({}, "")
    with closing(game):
        game.reset(seed=0)
        if game.suite_spec.drawing is not None:
            drawing: SuiteDrawing = load_reference(game.suite_spec.drawing, trusted=True)
            for part in drawing.draw(game, []).walk():
                if part.tag == "img":
                    return Thumbnail(part.attributes, "")
        lines = [part for line in game.shown_text().split("\n") for part in wrapped(line.strip(), WORDS_WIDE)]
    return Thumbnail({}, "\n".join([line for line in lines if line][:WORDS_TALL]))


def documented(text: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    r"""Return a class's documentation: paragraphs, and its terms with their definitions.

    Example:
        >>> documented("Win.\n\n**Task**: a game\n  of chance.\n**Reward**: 1.")
        (('Win.',), (('Task', 'a game of chance.'), ('Reward', '1.')))
    """
    text = text.partition("\nExample")[0].replace("``", "`")
    head, *rest = (part.replace("**", "") for part in _TERM.split(text))
    paragraphs = tuple(" ".join(part.split()) for part in head.split("\n\n") if part.strip())
    terms = tuple((name, " ".join(about.split())) for name, about in zip(rest[::2], rest[1::2], strict=True))
    return paragraphs, terms


def _solved(env_id: str, runs: Sequence[RunPage]) -> tuple[str, str] | None:
    """Return the address of the longest episode won, the random agent's only where no other agent won one."""
    best: tuple[bool, int] | None = None
    found = None
    for page in runs:
        labels = {env.env.label for env in page.run.envs if env.env.id == env_id}
        for e in () if page.films is None else page.films.episodes:
            rank = (page.run.agent.kind != "random", e.length)
            if e.won and e.differs_at is None and e.label in labels and (best is None or rank > best):
                key = page.file.removeprefix("run-").removesuffix(".html")
                best, found = rank, (f"view.html#{key}/{e.number}/0", page.run.agent.display_name)
    return found


def _reports(suite: str, folder: Path) -> Iterator[ReportTable]:
    for name in REPORTS.get(suite, ()):
        path = folder / f"{name}.json"
        if not path.is_file():
            continue
        table = read_json(path)
        if not isinstance(table, dict):
            raise UsageError(f"{path} is not a report: restore it, or name another folder with --reports")
        rows = table.pop("rows", [])
        lines = tuple(_line(row) for row in rows if isinstance(row, dict) and "contestant" in row)
        yield ReportTable(name, lines, tuple(_numbers(table)))


def _line(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    low, high = row["quartiles"]
    median = f"{row['median']:,.0f} [{low:,.0f}, {high:,.0f}] {row['unit']}"
    ratio = row.get("ratio")
    return row["discipline"], row["contestant"], median, "-" if ratio is None else f"{ratio:.3g}"


def _numbers(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield the single numbers and texts of a report with the names that lead there."""
    if isinstance(value, dict) and len(path) < DEEP:
        for key, inner in value.items():
            yield from _numbers(inner, (*path, str(key)))
    elif isinstance(value, bool | int | str):
        yield ", ".join(path), f"{value:,}" if type(value) is int else str(value)
    elif isinstance(value, float):
        yield ", ".join(path), f"{value:.4g}"
