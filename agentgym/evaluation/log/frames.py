"""Frames: the states of a recorded episode, one by one, as a replay comes through them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.core.hashing import HashChain
from agentgym.core.queries import UnansweredError
from agentgym.core.types import Completion, Observation, Snapshot, Step
from agentgym.env import AgentEnv
from agentgym.evaluation.log.replay import Replay
from agentgym.evaluation.log.results import EvalSample
from agentgym.evaluation.suites.suite import PlayedEnv


@dataclass(frozen=True, slots=True)
class EpisodeFrame:
    """A state of an episode, and the step that led there."""

    step: Step | None
    """Step that led to the state; None for the first state."""
    observation: Observation
    admissible_actions: tuple[str, ...]
    state_hash: str
    link: str
    """Link of the hash chain, recomputed."""
    score: float
    """Score of the episode if it ended in this state."""
    won: bool


class ReplayedFrames:
    """States of a recorded episode, up to where a replay departs from the record."""

    def __init__(self, played: Iterable[EpisodeFrame], recorded: Sequence[str], *, chained: bool = True):
        """Take `frames` and the T + 1 recorded links, which cover rewards, or state hashes."""
        self._played = played
        self._recorded = recorded
        self._chained = chained
        self.differs_at: int | None = None
        """The step at which the replay departs, once all frames were looked at; None where it does not."""
        self.why = ""
        """In which way it departs."""

    def __iter__(self) -> Iterator[EpisodeFrame]:
        """Yield the states that come out as recorded."""
        count = 0
        try:
            for frame in self._played:
                found = frame.link if self._chained else frame.state_hash
                if (found,) != tuple(self._recorded[count : count + 1]):
                    also = " or reward" if self._chained else ""
                    self.differs_at = count
                    self.why = f"the replay comes to another state{also} than the record"
                    return
                yield frame
                count += 1
            if count < len(self._recorded):
                self.differs_at, self.why = count, "the replay ends before the recorded actions do"
        except UnansweredError as error:
            self.differs_at, self.why = count, str(error)


def frames(
    game: AgentEnv[Any], env: PlayedEnv, episode: EvalSample, *, begin: Snapshot | None = None
) -> Iterator[EpisodeFrame]:
    """Play recorded actions again; yield the states, up to T + 1 of them.

    While a frame is looked at, ``game`` is in its state, so that it can be drawn. Actions after the end of
    the episode are not played. ``game`` holds the run's answers, where it asks; ``begin`` None begins where a
    reset leads. `UnansweredError` where an answer is not recorded.
    """
    task, seed, rollout = episode.task_id, episode.seed, episode.rollout
    replay = Replay.begin(game, env, task, seed, rollout)
    if begin is not None:
        observation, info = game.restore(begin)
        replay = Replay(game, HashChain(env.spec, task, seed, rollout, info["state_hash"]), observation, info)
    yield _frame(None, replay)
    for action in episode.actions:
        if replay.over:
            return
        yield _frame(replay.play(Completion(action)), replay)


def _frame(step: Step | None, replay: Replay) -> EpisodeFrame:
    info = replay.info
    return EpisodeFrame(
        step=step,
        observation=replay.observation,
        admissible_actions=info["admissible_actions"],
        state_hash=info["state_hash"],
        link=replay.links[-1],
        score=float(info["score"]),
        won=bool(info["won"]),
    )
