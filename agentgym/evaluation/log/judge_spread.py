"""Judge spread: the variation of repeated ratings of one transcript, ``judge_spread.json``.

The submitter measures it with ``agentgym judge RUN``; no rank depends on it.
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
"""Name of the judge among an environment's query backends."""

SPREAD_SCHEMA = 1
"""Version of the file's format."""


@dataclass(frozen=True, slots=True)
class JudgedAgain:
    """Repeated ratings of a sample of an environment's episodes."""

    judge: str
    """Kind and fingerprint of the judge, its `agentgym.core.queries.AnswerKind.name`."""
    episodes: tuple[str, ...]
    """Ids of the episodes that were judged again."""
    unanswered: int
    """Number of requested ratings without an answer."""
    deviations: Mapping[str, float]
    """Standard deviation of one rating about its transcript's mean, by name: the score, and each measure that
    the judge changes."""


@dataclass(frozen=True, slots=True)
class JudgeSpread:
    """Content of ``judge_spread.json``."""

    schema: int
    request_id: str
    """Request id of the run."""
    ratings: int
    """Number of ratings of each transcript."""
    seed: int
    """Seed of the sample."""
    envs: Mapping[str, JudgedAgain]
    """Spread by label, for the environments with a judge."""

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
