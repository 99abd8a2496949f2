"""Values by Monte Carlo on tasks with more states than can be listed: means of continuations.

States and edges are found as episodes come to them. The policy is a mixture of chance and the environment's
oracle, which is asked anew in each state, so its action probabilities are known in every visited state.
With h steps left, each of N continuations plays the policy from a snapshot of s to the end:

    V_h(s) = mean over N of the rewards to come,    A_h(s, a) = r(s, a) + V_(h-1)(s') - V_h(s)

A win is worth 1, ends and the step limit 0, as in `agentgym.credit.truth`. All visits of a state with as many
steps left share its value. Two such estimates from different continuations have independent errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import numpy as np

from agentgym.core.arrays import Bools, Floats
from agentgym.core.episodes import observed_text
from agentgym.core.types import Observation, Policy, Request, Snapshot
from agentgym.credit.behaviour import Episodes, Run, episodes_of, play, strength_at
from agentgym.credit.graph import REJECTED, StateGraph
from agentgym.credit.truth import Truth
from agentgym.env import AgentEnv
from agentgym.errors import UsageError

UNLIMITED = 1_000_000
"""Step limit of the environments that are played; the suite's own limit is counted in steps left."""

TUNING_EPISODES, TUNING_WIDTH = 48, 1 / 64
"""Episodes a task behind each strength that is tried, and width of the last interval of strengths."""

_Taken: TypeAlias = tuple[int, int, int, int]
"""State, edge, steps left and member of a step."""

_Draws: TypeAlias = Iterator[list[float]]
"""Three uniform numbers for each step."""

_SLOT, _WORD = re.compile(r"<[^<>]*>"), re.compile(r"\w+")


@dataclass(slots=True)
class _Place:
    """A state, with the edges that lead from it."""

    name: str
    snapshot: Snapshot
    request: Request
    ended: bool
    won: bool
    choices: list[range]
    """Edges of each admissible action; a template has one edge a filling."""
    actions: list[str]
    liked: int | None = None
    """Edge of the oracle's action; None before the oracle is asked."""
    reached: dict[int, tuple[int, bool, int]] = field(default_factory=dict)
    """State, acceptance and observation after each edge that was played."""


