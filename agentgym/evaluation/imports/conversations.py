"""Dialects of turns whose actions are text: ``conversations`` and ``tales``.

``conversations``: lists of ``from`` and ``value``, or ``role`` and ``content``, as AgentTraj (Xi et al.
2024), ETO (Song et al. 2024) and AgentInstruct (Zeng et al. 2023) publish them; an action follows
``Action:``, and the turn before the first one shows the first observation, with words around it. ``tales``:
rows of TALES' trajectories (Cui et al. 2025), whose ``turns`` are JSON text; what the agent writes is its
action. Both are read from JSON and, with the extra ``parquet``, from Parquet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym.core.tools import Tool
from agentgym.errors import UsageError
from agentgym.evaluation.imports import react
from agentgym.evaluation.imports.logs import LoggedEpisode, LoggedStep, one_line, parse_episode
from agentgym.io.optional import load
from agentgym.io.untrusted import loads_json, read_json_records

_ACTION = re.compile(r"action:[ \t]*\n?(.*)", re.IGNORECASE)
_LISTED = re.compile(r"\n\s*available actions:.*", re.IGNORECASE | re.DOTALL)
_AGENTS = ("gpt", "assistant", "agent")
_NEITHER = ("system", "thinking", "reasoning")


def read_conversations(path: Path, tools: Sequence[Tool]) -> Sequence[LoggedEpisode]:
    """Read conversations; UsageError names the record that is none, or has no action."""
    return tuple(_conversation(value, where) for where, value in _records(path))


def read_tales(path: Path, tools: Sequence[Tool]) -> Sequence[LoggedEpisode]:
    """Read rows of one model; UsageError for those of several, and for the row that is of another form."""
    records = _records(path)
    players = {(_text(row, "model", where), _text(row, "agent_type", where)) for where, row in records}
    if len(players) > 1:
        named = ", ".join(sorted(f"{model} ({kind})" for model, kind in players)[:3])
        raise UsageError(f"{path} has rows of {len(players)} agents ({named}): keep the rows of one")
    return tuple(_tales(row, where) for where, row in records)


def agrees(theirs: str, ours: str) -> bool:
    """Compare observations, without the actions listed below them; a first one has words around it."""
    theirs = _LISTED.sub("", theirs).strip().removeprefix("Observation:").strip()
    return react.agrees(theirs, ours) or (
        ours.startswith("-= ") and one_line(react.without_welcome(ours)) in one_line(theirs)
    )


def _records(path: Path) -> Sequence[tuple[str, Any]]:
    if path.suffix != ".parquet":
        return read_json_records(path)
    parquet = load("pyarrow.parquet", "parquet", "reading logs of this kind", "pyarrow")
    try:
        rows = parquet.read_table(path).to_pylist()
    except (OSError, ValueError, TypeError) as error:  # as pyarrow's errors are
        raise UsageError(f"{path} is not a complete Parquet file: get it again") from error
    return [(f"{path}, row {number}", row) for number, row in enumerate(rows)]


def _conversation(value: Any, where: str) -> LoggedEpisode:
    table = value if isinstance(value, dict) else {"conversations": value}
    turns = table.get("conversations", table.get("messages"))
    game = table.get("game_file") or ""
    episode = _episode(_turns(turns, where), where, bare=False)
    return replace(episode, task=parse_episode({"task": game, "steps": []}, where).task)


def _tales(row: Mapping[str, Any], where: str) -> LoggedEpisode:
    episode = _episode(_turns(loads_json(_text(row, "turns", where), where), where), where, bare=True)
    score, greatest = row.get("score"), row.get("max_score")
    if not isinstance(score, int | float) or not isinstance(greatest, int | float):
        raise UsageError(f"{where}: score and max_score are numbers, got {score!r:.40} and {greatest!r:.40}")
    return replace(episode, success=score >= greatest)


def _text(row: Any, key: str, where: str) -> str:
    if isinstance(row, dict) and isinstance(row.get(key), str):
        return str(row[key])
    raise UsageError(f"{where} is not a row of TALES' trajectories: it has no text {key!r}")


def _turns(turns: Any, where: str) -> Iterator[tuple[bool, str]]:
    """Yield for each turn whether it is the agent's, and its text."""
    if not isinstance(turns, list):
        raise UsageError(f"{where} has no list of turns, 'conversations' or 'messages'")
    for turn in turns:
        table = turn if isinstance(turn, dict) else {}
        role = table.get("from", table.get("role"))
        text = table.get("value", table.get("content"))
        if not isinstance(role, str) or not isinstance(text, str):
            raise UsageError(f"{where}: a turn has 'from' and 'value', or 'role' and 'content', as text")
        if role not in _NEITHER:
            yield role in _AGENTS, text


def _episode(turns: Iterator[tuple[bool, str]], where: str, *, bare: bool) -> LoggedEpisode:
    """Return the episode of turns; a ``bare`` action stands without ``Action:``."""
    first, steps = "", list[LoggedStep]()
    for is_agent, text in turns:
        if is_agent and (action := _action(text, bare=bare)):
            steps.append(LoggedStep(action))
        elif not is_agent and not steps:
            first = text
        elif not is_agent and steps[-1].observation is None:
            steps[-1] = replace(steps[-1], observation=text)
    if not steps:
        raise UsageError(f"{where} holds no action" + ("" if bare else " behind 'Action:'"))
    return LoggedEpisode(where, tuple(steps), observation=first or None)


def _action(text: str, *, bare: bool) -> str:
    found = _ACTION.findall(text)
    action = found[-1].strip() if found else text.strip() if bare else ""
    return f"click[{action[6:-1].lower()}]" if re.fullmatch(r"click\[.*\]", action) else action
