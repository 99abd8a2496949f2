"""Sources of games, and the compiled games that a process shares."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol
from weakref import WeakValueDictionary

from agentgym.envs.alfworld.engine.dialects import Dialect, in_dialect
from agentgym.envs.alfworld.engine.game import Game
from agentgym.envs.alfworld.engine.gametext import GameText
from agentgym.envs.alfworld.engine.packing import problem_digest, unpack
from agentgym.envs.alfworld.engine.scene import Scene
from agentgym.errors import UsageError

__all__ = ["GameSource", "GameText", "load_game", "load_scene", "read_game"]

MAX_CACHED_ATOMS = 150_000
"""Largest number of atoms in compiled games that are cached though no episode plays them: about 2.5 KB of
memory each, once a game has been played for a while. Games in play are always shared."""


class GameSource(Protocol):
    """Names a game and gets its text: small, immutable, hashable and picklable, for tasks carry it."""

    @property
    def name(self) -> str:
        """The game's name in messages."""

    def read(self) -> GameText:
        """Return the text; UsageError or MissingDataError where it cannot be had."""

    def __hash__(self) -> int:
        """Tell games apart, as caches do."""


_live: WeakValueDictionary[tuple[GameSource, str], Scene] = WeakValueDictionary()
_recent: OrderedDict[tuple[GameSource, str], Scene] = OrderedDict()


def read_game(source: GameSource, dialect: Dialect) -> GameText:
    """Return the text of a game in a dialect."""
    text = source.read()
    try:
        return in_dialect(text, dialect)
    except UsageError as error:
        raise type(error)(f"{source.name}: {error}") from error


def load_game(source: GameSource, dialect: Dialect = "game") -> Game:
    """Return the compiled game of `load_scene`."""
    return load_scene(source, dialect).game


def load_scene(source: GameSource, dialect: Dialect = "game") -> Scene:
    """Return the compiled game and its tables; one object for all episodes of the process."""
    key = (source, dialect)
    scene = _live.get(key)
    if scene is None:
        text = read_game(source, dialect)
        try:
            packed = text.grounded.get(problem_digest(text.domain, text.problem))
            grounded = None if packed is None else unpack(packed)
            scene = Scene(Game(text.domain, text.grammar, text.problem, grounded))
        except UsageError as error:
            raise type(error)(f"{source.name}: {error}") from error
        _live[key] = scene
    _keep(key, scene)
    return scene


def _keep(key: tuple[GameSource, str], scene: Scene) -> None:
    """Keep a game as the one used last, and those used before as far as there is room."""
    if key in _recent:
        _recent.move_to_end(key)
        return
    _recent[key] = scene
    room = MAX_CACHED_ATOMS - sum([stored.game.planes.width for stored in _recent.values()])
    while room < 0 and len(_recent) > 1:
        _, dropped = _recent.popitem(last=False)
        room += dropped.game.planes.width
