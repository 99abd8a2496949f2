"""Play a game with another domain and grammar than its own: the newest published pair.

Games published at different times differ in their words ("put" or "move") and in a few rules. What a
game is about, its objects, first facts, goal and the sentence of its task, stays its own.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from agentgym.data.directory import data_directory
from agentgym.envs.alfworld.engine.gametext import GameText
from agentgym.envs.alfworld.engine.grammar import parse_grammar
from agentgym.envs.alfworld.engine.textworld import installed_logic
from agentgym.errors import MissingDataError, UsageError
from agentgym.io.optional import install_command

Dialect: TypeAlias = Literal["game", "current"]
"""Whose domain and grammar a game is compiled with: its own, or the newest published pair."""

TASK = "task"
"""The grammar's rule that says what to do."""

FOLDER = "alfworld/logic"
"""Where the pair may lie in the data directory, under the names it has upstream."""

FILES = ("alfred.pddl", "alfred.twl2")


class Logic(NamedTuple):
    """A domain and a grammar that go together."""

    domain: str
    grammar: str


def in_dialect(text: GameText, dialect: str) -> GameText:
    """Return a game in another dialect.

    A grammar must have exactly one sentence for the task. `MissingDataError` where the newest pair is neither
    in the data directory nor installed.
    """
    if dialect == "game":
        return text
    logic = current_logic()
    return replace(text, domain=logic.domain, grammar=with_task_of(logic.grammar, text.grammar))


def with_task_of(grammar: str, other: str) -> str:
    """Return ``grammar`` with the task's sentence of the grammar ``other``."""
    ours, theirs = (json.dumps(_task(text), ensure_ascii=False) for text in (grammar, other))
    if grammar.count(ours) != 1:
        raise UsageError(f"unknown construct in a grammar: the text of rule {TASK!r} stands there twice")
    return grammar.replace(ours, theirs)


def current_logic() -> Logic:
    """Return the newest published pair: from the data directory, else of the installed ALFWorld."""
    folder = data_directory() / FOLDER
    if folder.is_dir():
        return _read(*(str(folder / name) for name in FILES))
    found = installed_logic()
    if found is None:
        raise MissingDataError(
            f"the current dialect needs {' and '.join(FILES)} in {folder}, or {install_command('alfworld')}"
        )
    return _read(*(str(found / name) for name in FILES))


@lru_cache(maxsize=8)
def _read(domain: str, grammar: str) -> Logic:
    texts = []
    for path in (domain, grammar):
        try:
            with open(path, encoding="utf-8") as file:
                texts.append(file.read())
        except (OSError, UnicodeDecodeError) as error:
            raise MissingDataError(f"cannot read the current dialect's {path}: {error}") from error
    return Logic(*texts)


def _task(grammar: str) -> str:
    productions = parse_grammar(grammar).rules.get(TASK, ())
    if len(productions) != 1:
        raise UsageError(f"a grammar must have one production of rule {TASK!r}, got {len(productions)}")
    return productions[0].text
