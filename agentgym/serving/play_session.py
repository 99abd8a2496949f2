"""Play session: one person's episodes in an environment, with every step recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Generic, TypeVar

from agentgym.core.episodes import game_end, taken_step
from agentgym.core.types import Completion, Step, Trajectory
from agentgym.env import AgentEnv
from agentgym.evaluation.log.recorded_answers import answer_pins
from agentgym.evaluation.log.recordings import Recording
from agentgym.evaluation.suites.suite import SuiteEnv

EnvT = TypeVar("EnvT", bound=AgentEnv[Any])


@dataclass(frozen=True, slots=True)
class SharedEnv(Generic[EnvT]):
    """An open environment that any number of people play."""

    env: SuiteEnv
    """Environment with its options, as recordings name it."""
    prototype: EnvT
    """Environment from which each player's is spawned."""


class PlaySession(Generic[EnvT]):
    """Plays one episode after the other."""

    def __init__(self, *, seed: int, recording: Recording | None, ended: Callable[[Trajectory, bool], None]):
        """Prepare; `start` begins the first episode.

        ``recording`` takes each task's first episode, None for no recording; ``seed`` is that of the others.
        ``ended`` is called with each episode that ends, and whether it was recorded.
        """
        self._seed = seed
        self._recording = recording
        self._ended = ended
        self.shared: SharedEnv[EnvT] | None = None
        self.info: dict[str, Any] = {}
        self.steps: list[Step] = []
        self.recorded = False
        """Whether the episode now is in the recording."""

    def start(self, shared: SharedEnv[EnvT], task: str) -> None:
        """Begin an episode; the one before is dropped if it has not ended."""
        env = shared.prototype.spawn()
        task_id = env.tasks.find(task).id
        first = self._recording is not None and not self._recording.holds(shared.env, task_id)
        seed = self._recording.seed(shared.env) if self._recording is not None and first else self._seed
        if self._recording is not None and first:
            env.answer_source = self._recording.answers(shared.env)
        began = perf_counter()
        observation, info = env.reset(seed=seed, options={"task": task_id})
        self._env_seconds, self._person_seconds = perf_counter() - began, 0.0
        self.shared, self.env = shared, env
        self.observation, self.info = observation, info
        self.steps, self.recorded = [], False
        self._episode_seed, self._to_record = seed, first
        self._initial_hash = info["state_hash"]
        self._seen = perf_counter()

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return bool(self.steps) and (self.steps[-1].terminated or self.steps[-1].truncated)

    @property
    def twice(self) -> bool:
        """Whether the task has been recorded before, so that this episode will not be."""
        return self._recording is not None and not self._to_record

    def act(self, action: str) -> None:
        """Play an action."""
        began = perf_counter()
        seen, before = self.observation, self.info
        outcome = self.env.step(action)
        self.observation, *_, self.info = outcome
        self._env_seconds += perf_counter() - began
        self._person_seconds += began - self._seen
        self._seen = perf_counter()
        self.steps.append(taken_step(seen, before, Completion(action), outcome))
        if self.over:
            self._end()

    def _end(self) -> None:
        assert self.shared is not None
        trajectory = self._trajectory(self.shared.env.id)
        if self._recording is not None and self._to_record:
            manifest = self.shared.prototype.tasks.manifest_sha256
            self._recording.add(trajectory, self.shared.env, manifest, answer_pins(self.env.query_backends))
            self.recorded = True
        self._ended(trajectory, self.recorded)

    def _trajectory(self, env_id: str) -> Trajectory:
        last, won = self.steps[-1], self.info["won"]
        reason = game_end(terminated=last.terminated, truncated=last.truncated, won=won)
        assert reason is not None
        return Trajectory(
            env_id=env_id,
            task_id=self.info["task_id"],
            task_type=self.info["task_type"],
            seed=self._episode_seed,
            rollout=0,
            initial_hash=self._initial_hash,
            steps=tuple(self.steps),
            final_observation=self.observation,
            won=won,
            score=self.info["score"],
            progress=self.info["progress"],
            end_reason=reason,
            env_seconds=self._env_seconds,
            model_seconds=self._person_seconds,
            measures=self.env.measures(),
        )
