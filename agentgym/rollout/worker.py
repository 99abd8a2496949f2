"""Rollout worker: policies play episodes in the slots of a vector environment.

A batched policy gets one batch a turn, of all running episodes and no finished ones. A policy that answers
each request in its own time has one request per running episode in flight, as have the partners, judges and
indexes that games query: an episode proceeds when its own answers have arrived (`agentgym.rollout.dispatch`).
A slot whose episode has ended takes the next one from the queue at once, so no episode waits for another's
end. Both halves of a turn (`RolloutWorker._request`, `RolloutWorker._advance`) work on any subset of slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from operator import itemgetter
from time import perf_counter
from typing import Any, get_args

import numpy as np
from gymnasium.vector import AutoresetMode

from agentgym.core.episodes import CONTRACT_KEYS, game_end, own_steps
from agentgym.core.hashing import content_id
from agentgym.core.options import check_choice
from agentgym.core.queries import UnansweredError
from agentgym.core.types import (
    AsyncPolicy,
    Completion,
    EndReason,
    EpisodeListener,
    Group,
    Policy,
    Request,
    Step,
    Trajectory,
)
from agentgym.errors import UsageError
from agentgym.rollout.dispatch import Dispatcher
from agentgym.vector.batching import unbatch_observations
from agentgym.vector.core import AgentVectorEnv

ERROR_REASONS = frozenset(get_args(EndReason)) - {"success", "failure", "step_limit"}
"""End reasons a policy may report through ``Completion.error``."""


@dataclass(frozen=True, slots=True)
class EpisodeSpec:
    """An episode to be played."""

    task_id: str
    """Task, by id or source id."""
    seed: int
    """Seed the environment is reset with."""
    rollout: int
    """Index of this attempt at the task; attempts with one seed sample differently."""


@dataclass(slots=True)
class _Episode:
    """An episode that is being played in a slot."""

    position: int
    """Index of the episode in the argument of `RolloutWorker.run`."""
    number: int
    """Number by which the policy knows the episode; unique in one worker."""
    spec: EpisodeSpec
    task_id: str
    task_type: str
    initial_hash: str
    sampling_seed: int
    observation: Any
    state_hash: str
    admissible_actions: tuple[str, ...]
    infos: Mapping[str, Any]
    """Batch of infos; row ``row`` is this episode's last one."""
    row: int
    extra: Mapping[str, Any]
    """Keys of that info that are the suite's own."""
    waiting_since: float
    """Time at which its game last issued queries."""
    steps: tuple[Step, ...] = ()
    env_seconds: float = 0.0
    model_seconds: float = 0.0


