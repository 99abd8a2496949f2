"""The dialect ``verl-agent``: a row a step, as JSON lines or an array.

verl-agent itself dumps prompts and responses without their order; these are the columns of the table of steps
that a fork of it logs (``rollout/llm_steps``). ``input`` and ``output``, as ``trainer.rollout_data_dir`` has
them, stand for prompt and response.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from agentgym.core.tools import Tool
from agentgym.errors import UsageError
from agentgym.evaluation.imports.logs import LoggedEpisode, LoggedStep, same_text
from agentgym.io.records import parse
from agentgym.io.untrusted import loads_json, read_json_records

_SEEN = re.compile(r"current observation is: (.*?)\nYour admissible actions", re.DOTALL)
_TAGGED = re.compile(r"<action>(.*?)</action>", re.DOTALL)
_UNTAGGED = 30
"""Characters at the end of a response without tags that count as its action."""


@dataclass(frozen=True, slots=True)
class _Row:
    traj_uid: str
    rollout_step: float = 0
    active: bool = True
    """False after the episode's end, while others of the batch go on."""
    prompt: str | None = None
    input: str | None = None
    llm_output: str | None = None
    output: str | None = None
    projected_action: str | None = None
    """Action sent to the environment."""
    reward: float | None = None
    done: bool | None = None
    info_json: str | None = None

    @property
    def action(self) -> str:
        """The action, projected as verl-agent does where the row lacks it."""
        response = (self.llm_output or self.output or "").lower()
        tagged = _TAGGED.search(response)
        return self.projected_action or (tagged[1].strip() if tagged else response[-_UNTAGGED:])

    @property
    def seen(self) -> str | None:
        """The observation in the prompt; None in one that was cut."""
        found = _SEEN.search(self.prompt or self.input or "")
        return found[1] if found else None

    @property
    def game(self) -> str:
        """The file of an ALFWorld game; empty where the row does not name it, or its record was cut."""
        try:
            return str(loads_json(self.info_json or "{}", "info_json")["extra.gamefile"] or "")
        except (KeyError, TypeError, UsageError):
            return ""


_COLUMNS = {field.name for field in fields(_Row)}


def read(path: Path, tools: Sequence[Tool]) -> Sequence[LoggedEpisode]:
    """Read a table of steps; UsageError names the row that is not of this form."""
    episodes: dict[str, list[tuple[str, _Row]]] = {}
    for where, value in read_json_records(path):
        known = {key: value[key] for key in _COLUMNS & value.keys()} if isinstance(value, dict) else value
        row = parse(_Row, known, where)
        if row.active:
            episodes.setdefault(row.traj_uid, []).append((where, row))
    return tuple(map(_episode, episodes.values()))


def _episode(placed: list[tuple[str, _Row]]) -> LoggedEpisode:
    rows = sorted((row for _, row in placed), key=lambda row: row.rollout_step)
    after = [*(row.seen for row in rows[1:]), None]
    steps = (
        LoggedStep(row.action, seen, row.reward, row.done) for row, seen in zip(rows, after, strict=True)
    )
    return LoggedEpisode(placed[0][0], tuple(steps), rows[0].game, rows[0].seen)


def agrees(theirs: str, ours: str) -> bool:
    """Compare observations; the template of WebShop's prompts puts a full stop behind them."""
    return same_text(theirs, ours) or same_text(theirs, f"{ours}.")
