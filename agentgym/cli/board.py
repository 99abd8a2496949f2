"""An episode on a screen: each state as a frame, logged one below the other or drawn in place."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from agentgym.agents.halfblocks import half_blocks, shows_pictures
from agentgym.agents.screen import coloured, labelled, printable, show_state, show_step, step_line, text_of
from agentgym.core.suite_spec import ScreenHints
from agentgym.core.types import Observation, Step

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_MIN_ROWS = 3
"""Fewest rows that a long observation leaves to the actions."""

_MAX_REMARK_LENGTH = 4
"""Most lines of a remark that stands below the frame; a longer one replaces it."""

_GAPS = 3
"""Empty lines between the parts of a frame, where there is room for them."""

_BESIDE = 24
"""Columns that a picture leaves to the text beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A person's view of a state."""

    title: str
    """Title in the log."""
    short_title: str
    """Title on the screen, without long ids."""
    observation: Observation
    actions: tuple[str, ...]
    state_hash: str
    numbered: bool = False
    """Whether actions can be chosen by number."""
    step: Step | None = None
    """Step that led to this state; None at the beginning and after an undo."""
    pinned: str = ""
    """Line of the first observation that stays in view."""
    end: str = ""
    """Outcome of the episode, in words; empty while it runs."""
    won: bool = False


class FrameDisplay(Protocol):
    """Shows frames and remarks."""

    def show(self, frame: Frame) -> None:
        """Show a state."""

    def say(self, remark: str, style: str = "") -> None:
        """Show a remark on it."""

    def show_all(self) -> None:
        """Show the state in full, where `show` had no room."""


class FrameLog:
    """One frame below the other: for files, pipes and terminals that cannot move their cursor."""

    def __init__(self, console: Console, hints: ScreenHints):
        """Take the console and the suite's colours."""
        self._console = console
        self._hints = hints
        self._frame: Frame | None = None

    def show_all(self) -> None:
        """Append the list of actions, which may be cut in a state."""
        if self._frame is not None:
            for action in labelled(self._frame.actions, numbered=self._frame.numbered):
                self._console.print(action, markup=False, soft_wrap=True)

    def show(self, frame: Frame) -> None:
        """Append a state."""
        from rich.text import Text

        self._frame = frame
        if frame.step is not None:
            show_step(self._console, frame.step)
        show_state(
            self._console,
            frame.title,
            frame.observation,
            frame.actions,
            frame.state_hash,
            numbered=frame.numbered,
            hints=self._hints,
        )
        if frame.end:
            self._console.print(Text(frame.end, style=_end_style(frame)))

    def say(self, remark: str, style: str = "") -> None:
        """Append a remark."""
        self._console.print(printable(remark), style=style, markup=False, soft_wrap=True)


