"""Branching worker: several responses from one state, which it restores for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from agentgym.core.episodes import game_end, own_steps, suite_keys
from agentgym.core.queries import UnansweredError
from agentgym.core.types import (
    Completion,
    EndReason,
    Observation,
    Policy,
    Request,
    Snapshot,
    Step,
    Trajectory,
)
from agentgym.errors import UsageError
from agentgym.rollout.worker import EpisodeSpec, check_completion, suite_rows
from agentgym.vector.batching import unbatch_observations
from agentgym.vector.core import AgentVectorEnv


@dataclass(frozen=True, slots=True)
class Root:
    """Start of a tree's episodes."""

    task_id: str
    task_type: str
    seed: int
    """Seed of the environment."""
    initial_hash: str


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A state that an episode can be continued from, and the way there."""

    root: Root
    snapshot: Snapshot
    observation: Observation
    state_hash: str
    admissible_actions: tuple[str, ...]
    extra: Mapping[str, Any]
    """Info keys of the suite itself."""
    steps: tuple[Step, ...] = ()
    """Steps from the initial state, the history in prompts."""

    @property
    def depth(self) -> int:
        """The state's place in its trajectory, from 1."""
        return len(self.steps) + 1


@dataclass(frozen=True, slots=True)
class Branch:
    """Result of one response."""

    step: Step | None
    """Step of the environment; None where there was no action to play."""
    observation: Observation
    """Observation after the step."""
    admissible_actions: tuple[str, ...]
    extra: Mapping[str, Any]
    snapshot: Snapshot | None
    """Snapshot after the step; None where the episode has ended."""
    won: bool = False
    score: float = 0.0
    progress: float = 0.0
    end_reason: EndReason | None = None
    """Reason for the episode's end; None where it can continue."""
    unplayed: Completion | None = None
    """Completion that was not played."""

    def with_completion(self, completion: Completion) -> Branch:
        """Return the branch with another response that has the same action."""
        if self.step is None:
            return replace(self, unplayed=completion)
        return replace(self, step=replace(self.step, completion=completion))

    def node(self, parent: TreeNode) -> TreeNode:
        """Return the state reached, from which the episode can go on."""
        assert self.step is not None
        assert self.snapshot is not None
        return replace(
            parent,
            snapshot=self.snapshot,
            observation=self.observation,
            state_hash=self.step.next_state_hash,
            admissible_actions=self.admissible_actions,
            extra=self.extra,
            steps=(*parent.steps, self.step),
        )

    def trajectory(self, parent: TreeNode, env_id: str, *, whole: bool, rollout: int = 0) -> Trajectory:
        """Return the episode that this branch ends.

        ``whole`` begins at the initial state, otherwise it is this one step alone. ``rollout`` numbers the
        samples of a state.
        """
        own = () if self.step is None else (self.step,)
        root = parent.root
        return Trajectory(
            env_id=env_id,
            task_id=root.task_id,
            task_type=root.task_type,
            seed=root.seed,
            rollout=rollout,
            initial_hash=root.initial_hash if whole else parent.state_hash,
            steps=(*parent.steps, *own) if whole else own,
            final_observation=self.observation,
            won=self.won,
            score=self.score,
            progress=self.progress,
            end_reason=self.end_reason or "step_limit",
            extra=self.extra,
            unplayed=self.unplayed,
        )


_Answer: TypeAlias = tuple[TreeNode, Completion]


