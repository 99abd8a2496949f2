"""Text of an ALFWorld game: the content of a ``game.tw-pddl`` file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentgym.errors import UsageError
from agentgym.io.untrusted import loads_json

_TEXTS = {"domain": "pddl_domain", "grammar": "grammar", "problem": "pddl_problem"}


@dataclass(frozen=True, slots=True)
class GameText:
    """A game before it is compiled."""

    domain: str
    """PDDL of the actions."""
    grammar: str
    """Grammar that puts facts and commands into words (TextWorld's twl2)."""
    problem: str
    """PDDL of the objects, the initial facts and the goal."""
    walkthrough: tuple[str, ...] | None
    """Commands that win, where the file has some."""
    solvable: bool
    """Whether the file says that the goal can be reached."""
    grounded: Mapping[str, bytes] = field(default_factory=dict, compare=False, repr=False)
    """Grounded problem, packed (`agentgym.envs.alfworld.engine.packing`), by a digest of it and a domain:
    games of a store have it, files do not."""

    @classmethod
    def parse(cls, text: str | bytes, name: str) -> GameText:
        """Parse the JSON of a ``game.tw-pddl`` file; ``name`` is its name in messages."""
        table = loads_json(text, name, repeated_keys=True)
        if not isinstance(table, dict):
            raise UsageError(f"{name}: a game is a JSON object, got {type(table).__name__}")
        texts = {field: _text(table, key, name) for field, key in _TEXTS.items()}
        solvable = table.get("solvable") is True
        return cls(
            texts["domain"], texts["grammar"], texts["problem"], _walkthrough(table, name), solvable=solvable
        )

    def to_json(self) -> str:
        """Inverse of `parse`."""
        table: dict[str, Any] = {key: getattr(self, field) for field, key in _TEXTS.items()}
        if self.walkthrough is not None:
            table["walkthrough"] = list(self.walkthrough)
        return json.dumps({**table, "solvable": self.solvable})


def _text(table: dict[str, Any], key: str, name: str) -> str:
    text = table.get(key)
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{name}: {key!r} is missing or no text; get the file again")
    return text


def _walkthrough(table: dict[str, Any], name: str) -> tuple[str, ...] | None:
    commands = table.get("walkthrough")
    if commands is None:
        return None
    if not isinstance(commands, list) or not all(isinstance(command, str) for command in commands):
        raise UsageError(f"{name}: 'walkthrough' is not a list of commands")
    return tuple(commands)
