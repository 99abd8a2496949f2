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
from typing import Any, Self

from agentgym.core.distances import StepBounds
from agentgym.core.suite_spec import SuiteDrawing
from agentgym.core.types import Step
from agentgym.credit.regret import EpisodeRegret, RegretFrame, regret_frames
from agentgym.env import AgentEnv
from agentgym.evaluation.log.frames import EpisodeFrame, ReplayedFrames, frames
from agentgym.evaluation.log.redaction import Redactor
from agentgym.evaluation.log.replay import ReplayGames
from agentgym.evaluation.log.results import EvalSample
from agentgym.evaluation.log.stored_run import StoredRun
from agentgym.evaluation.log.transcripts import TranscriptRecord
from agentgym.evaluation.suites.suite import PlayedEnv
from agentgym.io.files import make_folder, replace_file
from agentgym.io.optional import load_reference, only_trusted
from agentgym.site.filmdata import ViewerTables, columns, state_table, step_table, text_table
from agentgym.site.rendering import data_script

DATA = "data"
"""Folder of a site for the data of its scripts."""

KEY_DIGITS = 12

PACK_SIZE = 400_000
"""Approximate size of a script file of films, in characters before compression."""


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """A line of the viewer's list of episodes."""

    number: int
    """Number of the episode's line in ``episodes.jsonl``, from 1."""
    label: str
    """Label of the environment."""
    task_id: str
    task_type: str
    rollout: int
    won: bool
    score: float
    episode_return: float
    length: int
    invalid: int
    """Number of rejected actions."""
    end_reason: str
    differs_at: int | None
    """Step at which the replay differs from the record, 0 for its beginning; None where both are equal."""
    iteration: int = 0
    """Iteration of a training run; 0 elsewhere."""
    group: str = ""
    """Name of the group in that iteration."""
    pack: int = 0
    """Number of the script file with its film, from 1; 0 without a film."""

    @classmethod
    def of(cls, episode: EvalSample, number: int, differs_at: int | None = None, **place: Any) -> Self:
        """Take it from a record; ``place``: the last three fields."""
        return cls(
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
            differs_at=differs_at,
            **place,
        )

    @property
    def row(self) -> list[Any]:
        """Its values as JSON, in the order of `COLUMNS`."""
        return [getattr(self, name) for name in COLUMNS]


COLUMNS = EpisodeSummary.__match_args__


@dataclass(frozen=True, slots=True)
class RunViewerData:
    """Written films of a run."""

    key: str
    """Key of the run in addresses: the first digits of its request id."""
    title: str
    """Name of the agent."""
    suite: str
    """Suite of a run, or environment of a training run."""
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
    regret: bool = False,
    allow: Collection[str] = (),
) -> RunViewerData:
    """Play all episodes of a run again and write the frames: ``data/KEY/`` in the folder of a site.

    ``key``: by default the first digits of its request id; ``most``: films of each environment, the first by
    task id, so that runs of one suite have the same; the other episodes are listed as recorded. ``regret``
    as `EpisodeView.play`; ``allow`` as `verify_run`.
    """
    log = run.log
    with only_trusted(allow), ExitStack() as stack:
        numbered, player = _numbered(run.samples), EpisodePlayer(run, stack, regret=regret)
        key = key or log.request_id[:KEY_DIGITS]
        packs = ViewerPacks(out, key)
        found = {}
        shown = _first(numbered, most)
        for number, episode in sorted(numbered, key=lambda item: item[1].key):
            summary = EpisodeSummary.of(episode, number)
            if number in shown:
                film, summary = player.film(episode, number, packs.tables)
                summary = replace(summary, pack=packs.add(number, film))
            found[number] = summary
        films = RunViewerData(
            key,
            log.agent.display_name,
            log.suite.name,
            "run",
            tuple(found[number] for number in sorted(found)),
        )
        packs.close(films)
    return films


def write_index(out: Path, runs: Collection[RunViewerData]) -> None:
    """Write the list of runs that the viewer offers, in the order of suites and names."""
    ordered = sorted(runs, key=lambda run: (run.kind, run.suite, run.title, run.key))
    make_folder(out / DATA)
    replace_file(out / DATA / "runs.js", data_script("runs", [run.as_json for run in ordered]))


