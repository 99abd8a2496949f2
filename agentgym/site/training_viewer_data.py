"""Films of training: replayed rollouts, with the algorithm's values for each step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym.core.hashing import sha256_json
from agentgym.core.types import Snapshot, Trajectory
from agentgym.env import AgentEnv
from agentgym.errors import UsageError
from agentgym.evaluation.log.frames import EpisodeFrame, ReplayedFrames, frames
from agentgym.evaluation.log.recorded_answers import RecordedAnswers
from agentgym.evaluation.log.replay import ReplayGames
from agentgym.evaluation.log.results import record_of
from agentgym.evaluation.suites.suite import PlayedEnv
from agentgym.history.diagnostics.run_source import RunSource
from agentgym.history.rollouts import kept_iterations
from agentgym.history.run import CONFIG_FILE
from agentgym.io.untrusted import read_json
from agentgym.registration import suite_spec
from agentgym.rollout.stored_episode import KeptEpisode
from agentgym.site.filmdata import credit_tables, step_table
from agentgym.site.viewer_data import (
    KEY_DIGITS,
    EpisodeSummary,
    EpisodeView,
    RunViewerData,
    ViewerPacks,
)

MAX_REMEMBERED = 100_000
"""Most states in which later episodes may begin."""


def keeps_rollouts(folder: Path) -> bool:
    """Return whether a folder is that of a training run with recorded rollouts."""
    return (folder / CONFIG_FILE).is_file() and bool(kept_iterations(folder))


def write_training(out: Path, folder: Path, *, regret: bool = False) -> RunViewerData:
    """Play the recorded rollouts of a training run again, and write the frames as `viewer_data.write_run`.

    Episodes are numbered from 1 over all iterations with rollouts. One that begins within a task, as those of
    tree search do, is played from a state that another one of the run came through; without one, it is shown
    as it was recorded, without observations. ``regret``: as `EpisodeView.play`, for those of whole tasks.
    """
    source = RunSource(folder)
    table = read_json(folder / CONFIG_FILE)
    rollouts = source.rollouts
    env = _played(source, table)
    key = sha256_json([table, sorted(rollouts)])[:KEY_DIGITS]
    packs = ViewerPacks(out, key)
    found: dict[int, EpisodeSummary] = {}
    with ExitStack() as stack:
        game, _ = ReplayGames([env], RecordedAnswers(), stack, {}).of(env.label)
        first, stage = 1, _Stage(game, env, packs, regret=regret)
        for episodes in rollouts.values():
            numbered = list(enumerate(episodes, start=first))
            for number, film, summary in stage.films(numbered):
                found[number] = replace(summary, pack=packs.add(number, film))
            first += len(episodes)
    films = RunViewerData(
        key, source.about, env.label, "training", tuple(found[number] for number in sorted(found))
    )
    packs.close(films)
    return films


def _played(source: RunSource, table: Any) -> PlayedEnv:
    env_id = source.history.env_id
    options, split = table.get("env_options"), table.get("split")
    if not isinstance(options, dict) or not isinstance(split, str):
        raise UsageError(f"{source.folder / CONFIG_FILE} says no env_options or split; restore it")
    suite_spec(env_id)  # raises for an unknown environment
    return PlayedEnv(env_id, env_id.rpartition("/")[2], split, 1, kwargs=options)


class _Stage:
    """Plays episodes, and remembers the states that they come through: trees grow over iterations."""

    def __init__(self, game: AgentEnv[Any], env: PlayedEnv, packs: ViewerPacks, *, regret: bool):
        self._game = game
        self._env = env
        self._seen: dict[str, Snapshot] = {}
        self._packs = packs
        self._regret = regret

    def films(
        self, numbered: list[tuple[int, KeptEpisode]]
    ) -> Iterator[tuple[int, dict[str, Any], EpisodeSummary]]:
        """Play all episodes; yield number, film and line of each, late ones that begin where none was."""
        left, before = numbered, len(numbered) + 1
        while left:
            stuck = len(left) == before  # no replayed episode has reached the states in which these begin
            before, late = len(left), []
            for number, episode in left:
                if not stuck and self._beginning(episode.trajectory) is None:
                    late.append((number, episode))
                else:
                    yield number, *self._film(episode, number)
            left = late

    def _film(self, kept: KeptEpisode, number: int) -> tuple[dict[str, Any], EpisodeSummary]:
        recorded, episode = kept.trajectory, record_of(kept.trajectory, self._env)
        view, begin = EpisodeView(self._packs.tables, self._game), self._beginning(recorded)
        if begin is None:
            view.differs_at = 0
            view.why = "it begins in a state that no reset leads to: shown as it was recorded"
        else:
            played = frames(self._game, self._env, episode, begin=begin[0] if begin else None)
            states = ReplayedFrames(self._remembered(played), recorded.state_hashes, chained=False)
            view.play(states, episode.actions, regret=self._regret and not begin)
        if not view.states:
            _as_recorded(view, recorded)
        for made, values in zip(view.steps, credit_tables(view.tables, kept), strict=False):
            made.update(values)
        place = {"iteration": kept.iteration, "group": kept.group}
        summary = EpisodeSummary.of(episode, number, view.differs_at, **place)
        tokens = [None, sum(len(step.completion.response_ids) for step in recorded.steps)]
        return view.film(summary, self._env, tokens=tokens, measures=dict(kept.notes)), summary

    def _remembered(self, played: Iterator[EpisodeFrame]) -> Iterator[EpisodeFrame]:
        for frame in played:
            if len(self._seen) < MAX_REMEMBERED:
                self._seen.setdefault(frame.state_hash, self._game.snapshot())
            yield frame

    def _beginning(self, episode: Trajectory) -> tuple[Snapshot, ...] | None:
        """Return the snapshot with which an episode begins, empty for a reset's; None if it is not found."""
        game, options = self._game, {"task": episode.task_id, "rollout": episode.rollout}
        for schema in (type(game).state_schema, *game.past_schemas):  # rollouts state none
            game.state_schema = schema
            if game.reset(seed=episode.seed, options=options)[1]["state_hash"] == episode.initial_hash:
                return ()
        found = self._seen.get(episode.initial_hash)
        game.state_schema = type(game).state_schema if found is None else found.schema
        return None if found is None else (found,)


def _as_recorded(view: EpisodeView, episode: Trajectory) -> None:
    """Add the states by their hashes alone."""
    for step in episode.steps:
        listed = view.tables.list(step.admissible_actions)
        view.states.append({"hash": view.tables.mark(step.state_hash), "actions": listed})
        view.steps.append(step_table(view.tables, step.action, step.reward, valid=step.valid))
    view.states.append({"hash": view.tables.mark(episode.state_hashes[-1]), "actions": view.tables.list(())})
