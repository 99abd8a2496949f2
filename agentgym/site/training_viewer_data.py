"""Films of training: replayed rollouts, with the algorithm's values for each step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym.core.hashing import sha256_json
from agentgym.core.queries import UnansweredError
from agentgym.core.types import Snapshot
from agentgym.env import AgentEnv
from agentgym.errors import UsageError
from agentgym.evaluation.log.frames import frames
from agentgym.evaluation.log.recorded_answers import RecordedAnswers
from agentgym.evaluation.log.replay import ReplayGames
from agentgym.evaluation.suites.suite import PlayedEnv
from agentgym.history.diagnostics.source import RunSource
from agentgym.history.rollouts import KeptEpisode, kept_iterations
from agentgym.history.run import CONFIG_FILE
from agentgym.io.untrusted import read_json
from agentgym.registration import suite_spec
from agentgym.site.filmdata import credit_table, step_table
from agentgym.site.viewer_data import (
    COLUMNS,
    KEY_DIGITS,
    EpisodeSummary,
    EpisodeView,
    FilmPacks,
    RunFilms,
)

MAX_REMEMBERED = 100_000
"""States that later episodes may begin in."""


def keeps_rollouts(folder: Path) -> bool:
    """Return whether a folder is that of a training run with recorded rollouts."""
    return (folder / CONFIG_FILE).is_file() and bool(kept_iterations(folder))


def write_training(out: Path, folder: Path) -> RunFilms:
    """Play the recorded rollouts of a training run again and write the frames, as `films.write_run` does.

    Episodes are numbered from 1 over all iterations with rollouts. One that begins within a task, as those of
    tree search do, is played from a state that another one of the run came through; without one, it is shown
    as it was recorded, without observations.
    """
    source = RunSource(folder)
    table = read_json(folder / CONFIG_FILE)
    rollouts = source.rollouts
    env = _played(source, table)
    key = sha256_json([table, sorted(rollouts)])[:KEY_DIGITS]
    packs = FilmPacks(out, key)
    found: dict[int, EpisodeSummary] = {}
    with ExitStack() as stack:
        game, _ = ReplayGames([env], RecordedAnswers(), stack).of(env.label)
        first, stage = 1, _Stage(game, env, packs)
        for episodes in rollouts.values():
            numbered = list(enumerate(episodes, start=first))
            for number, film, summary in stage.films(numbered):
                found[number] = replace(summary, pack=packs.add(number, film))
            first += len(episodes)
    films = RunFilms(
        key, source.about, env.label, "training", tuple(found[number] for number in sorted(found))
    )
    packs.close(films)
    return films


def _played(source: RunSource, table: Any) -> PlayedEnv:
    env_id = source.history.env_id
    options, split = table.get("env_options"), table.get("split")
    if not isinstance(options, dict) or not isinstance(split, str):
        raise UsageError(f"{source.folder / CONFIG_FILE} says no env_options or split; restore it")
    suite_spec(env_id)  # raises where there is none
    return PlayedEnv(env_id, env_id.rpartition("/")[2], split, 1, kwargs=options)


class _Stage:
    """Plays episodes, and remembers the states that they come through: trees grow over iterations."""

    def __init__(self, game: AgentEnv[Any], env: PlayedEnv, packs: FilmPacks):
        self._game = game
        self._env = env
        self._seen: dict[str, Snapshot] = {}
        self._packs = packs

    def films(
        self, numbered: list[tuple[int, KeptEpisode]]
    ) -> Iterator[tuple[int, dict[str, Any], EpisodeSummary]]:
        """Play all episodes; yield number, film and line of each, late ones that begin where none was."""
        left, before = numbered, len(numbered) + 1
        while left:
            stuck = len(left) == before  # nothing that was played meanwhile has led to where these begin
            before, late = len(left), []
            for number, episode in left:
                if not stuck and self._beginning(episode) is None:
                    late.append((number, episode))
                else:
                    yield number, *self._film(episode, number)
            left = late

    def _film(self, episode: KeptEpisode, number: int) -> tuple[dict[str, Any], EpisodeSummary]:
        tables = self._packs.tables
        reel = EpisodeView(tables, self._game)
        hashes = [step.state_hash for step in episode.steps] + [episode.final_hash]
        differs, why = self._play(episode, reel, hashes)
        if not reel.states:
            _as_recorded(reel, episode, hashes)
        else:
            reel.cut(tuple(step.action for step in episode.steps), differs, why)
        for made, step in zip(reel.steps, episode.steps, strict=False):
            made.update(credit_table(tables, step))
        summary = _summary(episode, number, self._env.label, differs)
        head = {
            **dict(zip(COLUMNS, summary.row, strict=True)),
            "env": self._env.id,
            "seed": episode.seed,
            "progress": reel.states[-1].get("progress", 0.0),
            "measures": dict(episode.notes),
            "tokens": [None, sum(len(step.response_ids) for step in episode.steps)],
            "cost": 0.0,
            "why": why,
        }
        return reel.film(head), summary

    def _play(self, episode: KeptEpisode, reel: EpisodeView, hashes: list[str]) -> tuple[int | None, str]:
        """Add the states up to where the replay departs; return the step where it does, and why."""
        actions = [step.action for step in episode.steps]
        begin = self._beginning(episode)
        if begin is None:
            return 0, "it begins in a state that no reset leads to: shown as it was recorded"
        played = frames(
            self._game,
            self._env,
            episode.task_id,
            episode.seed,
            episode.rollout,
            actions,
            begin=begin[0] if begin else None,
        )
        try:
            for turn, frame in enumerate(played):
                if frame.state_hash != hashes[turn]:
                    return turn, "the replay comes to another state than the record"
                if len(self._seen) < MAX_REMEMBERED:
                    self._seen.setdefault(frame.state_hash, self._game.snapshot())
                reel.add(frame)
        except UnansweredError as error:
            return len(reel.states), str(error)
        if len(reel.states) < len(hashes):
            return len(reel.states), "the replay ends before the recorded actions do"
        return None, ""

    def _beginning(self, episode: KeptEpisode) -> tuple[Snapshot, ...] | None:
        """Return the snapshot that an episode begins with, none for a reset's; None where there is none."""
        first = episode.steps[0].state_hash if episode.steps else episode.final_hash
        _, info = self._game.reset(
            seed=episode.seed, options={"task": episode.task_id, "rollout": episode.rollout}
        )
        if info["state_hash"] == first:
            return ()
        return (self._seen[first],) if first in self._seen else None


def _as_recorded(reel: EpisodeView, episode: KeptEpisode, hashes: list[str]) -> None:
    """Add the states by their hashes alone."""
    for step in episode.steps:
        listed = reel.tables.list(episode.admissible_actions[step.admissible])
        reel.states.append({"hash": reel.tables.mark(step.state_hash), "actions": listed})
        reel.steps.append(step_table(reel.tables, step.action, step.reward, valid=step.valid))
    reel.states.append({"hash": reel.tables.mark(hashes[-1]), "actions": reel.tables.list(())})


def _summary(episode: KeptEpisode, number: int, label: str, differs: int | None) -> EpisodeSummary:
    episode_return = 0.0
    for step in episode.steps:
        episode_return += step.reward
    return EpisodeSummary(
        number=number,
        label=label,
        task_id=episode.task_id,
        task_type=episode.task_type,
        rollout=episode.rollout,
        won=episode.won,
        score=episode.score,
        episode_return=episode_return,
        length=len(episode.steps),
        invalid=sum(not step.valid for step in episode.steps),
        end_reason=episode.end_reason.replace("_", " "),
        differs_at=differs,
        iteration=episode.iteration,
        group=episode.group,
    )
