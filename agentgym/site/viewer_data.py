"""Films: every episode of a run played again, state by state, as data that the viewer's page loads.

A run's films are packed: a script file holds some episodes, attempts at a task side by side, and what they
have in common once.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Collection, Mapping
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
from agentgym.site.filmdata import FilmTables, columns, said_table, state_table, step_table
from agentgym.site.rendering import data_script

DATA = "data"
"""Folder of a site that holds what its scripts load."""

KEY_DIGITS = 12

PACK_SIZE = 400_000
"""Characters at which a script file of films is full, roughly, and before it is deflated."""


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
    pack: int = 0
    """Number of the script file that holds its film, from 1; 0 for one that is only listed."""

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
        packs = FilmPacks(out, key)
        found = {}
        shown = _first(numbered, most)
        for number, episode in sorted(numbered, key=lambda item: item[1].key):
            summary = _summary(episode, number, None)
            if number in shown:
                film, summary = theatre.film(episode, number, packs.tables)
                summary = replace(summary, pack=packs.add(number, film))
            found[number] = summary
        films = RunFilms(
            key,
            log.agent.display_name,
            log.suite.name,
            "run",
            tuple(found[number] for number in sorted(found)),
        )
        packs.close(films)
    return films


def write_index(out: Path, runs: Collection[RunFilms]) -> None:
    """Write the list of runs that the viewer offers, in the order of suites and names."""
    ordered = sorted(runs, key=lambda run: (run.kind, run.suite, run.title, run.key))
    make_folder(out / DATA)
    replace_file(out / DATA / "runs.js", data_script("runs", [run.as_json for run in ordered]))


class FilmPacks:
    """Writes a run's films into numbered script files, ``data/KEY/NUMBER.js`` in the folder of a site."""

    def __init__(self, out: Path, key: str):
        """Begin the first file of the run that ``key`` names."""
        self._place, self._key = out / DATA / key, key
        self._redact = lru_cache(1 << 16)(Redactor().redact)  # a run's episodes have most texts in common
        self._number = 0
        make_folder(self._place)
        self._begin()

    def _begin(self) -> None:
        self._number += 1
        self._films: dict[int, Mapping[str, Any]] = {}
        self.tables = FilmTables(self._redact)
        """Of the file that the next film goes to."""

    def add(self, number: int, film: Mapping[str, Any]) -> int:
        """Add an episode whose texts are in `tables`; return the number of its file."""
        pack = self._number
        self._films[number] = film
        self.tables.size += 300 + 24 * (film["states"]["count"] + film["steps"]["count"])
        self.tables.begin()
        if self.tables.size >= PACK_SIZE:
            self._write_pack()
            self._begin()
        return pack

    def close(self, films: RunFilms) -> None:
        """Write the last file, and the list of the run's episodes."""
        if self._films:
            self._write_pack()
        rows = [episode.row for episode in films.episodes]
        listed = {**films.as_json, "columns": COLUMNS, "episodes": rows}
        script = data_script(f"episodes/{self._key}", listed)
        (self._place / "episodes.js").write_text(script, encoding="ascii")

    def _write_pack(self) -> None:
        script = film_script(self._key, self._number, self._films, self.tables)
        (self._place / f"{self._number}.js").write_text(script, encoding="ascii")


def film_script(key: str, pack: int, films: Mapping[int, Mapping[str, Any]], tables: FilmTables) -> str:
    """Return a script that hands over films, by number, and their tables: JSON, deflated, in base 64."""
    packed = {"films": films, **tables.as_json}
    text = json.dumps(packed, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return data_script(f"films/{key}/{pack}", b64encode(zlib.compress(text.encode())).decode())


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

    def film(
        self, episode: EvalSample, number: int, tables: FilmTables
    ) -> tuple[dict[str, Any], EpisodeSummary]:
        """Play an episode; return its film as JSON, whose texts are in the tables, and its summary."""
        game, env = self.games.of(episode.env)
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

    def add(self, frame: EpisodeFrame) -> None:
        """Add the state that the game is in, and the step that led there."""
        if frame.step is not None:
            step = frame.step
            self._history.append(step)
            self.steps.append(step_table(self.tables, step.action, step.reward, valid=step.valid))
        name = ("covered", self._game, self._game.task.id, frame.state_hash)
        covered = self.tables.numbers.get(name)
        if covered is None:
            covered = self.tables.numbers[name] = self.tables.text(self._game.state_text())
        beside = () if self._drawing is None else self._drawing.beside_state(self._game)
        self.states.append(state_table(self.tables, frame, covered, self._draw(frame.state_hash), beside))

    def _draw(self, state_hash: str) -> int | None:
        """Return the number of the drawing of the state that the game is in; None without one."""
        drawing = self._drawing
        if drawing is None:
            return None
        name = ("drawn", self._game, self._game.task.id, state_hash)
        number = self.tables.numbers.get(name) if drawing.of_state else None
        if number is None:
            number = self.tables.numbers[name] = self.tables.node(drawing.draw(self._game, self._history))
        return number

    def cut(self, actions: tuple[str, ...], at: int | None, why: str) -> None:
        """Add the recorded action at which a replay departs: its outcome is not known."""
        if at is not None and 0 < at <= len(actions):
            self.steps.append({"action": self.tables.text(actions[at - 1]), "differs": why})

    def film(self, head: Mapping[str, Any]) -> dict[str, Any]:
        """Return the episode as JSON; ``head`` holds the fields of all of it."""
        texts = {name: self.tables.text(head[name]) for name in _TEXTS}
        return {**head, **texts, "states": columns(self.states), "steps": columns(self.steps)}


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
