"""Input of a person at a terminal: a key, or a line with editing, history and completion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Protocol, Self

from agentgym.cli.board import PlayScreen
from agentgym.cli.keyboard import BACKSPACE, ENTER, ESCAPE, Keyboard, drop_typed_ahead

UNDO = ":undo"
"""Command that Backspace sends where nothing has been typed."""

PROMPT = "> "


class LineReader(Protocol):
    """Source of a session's lines."""

    def read(self, keys: Mapping[str, str], actions: Sequence[str]) -> str:
        """Return the next line; `EOFError` after the last.

        ``keys``: the lines of the keys that act at once, where the source has single keys; ``actions``
        complete a beginning.
        """


class PipedLines:
    """Lines of standard input that is no terminal."""

    def read(self, keys: Mapping[str, str], actions: Sequence[str]) -> str:
        """Return the next line; nothing is written, so that a pipe's output stays the game's."""
        return input()


class TerminalPrompt:
    """The last line of a screen, while entered as a context.

    Where keys act at once, it reads keys, and takes a line whose first key is another. Elsewhere it reads
    lines, with the line editor that Python brings.
    """

    def __init__(self, screen: PlayScreen | None):
        """Take the screen that shows typed text; None for a terminal that only scrolls."""
        self._screen = screen
        self._keyboard: Keyboard | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """See to it that nothing typed ahead is left for the shell."""
        self._open.callback(drop_typed_ahead)
        return self

    def __exit__(self, *error: object) -> None:
        """Give the terminal back."""
        self._open.close()

    def read(self, keys: Mapping[str, str], actions: Sequence[str]) -> str:
        """Return the next line, or the command of a key."""
        if self._screen is None:
            return input(PROMPT)
        if keys and self._keyboard is None:
            self._keyboard = self._open.enter_context(Keyboard())
        if self._keyboard is not None:
            return self._read_keys(self._keyboard, self._screen, keys)
        _complete_with(actions)
        self._screen.draw()
        return input(PROMPT)

    def _read_keys(self, keyboard: Keyboard, screen: PlayScreen, keys: Mapping[str, str]) -> str:
        typed = ""
        while True:
            screen.draw(PROMPT + typed)
            key = keyboard.read()
            if not typed and key in keys:
                return keys[key]
            if not typed and key == BACKSPACE:
                return UNDO
            if key == ENTER:
                return typed
            if key == ESCAPE:
                typed = ""
            elif key == BACKSPACE:
                typed = typed[:-1]
            elif len(key) == 1:
                typed += key


def _complete_with(actions: Sequence[str]) -> None:
    """Let Tab complete actions."""
    import readline

    def complete(text: str, state: int) -> str | None:
        begun = [action for action in actions if action.startswith(text)]
        return begun[state] if state < len(begun) else None

    readline.set_completer_delims("")
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
