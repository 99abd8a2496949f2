"""Texts, and what is no text, that an environment may be sent for an action."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_TEXT_LENGTH = 1_000_000
"""Characters of the longest text."""

POOL = 48
"""Long texts that are made once and sent again and again, each with another end."""

_SLOT = re.compile(r"<[^<>]*>")
_PIECES = (
    "[", "]", "[]", "][", "(", ")", "<", ">", "search[", "click[", "click[]", "search[x]",
    "<action>", "</action>", "<think>", "{", "}", '{"a":', "\\", '"', "'", "`", "|", "/", "..",
    "%s", "{0}", "$(x)", ";", "&", "\x00", "\n", "\r\n", "\t", " ", "\u00a0", "\u200b", "\u202e",
    "\ufeff", "\u0301", "é", "ß", "İ", "\u017f", "字", "🂡", "\ud800", "\udfff", "0", "7", "1e999",
    "-0", "nan", "1.", "a.", "kk", "ed", "ing", "go to ", "open ", "put ", " in ", " with ",
    "look", "up", "down", "+", "=", "(1+", "9" * 40,
)  # fmt: skip
_OTHERS: tuple[Any, ...] = (
    None, 0, 3, -1, 2.5, float("nan"), True, b"up", bytearray(b"up"), ["up"], ("up",), {"a": 1},
    {"up"}, object(), str, ..., np.int64(1), np.array(["up"]), range(2), 1j,
)  # fmt: skip
"""Values that are no strings: a step refuses them by `TypeError`."""


@dataclass(frozen=True, slots=True)
class Hostile:
    """What is sent, and how it was made."""

    shape: str
    action: Any


class HostileActions:
    """Draws actions; the same seed draws the same ones for the same environment."""

    def __init__(self, seed: int):
        """Prepare the long texts.

        Args:
            seed: of all draws.
        """
        self.rng = np.random.default_rng(np.random.SeedSequence(seed))
        lengths = np.geomspace(8_000, MAX_TEXT_LENGTH, POOL).astype(int).tolist()
        self._long = [self._repeated(length) for length in lengths]
        self._shapes: tuple[tuple[float, str, Callable[[Sequence[str]], Any]], ...] = (
            (0.34, "nearly admissible", self._near),
            (0.10, "two admissible ones", self._joined),
            (0.12, "filled template", self._filled),
            (0.14, "pieces of syntax", self._pieces),
            (0.12, "any characters", self._characters),
            (0.05, "control characters", self._controls),
            (0.04, "repeated piece", lambda _: self._repeated(self.below(4_000))),
            (0.004, "long text", self._from_pool),
            (0.001, "long text in an admissible one", self._around),
            (0.025, "nothing", lambda _: " \t\n\u2028"[: self.below(5)]),
            (0.06, "no string", lambda _: _OTHERS[self.below(len(_OTHERS))]),
        )
        weights = np.array([weight for weight, _, _ in self._shapes])
        self._ends = np.cumsum(weights / weights.sum())

    def draw(self, admissible: Sequence[str]) -> Hostile:
        """Return an action.

        Args:
            admissible: the actions, or templates, that are accepted now.
        """
        _, shape, make = self._shapes[int(np.searchsorted(self._ends, self.rng.random()))]
        return Hostile(shape, make(admissible or ("look",)))

    def below(self, bound: int) -> int:
        """Return a number from 0 to ``bound - 1``."""
        return int(self.rng.random() * bound)

    def fair(self, admissible: Sequence[str], text: str) -> str:
        """Return an admissible action, with words of a text in a template's slots; it takes an episode on."""
        if not admissible:
            return "look"
        words = text.split() or ["x"]
        return _SLOT.sub(lambda _: words[self.below(len(words))], admissible[self.below(len(admissible))])

    # --- shapes -------------------------------------------------------------------------------------

    def _one(self, admissible: Sequence[str]) -> str:
        return admissible[self.below(len(admissible))]

    def _near(self, admissible: Sequence[str]) -> str:
        action = self._one(admissible)
        at = self.below(len(action) + 1)
        changed = (
            action[:at] + action[at + 1 :],
            action[:at] + self._piece() + action[at:],
            action[:at] + action[at:].swapcase(),
            f"{action} ",
            f" {action}",
            f"{action}\n",
            f"{action}\x00",
            action.title(),
            action[::-1],
            action.replace(" ", "\u00a0"),
            action.replace("a", "\u0430"),  # a Cyrillic letter that looks the same
            action.replace("o", "0"),
            f"{action}.",
            action.replace("[", "[[").replace("]", "]]"),
        )
        return changed[self.below(len(changed))]

    def _joined(self, admissible: Sequence[str]) -> str:
        glue = ("", " ", "\n", ", then ", "][", ";")
        return self._one(admissible) + glue[self.below(len(glue))] + self._one(admissible)

    def _filled(self, admissible: Sequence[str]) -> str:
        return _SLOT.sub(lambda _: self._pieces(admissible), self._one(admissible))

    def _pieces(self, _: Sequence[str]) -> str:
        return "".join(self._piece() for _ in range(1 + self.below(12)))

    def _characters(self, _: Sequence[str]) -> str:
        bounds = (0x80, 0x10000, 0x110000)
        return "".join(chr(self.below(bounds[self.below(3)])) for _ in range(1 + self.below(24)))

    def _controls(self, admissible: Sequence[str]) -> str:
        noise = "".join(chr(self.below(0x20)) for _ in range(1 + self.below(6)))
        return noise + self._one(admissible) * self.below(2) + noise

    def _from_pool(self, _: Sequence[str]) -> str:
        return self._long[self.below(POOL)] + self._piece()

    def _around(self, admissible: Sequence[str]) -> str:
        action, text = self._one(admissible), self._from_pool(admissible)
        if _SLOT.search(action):
            return _SLOT.sub(lambda _: text, action)
        at = self.below(len(action) + 1)
        return action[:at] + text + action[at:]

    def _piece(self) -> str:
        return _PIECES[self.below(len(_PIECES))]

    def _repeated(self, length: int) -> str:
        piece = self._piece()
        text: str = (piece * (length // len(piece) + 1))[:length]
        return text
