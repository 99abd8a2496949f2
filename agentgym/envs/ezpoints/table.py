"""The rules as arrays: every position a row, every action a column.

Seven pairs of values have 7,122 positions between them, so a vector environment need not play the
game: it looks it up. The table is derived from `agentgym.envs.ezpoints.rules`, once a process.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from agentgym.envs.ezpoints.cards import every_deal, pair_of
from agentgym.envs.ezpoints.env import body, tiles
from agentgym.envs.ezpoints.rules import TOKENS, Pair, Tokens, accepted, over, positions, wins
from agentgym.hashing import canonical
from agentgym.vector.batching import object_array

COLUMNS = {token: k for k, token in enumerate(TOKENS)}
NO_TOKEN = len(TOKENS)
"""Column of every string that is not an action: always rejected."""

Column = npt.NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class Table:
    """S positions; arrays are indexed by position first."""

    rows: dict[tuple[Pair, Tokens], int]
    """Position of a pair and its tokens."""
    tokens: list[Tokens]
    next: npt.NDArray[np.int32]
    """Position after an action, [S, 14]; the same one where the action is rejected."""
    accepts: npt.NDArray[np.bool_]
    """Whether an action is accepted, [S, 14]."""
    over: npt.NDArray[np.bool_]
    won: npt.NDArray[np.bool_]
    admissible: Column
    """Tuples of strings, [S]."""
    bodies: Column
    """Changing part of the text after a rejected and after an accepted action, [S, 2]."""
    tiles: npt.NDArray[np.intp]
    """Tiles of the formula, [S, TILES_PER_ROW]."""
    states: list[bytes]
    """What the state hash covers, encoded."""


@cache
def table() -> Table:
    """Return the table of all pairs."""
    keys = [
        (pair, tokens)
        for pair in sorted({pair_of(deal) for deal in every_deal()})
        for tokens in positions(pair)
    ]
    rows = {key: row for row, key in enumerate(keys)}
    following = np.repeat(np.arange(len(keys), dtype=np.int32)[:, None], len(TOKENS) + 1, axis=1)
    accepts = np.zeros((len(keys), len(TOKENS) + 1), dtype=np.bool_)
    for row, (pair, tokens) in enumerate(keys):
        for action in accepted(pair, tokens):
            following[row, COLUMNS[action]] = rows[pair, (*tokens, action)]
            accepts[row, COLUMNS[action]] = True
    bodies = [object_array([body(tokens, valid) for _, tokens in keys]) for valid in (False, True)]
    return Table(
        rows=rows,
        tokens=[tokens for _, tokens in keys],
        next=following,
        accepts=accepts,
        over=np.array([over(tokens) for _, tokens in keys]),
        won=np.array([wins(pair, tokens) for pair, tokens in keys]),
        admissible=object_array([accepted(pair, tokens) for pair, tokens in keys]),
        bodies=np.stack(bodies, axis=1),
        tiles=np.array([tiles(tokens) for _, tokens in keys]),
        states=[canonical(" ".join(tokens)) for _, tokens in keys],
    )
