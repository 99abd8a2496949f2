"""Suites: the environments, tasks, seeds and agents of a benchmark, read from TOML."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from agentgym.agents.metadata import FILE_OPTIONS, Model
from agentgym.agents.table import AGENTS, ENTRY_POINTS
from agentgym.core.hashing import canonical_json, content_id, sha256_json
from agentgym.core.options import check_choice
from agentgym.core.suite_spec import ATTEMPT_MEASURES
from agentgym.errors import UsageError, nearest
from agentgym.io.optional import plugins
from agentgym.io.records import read_toml

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MAX_PART_LENGTH = 60


MAX_BOUND = 1e9
"""Greatest score that a suite may declare, so that tables can show sums of scores."""

MAX_ATTEMPTS = 1_000
"""Most attempts of a suite: verification plans every episode, also of a stranger's suite."""


@dataclass(frozen=True, slots=True)
class PlayedEnv:
    """The played part of an environment: part of the identity of every suite and run that plays it."""

    id: str
    """Id in Gymnasium's registry, or ``module:id``."""
    label: str
    """Heading of the column; a part of every episode's seed."""
    split: str
    tasks: int | tuple[str, ...]
    """Number of tasks, the first ones of the split's manifest; or their ids."""
    metric: Literal["success", "score"] = "success"
    """Ranked metric: the share of episodes won, or the benchmark's own score."""
    bounds: tuple[float, float] = (0.0, 1.0)
    """Least and greatest possible score."""
    by_type: bool = False
    """Whether tables also break the environment down by task type."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Further options of the environment's constructor."""

    @property
    def count(self) -> int:
        """Number of played tasks."""
        return self.tasks if isinstance(self.tasks, int) else len(self.tasks)

    @property
    def options(self) -> dict[str, Any]:
        """All options of the constructor."""
        return {**self.kwargs, "split": self.split}

    @property
    def spec(self) -> str:
        """JSON that identifies the environment; the start of every hash chain."""
        return canonical_json({"id": self.id, "kwargs": _of_the_game(self.options)})


@dataclass(frozen=True, slots=True)
class SuiteEnv(PlayedEnv):
    """One environment of a suite: its played part, and its columns in tables.

    Example:
        >>> SuiteEnv("agentgym/Sokoban-v0", "Sokoban", "test", tasks=10, measures=("spl",)).played.label
        'Sokoban'
    """

    measures: tuple[str, ...] = field(default=(), metadata={"stated": True})
    """Measures of the environment (`agentgym.core.suite_spec.SuiteSpec.measures`) that tables show, by name.
    Nothing played depends on them, so no digest covers them, and no run holds them."""

    def first(self, tasks: int) -> SuiteEnv:
        """Return the environment with its first tasks only."""
        few = min(self.tasks, tasks) if isinstance(self.tasks, int) else self.tasks[:tasks]
        return replace(self, tasks=few)

    @property
    def played(self) -> PlayedEnv:
        """Its part in digests and runs."""
        played = PlayedEnv(**{entry.name: getattr(self, entry.name) for entry in fields(PlayedEnv)})
        return replace(played, kwargs=_of_the_game(self.kwargs))