class SampledTask:
    """States of a task as far as they are visited, and the mixture of its oracle and chance.

    With probability ``strength`` the policy plays the oracle's action, else one of the admissible actions,
    each as likely. The slot of a template is filled with a word of the first observation, each as likely.
    """

    def __init__(self, env: AgentEnv[Any], oracle: Policy, task: str, *, horizon: int):
        """Start the task.

        Args:
            env: an environment of its own, whose step limit is `UNLIMITED`.
            oracle: the environment's oracle.
            task: id of the task.
            horizon: the step limit.
        """
        self.env, self.oracle, self.task, self.horizon = env, oracle, task, horizon
        self.strength, self.rejected = 0.0, 0.0
        self.texts: dict[str, int] = {}
        self.places: list[_Place] = []
        self.fillings: dict[tuple[str, ...], tuple[list[range], list[str]]] = {}
        self.numbers: dict[str, int] = {}
        observation, info = env.reset(seed=0, options={"task": task})
        self.words = list(dict.fromkeys(_WORD.findall(observed_text(observation).lower()))) or [""]
        self.chance = env.snapshot().rng
        self.at = self._reach(observation, info, ended=False)[0]

    def _reach(self, observation: Observation, info: Any, *, ended: bool) -> tuple[int, int]:
        """Return the number of the state that the environment is in, and of its observation."""
        name, text = info["state_hash"], observed_text(observation)
        number = self.numbers.setdefault(name, len(self.places))
        if number == len(self.places):
            snapshot, admissible = self.env.snapshot(), info["admissible_actions"]
            if snapshot.rng != self.chance:
                raise UsageError(f"{snapshot.suite} draws random numbers: switch its noise off")
            request = Request(0, self.task, "", 0, text, admissible, name, 0, snapshot=lambda: snapshot)
            choices, actions = self._filled(admissible)
            if not ended:
                actions.append(REJECTED)
            won = ended and bool(info["won"])
            self.places.append(_Place(name, snapshot, request, ended, won, choices, actions))
        return number, self.texts.setdefault(text, len(self.texts))

    def _filled(self, admissible: tuple[str, ...]) -> tuple[list[range], list[str]]:
        """Return the edges of each admissible action, and a new list of the edges' actions."""
        if admissible not in self.fillings:
            choices: list[range] = []
            actions: list[str] = []
            for action in admissible:
                parts = _SLOT.split(action) if self.env.action_kind == "template" else [action]
                filled = [action] if len(parts) == 1 else [word.join(parts) for word in self.words]
                choices.append(range(len(actions), len(actions) + len(filled)))
                actions += filled
            self.fillings[admissible] = choices, actions
        choices, actions = self.fillings[admissible]
        return choices, list(actions)

    def _follow(self, state: int, edge: int) -> tuple[int, bool, int]:
        """Return the state, acceptance and observation after an edge, which is played once."""
        place = self.places[state]
        if edge not in place.reached:
            if self.at != state:
                self.env.rewind(place.snapshot)
            observation, _, ended, _, info = self.env.step(place.actions[edge])
            self.at, text = self._reach(observation, info, ended=ended)
            place.reached[edge] = self.at, bool(info["action_is_valid"]), text
        return place.reached[edge]

    def _liked(self, place: _Place) -> int:
        """Return the edge of the oracle's action, which may be a template that is filled otherwise."""
        if place.liked is None:
            action = self.oracle.act([place.request])[0].action
            if action not in place.actions:
                place.actions.append(action)
            place.liked = place.actions.index(action)
        return place.liked

    def _choose(self, place: _Place, draws: _Draws) -> int:
        if not place.choices:
            return 0
        kind, which, filling = next(draws)
        if kind < self.rejected:
            return place.choices[-1].stop
        if kind < self.rejected + (1 - self.rejected) * self.strength:
            return self._liked(place)
        edges = place.choices[int(which * len(place.choices))]
        return edges[int(filling * len(edges))]

    def episode(self, left: int, draws: _Draws, state: int = 0) -> Iterator[tuple[int, int, int]]:
        """Yield state, edge and steps left of each step from a state to the episode's end."""
        while left and not self.places[state].ended:
            edge = self._choose(self.places[state], draws)
            yield state, edge, left
            state, left = self._follow(state, edge)[0], left - 1

    def earned(self, state: int, left: int, penalty: float, draws: _Draws) -> float:
        """Return the rewards of one continuation."""
        total = 0.0
        while left and not self.places[state].ended:
            state, valid, _ = self._follow(state, self._choose(self.places[state], draws))
            total += self.places[state].won - penalty * (not valid)
            left -= 1
        return total

    def play(self, size: int, draws: _Draws) -> list[_Taken]:
        """Return state, edge, steps left and member of the steps of a group of episodes."""
        return [(*step, member) for member in range(size) for step in self.episode(self.horizon, draws)]

    def wins(self, number: int, draws: _Draws) -> float:
        """Return the share of episodes won."""
        return sum(self.earned(0, self.horizon, 0.0, draws) for _ in range(number)) / number

    def probabilities(self, place: _Place) -> list[float]:
        """Return the probability of each edge of a state."""
        if place.ended:
            return []
        if not place.choices:
            return [1.0]
        liked = self._liked(place)
        result = [0.0] * len(place.actions)
        for edges in place.choices:
            for edge in edges:
                result[edge] = (1 - self.rejected) * (1 - self.strength) / len(place.choices) / len(edges)
        result[place.choices[-1].stop] = self.rejected
        result[liked] += (1 - self.rejected) * self.strength
        return result

    def listed(self, plays: Sequence[Sequence[_Taken]]) -> _Listed:
        """Return the visited states with all their edges, and the probability of each edge.

        Edges that no episode took lead to a last state, which stands for all that was not visited.
        """
        visited = sorted({0, *(self._follow(s, e)[0] for play in plays for s, e, *_ in play)})
        rank = {state: number for number, state in enumerate(visited)}
        policy = [self.probabilities(self.places[state]) for state in visited]
        first = np.cumsum([0, *map(len, policy), 0])
        target = np.full(first[-1], len(visited))
        valid: Bools = np.ones(first[-1], dtype=np.bool_)
        text = np.zeros(first[-1], dtype=np.int64)
        places = [self.places[state] for state in visited]
        for place, start in zip(places, first.tolist(), strict=False):
            for edge, (after, accepted, seen) in place.reached.items():
                if after in rank:
                    number = start + edge
                    target[number], valid[number], text[number] = rank[after], accepted, seen
        graph = StateGraph(
            task_id=self.task,
            hashes=(*(place.name for place in places), ""),
            ended=np.array([*(place.ended for place in places), False]),
            won=np.array([*(place.won for place in places), False]),
            first=first,
            target=target,
            valid=valid,
            actions=tuple(action for place in places for action in place.actions),
            text=text,
            texts=tuple(self.texts),
        )
        return _Listed(graph, np.array([each for row in policy for each in row]), visited, rank)

    def values(
        self, listed: _Listed, runs: Sequence[Run], number: int, penalty: float, draws: _Draws
    ) -> list[Truth]:
        """Return two independent estimates of the values before and after the steps of runs.

        Args:
            listed: the states.
            runs: steps whose advantages are wanted; values of all other states are nan.
            number: continuations behind each of the two.
            penalty: cost of a rejected action.
            draws: three uniform numbers for each step.
        """
        graph = listed.graph
        edge, left = (np.concatenate([getattr(run, name) for run in runs]) for name in ("edge", "left"))
        before = zip(graph.source[edge].tolist(), left.tolist(), strict=True)
        after = zip(graph.target[edge].tolist(), (left - 1).tolist(), strict=True)
        both = np.full((2, self.horizon + 1, len(graph.won)), np.nan)
        both[:, 0], both[:, :, graph.ended] = 0.0, 0.0
        for state, steps in sorted({*before, *after}):
            if np.isnan(both[0, steps, state]):
                start = listed.visited[state]
                earned = [self.earned(start, steps, penalty, draws) for _ in range(2 * number)]
                both[:, steps, state] = np.reshape(earned, (2, number)).mean(axis=1)
        reward = graph.wins - np.where(graph.valid, 0.0, penalty)
        return [Truth(graph=graph, policy=listed.policy, reward=reward, values=each) for each in both]


