"""Ctrl-C while the command line is still being imported: one line, not the importer's traceback.

``import agentgym`` imports this module first, and it imports next to nothing: not even `typing`. Where the
process is the program ``agentgym`` or ``python -m agentgym``, Ctrl-C is answered from here on until
`hand_over` leaves it to the command; a process that merely imports the package is left alone.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import pairwise

EXIT_CODE = 130
"""Exit code after Ctrl-C, as shells have it."""


class Interrupt(KeyboardInterrupt):
    """Ctrl-C during a command; its argument, if any, ends the line that answers it.

    A class of its own because CPython, where a plain KeyboardInterrupt has passed through an `exec` of text
    (dataclasses do that), ends the process by the signal even if it is caught.
    """


def is_program() -> bool:
    """Return whether this process was started as the command line.

    Its own words decide, not `sys.argv` alone: worker processes inherit that from their parent.
    """
    words, script = sys.orig_argv, sys.argv[0]
    if script == "-m":  # the name while Python imports the package
        return ("-m", "agentgym") in pairwise(words)
    return script.rpartition("/")[2] == "agentgym" and script in words


def answer(remark: str = "") -> str:
    """Return the one line that answers Ctrl-C."""
    line_end = "\n" if sys.stderr.isatty() else ""  # the terminal has written ^C where the cursor was
    return f"{line_end}agentgym: interrupted{remark}\n"


def hand_over() -> None:
    """Let Ctrl-C raise an `Interrupt` from now on, where this module answers it."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, _raise)


def take_back() -> None:
    """Let Ctrl-C end the program at once from now on, where `hand_over` changed that."""
    if signal.getsignal(signal.SIGINT) is _raise:
        signal.signal(signal.SIGINT, _end)


def _raise(number: int, frame: object) -> None:
    raise Interrupt


def _end(number: int, frame: object) -> None:
    os.write(2, answer().encode())
    os._exit(EXIT_CODE)  # nothing is open yet, or everything is closed again


if is_program() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end)
