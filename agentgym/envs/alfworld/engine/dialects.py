"""Play a game with another domain and grammar than its own: the newest published pair.

Games published at different times differ in their words ("put" or "move") and in a few rules. What a
game is about, its objects, first facts, goal and the sentence of its task, stays its own.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import lru_cache
from typing import Literal, TypeAlias

from agentgym.data.directory import data_directory
from agentgym.envs.alfworld.engine.gametext import GameText
from agentgym.envs.alfworld.engine.grammar import parse_grammar
from agentgym.envs.alfworld.engine.textworld import installed_logic
from agentgym.errors import MissingDataError, UsageError
from agentgym.io.optional import install_command

Dialect: TypeAlias = Literal["game", "current"]
"""Origin of the domain and grammar that a game is compiled with: its own, or the newest published pair."""

TASK = "task"
"""The grammar's rule that says what to do."""

FOLDERS = ("alfworld/logic", "alfworld-2.1.3/logic")
"""Folders of the data directory that may hold the pair, under the names it has upstream."""

FILES = ("alfred.pddl", "alfred.twl2")


PUT = "put X in/on Y"
"""Words of the games of json_2.1.1."""

MOVE = "move X to Y"
"""Words of the games of json_2.1.2 and json_2.1.3."""

_PUTTING = re.compile(r"put \{\w+\} in/on \{|move \{\w+\} to \{")


def putting_words(grammar: str) -> str:
    """Return how a grammar words the action that published games differ in; empty for neither way.

    ``in/on`` alone does not tell, since the grammar of both generations lists what is "in/on the shelf".

    Example:
        >>> putting_words('template :: "move {o} to {r}";')
        'move X to Y'
    """
    found = {PUT if words.startswith("put") else MOVE for words in _PUTTING.findall(grammar)}
    return found.pop() if len(found) == 1 else ""


def in_dialect(text: GameText, dialect: str) -> GameText:
    """Return a game in another dialect.

    A grammar must have exactly one sentence for the task. `MissingDataError` where the newest pair is neither
    in the data directory nor installed.
    """
    if dialect == "game":
        return text
    domain, grammar = current_logic()
    return replace(text, domain=domain, grammar=with_task_of(grammar, text.grammar))


def with_task_of(grammar: str, other: str) -> str:
    """Return ``grammar`` with the task's sentence of the grammar ``other``."""
    ours, theirs = (json.dumps(_task(text), ensure_ascii=False) for text in (grammar, other))
    if grammar.count(ours) != 1:
        raise UsageError(f"unknown construct in a grammar: the text of rule {TASK!r} stands there twice")
    return grammar.replace(ours, theirs)


def current_logic() -> tuple[str, str]:
    """Return the newest domain and its grammar: from the data directory, else of the installed ALFWorld."""
    folders = [data_directory() / folder for folder in FOLDERS]
    found = next((folder for folder in folders if folder.is_dir()), None) or installed_logic()
    if found is None:
        needed = f"{' and '.join(FILES)} in {folders[0]}"
        raise MissingDataError(f"the current dialect needs {needed}, or {install_command('alfworld')}")
    domain, grammar = (_read(str(found / name)) for name in FILES)
    if putting_words(grammar) == PUT:
        raise UsageError(f"{found} holds the older pair, which says `{PUT}`: get that of ALFWorld 0.4")
    return domain, grammar


@lru_cache(maxsize=8)
def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise MissingDataError(f"cannot read the current dialect's {path}: {error}") from error


def _task(grammar: str) -> str:
    productions = parse_grammar(grammar).rules.get(TASK, ())
    if len(productions) != 1:
        raise UsageError(f"a grammar must have one production of rule {TASK!r}, got {len(productions)}")
    return productions[0].text
