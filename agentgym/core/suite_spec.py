"""The record of a suite of environments: all that the rest of the package needs to know of it.

A suite's folder (``agentgym/envs/NAME``) holds everything about it; its ``suite.py`` holds a `SuiteSpec`,
which the environment's class names as `agentgym.env.AgentEnv.suite_spec`. What is only needed now and then is
named as ``module:attribute`` and imported where it is used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from agentgym.core.markup import Element
from agentgym.core.tools import ACT, Tool
from agentgym.core.types import Step


@dataclass(frozen=True, slots=True)
class DataSource:
    """One official data set."""

    name: str
    """Name in the command ``agentgym data import NAME PATH``."""
    folder: str
    """Its folder inside the data directory: the name of the suite that reads it."""
    about: str
    """One line for tables."""
    upstream: str
    """Address or repository that publishes a copy."""
    licence: str
    sets: Mapping[str, tuple[str, ...]]
    """The data sets it gives an environment, ``NAME/SET``, and the splits each is divided into, if any."""
    expected: str
    """Files that a copy holds, in words."""
    importer: str
    """``module:attribute`` of the `agentgym.data.importing.Importer` that reads a copy."""
    generation: str = ""
    """Generation of the upstream files, which manifests record; empty where there is one alone."""


@dataclass(frozen=True, slots=True)
class PromptDefaults:
    """Default prompt of an environment."""

    wording: str = "generic"
    """Wording for models that can read: a built-in one, or the path of a ``.toml`` file."""
    tiny_wording: str = "terse"
    """Wording for tiny models."""
    tiny_history: int = 1
    """Past turns in the prompt of a tiny model."""
    history: int = 2
    """Past turns in other prompts; 0 where observations include the history."""


PLACE = "place"
"""Form field that names the page a form was sent from."""


@dataclass(frozen=True, slots=True)
class PageFrame:
    """Parts of a site around a page, and in its forms."""

    place: str
    """Name of the open page; every form sends it as `PLACE`."""
    splits: Sequence[str] = ()
    """Splits that a visitor can choose."""
    notice: str = ""
    """Text shown above the page; empty for none."""
    hint: bool = False
    """Whether the page explains the task to a first visitor; a form ``/hint`` ends that."""


@dataclass(frozen=True, slots=True)
class SitePages:
    """The pages of a suite's web site, which `agentgym.serving.site.EnvSite` serves."""

    env_id: str
    title: str
    style: bytes
    """The style sheet."""
    page: Callable[[Any, PageFrame], bytes]
    """``page(session, frame)``: the document of a `agentgym.serving.play_session.PlaySession`."""
    offer: Callable[[PageFrame, Mapping[str, str]], bytes]
    """``offer(frame, fields)``: a document with a form ``/begin`` of fields that name a task, to confirm."""
    splits: Callable[[Any], Sequence[str]]
    """``splits(env)``: those that have tasks in the data of an environment, with its options."""
    message: Callable[[str, str], bytes]
    """``message(title, text)``: a document with a way back."""
    action: Callable[[Mapping[str, str], tuple[str, ...]], str]
    """``action(fields, admissible)``: the action that a form asks for; UsageError where it asks for none."""


def nothing_beside(env: Any) -> tuple[str, ...]:
    """Return no text: all of an observation is state."""
    return ()


@dataclass(frozen=True, slots=True)
class SuiteDrawing:
    """Drawings of a suite's states for people, beside the text of pages that show episodes."""

    draw: Callable[[Any, Sequence[Step]], Element]
    """``draw(env, steps)``: the state in which an environment is, after these steps of its episode. It may
    show what the agent cannot see, and says so where it does."""
    beside_state: Callable[[Any], tuple[str, ...]] = nothing_beside
    """``beside_state(env)``: pieces of the observation's text now that the state hash does not cover, such as
    a notice or an advertisement."""
    of_state: bool = False
    """Whether what is drawn follows from what the state hash covers: then each state is drawn once."""


class Symbol(NamedTuple):
    """A character of a board drawn in text."""

    meaning: str
    """A word or two for the legend."""
    style: str
    """Style of rich, such as ``"bold yellow"``; empty for plain."""


