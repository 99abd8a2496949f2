"""Scene of a compiled game: the environment's additions to the game's own text."""

from __future__ import annotations

import re
from functools import lru_cache

from agentgym.env import Status
from agentgym.envs.alfworld.engine.game import Game
from agentgym.envs.alfworld.engine.planes import indexes, union

START = "middle of a room"
"""Place of an agent that has gone nowhere yet."""

EMPTY = "nothing"
"""Name for the load of an agent that holds nothing."""

HOLDS = "holds"
"""The predicate of (agent, object)."""

TREATED = {"isclean": "cleaned", "ishot": "heated", "iscool": "cooled"}
"""Predicates of objects, and how the status of what is held names them."""

MEMO_LIMIT = 4096
"""Entries kept in a memory; then it starts afresh."""

_GO = re.compile(r"go to (?P<place>.+)")
_PUT = re.compile(r"(?:put|move) (?P<thing>.+?) (?:in/on|in|on|to) (?P<place>.+)")


class Scene:
    """A compiled game, and tables of what is shown of its states; shared by all its episodes."""

    def __init__(self, game: Game):
        """Make the tables."""
        self.game = game
        self.intro = game.intro()
        sentence = game.task()
        self.goal = sentence.partition(": ")[2] or sentence
        self._goal_bits = union(bits for pair in game.goal for bits in pair)
        self._standing: dict[int, Status] = {}
        self._hands: dict[int, str] = {}
        truth, names = game.planes.truth, game.names
        held = zip(game.planes.bits(HOLDS), game.planes.atoms(HOLDS), strict=True)
        self._held = {bit.bit_length() - 1: (names[fact[2]], fact[2]) for bit, fact in held}
        self._states = {
            thing: [(truth[kind, thing], word) for kind, word in TREATED.items() if (kind, thing) in truth]
            for _, thing in self._held.values()
        }
        states = (bit for known in self._states.values() for bit, _ in known)
        self._held_bits = union(1 << number for number in self._held)
        self._hand_bits = self._held_bits | union(states)
        self._read, self._bytes = game.read(self._hand_bits), (game.planes.width + 7) // 8

    def identity(self, bits: int) -> bytes:
        """Return the content of a state's hash: the truth of each atom that anything reads."""
        return (bits & self._read).to_bytes(self._bytes, "little")

    def standing(self, bits: int) -> Status:
        """Return whether a state is won, its score, and the share of goal conditions met."""
        key = bits & self._goal_bits
        status = self._standing.get(key)
        if status is None:
            if len(self._standing) >= MEMO_LIMIT:
                self._standing.clear()
            won = self.game.won(bits)
            status = self._standing[key] = Status(won, float(won), self.game.progress(bits))
        return status

    def hands(self, bits: int) -> str:
        """Return the held object and its status: ``cloth 2(unprocessed)``, or ``nothing``."""
        key = bits & self._hand_bits
        text = self._hands.get(key)
        if text is None:
            if len(self._hands) >= MEMO_LIMIT:
                self._hands.clear()
            held = map(self._held.__getitem__, indexes(bits & self._held_bits))
            shown = ", ".join([f"{name}({self._treatment(thing, bits)})" for name, thing in held])
            text = self._hands[key] = shown or EMPTY
        return text

    def _treatment(self, thing: str, bits: int) -> str:
        return ", ".join(word for bit, word in self._states[thing] if bits & bit) or "unprocessed"


def trace(command: str, hands: str) -> tuple[str, str]:
    """Return where a command goes, and what it puts where; empty if it does not.

    ``hands`` is what was held before it.

    Example:
        >>> trace("move cloth 2 to bathtubbasin 1", "cloth 2(cleaned)")
        ('', 'cloth 2(cleaned) to bathtubbasin 1')
    """
    went, put = _places(command)
    return went, f"{hands} to {put}" if put else ""


@lru_cache(MEMO_LIMIT)
def _places(command: str) -> tuple[str, str]:
    """Return where a command goes, and where it puts something."""
    if "\n" in command:
        return "", ""
    went, put = _GO.fullmatch(command), _PUT.fullmatch(command)
    return went["place"] if went else "", put["place"] if put and not went else ""
