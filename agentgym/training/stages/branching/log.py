"""Log of trees: K and its distribution, S by task type, distinct states, and one state over its visits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentgym.algos.state_score import Allotment, shares
from agentgym.core.episodes import observed_text
from agentgym.core.hashing import content_id
from agentgym.core.types import Observation
from agentgym.training.collect.distinct_states import DistinctStates
from agentgym.training.collect.rollout_batch import Diagnostics
from agentgym.training.stages.branching.worker import Branch, TreeNode

ENOUGH = 100
"""Number of states visited by earlier trajectories after which their K count as typical."""

_BOUNDS = (0.25, 0.5, 0.75)
SUCCESS_RATES = ("new", "0", "0-0.25", "0.25-0.5", "0.5-0.75", "0.75-1", "1")
"""Classes of states by the rate of success of the trajectories through them; "new" has none."""


def success_class(successes: int, total: int) -> str:
    """Return a state's class among `SUCCESS_RATES`.

    Example:
        >>> success_class(0, 0), success_class(0, 3), success_class(1, 4), success_class(3, 3)
        ('new', '0', '0.25-0.5', '1')
    """
    if successes in (0, total):
        return "new" if total == 0 else "1" if successes else "0"
    return SUCCESS_RATES[2 + sum(successes / total >= bound for bound in _BOUNDS)]


def text_key(task_id: str, observation: Observation) -> str:
    """Return the key of a task's state by the exact text of its observation."""
    return content_id((task_id, observed_text(observation)))


@dataclass(slots=True)
class TreeLog:
    """Counts over a run; `taken` returns and clears those of one iteration."""

    allotment: Allotment
    hashes: DistinctStates = field(default_factory=DistinctStates)
    """States that trees have visited, by hash, which is unique to a task."""
    texts: DistinctStates = field(default_factory=DistinctStates)
    """States that trees have visited, by task and text of the observation."""
    samples: int = 0
    """Number of sampled actions."""
    played: int = 0
    """Number of these that were environment steps: an action sampled twice in a state is played once."""
    known: list[int] = field(default_factory=list)
    """K of the states below depth 1 in which trajectories had ended, the first `ENOUGH` of them."""
    warned: bool = False
    watched: str = ""
    """Hash of the state that is followed over the run: the first one at depth 2."""
    _counts: Counter[str] = field(default_factory=Counter)
    _k: Counter[int] = field(default_factory=Counter)
    _by_class: dict[str, list[int]] = field(default_factory=dict)
    _scores: dict[str, list[float]] = field(default_factory=dict)
    """Scores of states by the type of their task."""
    _watched: dict[str, float] = field(default_factory=dict)

    def state(self, node: TreeNode, visits: tuple[int, int], score: float, k: int) -> None:
        """Take note of a state that was looked at, and of its K."""
        self._k[k] += 1
        self._by_class.setdefault(success_class(*visits), []).append(k)
        self._scores.setdefault(node.root.task_type, []).append(score)
        name = f"{node.root.task_id} {node.state_hash}"
        if not self.watched and node.depth == 2:
            self.watched = name
        if name == self.watched:
            self._watched = {"visits": visits[1], "successes": visits[0], "score": score, "k": k}
        if visits[1] and node.depth > 1 and len(self.known) < ENOUGH:
            self.known.append(k)
            self._warn()

    def _warn(self) -> None:
        """Warn, once in a run, of constants that allot nothing between 1 and the most."""
        own = self.allotment
        if self.warned or len(self.known) < ENOUGH or own.fixed or not own.state_score or own.largest < 3:
            return
        self.warned = True
        shares(np.array(self.known), largest=own.largest)

    def root(self, node: TreeNode) -> None:
        """Take note of a tree's initial state."""
        self._met(node.root.task_id, node.state_hash, node.observation)

    def branches(self, node: TreeNode, branches: list[Branch]) -> None:
        """Take note of the samples of a state."""
        samples = [branch.step.completion for branch in branches if branch.step is not None]
        self.samples += len(samples)
        self._counts["samples"] += len(samples)
        self.played += len({each.action for each in samples})
        self._counts["duplicates"] += len(samples) - len({(one.action, one.response_ids) for one in samples})
        for branch in branches:
            if branch.step is not None:
                self._met(node.root.task_id, branch.step.next_state_hash, branch.observation)

    def count(self, **numbers: int) -> None:
        """Add to an iteration's numbers."""
        self._counts.update(numbers)

    def _met(self, task_id: str, state_hash: str, observation: Observation) -> None:
        self.hashes.add([state_hash])
        self.texts.add([text_key(task_id, observation)])

    def taken(self, **numbers: float) -> Diagnostics:
        """Return the numbers recorded since the last call, and further ones of the trees as they are."""
        counts, scores = self._counts, [score for each in self._scores.values() for score in each]
        diagnostics = {
            "k": {str(k): float(self._k[k]) for k in range(max([*self._k, self.allotment.largest]) + 1)},
            "k_by_success": {name: float(np.mean(ks)) for name, ks in self._by_class.items()},
            "states_by_success": {name: float(len(ks)) for name, ks in self._by_class.items()},
            "score_by_task_type": {name: float(np.mean(each)) for name, each in self._scores.items()},
            "states": {
                "by_hash": float(len(self.hashes)),
                "by_text": float(len(self.texts)),
                "samples": float(self.samples),
                "played": float(self.played),
                "score": float(np.mean(scores)) if scores else 0.0,
                "high_score": float(np.mean(np.array(scores) > 0.5)) if scores else 0.0,
            },
            "trees": {
                "waves": float(counts["waves"]),
                "samples": float(counts["samples"]),
                "duplicates": counts["duplicates"] / max(counts["samples"], 1),
                "ended": float(counts["ended"]),
                "episodes": float(counts["episodes"]),
                **numbers,
            },
            "state": dict(self._watched),
        }
        self._counts, self._k, self._by_class = Counter(), Counter(), {}
        self._scores, self._watched = {}, {}
        return {name: inner for name, inner in diagnostics.items() if inner}

    def state_dict(self) -> dict[str, Any]:
        """Return the counts over a run."""
        return {
            "hashes": self.hashes.to_bytes(),
            "texts": self.texts.to_bytes(),
            "samples": self.samples,
            "played": self.played,
            "known": list(self.known),
            "warned": self.warned,
            "watched": self.watched,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.hashes = DistinctStates.from_bytes(state["hashes"])
        self.texts = DistinctStates.from_bytes(state["texts"])
        self.samples, self.played, self.known = state["samples"], state["played"], list(state["known"])
        self.warned, self.watched = state["warned"], state["watched"]
