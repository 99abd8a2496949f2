"""Films: every episode of a run played again, state by state, as data that the viewer's page loads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym.core.queries import UnansweredError
from agentgym.core.suite_spec import SuiteDrawing
from agentgym.core.types import Step
from agentgym.env import AgentEnv
from agentgym.evaluation.log.frames import EpisodeFrame, frames
from agentgym.evaluation.log.redaction import Redactor
from agentgym.evaluation.log.replay import ReplayGames
from agentgym.evaluation.log.results import EvalSample
from agentgym.evaluation.log.stored_run import StoredRun
from agentgym.evaluation.log.transcripts import TranscriptRecord
from agentgym.io.files import make_folder, replace_file
from agentgym.io.optional import load_reference, only_trusted
from agentgym.site.filmdata import FilmTables, said_table, state_table, step_table
from agentgym.site.rendering import data_script

DATA = "data"
"""Folder of a site that holds what its scripts load."""

KEY_DIGITS = 12


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """A line of the viewer's list of episodes."""

    number: int
    """Names it within its run: of its line in ``episodes.jsonl``, from 1."""
    label: str
    """Of the environment."""
    task_id: str
    task_type: str
    rollout: int
    won: bool
    score: float
    episode_return: float
    length: int
    invalid: int
    """Rejected actions."""
    end_reason: str
    differs_at: int | None
    """The step at which the replay departs from the record, 0 for its beginning; None where it does not."""
    iteration: int = 0
    """Of a training run; 0 elsewhere."""
    group: int = 0
    """Of that iteration."""
    film: bool = True
    """Whether it can be watched on the site, or is only listed."""

    @property
    def row(self) -> list[Any]:
        """Its values as JSON, in the order of `COLUMNS`."""
        return [getattr(self, name) for name in COLUMNS]


COLUMNS = EpisodeSummary.__match_args__


@dataclass(frozen=True, slots=True)
class RunFilms:
    """Written films of a run."""

    key: str
    """Names it in addresses: the first digits of its request id."""
    title: str
    """Who played."""
    suite: str
    """What was played: a suite's name, or the environment of a training run."""
    kind: str
    """``run`` or ``training``."""
    episodes: tuple[EpisodeSummary, ...]

    @property
    def as_json(self) -> dict[str, Any]:
        """Its entry in the list of runs."""
        return {
            "key": self.key,
            "title": self.title,
            "suite": self.suite,
            "kind": self.kind,
            "count": len(self.episodes),
        }


def write_run(
    out: Path,
    run: StoredRun,
    *,
    key: str = "",
    most: int | None = None,
    allow: Collection[str] = (),
) -> RunFilms:
    """Play all episodes of a run again and write the frames: ``data/KEY/`` in the folder of a site.

    ``key``: by default the first digits of its request id; ``most``: films of each environment, the first by
    task id, so that runs of one suite have the same; the other episodes are listed as recorded. ``allow`` as
    `verify_run`.
    """
    log = run.log
    with only_trusted(allow), ExitStack() as stack:
        numbered, theatre = _numbered(run.samples), Theatre(run, stack)
        key = key or log.request_id[:KEY_DIGITS]
        place = film_folder(out, key)
        found = []
        shown = _first(numbered, most)
        for number, episode in numbered:
            if number in shown:
                film, summary = theatre.film(episode, number)
                write_film(place, key, number, film)
            else:
                summary = replace(_summary(episode, number, None), film=False)
            found.append(summary)
        films = RunFilms(key, log.agent.display_name, log.suite.name, "run", tuple(found))
        write_list(place, films)
    return films


def write_index(out: Path, runs: Collection[RunFilms]) -> None:
    """Write the list of runs that the viewer offers, in the order of suites and names."""
    ordered = sorted(runs, key=lambda run: (run.kind, run.suite, run.title, run.key))
    make_folder(out / DATA)
    replace_file(out / DATA / "runs.js", data_script("runs", [run.as_json for run in ordered]))


def remembering_redactor() -> Callable[[str], str]:
    """Return a redaction that remembers what it has seen: episodes of a run have most texts in common."""
    return lru_cache(1 << 16)(Redactor().redact)


def film_folder(out: Path, key: str) -> Path:
    """Make the folder that a run's films go to."""
    place = out / DATA / key
    make_folder(place)
    return place


def write_film(place: Path, key: str, number: int, film: Mapping[str, Any]) -> None:
    """Write one episode."""
    (place / f"{number}.js").write_text(data_script(f"episode/{key}/{number}", film), encoding="ascii")


def write_list(place: Path, films: RunFilms) -> None:
    """Write the list of a run's episodes."""
    listed = {
        **films.as_json,
        "columns": COLUMNS,
        "episodes": [episode.row for episode in films.episodes],
    }
    (place / "episodes.js").write_text(data_script(f"episodes/{films.key}", listed), encoding="ascii")


def _numbered(episodes: list[EvalSample]) -> list[tuple[int, EvalSample]]:
    """Return the records that count, each with the number of its line."""
    last = {episode.key: (number, episode) for number, episode in enumerate(episodes, start=1)}
    return sorted(last.values(), key=lambda item: item[0])


