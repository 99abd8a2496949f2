"""Replaying: an episode's actions, played again in a single environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Self

from agentgym.core.episodes import game_end, taken_step
from agentgym.core.hashing import HashChain
from agentgym.core.queries import UnansweredError
from agentgym.core.types import Completion, EndReason, Observation, Step
from agentgym.env import AgentEnv
from agentgym.errors import UsageError
from agentgym.evaluation.log.recorded_answers import RecordedAnswers, ReplayedAnswers
from agentgym.evaluation.log.results import ABORTED, EpisodeKey, EvalSample
from agentgym.evaluation.log.stored_run import StoredRun
from agentgym.evaluation.suites.plan import PlannedEpisode, columns, open_single, planned_episodes
from agentgym.evaluation.suites.suite import PlayedEnv, SuiteEnv


@dataclass(frozen=True, slots=True)
class ReplayEnv:
    """An environment opened for replay, and the episodes that the suite asks for."""

    env: SuiteEnv
    game: AgentEnv[Any]
    answers: ReplayedAnswers
    """Recorded answers to the game's queries."""
    plan: Mapping[EpisodeKey, PlannedEpisode]


def open_replay_envs(run: StoredRun, answers: RecordedAnswers, stack: ExitStack) -> dict[str, ReplayEnv]:
    """Open the environments that a run found, on the given stack; return them by label."""
    suite, found = run.suite, {found.env.label for found in run.log.envs}
    replay_envs = {}
    for env in suite.env:
        if env.label in found:
            columns(env)  # raises for columns of the suite that tables cannot show
            game = open_single(env)
            stack.callback(game.close)
            game.state_schema = run.log.state_schemas.get(env.label, 1)
            game.answer_source = replayed_answers = ReplayedAnswers(answers, env.label)
            plan = planned_episodes(suite, env, game.tasks)
            by_key = {episode.key: episode for episode in plan}
            replay_envs[env.label] = ReplayEnv(env, game, replayed_answers, by_key)
    return replay_envs


class ReplayGames:
    """Environments of a run, opened for replay at first use."""

    def __init__(
        self,
        envs: Iterable[PlayedEnv],
        answers: RecordedAnswers,
        stack: ExitStack,
        schemas: Mapping[str, int],
    ):
        """Hold the environments, the run's answers, what closes them, and `EvalLog.state_schemas`."""
        self._schemas = schemas
        self._envs = {env.label: env for env in envs}
        self._answers = answers
        self._stack = stack
        self._games: dict[str, AgentEnv[Any]] = {}

    def of(self, label: str) -> tuple[AgentEnv[Any], PlayedEnv]:
        """Return an environment, and its place in the suite."""
        if label not in self._envs:
            raise UsageError(f"the suite has no environment {label!r:.60}")
        if label not in self._games:
            game = self._games[label] = open_single(self._envs[label])
            self._stack.callback(game.close)
            game.state_schema = self._schemas.get(label, 1)
            game.answer_source = ReplayedAnswers(self._answers, label)
        return self._games[label], self._envs[label]


class Replay:
    """An episode that is being played again."""

    def __init__(
        self, game: AgentEnv[Any], chain: HashChain, observation: Observation, info: Mapping[str, Any]
    ):
        """Take over an environment that has just been reset; `begin` resets it."""
        self.game = game
        self._chain = chain
        self.observation = observation
        """Last observation of the agent."""
        self.info = info
        """Last info of the environment."""
        self.initial_hash: str = info["state_hash"]
        """Hash of the initial state."""
        self.rewards: list[float] = []
        self._actions: list[str] = []
        self._invalid = 0
        self._terminated = self._truncated = False

    @classmethod
    def begin(cls, game: AgentEnv[Any], env: PlayedEnv, task_id: str, seed: int, rollout: int) -> Self:
        """Reset an environment to an episode's start; errors as `AgentEnv.reset`."""
        observation, info = game.reset(seed=seed, options={"task": task_id, "rollout": rollout})
        return cls(game, HashChain(env.spec, task_id, seed, rollout, info["state_hash"]), observation, info)

    @property
    def over(self) -> bool:
        """Whether the game or its step limit ended the episode."""
        return self._terminated or self._truncated

    @property
    def end_reason(self) -> EndReason | None:
        """Why the game is over; None where it is not."""
        return game_end(terminated=self._terminated, truncated=self._truncated, won=self.info["won"])

    @property
    def links(self) -> list[str]:
        """Links of the hash chain so far."""
        return self._chain.links

    def step(self, action: str) -> None:
        """Play an action."""
        observation, reward, terminated, truncated, info = self.game.step(action)
        self._chain.extend(info["state_hash"], action, reward, terminated, truncated)
        self.observation, self.info = observation, info
        self._terminated, self._truncated = terminated, truncated
        self.rewards.append(float(reward))
        self._actions.append(action)
        self._invalid += not info["action_is_valid"]

    def play(self, completion: Completion) -> Step:
        """Play an answer's action; return the step, as the agent that gave the answer saw it."""
        observation, info = self.observation, self.info
        self.step(completion.action)
        outcome = self.observation, self.rewards[-1], self._terminated, self._truncated, self.info
        return taken_step(observation, info, completion, outcome, sided=self.game.sides > 1)

    def record(self, claimed: EvalSample) -> EvalSample | str:
        """Return the record of the replay, or why it cannot be that of ``claimed``.

        ``claimed`` gives what no replay can know: costs, the error that ended the episode, and its place in
        the file.
        """
        reason = self.end_reason
        if reason is None:
            if claimed.end_reason not in ABORTED:
                return f"is not over after its {len(self.rewards)} actions, but ended as {claimed.end_reason}"
            reason = claimed.end_reason
        aborted = reason in ABORTED
        game = self.game
        episode_return = 0.0
        for reward in self.rewards:
            episode_return += reward
        again = replace(
            claimed,
            task_id=self.info["task_id"],
            task_type=self.info["task_type"],
            actions=tuple(self._actions),
            rewards=tuple(self.rewards),
            hash_chain=tuple(self.links),
            episode_return=episode_return,
            score=0.0 if aborted else float(self.info["score"]),
            won=not aborted and bool(self.info["won"]),
            progress=0.0 if aborted else float(self.info["progress"]),
            length=len(self.rewards),
            invalid_count=self._invalid,
            end_reason=reason,
            measures=game.suite_spec.counted(game.measures(), aborted=aborted) if claimed.measures else {},
        )
        return again.measured_as(claimed)


def replayed(claimed: EvalSample, replay_env: ReplayEnv, seed: int) -> EvalSample | str:
    """Play an episode's actions; return the record they make, or why they cannot be played."""
    try:
        replay = Replay.begin(replay_env.game, replay_env.env, claimed.task_id, seed, claimed.rollout)
        for action in claimed.actions:
            if replay.over:
                return f"continues after its end at step {len(replay.rewards)}"
            replay.step(action)
    except UnansweredError as error:
        return str(error)
    return replay.record(replace(claimed, seed=seed))
