"""Where games come from, and the compiled games that a process shares."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol
from weakref import WeakValueDictionary

from agentgym.data.gametext import GameText
from agentgym.envs.alfworld.game import Game
from agentgym.types import UsageError

__all__ = ["GameSource", "GameText", "load_game"]

GAMES_KEPT = 256
"""Compiled games kept though no episode plays them; those being played are always shared."""


class GameSource(Protocol):
    """Names a game and gets its text: small, immutable, hashable and picklable, for tasks carry it."""

    @property
    def name(self) -> str:
        """What error messages call the game."""
        ...

    def read(self) -> GameText:
        """Return the text; UsageError or MissingDataError where it cannot be had."""
        ...


_live: WeakValueDictionary[tuple[GameSource, str], Game] = WeakValueDictionary()
_recent: OrderedDict[tuple[GameSource, str], Game] = OrderedDict()


def load_game(source: GameSource, dialect: str = "game") -> Game:
    """Return the compiled game; one object for all episodes of the process that play it.

    Args:
        source: where its text comes from.
        dialect: whose domain and grammar it is compiled with: ``"game"`` for its own.

    Raises:
        UsageError: the game is damaged or has a construct outside the language; names both.
    """
    key = (source, dialect)
    game = _live.get(key)
    if game is None:
        text = source.read()
        try:
            game = Game(text.domain, text.grammar, text.problem)
        except UsageError as error:
            raise UsageError(f"{source.name}: {error}") from error
        _live[key] = game
    _recent[key] = game
    _recent.move_to_end(key)
    if len(_recent) > GAMES_KEPT:
        _recent.popitem(last=False)
    return game
