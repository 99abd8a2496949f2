"""Single keys of a terminal, and the discarding of typed-ahead input."""

from __future__ import annotations

import codecs
import os
import select
import sys
import termios
import tty
from typing import Self

ENTER, BACKSPACE, ESCAPE = "enter", "backspace", "escape"

_NAMED = {"\r": ENTER, "\n": ENTER, "\x7f": BACKSPACE, "\b": BACKSPACE}
_ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
_END_OF_INPUT = "\x04"

_REST_SECONDS = 0.05
"""Longest time from Escape to the rest of an arrow key's code, in seconds; a person types more slowly."""


class Keyboard:
    """Standard input a key at a time, without echo, while entered as a context; Ctrl-C interrupts.

    What has been typed and not read is dropped at the end, so that it doesn't become a command of the
    shell's.
    """

    def __init__(self) -> None:
        """Know the terminal."""
        self._descriptor = sys.stdin.fileno()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def __enter__(self) -> Self:
        """Take the terminal over."""
        self._before = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor, termios.TCSANOW)
        return self

    def __exit__(self, *error: object) -> None:
        """Give it back as it was."""
        termios.tcsetattr(self._descriptor, termios.TCSAFLUSH, self._before)

    def read(self) -> str:
        """Return the next key: a character, or the name of an arrow or of one of the keys above.

        `EOFError` at Ctrl-D, or where the terminal is gone.
        """
        while True:
            character = self._character()
            if character == _END_OF_INPUT:
                raise EOFError
            if character == "\x1b":
                return self._escaped()
            if character in _NAMED:
                return _NAMED[character]
            if character.isprintable():
                return character

    def _character(self) -> str:
        while True:
            byte = os.read(self._descriptor, 1)
            if not byte:
                raise EOFError
            character = self._decoder.decode(byte)
            if character:
                return character

    def _escaped(self) -> str:
        """Read what follows Escape: an arrow, another key's sequence, or nothing."""
        if not self._more() or self._character() not in "[O":
            return ESCAPE
        while self._more():
            character = self._character()
            if character.isalpha() or character == "~":
                return _ARROWS.get(character, ESCAPE)
        return ESCAPE

    def _more(self) -> bool:
        return bool(select.select([self._descriptor], [], [], _REST_SECONDS)[0])


def drop_typed_ahead() -> None:
    """Discard unread keys."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
