"""Successive attempts: agents that remember earlier attempts at a task when they play the next.

All first attempts are played before any second one. A resumed run replays its recorded episodes and shows
them to the agent before it continues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agentgym.agents import AGENTS
from agentgym.core.episodes import suite_keys
from agentgym.core.types import Completion, EpisodeListener, Policy, Trajectory
from agentgym.errors import UsageError
from agentgym.evaluation.log.bench_run import BenchRun
from agentgym.evaluation.log.recorded_answers import ReplayedAnswers
from agentgym.evaluation.log.replay import Replay
from agentgym.evaluation.log.results import EvalSample, latest
from agentgym.evaluation.log.transcripts import find_transcript
from agentgym.evaluation.suites.plan import PlannedEpisode, open_single
from agentgym.evaluation.suites.suite import SuiteEnv


def is_sequential(kind: str, policy: Policy) -> bool:
    """Return whether an agent plays the attempts at a task one after the other.

    Those of other packages do where their policy listens to the ends of episodes.
    """
    if kind in AGENTS:
        return AGENTS[kind].sequential
    return isinstance(policy, EpisodeListener)


def waves(episodes: Sequence[PlannedEpisode], *, sequential: bool) -> Iterator[list[PlannedEpisode]]:
    """Yield episodes in groups that may be played side by side: all, or attempt by attempt.

    Example:
        >>> from agentgym.core.tasks import Task
        >>> tasks = [Task(f"{n}", None, "") for n in (1, 2)]
        >>> planned = [PlannedEpisode("", task, 0, rollout) for task in tasks for rollout in (0, 1)]
        >>> [[(e.task.id, e.rollout) for e in wave] for wave in waves(planned, sequential=True)]
        [[('1', 0), ('2', 0)], [('1', 1), ('2', 1)]]
    """
    if not sequential:
        yield list(episodes)
        return
    for rollout in sorted({episode.rollout for episode in episodes}):
        yield [episode for episode in episodes if episode.rollout == rollout]


def remind(
    policy: Policy,
    env: SuiteEnv,
    missing: Iterable[PlannedEpisode],
    run: BenchRun,
) -> None:
    """Show an agent an interrupted run's attempts at the tasks that are still to be played further.

    Does nothing where the policy does not listen. `UsageError` where an episode does not replay as recorded.
    """
    open_tasks = {episode.task.id for episode in missing}
    finished = [e for e in latest(run.samples) if e.env == env.label and e.task_id in open_tasks]
    if not finished or not isinstance(policy, EpisodeListener):
        return
    game = open_single(env)
    try:
        game.answer_source = ReplayedAnswers(run.answers, env.label)
        for sample in sorted(finished, key=lambda episode: (episode.rollout, episode.task_id)):
            replay = Replay.begin(game, env, sample.task_id, sample.seed, sample.rollout)
            policy.ended(_trajectory(replay, env, sample, _completions(run.folder, sample)))
    finally:
        game.close()


def _completions(folder: Path, sample: EvalSample) -> tuple[Completion, ...]:
    """Return the agent's completions, one more than it played where an error ended the episode."""
    transcript = find_transcript(folder, sample.transcript)
    if transcript is None:
        return tuple(Completion(action) for action in sample.actions)
    return tuple(
        Completion(
            step.action,
            text=step.response,
            prompt_tokens=step.prompt_tokens,
            completion_tokens=step.completion_tokens,
            seconds=step.seconds,
            cost=step.cost,
            error=sample.end_reason if step.error and sample.end_reason != "env_error" else None,
            messages=transcript.messages(number),
            format_error=step.format_error,
            note=step.note,
        )
        for number, step in enumerate(transcript.steps)
    )


def _trajectory(
    replay: Replay, env: SuiteEnv, sample: EvalSample, completions: Sequence[Completion]
) -> Trajectory:
    """Play an episode again; return it as the agent first received it."""
    steps = tuple(replay.play(completion) for completion in completions[: sample.length])
    again = replay.record(sample)
    if isinstance(again, str) or again.line != sample.line:
        raise UsageError(
            f"{sample.id} does not come out again as it was recorded: remove the folder and run again"
        )
    return Trajectory(
        env_id=env.id,
        task_id=sample.task_id,
        task_type=sample.task_type,
        seed=sample.seed,
        rollout=sample.rollout,
        initial_hash=replay.initial_hash,
        steps=steps,
        final_observation=replay.observation,
        won=sample.won,
        score=sample.score,
        progress=sample.progress,
        end_reason=sample.end_reason,
        env_seconds=sample.env_seconds,
        model_seconds=sample.model_seconds,
        unplayed=completions[sample.length] if len(completions) > sample.length else None,
        extra=suite_keys(replay.info),
        measures=dict(sample.measures),
    )