class PlayScreen:
    """The current frame, drawn over the previous one on the terminal's alternate screen.

    Entered as a context; at its end the terminal shows what it showed before, and below it the last frame.
    """

    def __init__(self, console: Console, hints: ScreenHints, keys: str = ""):
        """Prepare; ``keys`` is a line that lists the keys."""
        self._console = console
        self._hints = hints
        self._keys = keys
        self._frame: Frame | None = None
        self._remark: tuple[str, str] | None = None

    def __enter__(self) -> Self:
        """Turn to the second page."""
        self._console.set_alt_screen(True)
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Turn back, and unless interrupted leave the last frame."""
        self._console.set_alt_screen(False)
        if error is None:
            self._print_whole()

    def show(self, frame: Frame) -> None:
        """Draw a state; remarks on the one before are gone."""
        self._frame, self._remark = frame, None
        self.draw()

    def say(self, remark: str, style: str = "") -> None:
        """Draw the frame with a remark, which the next one replaces."""
        self._remark = (remark, style)
        self.draw()

    def draw(self, prompt: str = "") -> None:
        """Draw the frame again, with this text in the last line."""
        width, height = self._console.size
        with self._console.capture() as captured:
            for line in self._lines(width, height - 1):
                self._console.print(line, no_wrap=True, overflow="crop", crop=True)
        # erase each row before writing it: after a full row, some terminals would erase its end
        rows = "".join(f"\x1b[2K{row}\n" for row in captured.get().split("\n")[:-1])
        sys.stdout.write(f"\x1b[H{rows}\x1b[J{printable(prompt)[1 - width :]}")
        sys.stdout.flush()

    def show_all(self) -> None:
        """Print the frame in full on the first page, which scrolls, and wait for Enter."""
        self._console.set_alt_screen(False)
        self._print_whole()
        try:
            input("Enter continues ")
        finally:
            self._console.set_alt_screen(True)
        self.draw()

    def _print_whole(self) -> None:
        frame = self._frame
        if frame is None:
            return
        width, height = self._console.size
        head, result, actions = self._head(frame), self._result(frame), _action_lines(frame, width)
        room = height - len(head) - len(result) - len(actions) - 1  # rows for a picture; text may be longer
        body = self._body(frame, width, max(room, len(self._words(frame, width))))
        for line in (*head, *body, *result, *actions):
            self._console.print(line, soft_wrap=True)

    # ---- parts of a frame ------------------------------------------------------------------------

    def _lines(self, width: int, rows: int) -> list[Text]:
        """Return at most this many lines: the observation first, then as many actions as fit."""
        from rich.text import Text

        frame = self._frame
        if frame is None:
            return []
        head, result, remark = self._head(frame), self._result(frame), self._remark_lines(width)
        if len(remark) > _MAX_REMARK_LENGTH:
            return [*head, *remark[: rows - 1]]
        below = [*self._legend(frame, width), *remark]
        actions = _action_lines(frame, width)
        room = rows - len(head) - len(result) - len(below)
        body = self._body(frame, width, room - min(len(actions), _MIN_ROWS))
        actions = _cut(actions, room - len(body), " of actions")
        gap = [Text()] if room - len(body) - len(actions) >= _GAPS else []
        return [*head, *gap, *body, *gap, *result, *actions, *gap, *below][:rows]

    def _head(self, frame: Frame) -> list[Text]:
        from rich.text import Text

        lines = [Text(printable(frame.short_title), style="reverse")]
        if frame.pinned and frame.pinned not in text_of(frame.observation):
            lines += _wrapped(Text(printable(frame.pinned), style="dim"), self._console, self._console.width)
        return lines

    def _body(self, frame: Frame, width: int, rows: int) -> list[Text]:
        """Return the observation: its picture, where there is one, left of its text."""
        from rich.text import Text

        if isinstance(frame.observation, str) or not shows_pictures(self._console):
            return _cut(self._words(frame, width), rows)
        picture = half_blocks(frame.observation["image"], width - _BESIDE, rows)
        columns = picture[0].cell_len + 2
        words = _cut(self._words(frame, width - columns), rows)
        lines = []
        for number in range(max(len(picture), len(words))):
            line = picture[number].copy() if number < len(picture) else Text(" " * (columns - 2))
            lines.append(line.append("  ").append_text(words[number]) if number < len(words) else line)
        return lines

    def _words(self, frame: Frame, width: int) -> list[Text]:
        """Return the observation's text, wrapped between words."""
        pictured = not isinstance(frame.observation, str) and shows_pictures(self._console)
        text = frame.observation["text"] if pictured else text_of(frame.observation)
        return _wrapped(coloured(printable(text), self._hints), self._console, width)

    def _result(self, frame: Frame) -> list[Text]:
        from rich.text import Text

        lines = [Text() if frame.step is None else step_line(frame.step)]
        return [*lines, Text(frame.end, style=_end_style(frame))] if frame.end else lines

    def _legend(self, frame: Frame, width: int) -> list[Text]:
        from rich.text import Text

        lines = [Text(self._hints.goal, style="dim")] if self._hints.goal else []
        if self._hints.symbols:
            symbols = self._hints.symbols.items()
            lines += _flow(
                [Text.assemble((s, style), (f" {meaning}", "dim")) for s, (meaning, style) in symbols], width
            )
        if self._keys:
            keys = self._keys if frame.numbered else self._keys.replace(" or its number", "")
            lines.append(Text(keys, style="dim"))
        return [part for line in lines for part in _wrapped(line, self._console, width)]

    def _remark_lines(self, width: int) -> list[Text]:
        from rich.text import Text

        if self._remark is None:
            return []
        remark, style = self._remark
        return _wrapped(Text(printable(remark), style=style), self._console, width)


def _wrapped(text: Text, console: Console, width: int) -> list[Text]:
    return list(text.wrap(console, max(width, 1)))


def _cut(lines: Sequence[Text], rows: int, of_what: str = "") -> list[Text]:
    """Return at most this many lines, the last of which counts the missing ones."""
    from rich.text import Text

    if len(lines) <= rows:
        return list(lines)
    if rows <= 0:
        return []
    hidden = len(lines) - rows + 1
    return [*lines[: rows - 1], Text(f"... {hidden} more lines{of_what}; :all prints them", "dim")]


def _action_lines(frame: Frame, width: int) -> list[Text]:
    """Return the actions in as many lines as they need."""
    from rich.text import Text

    return _flow([Text(item, "cyan") for item in labelled(frame.actions, numbered=frame.numbered)], width)


def _flow(items: Iterable[Text], width: int) -> list[Text]:
    """Put items side by side, breaking only those that are longer than a line."""
    from rich.text import Text

    lines: list[Text] = []
    for item in items:
        if lines and lines[-1].cell_len + 2 + item.cell_len <= width:
            lines[-1].append("  ").append_text(item)
        else:
            lines += [Text() + part for part in item.divide(range(width, len(item), width))]
    return lines


def _end_style(frame: Frame) -> str:
    return "bold green" if frame.won else "bold yellow"
