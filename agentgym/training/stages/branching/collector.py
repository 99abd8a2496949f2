"""The collector of 3SPO: trees of episodes that grow by expansions, handed over one wave at a time.

`rollout.tasks` trees grow at once, a task each. A *wave* expands the current state of every tree: all their
responses are sampled in one call of the policy, and each is played from the state, restored. An iteration of
the loop is a wave; so weights are updated and handed over between two waves, inside episodes, and a
checkpoint may lie in the middle of trees. A wave that teaches nothing, with no two samples of a state (K = 1)
or with rewards that are all alike, changes no weights: the next one follows at once, up to as many as an
episode may have steps.

    K(s) = 0    the branch stops
    K(s) = 1    one step, which nothing is learnt from
    K(s) > 1    K samples, compared with each other: the best is followed, the others wait on the frontier

Only states that the tree has not visited are followed or wait. After a wave without a new state, at an
episode's end or in an exhausted state, the frontier's last state is restored: the best one left of the newest
expansion. A tree ends with its frontier, or with its budget; without ``backtracking``, with its branch. The
next tree in its place is of the same task, ``repeats`` times in all, and then of the next task, until each
place has had ``batches``: S distinguishes only states that were visited before, so a second tree learns from
the first.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from agentgym.algos.filters import SAME
from agentgym.algos.state_score import Allotment, Visits
from agentgym.core.hashing import content_id
from agentgym.core.types import Group, Trajectory
from agentgym.errors import UsageError
from agentgym.rollout.worker import EpisodeSpec
from agentgym.training.collect.rollout_batch import Collected, EpisodeEnd
from agentgym.training.collect.task_order import TaskOrder
from agentgym.training.learner.distributed import Ranks
from agentgym.training.setup import TrainingSetup
from agentgym.training.stages.branching.log import TreeLog, text_key
from agentgym.training.stages.branching.state import pack_nodes, unpack_nodes
from agentgym.training.stages.branching.worker import Branch, BranchingWorker, Root, TreeNode
from agentgym.training.stages.outcome import Stages


@dataclass(slots=True, eq=False)
class Tree:
    """The episodes of one task, as far as they have been played."""

    number: int
    """Index of the tree in the run, from 0."""
    root: Root
    visits: Visits
    """Visit counts, the run's or the tree's own."""
    current: TreeNode | None
    """Node to expand next; None where the frontier decides."""
    frontier: list[TreeNode] = field(default_factory=list)
    """Nodes to expand later; the last one is next."""
    known: set[str] = field(default_factory=set)
    """Hashes of the states that the tree has visited or has in its frontier."""
    samples: int = 0
    """Number of samples so far."""


class TaskTurn(NamedTuple):
    """The tree in one place."""

    position: int
    """Index of its task in the order of tasks."""
    repeat: int
    """Index among the trees of the task, from 0."""


class Plan(NamedTuple):
    """An expansion that is about to be made."""

    tree: Tree
    node: TreeNode
    samples: int
    score: float
    """Score S of the state."""
    visits: tuple[int, int]
    """Counts (N_succ, N_tot) of the state."""


class Compared(NamedTuple):
    """The samples of one expansion, rewarded."""

    plan: Plan
    branches: list[Branch]
    """Branches whose response was a step."""
    rewards: list[float]
    next_scores: list[float]
    """Scores S of the next states."""


class TreeCollector:
    """Grows trees, and hands over what each wave's expansions compare."""

    def __init__(
        self,
        worker: BranchingWorker,
        order: TaskOrder,
        allotment: Allotment,
        *,
        trees: int,
        budget: int,
        least: int = 1,
        window: int = 64,
        by_text: bool = False,
        ranks: Ranks | None = None,
    ):
        """Bind worker, task order and 3SPO's options.

        ``trees`` grow at once, each from at most ``budget`` samples; an update needs ``least`` samples; the
        last ``window`` ended episodes are reported. ``by_text`` takes equal observations for one state,
        otherwise equal hashes. Each of ``ranks`` computes alike what follows from the play.
        """
        self.worker = worker
        self.order = order
        self.allotment = allotment
        self.budget = budget
        self.ranks = ranks or Ranks()
        self.visits = Visits()
        self.log = TreeLog(allotment)
        self._least, self._by_text = least, by_text
        self._trees: list[Tree | None] = [None] * trees
        self._turns = [TaskTurn(-1, allotment.repeats)] * trees
        self._ends: deque[EpisodeEnd] = deque(maxlen=window)
        self._begun = self._positions = self._episodes = self._dropped = 0

    @classmethod
    def open(cls, setup: TrainingSetup) -> TreeCollector:
        """Open the collector of a run; the environment must be able to return to earlier states."""
        config = setup.config
        rollout, allotment = config.rollout, config.stage_options
        match = config.algorithm_options.get("match", "state")
        if match not in ("state", "text"):
            raise UsageError(
                f"algorithm_options.match is {match!r}, but visits are counted by 'state' or 'text'"
            )
        if allotment.scope == "all" and match != "text":
            raise UsageError(
                "algorithm_options.scope is 'all', but hashes are of one task: set "
                "algorithm_options.match=text"
            )
        for name, value, usual in (
            ("max_staleness", rollout.max_staleness, 0),
            ("attempts", rollout.attempts, 1),
        ):
            if value != usual:
                raise UsageError(
                    f"rollout.{name} is {value}, but {config.spec.title} trains on every wave of its trees "
                    f"as soon as it is played: set it to {usual}"
                )
        envs = setup.worker.envs
        worker = BranchingWorker(envs, setup.meter, env_id=config.env_id)
        order = TaskOrder(envs.tasks, config.seed)
        (first,) = worker.begin(order.episodes(0, 1))
        pack_nodes([worker.resume(first.root, first.snapshot, ())])  # raises now, not after hours of training
        return cls(
            worker,
            order,
            allotment,
            trees=rollout.tasks,
            budget=allotment.budget or rollout.group_size * envs.max_steps,
            least=1 if config.learner.minibatch_steps is not None else config.learner.minibatches,
            window=rollout.tasks * rollout.group_size,
            by_text=match == "text",
            ranks=setup.ranks,
        )

    # ---- what the loop asks -----------------------------------------------------------------

    def collect(self, version: int) -> Collected:
        """Return the expansions of the next wave that teaches anything.

        Nothing after as many waves as an episode may have steps. A wave of fewer samples than an update needs
        is returned with the next. ``version`` is of the weights that are about to be updated.
        """
        compared: list[Compared] = []
        for _ in range(self.worker.envs.max_steps):
            wave = self._wave()
            if compared or any(np.ptp(each.rewards) > SAME for each in wave):
                compared += wave
            else:
                self._dropped += len(wave)
            if self._over or _samples(compared) >= self._least:
                break
        if _samples(compared) < self._least:
            self._dropped += len(compared)
            compared = []
        growing = [tree for tree in self._trees if tree is not None]
        waiting = float(np.mean([len(tree.frontier) for tree in growing])) if growing else 0.0
        return Collected(
            [self._group(each) for each in compared],
            columns=_columns(compared),
            ends=tuple(self._ends),
            notes=[note for each in compared for note in _notes(each)],
            diagnostics=self.log.taken(
                growing=float(len(growing)),
                frontier=waiting,
                batches=(self._begun - len(growing)) / len(self._trees),
            ),
            over=self._over,
        )

    @property
    def _over(self) -> bool:
        """Whether all the run's trees are complete."""
        return self._left == 0 and all(tree is None for tree in self._trees)

    @property
    def _left(self) -> int | None:
        """Trees still to be begun; None without a limit."""
        batches = self.allotment.batches
        return batches * len(self._trees) - self._begun if batches else None

    @property
    def episodes(self) -> int:
        """Episodes played to their ends, counted by the first rank for all."""
        return self._episodes if self.ranks.is_first else 0

    def over_ranks(self) -> tuple[int, int]:
        """Return the numbers of expansions that taught nothing or were too few, and of growing trees."""
        return self._dropped, sum(tree is not None for tree in self._trees)

    def close(self) -> None:
        """Do nothing: nothing is played ahead."""

    def state_dict(self) -> dict[str, Any]:
        """Return the trees with their frontiers' snapshots, the visits and what is logged."""
        return {
            "begun": self._begun,
            "positions": self._positions,
            "turns": [tuple(turn) for turn in self._turns],
            "episodes": self._episodes,
            "dropped": self._dropped,
            "trees": [None if tree is None else self._pack(tree) for tree in self._trees],
            "visits": _pack_visits(self.visits),
            "ends": [asdict(end) for end in self._ends],
            "log": self.log.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from `state_dict`, in the middle of as many trees."""
        if len(state["trees"]) != len(self._trees):
            raise UsageError(
                f"the checkpoint has {len(state['trees'])} trees, the run grows {len(self._trees)}: leave "
                "rollout.tasks as it was"
            )
        self._begun, self._episodes, self._dropped = state["begun"], state["episodes"], state["dropped"]
        self._positions, self._turns = state["positions"], [TaskTurn(*turn) for turn in state["turns"]]
        self.visits = _unpack_visits(state["visits"])
        self._trees = [None if packed is None else self._unpack(packed) for packed in state["trees"]]
        self._ends.clear()
        self._ends.extend(EpisodeEnd(**end) for end in state["ends"])
        self.log.load_state_dict(state["log"])

    # ---- a wave -----------------------------------------------------------------------------

    def _wave(self) -> list[Compared]:
        """Expand the current state of every tree; return the expansions with more than one sample.

        Scores are of the visits before the wave. What ended in it is counted after it, so neither the order
        of trees nor the number of ranks changes anything.
        """
        self._plant()
        plans = [plan for tree in self._trees if tree is not None if (plan := self._plan(tree)) is not None]
        wanted = [(plan.node, self._seeds(plan)) for plan in plans]
        played = self.ranks.gather(self.worker.expand(self.ranks.share(wanted)))
        compared, over = [], []
        for plan, branches in zip(plans, played, strict=True):
            self.log.branches(plan.node, branches)
            compared.append(self._grow(plan, branches))
            over += [
                (plan.tree, branch.trajectory(plan.node, self.worker.env_id, whole=True))
                for branch in _played_once(branches)
                if branch.end_reason is not None
            ]
        for tree, trajectory in over:
            self._finish(tree, trajectory)
        self.log.count(waves=1)
        return [each for each in compared if each.plan.samples > 1 and each.branches]

    def _plant(self) -> None:
        """Begin a tree in every free place, as long as there are to be any."""
        free = [place for place, tree in enumerate(self._trees) if tree is None][: self._left]
        specs: list[EpisodeSpec] = []
        for place in free:
            turn = self._turns[place]._replace(repeat=self._turns[place].repeat + 1)
            if turn.repeat >= self.allotment.repeats:
                turn = TaskTurn(self._positions, 0)
                self._positions += 1
            self._turns[place] = turn
            specs += self.order.episodes(turn.position, turn.repeat + 1)[-1:]  # the seed of a new rollout
        nodes = self.ranks.gather(self.worker.begin(self.ranks.share(specs)))
        for place, node in zip(free, nodes, strict=True):
            visits = self.visits if self.allotment.counts == "run" else Visits()
            known = {self._key(node)}
            self._trees[place] = Tree(self._begun, node.root, visits, node, known=known)
            self._begun += 1
            self.log.root(node)

    def _plan(self, tree: Tree) -> Plan | None:
        """Return a tree's next expansion: of its current state, or of the first that waits and is worth it.

        A tree without any is over.
        """
        while tree.samples < self.budget and (tree.current is not None or tree.frontier):
            node = tree.current or tree.frontier.pop()
            visits, score = self._scored(tree, self._key(node), node.depth)
            k = self.allotment.samples(score)
            self.log.state(node, visits, score, k)
            tree.current = None
            if k > 0:
                return Plan(tree, node, min(k, self.budget - tree.samples), score, visits)
        self._trees[self._trees.index(tree)] = None
        self.log.count(ended=1)
        return None

    def _seeds(self, plan: Plan) -> list[int]:
        """Return a sampling seed for each sample; no two of a tree are alike."""
        tree = plan.tree
        return [
            int(content_id((tree.root.seed, tree.root.task_id, tree.number, tree.samples + n))[:16], 16)
            for n in range(plan.samples)
        ]

    def _grow(self, plan: Plan, branches: list[Branch]) -> Compared:
        """Reward a state's samples, follow the best, and let the others wait."""
        tree, node = plan.tree, plan.node
        tree.samples += plan.samples
        steps = [branch for branch in branches if branch.step is not None]
        reached = [self._reached(branch, node) for branch in steps]
        scores = [self._scored(tree, key, node.depth + 1)[1] for key in reached]
        here, total = self._key(node), plan.visits[1]
        valid = [branch.step is not None and branch.step.valid for branch in steps]
        rewards = [
            self.allotment.reward(key != here, float(branch.won), plan.score, score, total, accepted)
            for branch, key, score, accepted in zip(steps, reached, scores, valid, strict=True)
        ]
        best_first: list[TreeNode] = []
        for n in sorted(range(len(steps)), key=lambda n: -rewards[n]):
            if steps[n].end_reason is not None:
                continue
            if self.allotment.frontier == "all" or reached[n] not in tree.known:
                best_first.append(steps[n].node(node))
            tree.known.add(reached[n])
        tree.current = best_first[0] if best_first else None
        if self.allotment.backtracking:
            tree.frontier += reversed(best_first[1:])
        return Compared(plan, steps, rewards, scores)

    def _finish(self, tree: Tree, trajectory: Trajectory) -> None:
        """Count an episode that is over, in the states that it acted in.

        Not in the state that it ended in, which nothing is sampled from: a lost end would soon be given up,
        and S(s) - 0 would reward losing as much as R_succ rewards winning. An episode that the machine broke
        off says nothing of its states.
        """
        self._ends.append(EpisodeEnd.of(trajectory))
        self._episodes += 1
        self.log.count(episodes=1)
        if trajectory.end_reason == "env_error":
            return
        task = self._task(tree.root)
        keys = [step.state_hash for step in trajectory.steps]
        if self._by_text:
            keys = [text_key(task, step.observation) for step in trajectory.steps]
        tree.visits.add(task, keys, trajectory.won)

    def _scored(self, tree: Tree, key: str, depth: int) -> tuple[tuple[int, int], float]:
        """Return (N_succ, N_tot) and S of a state, by the visits that its tree knows."""
        visits = tree.visits.of(self._task(tree.root), key)
        return visits, float(self.allotment.score(*visits, depth, tree.visits.finished))

    def _task(self, root: Root) -> str:
        """Return the key of the tasks that share visits; empty where all do."""
        return root.task_id if self.allotment.scope == "task" else ""

    def _key(self, node: TreeNode) -> str:
        """Return the key of a state among those of the tasks that share visits."""
        return text_key(self._task(node.root), node.observation) if self._by_text else node.state_hash

    def _reached(self, branch: Branch, parent: TreeNode) -> str:
        assert branch.step is not None
        if self._by_text:
            return text_key(self._task(parent.root), branch.observation)
        return branch.step.next_state_hash

    def _group(self, compared: Compared) -> Group:
        """Return an expansion's samples as episodes of one step from one state."""
        node, env_id = compared.plan.node, self.worker.env_id
        members = [
            branch.trajectory(node, env_id, whole=False, rollout=number)
            for number, branch in enumerate(compared.branches)
        ]
        return Group(node.root.task_id, node.state_hash, tuple(members))

    # ---- checkpoints ------------------------------------------------------------------------

    def _pack(self, tree: Tree) -> dict[str, Any]:
        nodes = [*tree.frontier, *([] if tree.current is None else [tree.current])]
        return {
            "number": tree.number,
            "root": asdict(tree.root),
            "samples": tree.samples,
            "known": sorted(tree.known),
            "follows": tree.current is not None,
            "visits": _pack_visits(tree.visits) if tree.visits is not self.visits else None,
            **pack_nodes(nodes),
        }

    def _unpack(self, packed: dict[str, Any]) -> Tree:
        root = Root(**packed["root"])
        nodes = unpack_nodes(self.worker, root, packed)
        visits = self.visits if packed["visits"] is None else _unpack_visits(packed["visits"])
        current = nodes.pop() if packed["follows"] else None
        known = set(packed["known"])
        return Tree(packed["number"], root, visits, current, nodes, known, packed["samples"])


def _columns(compared: list[Compared]) -> dict[str, Any]:
    rewards = np.array([reward for each in compared for reward in each.rewards])
    sizes = [len(each.branches) for each in compared]
    return {
        "reward": rewards,
        "outcome": rewards,
        "expansion": np.repeat(np.arange(len(compared)), sizes).astype(np.int64),
    }


def _played_once(branches: list[Branch]) -> list[Branch]:
    """Return one branch of each action: the others of that action are duplicates of the episode."""
    first: dict[str | None, Branch] = {}
    for branch in branches:
        first.setdefault(None if branch.step is None else branch.step.action, branch)
    return list(first.values())


def _notes(compared: Compared) -> list[dict[str, float]]:
    """Return the notes of each sample beside its step."""
    plan = compared.plan
    shared = {
        "depth": float(plan.node.depth),
        "k": float(plan.samples),
        "visits": float(plan.visits[1]),
        "successes": float(plan.visits[0]),
        "score": plan.score,
    }
    return [
        {**shared, "next_score": score, "reward": reward}
        for score, reward in zip(compared.next_scores, compared.rewards, strict=True)
    ]


def _samples(compared: list[Compared]) -> int:
    return sum(len(each.branches) for each in compared)


def _pack_visits(visits: Visits) -> dict[str, Any]:
    rows = [(task, state, *counts) for (task, state), counts in visits.counts.items()]
    return {"finished": visits.finished, "states": rows}


def _unpack_visits(packed: dict[str, Any]) -> Visits:
    states = {(task, state): (successes, total) for task, state, successes, total in packed["states"]}
    return Visits(states, packed["finished"])


STAGES = Stages(collector=TreeCollector.open)
"""Stages of tree expansion, scored by its own rewards."""
