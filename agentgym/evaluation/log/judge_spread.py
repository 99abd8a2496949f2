"""Judge spread: the variation of repeated ratings of one transcript, ``judge_spread.json``.

Whoever ran the benchmark measures it with ``agentgym judge RUN``; it is stated, and no rank depends on it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from agentgym.errors import UsageError
from agentgym.io.files import replace_file
from agentgym.io.records import parse
from agentgym.io.untrusted import read_json

SPREAD_FILE = "judge_spread.json"

JUDGE = "judge"
"""What environments call the answerer that rates."""

SPREAD_SCHEMA = 1
"""Version of the file's format."""


@dataclass(frozen=True, slots=True)
class JudgedAgain:
    """Repeated ratings of a sample of an environment's episodes."""

    judge: str
    """`agentgym.core.queries.AnswerKind.name` of what was asked."""
    episodes: tuple[str, ...]
    """Those that were judged again, by their ids."""
    unanswered: int
    """Ratings that could not be had, of all that were asked for."""
    deviations: Mapping[str, float]
    """Standard deviation of one rating about the mean of its transcript's, by name: the score, and each
    measure that the judge moves."""


@dataclass(frozen=True, slots=True)
class JudgeSpread:
    """Content of ``judge_spread.json``."""

    schema: int
    request_id: str
    """Of the run."""
    ratings: int
    """How often each transcript was judged."""
    seed: int
    """Drew the sample."""
    envs: Mapping[str, JudgedAgain]
    """By label, of the environments that ask a judge."""

    @property
    def text(self) -> str:
        """The file's content."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_spread(folder: Path, spread: JudgeSpread) -> None:
    """Write a run's ``judge_spread.json`` at once."""
    replace_file(folder / SPREAD_FILE, spread.text)


def read_spread(folder: Path, request_id: str) -> JudgeSpread | None:
    """Read the measured spread of a run's judge; None where it was not measured."""
    path = folder / SPREAD_FILE
    if not path.exists():
        return None
    spread = parse(JudgeSpread, read_json(path), str(path))
    if spread.schema != SPREAD_SCHEMA or spread.request_id != request_id:
        raise UsageError(f"{path} is of another run or version; remove it, or run `agentgym judge` again")
    return spread
