"""Evaluation protocols of the papers: games, prompts and sampling, one TOML file each.

They lie beside the recipes, in ``trainers/PAPER/protocols``.

A protocol becomes a suite of two parts: its own games first, then every game of the splits, where their data
is on this machine. Models are asked as a public checkpoint was trained, in this package's words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym.core.options import check_choice
from agentgym.errors import UsageError
from agentgym.evaluation.suites.suite import SCALE, Suite, SuiteEnv, check_names
from agentgym.io.records import read_toml
from agentgym.prompts.pictured import PictureUse
from agentgym.recipes.reader import root


@dataclass(frozen=True, slots=True)
class EvaluatedModel:
    """Settings of a model's prompts and sampling."""

    wording: str
    answer: str
    history: int
    """Past turns in the prompt."""
    budget: int
    """Most tokens of a prompt."""
    max_tokens: int
    """Most tokens of a response."""
    temperature: float
    context: str = "rebuilt"
    """Form of past turns in the prompt, as in `agentgym.prompts.settings.Prompting`."""
    pictures: PictureUse = "none"
    """Use of an observation's picture, beside its text or alone."""

    @property
    def options(self) -> dict[str, Any]:
        """Options of the agent ``model``, without those that have its defaults."""
        table = {name: getattr(self, name) for name in self.__slots__}
        for name, usual in (("context", "rebuilt"), ("pictures", "none")):
            if table[name] == usual:
                del table[name]
        return {**table, "choice": "free"}


@dataclass(frozen=True, slots=True)
class EvaluationProtocol:
    """How a paper evaluates its checkpoints.

    Example:
        >>> protocol = load_protocol("gigpo-alfworld")
        >>> [env.tasks for env in (*protocol.env, *protocol.whole)]
        [128, 140, 134]
    """

    name: str
    version: str
    seed: int
    paper: str
    """Authors, year and arXiv number of the paper."""
    source: str
    """Source of the numbers: section or table, files of public code."""
    checkpoint: str
    """Checkpoint of a run that the paper reports."""
    template: str
    """Project whose prompt template the checkpoint was trained with."""
    model: EvaluatedModel
    env: tuple[SuiteEnv, ...]
    """Games of the protocol itself."""
    whole: tuple[SuiteEnv, ...] = ()
    """All games of the splits, which are played last, where their data is installed."""
    attempts: int = 1
    """Episodes per game."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Differences from the paper, by subject."""

    @property
    def suite(self) -> Suite:
        """The suite that plays it beside random and oracle; scores are normalised by their bounds."""
        return Suite(
            name=self.name,
            version=self.version,
            seed=self.seed,
            attempts=self.attempts,
            floor="",
            oracle="",
            env=(*self.env, *self.whole),
            agent=SCALE,
        )


def protocol_names() -> tuple[str, ...]:
    """Return the names of the shipped protocols."""
    return tuple(sorted(_files()))


def _files() -> dict[str, Path]:
    return {path.stem: path for path in root().glob("*/protocols/*.toml")}


def load_protocol(name: str) -> EvaluationProtocol:
    """Return a protocol: one of `protocol_names`, or of a TOML file. A path goes before a name."""
    path = Path(name)
    if not path.is_file():
        files = _files()
        check_choice("protocol", name, sorted(files), ", or name a TOML file")
        path = files[name]
    protocol = read_toml(EvaluationProtocol, path)
    check_names((("protocol", protocol.name),), f"{path}: ")
    if not protocol.env:
        raise UsageError(f"{path}: no environment; add an [[env]] table")
    return protocol