class BranchingWorker:
    """Expands states: samples all their responses in one call of the policy, and plays each from its state.

    Example:
        >>> import gymnasium, agentgym
        >>> envs = gymnasium.make_vec("agentgym/EZPoints-v0", num_envs=2, autoreset_mode="Disabled")
        >>> worker = BranchingWorker(envs, envs.prototype.oracle(), env_id="agentgym/EZPoints-v0")
        >>> root, = worker.begin([EpisodeSpec(envs.tasks.ids[0], seed=0, rollout=0)])
        >>> branches, = worker.expand([(root, [11, 12, 13])])
        >>> [branch.step.state_hash == root.state_hash for branch in branches]
        [True, True, True]
    """

    def __init__(self, envs: AgentVectorEnv, policy: Policy, *, env_id: str):
        """Bind slots, in autoreset mode DISABLED, and policy; between two calls others may use the slots.

        The policy's context is a function of the request: episodes are continued from earlier states. It must
        answer in batches.
        """
        given: object = policy
        if not isinstance(given, Policy):
            raise UsageError(
                f"{type(given).__name__} cannot be asked about many branches at once: use a policy with act()"
            )
        self.envs = envs
        self.policy = policy
        self.env_id = env_id
        self._request_count = 0

    def begin(self, specs: Sequence[EpisodeSpec]) -> list[TreeNode]:
        """Start episodes; return their initial states."""
        return [node for part in _parts(specs, self.envs.num_envs) for node in self._begin(part)]

    def resume(self, root: Root, snapshot: Snapshot, steps: tuple[Step, ...]) -> TreeNode:
        """Return a state of an episode that was begun earlier; it must restore to the same state."""
        expected = steps[-1].next_state_hash if steps else root.initial_hash
        observation, info = self._restored(0, snapshot, expected)
        return TreeNode(
            root,
            self.envs.snapshot(0),
            observation,
            expected,
            tuple(info["admissible_actions"]),
            suite_keys(info),
            steps,
        )

    def expand(self, wanted: Sequence[tuple[TreeNode, Sequence[int]]]) -> list[list[Branch]]:
        """Sample responses and play them; return the branches of each state, in the order of its seeds.

        Of a state's responses with the same action one is played: its snapshot holds the chance that is to
        come, so the others would lead to the same. ``wanted``: states, each with the sampling seeds of its
        responses.
        """
        requests = [(node, self._request(node, seed)) for node, seeds in wanted for seed in seeds]
        if not requests:
            return [[] for _ in wanted]
        completions = self.policy.act([request for _, request in requests])
        if len(completions) != len(requests):
            raise UsageError(
                f"{type(self.policy).__name__}.act returned {len(completions)} completions for "
                f"{len(requests)} requests"
            )
        for completion in completions:
            check_completion(completion, type(self.policy).__name__)
        names = (number for number, (_, seeds) in enumerate(wanted) for _ in seeds)
        keys = [
            (number, completion.action, completion.error)
            for number, completion in zip(names, completions, strict=True)
        ]
        first = {key: place for place, key in reversed(list(enumerate(keys)))}
        places = sorted(first.values())
        played = self.play([(requests[place][0], completions[place]) for place in places])
        by_key = {keys[place]: branch for place, branch in zip(places, played, strict=True)}
        branches = (by_key[key].with_completion(each) for key, each in zip(keys, completions, strict=True))
        return [[next(branches) for _ in seeds] for _, seeds in wanted]

    def play(self, answers: Sequence[_Answer]) -> list[Branch]:
        """Play given completions, each from its state; return their branches."""
        return [branch for part in _parts(answers, self.envs.num_envs) for branch in self._play(part)]

    # ---- inside -----------------------------------------------------------------------------

    def _begin(self, specs: Sequence[EpisodeSpec]) -> Iterator[TreeNode]:
        slots = list(range(len(specs)))
        batch, infos = self.envs.reset_at(
            slots,
            [spec.task_id for spec in specs],
            [spec.seed for spec in specs],
            [spec.rollout for spec in specs],
        )
        observations, extras = unbatch_observations(batch, len(slots)), suite_rows(infos, len(slots))
        columns = [
            infos[key].tolist() for key in ("task_id", "task_type", "state_hash", "admissible_actions")
        ]
        for slot, spec in zip(slots, specs, strict=True):
            task_id, task_type, state_hash, admissible = (column[slot] for column in columns)
            root = Root(task_id, task_type, spec.seed, state_hash)
            snapshot = self.envs.snapshot(slot)
            yield TreeNode(root, snapshot, observations[slot], state_hash, admissible, extras[slot])

    def _restored(self, slot: int, snapshot: Snapshot, expected: str) -> tuple[Observation, dict[str, Any]]:
        """Put a state into a slot, and see that it is the state."""
        observation, info = self.envs.restore(slot, snapshot)
        if info["state_hash"] != expected:
            raise UsageError(
                f"{type(self.envs.prototype).__name__} restored state {info['state_hash']} from a snapshot "
                f"of {expected}, so branches would not start alike: have _set_state undo _state"
            )
        return observation, info

    def _request(self, node: TreeNode, seed: int) -> Request:
        self._request_count += 1
        root = node.root
        history = own_steps(node.steps, node.extra) if self.envs.prototype.sides > 1 else node.steps
        return Request(
            episode=self._request_count,
            task_id=root.task_id,
            task_type=root.task_type,
            turn=len(node.steps),
            observation=node.observation,
            admissible_actions=node.admissible_actions,
            state_hash=node.state_hash,
            seed=seed,
            history=history,
            others=len(node.steps) - len(history),
            snapshot=lambda: node.snapshot,
            extra=node.extra,
        )

    def _play(self, answers: Sequence[_Answer]) -> list[Branch]:
        """Play at most as many answers as there are slots, each from its own state."""
        branches = {
            slot: _unplayed(node, completion, completion.error)
            for slot, (node, completion) in enumerate(answers)
            if completion.error is not None
        }
        moving = {slot: answer for slot, answer in enumerate(answers) if slot not in branches}
        reached = {}
        for slot, (node, _) in moving.items():
            _, info = self._restored(slot, node.snapshot, node.state_hash)
            reached[slot] = float(info["progress"])
        while moving:
            try:
                branches |= self._step(moving, reached)
                break
            except UnansweredError as error:
                if not error.slots:
                    raise
                for slot in error.slots:  # no slot has changed, so the others step without these
                    branches[slot] = _unplayed(*moving.pop(slot), "env_error")
        return [branches[slot] for slot in range(len(answers))]

    def _step(self, moving: Mapping[int, _Answer], reached: Mapping[int, float]) -> dict[int, Branch]:
        slots = list(moving)
        batch, rewards, terminations, truncations, infos = self.envs.step_at(
            slots, [completion.action for _, completion in moving.values()]
        )
        observations, extras = unbatch_observations(batch, len(slots)), suite_rows(infos, len(slots))
        names = ("state_hash", "admissible_actions", "action_is_valid", "won", "score", "progress")
        columns = [infos[key].tolist() for key in names]
        costs = infos["step_cost"].tolist() if "step_cost" in infos else [1.0] * len(slots)
        result = {}
        for row, (slot, (node, completion)) in enumerate(moving.items()):
            state_hash, admissible, valid, won, score, progress = (column[row] for column in columns)
            terminated, truncated = bool(terminations[row]), bool(truncations[row])
            step = Step(
                observation=node.observation,
                state_hash=node.state_hash,
                admissible_actions=node.admissible_actions,
                completion=completion,
                reward=float(rewards[row]),
                next_state_hash=state_hash,
                valid=valid,
                terminated=terminated,
                truncated=truncated,
                progress=progress - reached[slot],
                cost=costs[row],
                side=node.extra["side"] if self.envs.prototype.sides > 1 else None,
            )
            reason = game_end(terminated=terminated, truncated=truncated, won=won)
            snapshot = None if reason else self.envs.snapshot(slot)
            result[slot] = Branch(
                step, observations[row], admissible, extras[row], snapshot, won, score, progress, reason
            )
        return result


def _unplayed(node: TreeNode, completion: Completion, reason: EndReason | None) -> Branch:
    """Return the end of an episode that has no action to go on with."""
    return Branch(
        None,
        node.observation,
        node.admissible_actions,
        node.extra,
        None,
        end_reason=reason,
        unplayed=completion,
    )


def _parts(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