class ViewerPacks:
    """Writes a run's films into numbered script files, ``data/KEY/NUMBER.js`` in the folder of a site."""

    def __init__(self, out: Path, key: str):
        """Begin the first file of the run that ``key`` names."""
        self._place, self._key = out / DATA / key, key
        self._redact = lru_cache(1 << 16)(Redactor().redact)  # a run's episodes share most texts
        self._number = 0
        make_folder(self._place)
        self._begin()

    def _begin(self) -> None:
        self._number += 1
        self._films: dict[int, Mapping[str, Any]] = {}
        self.tables = ViewerTables(self._redact)
        """Tables of the script file for the next film."""

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

    def close(self, films: RunViewerData) -> None:
        """Write the last file, and the list of the run's episodes."""
        if self._films:
            self._write_pack()
        rows = [episode.row for episode in films.episodes]
        listed = {**films.as_json, "columns": COLUMNS, "episodes": rows}
        script = data_script(f"episodes/{self._key}", listed)
        (self._place / "episodes.js").write_text(script, encoding="ascii")

    def _write_pack(self) -> None:
        script = viewer_script(self._key, self._number, self._films, self.tables)
        (self._place / f"{self._number}.js").write_text(script, encoding="ascii")


def viewer_script(key: str, pack: int, films: Mapping[int, Mapping[str, Any]], tables: ViewerTables) -> str:
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


class EpisodePlayer:
    """Player of a run's episodes: its environments, answers and transcripts."""

    def __init__(self, run: StoredRun, stack: ExitStack, *, regret: bool = False):
        """Prepare to play a run, with the answers that it recorded; ``regret`` as `EpisodeView.play`."""
        envs = [found.env for found in run.log.envs]
        self.games = ReplayGames(envs, run.answers, stack, run.log.state_schemas)
        self._transcripts = run.transcripts()
        self._regret = regret

    def film(
        self, episode: EvalSample, number: int, tables: ViewerTables
    ) -> tuple[dict[str, Any], EpisodeSummary]:
        """Play an episode; return its film as JSON, whose texts are in the tables, and its summary."""
        game, env = self.games.of(episode.env)
        view = EpisodeView(tables, game)
        played = ReplayedFrames(frames(game, env, episode), episode.hash_chain)
        view.play(played, episode.actions, regret=self._regret)
        transcript = self._transcripts.get(episode.transcript)
        if transcript is not None:
            _add_text(view, transcript)
        summary = EpisodeSummary.of(episode, number, view.differs_at)
        tokens = [episode.prompt_tokens, episode.completion_tokens]
        return view.film(summary, env, tokens=tokens, measures=dict(episode.measures)), summary


class EpisodeView:
    """The states of one episode, and the action in each."""

    def __init__(self, tables: ViewerTables, game: AgentEnv[Any]):
        """Begin an episode; ``game`` plays it."""
        self.tables = tables
        self.states: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.differs_at: int | None = None
        self.why = ""
        self._decisive: int | None = None
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

    def play(self, played: ReplayedFrames, actions: tuple[str, ...], *, regret: bool = False) -> None:
        """Add the states of a replay, and the recorded action at which it departs, without an outcome.

        ``regret``: add the steps to a win and the regret of steps, too, where the suite has a distance.
        """
        if regret and self._game.suite_spec.distance is not None:
            found = [self._measured(each) for each in regret_frames(self._game, played)]
            self._decisive = EpisodeRegret(tuple(found), (), self._game.max_steps).decisive
        else:
            for frame in played:
                self.add(frame)
        self.differs_at, self.why = played.differs_at, played.why
        if self.differs_at is not None and 0 < self.differs_at <= len(actions):
            self.steps.append({"action": self.tables.text(actions[self.differs_at - 1]), "differs": self.why})

    def _measured(self, each: RegretFrame) -> StepBounds:
        """Add a state, its distance, which is returned, and the regret of the step that led there."""
        self.add(each.frame)
        self.states[-1]["left"] = each.left.as_json
        if each.known is not None and each.belief is not None:
            self.steps[-1] |= {"regret": each.known.as_json, "belief": each.belief.as_json}
        return each.left

    def film(self, summary: EpisodeSummary, env: PlayedEnv, **head: Any) -> dict[str, Any]:
        """Return the episode as JSON; ``head``: its ``tokens`` and ``measures``."""
        if self._decisive is not None:
            head["decisive"] = self._decisive
        head |= {**dict(zip(COLUMNS, summary.row, strict=True)), "env": env.id, "why": self.why}
        texts = {name: self.tables.text(head[name]) for name in _TEXTS}
        return {**head, **texts, "states": columns(self.states), "steps": columns(self.steps)}


_TEXTS = ("label", "task_id", "task_type", "end_reason", "env", "why")
"""Parts of a film's head whose texts are stored in the film's table of texts."""


def _add_text(view: EpisodeView, transcript: TranscriptRecord) -> None:
    """Add the model's messages; unplayed ones get a step of their own."""
    for number in range(len(transcript.steps)):
        texts = text_table(view.tables, transcript, number)
        if number < len(view.steps):
            view.steps[number].update(texts)
        elif number == len(view.steps) == len(view.states) - 1:
            view.steps.append(texts)
