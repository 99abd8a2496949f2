"""Collectors of groups whose states have values: by continuations (VinePPO), or true ones (exact credit).

VinePPO restores each state K times, and the policy plays on to the episode's end: answers that count as steps
and tokens of the run, and are not trained on. To find the states, an episode's own answers are played again
from its start. Episodes share a state, with its value, where start and all answers before it are alike; no
others, since prompts may tell the past.

Exact credit lists all states of a task once, asks the model in each iteration for the probability of every
action in every state, and solves for the values (`agentgym.credit.truth`); nothing of this is counted.
Settings under which it would not be exact are refused, and every recorded step is compared with the list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from agentgym.core.arrays import Floats
from agentgym.core.episodes import observed_text, suite_keys
from agentgym.core.hashing import content_id
from agentgym.core.types import Completion, Observation, Request, Step, Trajectory
from agentgym.credit.graph import WIN_REWARD, StateGraph, explore
from agentgym.credit.truth import Truth
from agentgym.errors import UsageError
from agentgym.inference.policy.policy import LanguageModelPolicy
from agentgym.rollout.worker import EpisodeSpec
from agentgym.training.collect.rollout_batch import Collected
from agentgym.training.config import ResolvedConfig
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.packing import StepRow
from agentgym.training.setup import TrainingSetup
from agentgym.training.stages.branching.worker import BranchingWorker, TreeNode
from agentgym.training.stages.outcome import Stages, WrappedPool, open_pool

EXACT_PROMPTING = {"choice": "constrained", "history": 0, "context": "rebuilt", "pictures": "none"}
"""Settings under which a prompt holds the state alone, and a response is one action and its only wording."""


@dataclass(frozen=True, slots=True)
class VineCollector(WrappedPool):
    """A pool's groups, with the mean return of continuations as the value of each state."""

    worker: BranchingWorker
    ranks: Ranks
    continuations: int
    """Continuations of each state, K."""
    penalty: float

    @classmethod
    def open(cls, setup: TrainingSetup) -> Self:
        """Open the pool, and a worker that plays on from states in the same slots."""
        config = setup.config
        worker = BranchingWorker(setup.worker.envs, setup.meter, env_id=config.env_id)
        return cls(
            open_pool(setup), worker, setup.ranks, config.stage_options.continuations, _penalty(config)
        )

    def collect(self, version: int) -> Collected:
        """Return the groups of one update with their values; each rank plays on from its share of groups."""
        played = self.pool.collect(version)
        own = self.ranks.share(played.groups)
        values = iter(self.values([member for group in own for member in group.trajectories]))
        of_groups = self.ranks.gather([[next(values) for _ in group.trajectories] for group in own])
        return played.with_values([each for group in of_groups for each in group])

    def values(self, members: Sequence[Trajectory]) -> list[Floats]:
        """Return estimates (T,) of the values of the states that episodes act in."""
        paths, nodes = self._states(members)
        returns = self._returns([node for node in nodes.values() for _ in range(self.continuations)])
        worth = dict(zip(nodes, returns.reshape(-1, self.continuations).mean(axis=1), strict=True))
        return [np.array([worth[path] for path in paths_of_one]) for paths_of_one in paths]

    def _states(
        self, members: Sequence[Trajectory]
    ) -> tuple[list[list[tuple[Any, ...]]], dict[tuple[Any, ...], TreeNode]]:
        """Return what led to each state that episodes act in, and the states by that."""
        begun = {(each.seed, each.rollout): each for each in members if each.steps}
        specs = [EpisodeSpec(each.task_id, each.seed, each.rollout) for each in begun.values()]
        roots = dict(zip(begun, self.worker.begin(specs), strict=True))
        found: dict[tuple[Any, ...], TreeNode] = {}
        starts = {}
        for (seed, rollout), root in roots.items():
            # most games read the seed alone; where the rollout decides too, starts differ
            same = (
                path for path, node in found.items() if path[0] == seed and node.snapshot == root.snapshot
            )
            starts[seed, rollout] = next(same, (seed, rollout))
            found.setdefault(starts[seed, rollout], root)
        paths = [
            [
                (*starts[member.seed, member.rollout], *_answers(member, turn))
                for turn in range(len(member.steps))
            ]
            for member in members
        ]
        for turn in range(1, max((len(member.steps) for member in members), default=0)):
            new = {
                path[turn]: (path[turn - 1], member)
                for path, member in zip(paths, members, strict=True)
                if turn < len(path)
            }
            steps = [member.steps[turn - 1] for _, member in new.values()]
            nodes = [found[before] for before, _ in new.values()]
            answers = [(node, step.completion) for node, step in zip(nodes, steps, strict=True)]
            for path, node, step, branch in zip(new, nodes, steps, self.worker.play(answers), strict=True):
                if branch.step is None or branch.step.next_state_hash != step.next_state_hash:
                    raise UsageError(
                        f"action {step.action!r} led to state {step.next_state_hash}, and to another one "
                        "when played again: choose a game that its seed decides, or another algorithm"
                    )
                found[path] = branch.node(node)
        return paths, found

    def _returns(self, starts: Sequence[TreeNode]) -> Floats:
        """Return (n,) what the policy earns from states to the ends of their episodes.

        As many episodes are played side by side as there are slots. One that is broken off earns no more.
        """
        names = [(start.root.seed, "continuation", place) for place, start in enumerate(starts)]
        seeds = [int(content_id(name)[:16], 16) for name in names]
        earned = np.zeros(len(starts))
        waiting = deque(enumerate(starts))
        running: dict[int, TreeNode] = {}
        while waiting or running:
            while waiting and len(running) < self.worker.envs.num_envs:
                running.update([waiting.popleft()])
            played = self.worker.expand([(node, [seeds[place]]) for place, node in running.items()])
            for (place, node), (branch,) in zip(list(running.items()), played, strict=True):
                if branch.step is not None:
                    earned[place] += branch.step.reward - (0.0 if branch.step.valid else self.penalty)
                if branch.end_reason is None:
                    running[place] = branch.node(node)
                else:
                    del running[place]
        return earned