def _of_the_game(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of an environment without ``device``: what computes on it is the same game."""
    return {name: value for name, value in options.items() if name != "device"}


@dataclass(frozen=True, slots=True)
class AgentCard:
    """The person responsible for an agent. No part of a run's identity."""

    contact: str = ""
    licence: str = ""
    training_data: str = ""
    """Training data of the agent, in words."""


@dataclass(frozen=True, slots=True)
class SuiteAgent:
    """One agent of a suite: a row of the table."""

    name: str
    kind: str
    """Argument of `agentgym.agents.make_agent`: an agent's name, or ``module:function``."""
    options: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    parser: str = ""
    prompt_sha256: str = ""
    """Digest of the prompt template, sha256."""
    model: Model = field(default_factory=Model)
    card: AgentCard = AgentCard()

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that may change the agent's actions, as JSON.

        Weights are identified by their sha256, not by their path.
        """
        table = asdict(self)
        del table["card"]
        if self.model.weights_sha256:
            own = {key: value for key, value in self.options.items() if key not in FILE_OPTIONS}
            table["options"] = own
        return table

    @property
    def display_name(self) -> str:
        """The name, with the training seed where there is one and the name lacks it."""
        seed = self.model.training_seed
        return self.name if seed is None else f"{self.name.removesuffix(f'-seed{seed}')}-seed{seed}"


SCALE = (SuiteAgent("random", "random"), SuiteAgent("oracle", "oracle"))
"""Agents whose scores are the floor and the oracle of the default scale."""


@dataclass(frozen=True)
class Suite:
    """A benchmark: environments, tasks and seeds, and the agents it runs by itself.

    Example:
        >>> Suite("demo", "1", seed=0).episode_seed("Sokoban", task_index=0, rollout=1)
        272587319
    """

    name: str
    version: str
    seed: int
    attempts: int = 1
    """Episodes per task."""
    floor: str = "random"
    """Agent whose score is 0 after normalisation; empty, as `oracle` then is, to normalise by the bounds of
    the score."""
    oracle: str = "oracle"
    """Agent whose score is 1 after normalisation."""
    env: tuple[SuiteEnv, ...] = ()
    agent: tuple[SuiteAgent, ...] = ()

    @property
    def anchors(self) -> tuple[str, str]:
        """Names of the agents whose rows are floor and oracle; `SCALE`'s where bounds normalise scores."""
        return self.floor or SCALE[0].name, self.oracle or SCALE[1].name

    @property
    def header(self) -> dict[str, Any]:
        """JSON of everything but the environments and agents."""
        table = asdict(self)
        del table["env"], table["agent"]
        return table

    @cached_property
    def sha256(self) -> str:
        """sha256 of everything that determines play; agents are no part of it."""
        return sha256_json({**self.header, "env": [asdict(env.played) for env in self.env]})

    @property
    def references(self) -> tuple[str, ...]:
        """Every ``module:name`` in it: code that has to be imported to play it."""
        named = (*(env.id for env in self.env), *(agent.kind for agent in self.agent))
        return tuple(name for name in named if ":" in name)

    def first(self, tasks: int) -> Suite:
        """Return a suite that plays the first tasks only of each environment, under a name of its own.

        Its name and digest are others, so no run of it shares a table with one of the whole.

        Raises:
            UsageError: it would play nothing.

        Example:
            >>> Suite("quick", "5", seed=0).first(3).name
            'quick-first3'
        """
        if tasks < 1:
            raise UsageError(f"the limit of tasks must be at least 1, got {tasks}")
        return replace(
            self, name=f"{self.name}-first{tasks}", env=tuple(env.first(tasks) for env in self.env)
        )

    def only(self, labels: Iterable[str]) -> Suite:
        """Return a suite of some of the environments, in the suite's order, under a name of its own.

        Raises:
            UsageError: the suite has no environment of a label, or none is named.

        Example:
            >>> env = SuiteEnv("agentgym/EZPoints-v0", "EZPoints unseen", "unseen_pairs", tasks=10)
            >>> Suite("quick", "5", seed=0, env=(env,)).only(["EZPoints unseen"]).name
            'quick-EZPoints-unseen'
        """
        wanted, known = set(labels), [env.label for env in self.env]
        for label in sorted(wanted - set(known)):
            check_choice("environment", label, known, where=f"suite {self.name}: ")
        chosen = tuple(env for env in self.env if env.label in wanted)
        if not chosen:
            raise UsageError(f"suite {self.name}: name an environment to play")
        words = {env.label: "-".join(re.findall("[A-Za-z0-9]+", env.label)) for env in self.env}
        part = "_".join(words[env.label] for env in chosen)
        if len(part) > _MAX_PART_LENGTH or len(set(words.values()) - {""}) < len(words):  # long, or ambiguous
            part = sha256_json([env.label for env in chosen])[:12]
        return replace(self, name=f"{self.name}-{part}", env=chosen)

    def episode_seed(self, label: str, task_index: int, rollout: int) -> int:
        """Return an episode's seed, from the suite's and the episode's place in it.

        The environment enters by its label, so that adding one leaves the others' seeds alone.

        Args:
            label: the environment's.
            task_index: place of the task in its split, from 0.
            rollout: number of the attempt at the task, from 0.
        """
        key = (int(content_id(label)[:8], 16), task_index, rollout)
        return int(np.random.SeedSequence(self.seed, spawn_key=key).generate_state(1)[0])

    def select(self, names: Iterable[str] | None) -> tuple[SuiteAgent, ...]:
        """Return the agents named, all for None.

        Raises:
            UsageError: the suite has no such agent.
        """
        if names is None:
            return self.agent
        wanted, known = list(names), sorted(agent.name for agent in self.agent)
        for name in wanted:
            if name not in known:
                installed = plugins(ENTRY_POINTS)
                meant = nearest(name, (*known, *AGENTS, *installed))
                raise UsageError(
                    f"suite {self.name}: unknown agent {name!r}{meant}; choose one of "
                    f"{', '.join((*known, *installed))}, or write module:function"
                )
        return tuple(agent for agent in self.agent if agent.name in wanted)


def part_of(suite: Suite, labels: Collection[str] = (), tasks: int | None = None) -> Suite:
    """Return a part of a suite: the environments of these labels (all for none), and their first tasks."""
    part = suite.only(labels) if labels else suite
    return part if tasks is None else part.first(tasks)


def with_agents(suite: Suite, agents: Iterable[SuiteAgent]) -> Suite:
    """Return a suite with further agents."""
    further = tuple(agents)
    check_names(("agent", agent.name) for agent in further)
    return replace(suite, agent=(*suite.agent, *further))


def check_distinct(agents: Iterable[SuiteAgent]) -> None:
    """Refuse agents that share a name and a training seed."""
    _unique((agent.display_name for agent in agents), "two agents are named")


def load_suite(path: Path) -> Suite:
    """Read a suite file.

    Raises:
        UsageError: the file is unreadable, or something in it is unknown, missing or out of range.
    """
    suite = read_toml(Suite, path)
    _check(suite, str(path))
    return suite


def _check(suite: Suite, where: str) -> None:
    try:
        canonical_json(asdict(suite))
    except (TypeError, ValueError) as error:  # TOML has dates, inf and nan; digests are over JSON
        raise UsageError(
            f"{where}: {error}; use texts, finite numbers, true, false, lists and tables"
        ) from error
    check_names((("suite", suite.name), *(("agent", agent.name) for agent in suite.agent)), f"{where}: ")
    if suite.seed < 0 or not 1 <= suite.attempts <= MAX_ATTEMPTS:
        raise UsageError(f"{where}: seed must be at least 0 and attempts from 1 to {MAX_ATTEMPTS}")
    if not suite.env:
        raise UsageError(f"{where}: no environment; add an [[env]] table")
    _unique((env.label for env in suite.env), f"{where}: two environments are labelled")
    _unique((agent.display_name for agent in suite.agent), f"{where}: two agents are named")
    if bool(suite.floor) != bool(suite.oracle):
        raise UsageError(f'{where}: name both a floor and an oracle, or set both to ""')
    for name in (suite.floor, suite.oracle) if suite.floor else ():
        if name not in {agent.name for agent in suite.agent}:
            raise UsageError(f"{where}: no agent {name!r} to normalise scores with; add an [[agent]] table")
    for env in suite.env:
        _check_env(env, f"{where}: environment {env.label!r}")
        if suite.attempts == 1 and (over := set(env.measures) & set(ATTEMPT_MEASURES)):
            raise UsageError(
                f"{where}: environment {env.label!r}: {min(over)} compares attempts, and the suite has one; "
                "raise attempts or remove it"
            )


def check_names(names: Iterable[tuple[str, str]], where: str = "") -> None:
    """Refuse names unfit for folders and pages; each is given with the kind of thing it names."""
    for kind, name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{where}{kind} name {name!r} must be letters, digits, '.', '_' and '-'")


def _check_env(env: SuiteEnv, where: str) -> None:
    if not env.label or any(character in env.label for character in "|/\n"):
        raise UsageError(f"{where}: a label is one line without '|' and '/'")
    if env.count < 1:
        raise UsageError(f"{where}: tasks must be at least 1, got {env.tasks!r}")
    if not isinstance(env.tasks, int):
        _unique(env.tasks, f"{where}: two tasks are named")
    if not -MAX_BOUND <= env.bounds[0] < env.bounds[1] <= MAX_BOUND:
        limit = f"within {-MAX_BOUND:g} and {MAX_BOUND:g}"
        raise UsageError(f"{where}: bounds must be [least, greatest], {limit}, got {list(env.bounds)}")
    _unique(env.measures, f"{where}: two measures are named")
    if "split" in env.kwargs:
        raise UsageError(f"{where}: give split beside kwargs, not in it")


def _unique(names: Iterable[str], complaint: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UsageError(f"{complaint} {name!r}; give each its own")
        seen.add(name)