def _first(numbered: list[tuple[int, EvalSample]], most: int | None) -> set[int]:
    """Return the numbers of the first episodes of each environment, by task."""
    left: dict[str, int] = {}
    chosen = set()
    for number, episode in sorted(numbered, key=lambda item: item[1].key):
        left[episode.env] = left.get(episode.env, len(numbered) if most is None else most) - 1
        if left[episode.env] >= 0:
            chosen.add(number)
    return chosen


class Theatre:
    """Player of a run's episodes: its environments, answers and transcripts."""

    def __init__(self, run: StoredRun, stack: ExitStack):
        """Prepare to play a run, with the answers that it recorded."""
        self.games = ReplayGames((found.env for found in run.log.envs), run.answers, stack)
        self._transcripts = run.transcripts()
        self._redact = remembering_redactor()

    def film(self, episode: EvalSample, number: int) -> tuple[dict[str, Any], EpisodeSummary]:
        """Play an episode; return its film as JSON, and its line of the list."""
        game, env = self.games.of(episode.env)
        tables = FilmTables(self._redact)
        reel = EpisodeView(tables, game)
        differs: int | None = None
        why = ""
        played = frames(game, env, episode.task_id, episode.seed, episode.rollout, episode.actions)
        try:
            for turn, frame in enumerate(played):
                if (frame.link,) != episode.hash_chain[turn : turn + 1]:
                    differs, why = turn, "the replay comes to another state or reward than the record"
                    break
                reel.add(frame)
            else:
                if len(reel.states) <= len(episode.actions):
                    differs, why = len(reel.states), "the replay ends before the recorded actions do"
        except UnansweredError as error:
            differs, why = len(reel.states), str(error)
        reel.cut(episode.actions, differs, why)
        transcript = self._transcripts.get(episode.transcript)
        if transcript is not None:
            _add_said(reel, transcript)
        summary = _summary(episode, number, differs)
        head = {
            **dict(zip(COLUMNS, summary.row, strict=True)),
            "env": env.id,
            "seed": episode.seed,
            "progress": episode.progress,
            "measures": dict(episode.measures),
            "tokens": [episode.prompt_tokens, episode.completion_tokens],
            "cost": episode.cost,
            "why": why,
        }
        return reel.film(head), summary


class EpisodeView:
    """The states of one episode as they are added, and what was done in each."""

    def __init__(self, tables: FilmTables, game: AgentEnv[Any]):
        """Begin an episode; ``game`` plays it."""
        self.tables = tables
        self.states: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self._game = game
        self._history: list[Step] = []
        named = game.suite_spec.drawing
        drawing: SuiteDrawing | None = None if named is None else load_reference(named, trusted=True)
        self._drawing = drawing
        self._drawn: dict[str, int] = {}
        """Numbers of drawings by state hash, where they follow from the state."""
        self._covered: dict[str, int] = {}
        """Numbers of texts that hashes cover."""

    def add(self, frame: EpisodeFrame) -> None:
        """Add the state that the game is in, and the step that led there."""
        if frame.step is not None:
            step = frame.step
            self._history.append(step)
            self.steps.append(step_table(self.tables, step.action, step.reward, valid=step.valid))
        covered = self._covered.get(frame.state_hash)
        if covered is None:
            covered = self._covered[frame.state_hash] = self.tables.text(self._game.state_text())
        beside = () if self._drawing is None else self._drawing.beside_state(self._game)
        self.states.append(state_table(self.tables, frame, covered, self._draw(frame.state_hash), beside))

    def _draw(self, state_hash: str) -> int | None:
        """Return the number of the drawing of the state that the game is in; None without one."""
        drawing = self._drawing
        if drawing is None:
            return None
        number = self._drawn.get(state_hash) if drawing.of_state else None
        if number is None:
            number = self._drawn[state_hash] = self.tables.node(drawing.draw(self._game, self._history))
        return number

    def cut(self, actions: tuple[str, ...], at: int | None, why: str) -> None:
        """Add the recorded action at which a replay departs: its outcome is not known."""
        if at is not None and 0 < at <= len(actions):
            self.steps.append({"action": self.tables.text(actions[at - 1]), "differs": why})

    def film(self, head: Mapping[str, Any]) -> dict[str, Any]:
        """Return the episode as JSON; ``head`` holds the fields of all of it."""
        texts = {name: self.tables.text(head[name]) for name in _TEXTS}
        return {**head, **texts, "states": self.states, "steps": self.steps, **self.tables.as_json}


_TEXTS = ("label", "task_id", "task_type", "end_reason", "env", "why")
"""Parts of a film's head that are stored among its texts."""


def _add_said(reel: EpisodeView, transcript: TranscriptRecord) -> None:
    """Add the model's messages; unplayed ones get a step of their own."""
    for number in range(len(transcript.steps)):
        texts = said_table(reel.tables, transcript, number)
        if number < len(reel.steps):
            reel.steps[number].update(texts)
        elif number == len(reel.steps) == len(reel.states) - 1:
            reel.steps.append(texts)


def _summary(episode: EvalSample, number: int, differs: int | None) -> EpisodeSummary:
    return EpisodeSummary(
        number=number,
        label=episode.env,
        task_id=episode.task_id,
        task_type=episode.task_type,
        rollout=episode.rollout,
        won=episode.won,
        score=episode.score,
        episode_return=episode.episode_return,
        length=episode.length,
        invalid=episode.invalid_count,
        end_reason=episode.end_reason.replace("_", " "),
        differs_at=differs,
    )