def _answers(member: Trajectory, turn: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield what decides the state of a turn beside the start, and what prompts may tell of its past."""
    return ((step.action, step.completion.response_ids) for step in member.steps[:turn])


def _penalty(config: ResolvedConfig) -> float:
    """Return the invalid-action penalty; rollouts by older weights are refused."""
    if config.rollout.max_staleness:
        raise UsageError(
            f"rollout.max_staleness is {config.rollout.max_staleness}, but {config.spec.title} values states "
            "by the policy that sampled all steps: set it to 0"
        )
    return float({**config.spec.defaults, **config.algorithm_options}["penalty"])


@dataclass(frozen=True, slots=True)
class ListedTask:
    """All states of a task, and what the model is asked in them."""

    graph: StateGraph
    rows: list[StepRow]
    """E prompts with responses, one an edge; empty where nothing is admissible, and nothing is asked."""
    edges: Mapping[tuple[str, str, str], int]
    """Number of each edge, by its state's hash, the text of its observation, and the action."""

    def truth(self, log_probs: Floats, *, horizon: int, penalty: float) -> Truth:
        """Return the true values, from the log-probabilities of all response tokens.

        Probabilities of a state sum to 1 but for the model's rounding, which is divided out.
        """
        edge = np.repeat(np.arange(len(self.rows)), [len(row.response_ids) for row in self.rows])
        chosen = np.exp(np.bincount(edge, log_probs, len(self.rows)))
        policy = chosen / np.bincount(self.graph.source, chosen)[self.graph.source]
        return Truth.of(self.graph, policy, horizon=horizon, penalty=penalty / WIN_REWARD)

    def values(self, member: Trajectory, truth: Truth) -> Floats:
        """Return (T,) the values of the states that an episode acts in."""
        found = []
        for left, step in zip(range(truth.horizon, 0, -1), member.steps, strict=False):
            edge = self.edges.get((step.state_hash, observed_text(step.observation), step.action))
            if edge is None or (reason := self._departure(step, edge)):
                reason = "is none of the listed ones: switch the game's noise off" if edge is None else reason
                raise UsageError(f"task {member.task_id}: a step in state {step.state_hash} {reason}")
            found.append(WIN_REWARD * truth.values[left, self.graph.source[edge]])
        return np.array(found)

    def _departure(self, step: Step, edge: int) -> str:
        """Return in what a step is not the edge; "" where it is."""
        if self.graph.hashes[self.graph.target[edge]] != step.next_state_hash:
            return "leads elsewhere than its like: switch the game's noise off"
        if self.rows[edge].prompt_ids != step.completion.prompt_ids:
            return "has a prompt that tells more than state and observation: choose another prompting.wording"
        if step.reward != WIN_REWARD * self.graph.wins[edge]:
            return f"earned {step.reward:g}, and not 10 for a win or 0: set env_options.reward=sparse10"
        return ""


@dataclass(frozen=True, slots=True)
class ExactCollector(WrappedPool):
    """A pool's groups, with the true values of their states."""

    setup: TrainingSetup
    penalty: float
    tasks: dict[str, ListedTask] = field(default_factory=dict)
    """Tasks listed so far, by id."""

    @classmethod
    def open(cls, setup: TrainingSetup) -> Self:
        """Open the pool, where the settings let values be exact."""
        for name, needed in EXACT_PROMPTING.items():
            value = getattr(setup.config.prompting, name)
            if value != needed:
                raise UsageError(
                    f"prompting.{name} is {value}, but values are exact where prompts hold a state alone and "
                    f"responses its actions: set it to {needed}"
                )
        return cls(open_pool(setup), setup, _penalty(setup.config))

    def collect(self, version: int) -> Collected:
        """Return the groups of one update, with their values under the weights that sampled them."""
        played = self.pool.collect(version)
        truths = {task: self.truth(task) for task in sorted({group.task_id for group in played.groups})}
        members = [member for group in played.groups for member in group.trajectories]
        return played.with_values([self.tasks[m.task_id].values(m, truths[m.task_id]) for m in members])

    def truth(self, name: str) -> Truth:
        """Return the values of all states of a task, under the present weights."""
        task = self.tasks.get(name) or self.tasks.setdefault(name, self._listed(name))
        log_probs = self.setup.learner.log_probs(task.rows)
        return task.truth(log_probs, horizon=self.setup.worker.envs.max_steps, penalty=self.penalty)

    def _listed(self, name: str) -> ListedTask:
        """List a task's states, and what the model is asked in each."""
        rows: dict[tuple[str, str, str], StepRow] = {}
        graph = explore(
            self.setup.worker.envs.prototype.spawn(),
            name,
            max_states=self.setup.config.stage_options.max_states,
            observed=True,
            opened=lambda *seen: rows.update(self._asked(*seen, turn=min(len(rows), 1))),
        )
        return ListedTask(graph, list(rows.values()), {edge: number for number, edge in enumerate(rows)})

    def _asked(
        self, observation: Observation, info: Mapping[str, Any], *, turn: int
    ) -> dict[tuple[str, str, str], StepRow]:
        """Return the prompt of a state with each response, by the names of `ListedTask.edges`."""
        policy, speller, actions = self.setup.meter.policy, self.setup.speller, info["admissible_actions"]
        assert isinstance(policy, LanguageModelPolicy)
        assert speller is not None  # `EXACT_PROMPTING` has constrained responses alone
        state = info["state_hash"], observed_text(observation)
        request = Request(
            episode=0,
            task_id=info["task_id"],
            task_type=info["task_type"],
            turn=turn,
            observation=observation,
            admissible_actions=actions,
            state_hash=state[0],
            seed=0,
            extra=suite_keys(info),
        )
        asked = policy.question(request)
        if isinstance(asked, Completion):
            if asked.error is not None:
                raise UsageError(f"a prompt of task {request.task_id} does not fit: raise prompting.budget")
            return {(*state, asked.action): StepRow((), ())}
        prompt, trie = asked.generation.prompt_ids, speller.trie(actions)
        responses = {action: speller.response(action, actions) for action in actions}
        return {
            (*state, action): StepRow(prompt, ids, trie.allowed_along(ids))
            for action, ids in responses.items()
        }


VINE = Stages(collector=VineCollector.open)
"""Stages of whole episodes, with values by continuations."""

EXACT = Stages(collector=ExactCollector.open)
"""Stages of whole episodes, with true values."""
