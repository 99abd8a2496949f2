"""The dialect ``react``: transcripts as ReAct's notebooks and Reflexion's logs print them (Yao et al. 2023).

ALFWorld: the first observation, then ``> ACTION`` and what it says, or ``Act 1: ...`` and ``Obs 1: ...``;
WebShop: ``Action: ...`` and ``Observation: ...``. A notebook (``.ipynb``) is read by what its cells print.
Thoughts are no actions of the environment and are not played, whether they stand where actions do or on lines
of their own (``Thought: ...``), which end with the next action or observation. An action may follow its mark
on the next line, and ``the location`` stand for ``loc 3``, as ADaPT masks it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym.core.tools import Tool
from agentgym.errors import UsageError
from agentgym.evaluation.imports.logs import LoggedEpisode, LoggedStep, one_line, same_text
from agentgym.io.untrusted import loads_json, read_text

_WELCOME = "-= "
_ROOMS = ("You are in the middle of a room.", "You stand in a ")
"""Beginnings of the descriptions of rooms in published and built-in games."""
_RESET = "Action: reset"
_TASK = "Here is the task"
_GAME = re.compile(r"(?:using )?([a-z_]+-[^/\s]+/trial_\S+)")
_ACTION = re.compile(r"(?:>|Act \d{1,6}:|Action:)[ ]?(.*)")
_OBSERVATION = re.compile(r"(?:Obs \d{1,6}:|Observation:)[ ]?(.*)")
_END = re.compile(
    r"STATUS: (OK|FAIL)|\d+ r (\w+) rs .*|\d+ [0-9.]+ [0-9.]+ [0-9.]+|-{5,}|#####|Environment #.*"
)
_SCORE = re.compile(r"Your score \(min 0\.0, max 1\.0\): ([0-9.]{1,40})")
_THINKING = re.compile(r"(?:think|thought|actionpath)\b", re.IGNORECASE)
"""Pattern of an action that is a thought, or KnowAgent's choice among kinds of actions."""
_THOUGHT = re.compile(r"(?:think|thought)(?: \d{1,6})?(?::|\[)", re.IGNORECASE)
"""Pattern of the beginning of a line that is a thought."""
_ARRIVAL = re.compile(r"^You arrive at loc \d+\. ")
_PIECES = re.compile(r"[\[\]\n]| \[SEP\] ")


def read(path: Path, tools: Sequence[Tool]) -> tuple[LoggedEpisode, ...]:
    """Read a transcript, or a notebook's printed output; UsageError where it holds no episode."""
    text = read_text(path, remedy="name a transcript or a notebook")
    if path.suffix == ".ipynb":
        text = _printed(loads_json(text, str(path)), path)
    episodes = tuple(_episodes(text, path))
    if not episodes:
        raise UsageError(f"{path}: no episode: one begins with {_ROOMS[0]!r} or {_RESET!r}")
    return episodes


def agrees(theirs: str, ours: str) -> bool:
    """Compare observations as ReAct cuts them.

    ALFWorld's lose the welcome and ``You arrive at loc 3.``, or the number in it; pages of WebShop are shown
    in part, so that each piece of the log's page has to stand in ours, in order.
    """
    shown = (
        ours,
        _ARRIVAL.sub("", without_welcome(ours)),
        _ARRIVAL.sub("You arrive at the location. ", ours),
    )
    if any(same_text(theirs, one) for one in shown):
        return True
    wanted = _pieces(theirs)
    rest = iter(_pieces(ours))
    return "[" in theirs and bool(wanted) and all(piece in rest for piece in wanted)


def without_welcome(observation: str) -> str:
    """Return an observation of ALFWorld without the line that every game begins with."""
    return re.sub(r"^-= .* =-\s+", "", observation)


def _pieces(text: str) -> list[str]:
    return [piece for part in _PIECES.split(text) if (piece := one_line(part).lower())]


def _printed(notebook: Any, path: Path) -> str:
    try:
        outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
        return "".join("".join(output.get("text", ())) for output in outputs)
    except (AttributeError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is not a notebook: name one that Jupyter wrote, or a text") from error


def _episodes(text: str, path: Path) -> Iterator[LoggedEpisode]:
    """Yield the episodes, without the examples in a prompt before the task itself."""
    found: list[LoggedEpisode] = []
    block: list[tuple[int, str]] = []
    game = ""
    for number, line in enumerate(text.splitlines(), start=1):
        named = _GAME.fullmatch(line.strip())
        end = _END.fullmatch(line.strip())
        last = block[-1][1] if block else ""
        # the room's description also follows the welcome, and answers `look`
        inside = last.startswith(_WELCOME) or (last != _RESET and _ACTION.match(last))
        begins = line.startswith((*_ROOMS, _WELCOME, _RESET)) and not inside
        if named or end or line.startswith(_TASK) or begins:
            found += _episode(block, game, path)
            block = []
            if end and found:
                if status := end[1] or end[2]:
                    found[-1] = replace(found[-1], success=status in ("OK", "True", "1"))
                yield from found
            if end or line.startswith(_TASK):
                found, game = [], "" if end else game
            game = named[1] if named else game
        if begins or (block and line != ""):
            block.append((number, line.rstrip()))
    yield from (*found, *_episode(block, game, path))


def read_transcript(text: str, where: str, *, task: str, success: bool) -> LoggedEpisode:
    """Read the transcript of one game, which may have no action; UsageError without a first observation."""
    block = [(1, line.rstrip()) for line in text.splitlines() if line]
    found = next(_episode(block, task, Path(where), least=0), None)
    if found is None:
        raise UsageError(f"{where}: no transcript: an observation, and then actions behind '>'")
    return replace(found, where=where, success=success)


def _episode(
    block: Sequence[tuple[int, str]], game: str, path: Path, *, least: int = 1
) -> Iterator[LoggedEpisode]:
    """Yield the episode of a block of lines that begins with its first observation, if there is one.

    ``least`` is the fewest steps that make one.
    """
    if not block:
        return
    seen: list[str] = []
    turns: list[tuple[str, list[str]]] = []
    thinking, mark = False, ""
    for _, line in block:
        if line == _RESET:
            continue
        action, shown = _ACTION.match(line), _OBSERVATION.match(line)
        thinking = bool(_THOUGHT.match(line)) or (thinking and not action and not shown)
        # actions of AgentGym have a line of their own, and so has ADaPT's first of a subtask, behind a space
        alone = mark == "Action:" or (mark == ">" and line.startswith(" "))
        if alone and not (action or shown or thinking):
            turns[-1] = (line.strip(), [])
        elif action:
            turns.append((action[1].strip(), []))
        elif not thinking:
            (turns[-1][1] if turns else seen).append(shown[1] if shown else line)
        mark = line
    if turns and turns[-1] == ("", []):
        turns.pop()
    steps = [
        _step(action, "\n".join(lines).strip()) for action, lines in turns if not _THINKING.match(action)
    ]
    if seen and len(steps) >= least:
        yield LoggedEpisode(f"{path}:{block[0][0]}", tuple(steps), game, "\n".join(seen).strip())


def _step(action: str, observation: str) -> LoggedStep:
    if click := re.fullmatch(r"click\[(.*)\]", action):
        action = f"click[{click[1].lower()}]"
    if score := _SCORE.fullmatch(observation):
        try:
            return LoggedStep(action, reward=float(score[1]), done=True)
        except ValueError:
            return LoggedStep(action, observation)
    if observation == "Invalid action!" or observation.startswith("You have clicked "):
        return LoggedStep(action, valid=observation != "Invalid action!")
    return LoggedStep(action, observation or None)
