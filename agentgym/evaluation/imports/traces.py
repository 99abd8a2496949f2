"""Dialects of records that hold an episode whole: of KnowAgent, ADaPT, and two projects on ALFWorld.

``knowagent`` (Zhu et al. 2024, github.com/zjunlp/KnowAgent) and ``adapt`` (Prasad et al. 2023,
github.com/archiki/ADaPT) have a transcript as one text, which is read as `react` reads it; ADaPT's file of
WebShop has actions alone. ``react-viewer`` (github.com/ww654/alfworld-react-viewer) has a table a step, and
``self-improvement`` (github.com/MikazukiMisaki/Alfworld-Self-Improvement-Project) another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentgym.core.tools import Tool
from agentgym.errors import UsageError
from agentgym.evaluation.imports.logs import LoggedEpisode, LoggedStep, parse_episode
from agentgym.evaluation.imports.react import read_transcript
from agentgym.io.records import parse
from agentgym.io.untrusted import read_json, read_json_records


@dataclass(frozen=True, slots=True)
class _KnowAgentGame:
    name: str
    result: Any
    """Whether it was won, also as a number."""
    traj: str


@dataclass(frozen=True, slots=True)
class _AdaptGame:
    problem: str
    trace: str
    plans: tuple[str, ...]
    reward: Any
    """Whether it was won, also as a number."""
    runs: int = 0


@dataclass(frozen=True, slots=True)
class _AdaptPurchase:
    problem: str
    score: float
    success: bool
    action_history: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _ViewedStep:
    step: int
    observation: str
    model_response: str
    action_taken: str
    next_observation: str
    score: float
    done: bool


@dataclass(frozen=True, slots=True)
class _ViewedGame:
    game_id: int
    task_type: str
    initial_obs: str
    steps: tuple[_ViewedStep, ...]
    result: str
    total_steps: int


@dataclass(frozen=True, slots=True)
class _ImprovedStep:
    action: str
    observation: str
    """Before the action."""
    reward: float
    done: bool
    action_valid: bool


def read_knowagent(path: Path, tools: Sequence[Tool]) -> Sequence[LoggedEpisode]:
    """Read a game a line; UsageError names the wrong record."""
    return tuple(_knowagent(value, where) for where, value in read_json_records(path))


def _knowagent(value: Any, where: str) -> LoggedEpisode:
    game = parse(_KnowAgentGame, value, where)
    return read_transcript(game.traj, where, task=game.name, success=_truth(game.result, where))


def _truth(value: Any, where: str) -> bool:
    if value in (0, 1):
        return bool(value)
    raise UsageError(f"{where}: whether it was won is true, false, 1 or 0, got {value!r:.40}")


def read_adapt(path: Path, tools: Sequence[Tool]) -> Sequence[LoggedEpisode]:
    """Read a result file of ALFWorld or WebShop; UsageError names the wrong record.

    A game's trace holds the subtasks that succeeded; after one that failed the game was reset and the others'
    actions repeated. WebShop's goals are known by their number.
    """
    table = read_json(path)
    if not isinstance(table, dict):
        raise UsageError(f"{path} is not a result file of ADaPT, which is one table")
    return tuple(_adapt(table, str(path)))


def _adapt(table: Mapping[str, Any], where: str) -> Iterator[LoggedEpisode]:
    for name, value in table.items():
        place = f"{where}: {name!r:.80}"
        if goal := re.fullmatch(r"fixed_(\d{1,9})", name):
            bought = parse(_AdaptPurchase, value, place)
            actions = [_unquoted(action) for action in bought.action_history if action[:6] != "think["]
            yield LoggedEpisode(
                place, tuple(map(LoggedStep, actions)), goal[1], score=bought.score, success=bought.success
            )
        elif name != "overall":
            if not isinstance(value, dict):
                raise UsageError(f"{place}: expected a table of games, got {value!r:.40}")
            for game, record in value.items():
                yield _adapt_game(game, record, f"{place}: {game!r:.120}")


def _adapt_game(name: str, value: Any, where: str) -> LoggedEpisode:
    game = parse(_AdaptGame, value, where)
    text = f"{game.problem}\n>{game.trace}"
    return read_transcript(text, where, task=name, success=_truth(game.reward, where))


def _unquoted(action: str) -> str:
    """Return an action of WebShop as its text form has it: no quotes in searches, small letters in clicks."""
    if query := re.fullmatch(r'search\["?(.*?)"?\]', action):
        return f"search[{query[1]}]"
    return action.lower() if action.startswith("click[") else action


def read_react_viewer(path: Path, tools: Sequence[Tool]) -> Sequence[LoggedEpisode]:
    """Read a list of games with their steps; UsageError names the wrong record."""
    return tuple(_viewed(value, where) for where, value in read_json_records(path))


def _viewed(value: Any, where: str) -> LoggedEpisode:
    game = parse(_ViewedGame, value, where)
    steps = (LoggedStep(one.action_taken, one.next_observation, done=one.done) for one in game.steps)
    return LoggedEpisode(where, tuple(steps), "", game.initial_obs, success=game.result == "success")


def read_self_improvement(path: Path, tools: Sequence[Tool]) -> Sequence[LoggedEpisode]:
    """Read an episode a line, each step with the observation before it; UsageError names the wrong record."""
    return tuple(_improved(value, where) for where, value in read_json_records(path))


def _improved(value: Any, where: str) -> LoggedEpisode:
    fields = {"initial_observation", "steps", "task", "trajectory_id"}
    if not isinstance(value, dict) or not fields <= value.keys() or not isinstance(value["task"], dict):
        raise UsageError(f"{where}: expected a table with {', '.join(sorted(fields))}")
    if not isinstance(value["steps"], list):
        raise UsageError(f"{where}: 'steps' is not a list")
    steps = [_improved_step(step, where) for step in value["steps"]]
    after = [*(step.observation for step in steps[1:]), None][: len(steps)]
    results = (
        LoggedStep(step.action, seen, step.reward, step.done, step.action_valid)
        for step, seen in zip(steps, after, strict=True)
    )
    begun = {"task": value["task"].get("task_id"), "observation": value["initial_observation"]}
    return replace(parse_episode({**begun, "steps": []}, where), steps=tuple(results))


def _improved_step(value: Any, where: str) -> _ImprovedStep:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: expected tables of steps, got {value!r:.40}")
    return parse(_ImprovedStep, {name: value.get(name) for name in _ImprovedStep.__slots__}, where)
