"""Frames: the states of a recorded episode, one by one, as a replay comes through them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.core.hashing import HashChain
from agentgym.core.types import Completion, Observation, Snapshot, Step
from agentgym.env import AgentEnv
from agentgym.evaluation.log.replay import Replay
from agentgym.evaluation.suites.suite import PlayedEnv


@dataclass(frozen=True, slots=True)
class EpisodeFrame:
    """A state of an episode, and the step that led there."""

    step: Step | None
    """None for the first."""
    observation: Observation
    admissible_actions: tuple[str, ...]
    state_hash: str
    link: str
    """Of the hash chain, computed anew."""
    score: float
    """Of the state, as if the episode ended here."""
    progress: float
    won: bool


def frames(
    game: AgentEnv[Any],
    env: PlayedEnv,
    task_id: str,
    seed: int,
    rollout: int,
    actions: Sequence[str],
    *,
    begin: Snapshot | None = None,
) -> Iterator[EpisodeFrame]:
    """Play recorded actions again; yield the states, up to T + 1 of them.

    While a frame is looked at, ``game`` is in its state, so that it can be drawn. Actions after the end of
    the episode are not played. ``game`` holds the run's answers, where it asks; ``begin`` None begins where a
    reset leads. `UnansweredError` where an answer is not recorded.
    """
    replay = Replay.begin(game, env, task_id, seed, rollout)
    if begin is not None:
        observation, info = game.restore(begin)
        replay = Replay(
            game, HashChain(env.spec, task_id, seed, rollout, info["state_hash"]), observation, info
        )
    yield _frame(None, replay)
    for action in actions:
        if replay.over:
            return
        step = replay.play(Completion(action))
        yield _frame(step, replay)


def _frame(step: Step | None, replay: Replay) -> EpisodeFrame:
    info = replay.info
    return EpisodeFrame(
        step=step,
        observation=replay.observation,
        admissible_actions=info["admissible_actions"],
        state_hash=info["state_hash"],
        link=replay.links[-1],
        score=float(info["score"]),
        progress=float(info["progress"]),
        won=bool(info["won"]),
    )
