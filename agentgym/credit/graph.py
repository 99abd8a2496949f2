"""Graph of all states of a task, found by playing every action from every state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from agentgym.core.arrays import Bools, Floats, Ints
from agentgym.core.episodes import observed_text
from agentgym.core.types import Observation, Snapshot
from agentgym.env import AgentEnv
from agentgym.errors import UsageError

MAX_STATES = 200_000
"""Most states of a graph, by default."""

WIN_REWARD = 10.0
"""Reward of a step that wins, as GiGPO, HGPO, GraphGPO, 3SPO and iStar train; all other steps earn 0."""

REJECTED = "(rejected)"
"""Action that no game accepts: an edge from a state to itself, which costs a step."""


@dataclass(frozen=True, kw_only=True)
class StateGraph:
    """S states of one task and the E actions that lead from one to the next, as arrays.

    State 0 is the first one. The edges of a state are consecutive, and a state where the game is over has
    none. Which state follows an action is certain.
    """

    task_id: str
    hashes: tuple[str, ...]
    """S state hashes; equal ones where a state is there with several observations."""
    ended: Bools
    """(S,) whether the game is over by its own rules."""
    won: Bools
    """(S,) whether it is over and won."""
    first: Ints
    """(S + 1,) first edge of each state: those of s are ``first[s]`` up to ``first[s + 1]``."""
    target: Ints
    """(E,) state that an edge leads to."""
    valid: Bools
    """(E,) whether the environment accepts the action."""
    actions: tuple[str, ...]
    """E actions."""
    text: Ints
    """(E,) index of the observation after an edge in ``texts``."""
    texts: tuple[str, ...]
    """Distinct observations; the first one is that of the reset."""

    @cached_property
    def source(self) -> Ints:
        """(E,) state that an edge leads from."""
        return np.repeat(np.arange(len(self.won)), np.diff(self.first))

    @cached_property
    def wins(self) -> Floats:
        """(E,) 1 where an edge wins, else 0."""
        return self.won[self.target].astype(np.float64)

    @cached_property
    def distances(self) -> Floats:
        """(S,) the fewest steps from each state to a win, inf where none leads there."""
        source = self.source
        away = np.where(self.won, 0.0, np.inf)
        while True:
            nearer = away.copy()
            np.minimum.at(nearer, source, away[self.target] + 1.0)
            if np.array_equal(nearer, away):
                return away
            away = nearer


def explore(
    env: AgentEnv[Any],
    task: str,
    *,
    max_states: int = MAX_STATES,
    rejected: bool = False,
    observed: bool = False,
    opened: Callable[[Observation, Mapping[str, Any]], object] = lambda observation, info: None,
) -> StateGraph:
    """Play every admissible action from every state that can be reached within the step limit.

    Args:
        env: an environment whose actions are enumerated and whose outcomes are certain.
        task: id of the task.
        max_states: most states.
        rejected: whether each state also has the edge `REJECTED`; one without any other edge always has.
        observed: whether two observations of a state are two states, as for a policy that reads the last one.
        opened: takes the observation and info of each state that has edges, in order.

    Raises:
        UsageError: actions are templates, chance plays a part, or there are more states.
    """
    if env.action_kind != "enumerated":
        raise UsageError(
            f"{type(env).__name__} has actions with free slots, so that its states cannot be listed: set "
            'actions="candidates" where it takes that, or use Monte Carlo'
        )
    observation, info = env.reset(seed=0, options={"task": task})
    found = _Listing(observed)
    found.reach(observation, info, env.snapshot, ended=False)
    opened(observation, info)
    first = [0]
    while len(first) <= len(found.places):
        number = len(first) - 1
        snapshot, admissible = found.places[number] or (None, ())
        found.places[number] = None
        stuck = snapshot is not None and not admissible
        for action in (*admissible, REJECTED) if stuck or (rejected and admissible) else admissible:
            env.rewind(cast(Snapshot, snapshot))
            observation, _, terminated, truncated, info = env.step(action)
            found.actions.append(action)
            found.valid.append(bool(info["action_is_valid"]))
            take = None if truncated else env.snapshot
            if found.reach(observation, info, take, ended=terminated) and not (terminated or truncated):
                opened(observation, info)
            if len(found.places) > max_states:
                raise UsageError(f"task {task} has more than {max_states:,} states: lower the step limit")
        first.append(len(found.actions))
    return found.graph(task, first)


class _Listing:
    """States and edges found so far, in the order in which they are found."""

    def __init__(self, observed: bool):
        """Start with nothing; ``observed`` as `explore` takes it."""
        self.observed = observed
        self.states: dict[tuple[str, int], int] = {}
        self.texts: dict[str, int] = {}
        self.places: list[tuple[Snapshot, tuple[str, ...]] | None] = []
        self.ended: list[bool] = []
        self.won: list[bool] = []
        self.target: list[int] = []
        self.text: list[int] = []
        self.actions: list[str] = []
        self.valid: list[bool] = []
        self.chance: Any = None

    def reach(
        self,
        observation: Observation,
        info: Mapping[str, Any],
        take: Callable[[], Snapshot] | None,
        *,
        ended: bool,
    ) -> bool:
        """Add an edge to a state, and the state where it is new; return whether it is.

        ``take``: takes a snapshot of the state; None where the step limit was reached.
        """
        text = self.texts.setdefault(observed_text(observation), len(self.texts))
        name = info["state_hash"], text if self.observed else 0
        new = name not in self.states
        self.target.append(self.states.setdefault(name, len(self.states)))
        self.text.append(text)
        if new:
            self.ended.append(ended)
            self.won.append(ended and bool(info["won"]))
            place = None if take is None else (take(), info["admissible_actions"])
            self.places.append(None if ended else place)
            self._check_chance(place)
        return new

    def _check_chance(self, place: tuple[Snapshot, tuple[str, ...]] | None) -> None:
        if place is not None and len(self.places) == 1:
            self.chance = place[0].rng
        elif place is not None and place[0].rng != self.chance:
            raise UsageError(f"{place[0].suite} draws random numbers: switch its noise off")

    def graph(self, task: str, first: list[int]) -> StateGraph:
        """Return all of it; the reset is no edge."""
        return StateGraph(
            task_id=task,
            hashes=tuple(name for name, _ in self.states),
            ended=np.array(self.ended),
            won=np.array(self.won),
            first=np.array(first),
            target=np.array(self.target[1:]),
            valid=np.array(self.valid),
            actions=tuple(self.actions),
            text=np.array(self.text[1:]),
            texts=tuple(self.texts),
        )