@dataclass(frozen=True, slots=True)
class _Listed:
    """Visited states of a task."""

    graph: StateGraph
    policy: Floats
    visited: list[int]
    """Number of each of the graph's states in the `SampledTask`."""
    rank: dict[int, int]
    """The inverse."""

    def run(self, play: Sequence[_Taken], horizon: int) -> Run:
        """Return the run of a group that was played."""
        state, choice, left, member = np.array(play).T
        edge = self.graph.first[[self.rank[each] for each in state.tolist()]] + choice
        return Run.of(self.graph, edge, left, member, horizon=horizon)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Episodes of a policy, and what is known of their truth."""

    truths: Sequence[Truth]
    """The tasks."""
    draws: list[Episodes]
    """Draws of groups of all tasks."""
    training: list[Episodes]
    """Draws for critics and reward models; of a Monte Carlo suite without advantages."""

    @classmethod
    def of(
        cls, truths: Sequence[Truth], size: int, draws: int, training: int, rng: np.random.Generator
    ) -> Self:
        """Play groups of ``size`` episodes on listed states."""
        played = [play(truths, size, rng) for _ in range(draws + training)]
        return cls(truths=truths, draws=played[:draws], training=played[draws:])


def sample(
    tasks: Sequence[SampledTask],
    success: float,
    *,
    size: int,
    draws: int,
    training: int,
    continuations: int,
    rejected: float,
    penalty: float,
    rng: np.random.Generator,
) -> Sample:
    """Play groups of episodes of a mixture, and estimate their advantages from continuations.

    Args:
        tasks: the tasks.
        success: share of episodes won, on average over tasks.
        size: episodes of a group.
        draws: draws of groups with advantages.
        training: draws of groups without.
        continuations: continuations of each state with as many steps left, an even number.
        rejected: probability of an action that no game accepts.
        penalty: cost of one.
        rng: source of the draws.

    Raises:
        UnreachableSuccessError: no strength reaches that share.
        UsageError: a task draws random numbers.
    """
    steps = _draws_of(rng)
    for task in tasks:
        task.rejected = rejected
    tune(tasks, success, steps)
    played = [[task.play(size, steps) for task in tasks] for _ in range(draws + training)]
    by_task = list(zip(*played, strict=True))
    listed = [task.listed(plays) for task, plays in zip(tasks, by_task, strict=True)]
    runs = [
        [each.run(play, task.horizon) for play in plays]
        for each, task, plays in zip(listed, tasks, by_task, strict=True)
    ]
    estimates = [
        task.values(each, own[:draws], continuations // 2, penalty, steps)
        for task, each, own in zip(tasks, listed, runs, strict=True)
    ]
    first, second = (list(each) for each in zip(*estimates, strict=True))
    found = [episodes_of(first, each, size, second) for each in zip(*runs, strict=True)]
    return Sample(truths=first, draws=found[:draws], training=found[draws:])


def tune(tasks: Sequence[SampledTask], success: float, draws: _Draws) -> None:
    """Set the strength at which the policy wins a share of its episodes, by bisection over episodes."""

    def won(strength: float) -> float:
        for task in tasks:
            task.strength = strength
        return float(np.mean([task.wins(TUNING_EPISODES, draws) for task in tasks]))

    strength = strength_at(won, success, low=0.0, width=TUNING_WIDTH)
    for task in tasks:
        task.strength = strength


def _draws_of(rng: np.random.Generator) -> _Draws:
    while True:
        yield from rng.random((1024, 3)).tolist()
