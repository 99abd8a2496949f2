"""Lines of a recipe: a setting's value, who says so, and where and why a preset departs from it.

One record feeds both a training run (`Recipe.settings`) and what is shown of it (`agentgym recipes show`, the
tables in ``docs/algorithms``), so that the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Line:
    """A setting of a recipe.

    Example:
        >>> Line(0.95, "GiGPO, Appendix D").departs
        False
        >>> Line("token", "verl-agent", paper="step_product (Eq. 9)", why="leaves the clipping range").departs
        True
    """

    value: Any
    """What the preset sets."""
    source: str
    """Who says so: a paper with its section or table, or a file of public code."""
    paper: str = ""
    """What the paper says where that is something else; empty where the preset says the same."""
    why: str = ""
    """Why the preset departs from the paper, in a few words."""

    def __post_init__(self) -> None:
        """Refuse a line that nobody answers for.

        Raises:
            ValueError: there is no source, or a departure without a reason.
        """
        if not self.source or bool(self.paper) != bool(self.why):
            raise ValueError(f"a line names its source, and a departure its reason: {self}")

    @property
    def departs(self) -> bool:
        """Whether the preset departs from the paper on purpose."""
        return bool(self.paper)


Lines: TypeAlias = Mapping[str, Line]
"""Lines by the dotted names of settings that `agentgym.training.config.override` takes."""


def said(source: str, settings: Mapping[str, Any]) -> Lines:
    """Return lines that one source says.

    Example:
        >>> said("GiGPO, Appendix D", {"switches.gamma": 0.95})["switches.gamma"].value
        0.95
    """
    return {name: Line(value, source) for name, value in settings.items()}


SECTIONS = (
    "iterations",
    "split",
    "rollout",
    "env_options",
    "prompting",
    "learner",
    "objective",
    "switches",
    "reward_model",
    "evaluation",
)
"""Parts of a configuration, in the order that they are shown in."""


def in_order(lines: Lines) -> Lines:
    """Return lines in the order of `SECTIONS`, those of a section as they came."""
    return dict(sorted(lines.items(), key=lambda item: SECTIONS.index(item[0].partition(".")[0])))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What is published about training by one algorithm, for each environment that a paper trains on."""

    algorithm: str
    """Its name in `agentgym.algos.table.ALGORITHMS`."""
    paper: str
    """Whose algorithm it is: authors, year and arXiv number."""
    tables: str
    """Whose runs the lines describe: the paper's own, or those of a paper that compares with it."""
    by_env: Mapping[str, Lines]
    """Environment -> all lines of its runs."""
    elsewhere: Lines = field(default_factory=dict)
    """Lines for environments that no paper trains on."""

    def lines(self, env_id: str) -> Lines:
        """Return the lines for an environment, in order; `elsewhere` for one that no paper trains on."""
        return in_order(self.by_env.get(env_id, self.elsewhere))

    def settings(self, env_id: str) -> Mapping[str, Any]:
        """Return the values of `lines`."""
        return {name: line.value for name, line in self.lines(env_id).items()}
