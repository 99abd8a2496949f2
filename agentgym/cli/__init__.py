"""The command line: ``agentgym COMMAND``.

Each command is a module with `add_to`, which declares its arguments, and a function that runs it and
returns the exit code. Commands import what they need when they run.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from gymnasium.error import Error as GymnasiumError

from agentgym import interrupts
from agentgym.cli.commands import make_parser
from agentgym.errors import UsageError
from agentgym.io.files import trouble
from agentgym.io.untrusted import printable
from agentgym.namesake import refuse_namesake

refuse_namesake(Path(__file__).parents[1])  # again: the other project's __init__ replaces the package's

USAGE_ERROR = 2
"""Exit code for bad input."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code.

    0, also for no words at all, which print the help; 1 when a check did not pass; 2 for bad input, after one
    line on stderr (``--debug`` adds the traceback); 130 when interrupted, after one line. Other exceptions
    are defects and propagate.
    """
    words = (sys.argv[1:] if argv is None else list(argv)) or ["--help"]

    def run(words: Sequence[str]) -> int:
        arguments = make_parser(words).parse_args(words)
        code: int = arguments.run(arguments)
        return code

    return answer(run, words)


def answer(run: Callable[[Sequence[str]], int], words: Sequence[str], program: str = "agentgym") -> int:
    """Run a command line and turn its errors into exit codes; ``program`` begins the line of an error."""
    _open_closed()
    try:
        interrupts.hand_over()
        try:
            code = run(words)
            sys.stdout.flush()
        finally:
            interrupts.take_back()
    except SystemExit as stop:  # --help, --version, and rich after a broken pipe
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt as stop:
        sys.stderr.write(interrupts.answer(*stop.args))
        return interrupts.EXIT_CODE
    except BrokenPipeError:
        # a broken pipe: the interpreter's last flush needs an open file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (UsageError, GymnasiumError, OSError) as error:
        if "--debug" in words:
            traceback.print_exc()
        sys.stderr.write(
            f"{program}: {printable(_one_line(error))}\n"
        )  # the message may quote templates and servers
        return USAGE_ERROR
    return code


def _open_closed() -> None:
    """Open null devices for standard streams that were closed when the process started."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # takes the closed stream's number
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{trouble(error)}"
    return " ".join(str(error).split())