class RolloutWorker:
    """Plays episodes with one policy in one vector environment.

    An exception of the environment or of the policy propagates: which slots of the batch it had
    already changed is unknown, so no episode of it can be recorded honestly. Episodes that ended
    before have been yielded. A policy that cannot answer for one episode sets
    `Completion.error`, and only that episode ends.

    Example:
        >>> import gymnasium, agentgym
        >>> envs = gymnasium.make_vec("agentgym/EZPoints-v0", num_envs=4, autoreset_mode="Disabled")
        >>> worker = RolloutWorker(envs, envs.prototype.oracle(), env_id="agentgym/EZPoints-v0")
        >>> groups = worker.collect(envs.tasks.ids[:2], group_size=3, seed=0)
        >>> [len(group.trajectories) for group in groups]
        [3, 3]
    """

    def __init__(
        self,
        envs: AgentVectorEnv,
        policy: Policy | AsyncPolicy,
        *,
        env_id: str,
        measured: bool = False,
        stepped: Callable[[int], object] | None = None,
    ):
        """Bind a policy to an environment.

        Args:
            envs: the slots, in autoreset mode DISABLED. One run uses them at a time.
            policy: asked once a turn about all episodes, or about each as soon as it is its turn where the
                policy has ``submit``.
            env_id: written into trajectories.
            measured: whether trajectories hold the suite's measures, which may cost a search for the best.
            stepped: is called with the number of steps that were just played, before their episodes end.

        Raises:
            UsageError: the environment resets itself.
        """
        if envs.autoreset_mode is not AutoresetMode.DISABLED:
            raise UsageError(
                f"rollouts reset slots themselves, but the environment is in autoreset mode "
                f"{envs.autoreset_mode.value}: make it with autoreset_mode='Disabled'"
            )
        self.envs = envs
        self.policy = policy
        self._listener = policy if isinstance(policy, EpisodeListener) else None
        self.env_id = env_id
        self._measured = measured and bool(envs.prototype.suite_spec.measures)
        self._stepped = stepped
        self._sided = envs.prototype.sides > 1
        self._numbers = count()

    def run(self, episodes: Iterable[EpisodeSpec | None]) -> Iterator[Trajectory]:
        """Play episodes; yield each as it ends.

        Args:
            episodes: taken lazily, only as slots become free; None for none now, to be asked again while
                others are running.

        Yields:
            One trajectory per episode, in the order in which they end.

        Raises:
            UsageError: unknown task, or a policy that does not answer as `Policy.act` promises.
        """
        return (trajectory for _, trajectory in self._play(episodes))

    def collect(self, tasks: Sequence[str], *, group_size: int, seed: int) -> list[Group]:
        """Play every task ``group_size`` times from one initial state.

        The members of a group share the environment's seed, hence all chance that does not follow
        from their actions; their sampling seeds differ.

        Args:
            tasks: task ids or source ids; a repeated task makes a group of its own each time.
            group_size: attempts per task.
            seed: determines every episode's seed.

        Returns:
            One group per entry of ``tasks``, in order; members in the order of their rollout index.

        Raises:
            UsageError: a group size below 1, or as `run`.
        """
        if group_size < 1:
            raise UsageError(f"group_size must be at least 1, got {group_size}")
        seeds = np.random.SeedSequence(seed).generate_state(len(tasks), np.uint64).tolist()
        specs = [
            EpisodeSpec(task, task_seed, rollout)
            for task, task_seed in zip(tasks, seeds, strict=True)
            for rollout in range(group_size)
        ]
        played = sorted(self._play(specs), key=itemgetter(0))
        members = [trajectory for _, trajectory in played]
        groups = [tuple(members[i : i + group_size]) for i in range(0, len(members), group_size)]
        return [Group(group[0].task_id, group[0].initial_hash, group) for group in groups]

    # ---- inside ----------------------------------------------------------------------------

    def _play(self, episodes: Iterable[EpisodeSpec | None]) -> Iterator[tuple[int, Trajectory]]:
        """Yield each trajectory with the position of its episode in ``episodes``."""
        queue = enumerate(episodes)
        running: dict[int, _Episode] = {}
        starting: dict[int, tuple[int, EpisodeSpec]] = {}
        chosen: dict[int, Completion] = {}
        free = list(range(self.envs.num_envs))
        with closing(Dispatcher(self.envs, self.policy)) as dispatcher:
            while True:
                taken = []
                for position, spec in islice(queue, len(free)):
                    if spec is None:
                        break
                    taken.append((position, spec))
                if taken:
                    slots, free = free[: len(taken)], free[len(taken) :]
                    starting.update(zip(slots, taken, strict=True))
                    specs = [spec for _, spec in taken]
                    dispatcher.begin_resets(slots, [s.task_id for s in specs], [s.rollout for s in specs])
                if not (running or starting):
                    return
                over: list[tuple[int, Trajectory]] = []
                ready = dispatcher.wait()
                for slot, reason in ready.failed:
                    if slot in starting:
                        raise UnansweredError(reason)  # no episode has begun that could end with this reason
                    over.append((slot, self._aborted(running[slot], slot, "env_error", chosen.pop(slot))))
                begun = sorted(slot for slot in ready.answered if slot in starting)
                moving = sorted(slot for slot in ready.answered if slot in chosen)
                if moving:
                    over += self._advance(running, moving, [chosen.pop(slot) for slot in moving])
                if begun:
                    running.update(self._begin(begun, [starting.pop(slot) for slot in begun]))
                over += self._receive(running, ready.completions, chosen)
                asking = [slot for slot in ready.completions if slot in chosen]
                dispatcher.begin_steps(asking, [chosen[slot].action for slot in asking])
                ended = {slot for slot, _ in over}
                waiting = [slot for slot in (*moving, *begun) if slot not in ended]
                dispatcher.ask({slot: self._request(running[slot], slot) for slot in sorted(waiting)})
                for slot, trajectory in over:
                    free.append(slot)
                    if self._listener is not None:
                        self._listener.ended(trajectory)
                    yield running.pop(slot).position, trajectory

    def _begin(
        self, slots: list[int], taken: list[tuple[int, EpisodeSpec]]
    ) -> Iterator[tuple[int, _Episode]]:
        specs = [spec for _, spec in taken]
        started = perf_counter()
        batch, infos = self.envs.reset_at(
            slots, [s.task_id for s in specs], [s.seed for s in specs], [s.rollout for s in specs]
        )
        share = (perf_counter() - started) / len(slots)
        columns = [
            infos[key].tolist() for key in ("task_id", "task_type", "state_hash", "admissible_actions")
        ]
        observations = unbatch_observations(batch, len(slots))
        extras = suite_rows(infos, len(slots))
        for row, (slot, (position, spec)) in enumerate(zip(slots, taken, strict=True)):
            task_id, task_type, state_hash, admissible = (column[row] for column in columns)
            yield (
                slot,
                _Episode(
                    position=position,
                    number=next(self._numbers),
                    spec=spec,
                    task_id=task_id,
                    task_type=task_type,
                    initial_hash=state_hash,
                    sampling_seed=int(content_id((spec.seed, task_id, spec.rollout))[:16], 16),
                    observation=observations[row],
                    state_hash=state_hash,
                    admissible_actions=admissible,
                    infos=infos,
                    row=row,
                    extra=extras[row],
                    env_seconds=share,
                    waiting_since=started,
                ),
            )

    def _receive(
        self,
        running: Mapping[int, _Episode],
        completions: Mapping[int, tuple[Completion, float]],
        chosen: dict[int, Completion],
    ) -> Iterator[tuple[int, Trajectory]]:
        """Validate the policy's completions; yield the episodes that they end.

        An episode without an action ends where it stands, with score 0.
        """
        name, now = type(self.policy).__name__, perf_counter()
        for slot, (completion, seconds) in completions.items():
            check_completion(completion, name)
            episode = running[slot]
            episode.model_seconds += seconds
            episode.waiting_since = now
            if completion.error is None:
                chosen[slot] = completion
            else:
                yield slot, self._aborted(episode, slot, completion.error, completion)

    def _request(self, episode: _Episode, slot: int) -> Request:
        history = own_steps(episode.steps, episode.extra) if self._sided else episode.steps
        return Request(
            episode=episode.number,
            task_id=episode.task_id,
            task_type=episode.task_type,
            turn=len(episode.steps),
            observation=episode.observation,
            admissible_actions=episode.admissible_actions,
            state_hash=episode.state_hash,
            seed=episode.sampling_seed,
            history=history,
            others=len(episode.steps) - len(history),
            snapshot=partial(self.envs.snapshot, slot),
            extra=episode.extra,
            rollout=episode.spec.rollout,
        )

    def _advance(
        self, running: Mapping[int, _Episode], slots: list[int], completions: Sequence[Completion]
    ) -> Iterator[tuple[int, Trajectory]]:
        """Play one answer in each slot; yield the episodes that end, with their slots."""
        answers = dict(zip(slots, completions, strict=True))
        while answers:
            moving = list(answers)
            try:
                over = self._step([running[slot] for slot in moving], moving, list(answers.values()))
            except UnansweredError as error:
                if not error.slots:
                    raise
                for slot in error.slots:  # no slot has changed, so the others step without these
                    unplayed = answers.pop(slot)
                    yield slot, self._aborted(running[slot], slot, "env_error", unplayed)
            else:
                if self._stepped is not None:
                    self._stepped(len(moving))
                for slot in over:
                    yield slot, self._finished(running[slot], slot)
                return

    def _step(self, episodes: list[_Episode], slots: list[int], completions: list[Completion]) -> list[int]:
        """Append a step to each episode; return the slots whose episodes are over."""
        started = perf_counter()
        waited = [started - episode.waiting_since for episode in episodes]
        batch, rewards, terminations, truncations, infos = self.envs.step_at(
            slots, [completion.action for completion in completions]
        )
        share = (perf_counter() - started) / len(slots)
        observations = unbatch_observations(batch, len(slots))
        hashes, admissible, valid = (
            infos[key].tolist() for key in ("state_hash", "admissible_actions", "action_is_valid")
        )
        extras = suite_rows(infos, len(slots))
        costs = infos["step_cost"].tolist() if "step_cost" in infos else [1.0] * len(slots)
        paid, over, cut = rewards.tolist(), terminations.tolist(), truncations.tolist()
        reached = infos["progress"].tolist()
        for row, (episode, completion) in enumerate(zip(episodes, completions, strict=True)):
            step = Step(
                observation=episode.observation,
                state_hash=episode.state_hash,
                admissible_actions=episode.admissible_actions,
                completion=completion,
                reward=paid[row],
                next_state_hash=hashes[row],
                valid=valid[row],
                terminated=over[row],
                truncated=cut[row],
                progress=reached[row] - float(episode.infos["progress"][episode.row]),
                cost=costs[row],
                side=episode.extra["side"] if self._sided else None,
            )
            # a tuple copies pointers, which is cheaper than making the step: the history in requests
            # stays immutable, and the last tuple is the trajectory's
            episode.steps = (*episode.steps, step)
            episode.observation = observations[row]
            episode.state_hash = hashes[row]
            episode.admissible_actions = admissible[row]
            episode.infos = infos
            episode.row = row
            episode.extra = extras[row]
            episode.env_seconds += share + waited[row]
        return [slot for row, slot in enumerate(slots) if over[row] or cut[row]]

    def _aborted(self, episode: _Episode, slot: int, reason: EndReason, unplayed: Completion) -> Trajectory:
        return self._trajectory(episode, slot, False, 0.0, 0.0, reason, unplayed)

    def _finished(self, episode: _Episode, slot: int) -> Trajectory:
        won, score, progress = (
            episode.infos[key][episode.row].item() for key in ("won", "score", "progress")
        )
        last = episode.steps[-1]
        reason = game_end(terminated=last.terminated, truncated=last.truncated, won=won)
        assert reason is not None
        return self._trajectory(episode, slot, won, score, progress, reason)

    def _trajectory(
        self,
        episode: _Episode,
        slot: int,
        won: bool,
        score: float,
        progress: float,
        reason: EndReason,
        unplayed: Completion | None = None,
    ) -> Trajectory:
        return Trajectory(
            env_id=self.env_id,
            task_id=episode.task_id,
            task_type=episode.task_type,
            seed=episode.spec.seed,
            rollout=episode.spec.rollout,
            initial_hash=episode.initial_hash,
            steps=episode.steps,
            final_observation=episode.observation,
            won=won,
            score=score,
            progress=progress,
            end_reason=reason,
            env_seconds=episode.env_seconds,
            model_seconds=episode.model_seconds,
            extra=episode.extra,
            unplayed=unplayed,
            measures=self._measures(slot, aborted=unplayed is not None),
        )

    def _measures(self, slot: int, *, aborted: bool) -> dict[str, float]:
        if not self._measured:
            return {}
        return self.envs.prototype.suite_spec.counted(self.envs.measures(slot), aborted=aborted)


def suite_rows(infos: Mapping[str, Any], n: int) -> list[dict[str, Any]]:
    """Return the suite's own keys of n infos, as Python values."""
    columns = {key: column.tolist() for key, column in infos.items() if key not in CONTRACT_KEYS}
    return [{key: values[row] for key, values in columns.items()} for row in range(n)]


def check_completion(completion: object, policy: str) -> None:
    """Refuse an answer of a policy that is no completion, or has an action or error no episode can hold."""
    if not isinstance(completion, Completion):
        raise UsageError(f"{policy}.act must return Completions, got {type(completion).__name__}")
    action: object = completion.action
    if not isinstance(action, str):
        raise UsageError(
            f"{policy}.act answered with an action of type {type(action).__name__}: use a string"
        )
    if not action.isascii():
        try:
            action.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"{policy}.act answered with half a surrogate pair in {action[:40]!a}, which no file can "
                "hold: decode with errors='replace'"
            ) from None
    if completion.error is not None:
        check_choice("error", completion.error, sorted(ERROR_REASONS), where=f"{policy}.act reported an ")