@dataclass(frozen=True, slots=True)
class ScreenHints:
    """Terminal hints for people beside a suite's observations; agents see none of them.

    Example:
        >>> ScreenHints(symbols={"@": Symbol("you", "green")}).is_board("  @ ")
        True
    """

    goal: str = ""
    """One line: what to achieve, and how."""
    symbols: Mapping[str, Symbol] = field(default_factory=dict)
    """Colours and legend of the characters of text boards."""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys that act at once (``up``, ``down``, ``left``, ``right`` are the arrows): each plays the first of
    these actions that is admissible."""

    keeps: str = ""
    """Beginning of the line of the first observation that stays in view, such as the task; empty for none."""

    def pinned_line(self, first_observation: str) -> str:
        """Return the line of a first observation that stays in view, or nothing."""
        lines = (line.strip() for line in first_observation.splitlines())
        return next((line for line in lines if self.keeps and line.startswith(self.keeps)), "")

    def is_board(self, line: str) -> bool:
        """Return whether a line of an observation is drawn in the symbols, and nothing but them."""
        return bool(line.strip()) and all(c == " " or c in self.symbols for c in line)


_NAME = re.compile(r"[a-z][a-z0-9_]*")

RESERVED_MEASURES = (
    "score", "success", "invalid", "format_errors", "steps", "tokens_per_success", "cost_per_success",
)  # fmt: skip
"""Names of columns that every environment has."""

ATTEMPT_MEASURES = ("first_success", "any_success")
"""Names of columns over several attempts at a task, which a suite may choose for any environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A number of an episode beside score and success: a column of tables.

    Example:
        >>> Measure(name="f1", about="token F1 of the answer").at_error
        0.0
    """

    name: str
    """Lower case, as columns are chosen by."""
    about: str
    """One line for tables."""
    bounds: tuple[float, float] = (0.0, 1.0)
    """Least and greatest value; the greatest may be infinite."""
    unit: str = ""
    """Unit, such as ``"searches"``; empty for shares."""
    total: bool = False
    """Whether tables show the sum over episodes; else the mean."""
    better: Literal["higher", "lower", "neither"] = "higher"
    """Order that leads a column; ``neither`` for costs, which an agent lowers by giving up."""

    @property
    def at_error(self) -> float | None:
        """Value for an episode that ends in an error: the worse bound; None for costs, which stay."""
        if self.better == "neither":
            return None
        return self.bounds[0] if self.better == "higher" else self.bounds[1]

    def __post_init__(self) -> None:
        """Refuse a name that a column cannot have, and bounds that leave an error without a value."""
        if not _NAME.fullmatch(self.name) or self.name in RESERVED_MEASURES:
            raise ValueError(
                f"measure {self.name!r}: a name has lower-case letters, digits and '_', and is none of "
                f"{', '.join(RESERVED_MEASURES)}"
            )
        least, greatest = self.bounds
        if not -math.inf < least < greatest:
            raise ValueError(f"measure {self.name!r}: bounds are [least, greatest], got {list(self.bounds)}")
        if self.better == "lower" and greatest == math.inf:
            raise ValueError(
                f"measure {self.name!r}: what is better lower needs a greatest value, which errors count as"
            )


FIRST_SUCCESS = Measure(name="first_success", about="tasks won at the first attempt")
ANY_SUCCESS = Measure(name="any_success", about="tasks won within all attempts")

REGRET_MEASURES = (
    Measure(
        name="regret",
        about="steps lost against shortest ways to a win, as a share of the step limit; 1 after a dead end",
        better="lower",
    ),
    Measure(
        name="belief_regret",
        about="the same, without the steps that some world which the observations allow excuses",
        better="lower",
    ),
)
"""Columns that a suite may choose for any environment with a `SuiteSpec.distance`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSpec:
    """A suite of environments.

    Example:
        >>> SuiteSpec(name="corridor").prompt.wording
        'generic'
    """

    name: str
    """Name of the suite, `agentgym.env.AgentEnv.suite` of its environments."""
    prompt: PromptDefaults = PromptDefaults()
    tiny: Mapping[str, Any] = field(default_factory=dict)
    """Settings, by dotted name, with which training of a tiny model begins."""
    measures: tuple[Measure, ...] = ()
    """Keys of `agentgym.env.AgentEnv.measures` of an episode, with bounds and direction."""
    sources: tuple[DataSource, ...] = ()
    """Its official data sets."""
    rules: str | None = None
    """``module:function`` that makes its rule-based agent from the vector environment; None for none."""
    oracle_only: str | None = None
    """``module:function`` that yields texts of an environment's data that the oracle may type without having
    seen them, so that packed runs can refer to them; None for none."""
    distance: str | None = None
    """``module:function`` that makes the `agentgym.core.distances.GoalDistance` of the episode that an
    environment has begun; None where shortest ways to a win cannot be proven."""
    site: str | None = None
    """``module:attribute`` of its `SitePages`; None for none."""
    drawing: str | None = None
    """``module:attribute`` of its `SuiteDrawing`; None for text alone."""
    screen: ScreenHints = ScreenHints()
    """Appearance in `agentgym play`."""
    tools: tuple[Tool, ...] = (ACT,)
    """Tools whose calls are the suite's actions. An environment may have its own in the attribute ``tools``,
    depending on its options."""

    def __post_init__(self) -> None:
        """Refuse measures of an episode that are named as those over attempts or of regret are."""
        for measure in self.measures:
            if measure.name in (*ATTEMPT_MEASURES, *(column.name for column in REGRET_MEASURES)):
                raise ValueError(f"suite {self.name}: {measure.name!r} names a column of another kind")

    def checked(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return an environment's values of the measures, in their order.

        Raises:
            ValueError: one is missing, undeclared, out of its bounds or no number.
        """
        names = [measure.name for measure in self.measures]
        if values.keys() != set(names):
            raise ValueError(f"suite {self.name} has the measures {names}, and its environment gave {values}")
        for measure in self.measures:
            value, (least, greatest) = values[measure.name], measure.bounds
            if not (math.isfinite(value) and least <= value <= greatest):
                raise ValueError(f"measure {measure.name!r} is from {least} to {greatest}, got {value}")
        return {name: float(values[name]) for name in names}

    def counted(self, values: Mapping[str, float], *, aborted: bool) -> dict[str, float]:
        """Return the measures with which an episode is scored.

        Args:
            values: of all measures, where the episode stands.
            aborted: whether it ended in an error: then each has its worse bound, and only what was spent
                stays, so that no column is led by giving up.

        Example:
            >>> f1 = Measure(name="f1", about="token F1")
            >>> calls = Measure(name="calls", about="calls", bounds=(0.0, math.inf), better="neither")
            >>> SuiteSpec(name="qa", measures=(f1, calls)).counted({"f1": 0.9, "calls": 7.0}, aborted=True)
            {'f1': 0.0, 'calls': 7.0}
        """
        if not aborted:
            return dict(values)
        worst = {m.name: m.at_error for m in self.measures if m.at_error is not None}
        return {name: worst.get(name, value) for name, value in values.items()}
