"""Declaring commands: one-line errors, global flags that work in any place, values as TOML."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from agentgym.errors import UsageError, nearest
from agentgym.io.untrusted import loads_toml

if TYPE_CHECKING:
    from agentgym.evaluation.verify.box import Limits

Run = Callable[[argparse.Namespace], int]
"""Function of a command: takes its arguments, returns the exit code."""

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DOTTED_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_BARE_WORD = re.compile(r"(?!(?:true|false|inf|nan)$)(?:[A-Za-z_/]|\.{1,2}/)[A-Za-z0-9_./:@-]*")
"""Pattern of a word or path, which is a text without quotation marks."""


Commands = argparse._SubParsersAction  # the type argparse gives no public name


class Parser(argparse.ArgumentParser):
    """An `argparse.ArgumentParser` that raises instead of printing its usage."""

    declare: Callable[[str], None] | None = None
    """Function that adds the parser of a command by its name; UsageError for an unknown one."""
    implied: tuple[str, tuple[str, ...]] = ("", ())
    """Default command, and the flags that imply it where a line begins with a flag."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Put the implied command in front, and parse as always."""
        command, flags = self.implied
        if args and args[0].startswith("-") and any(word.partition("=")[0] in flags for word in args):
            args = [command, *args]
        known, others = super().parse_known_args(args, namespace)
        flags_only = not any(isinstance(action, Commands) for action in self._actions)
        if others and flags_only:  # the command itself refuses them: only it knows its flags
            meant = nearest(others[0].partition("=")[0], self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(others)}{meant}")
        return known, others

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if self.declare is not None and isinstance(action, Commands) and value not in action.choices:
            self.declare(value)
        if (
            isinstance(action, Commands)
            and value not in action.choices
            and (meant := nearest(value, action.choices))
        ):
            raise UsageError(f"there is no command {value!r}{meant}; see `{self.prog} --help`")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError that points to the command's help."""
        raise UsageError(f"{message}; see `{self.prog} --help`")


def add_command(
    commands: Commands[Parser], name: str, run: Run | None, *, about: str, example: str
) -> Parser:
    """Add a command, or with ``run`` None a group of commands; return its parser.

    ``about``: one sentence for ``--help``; ``example``: a full command line.
    """
    parser = commands.add_parser(
        name,
        help=about,
        description=about,
        epilog=f"example: {example}",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_debug(parser, default=argparse.SUPPRESS)
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def add_groups(parser: Parser, declare: Callable[[str], None] | None = None) -> Commands[Parser]:
    """Give a command commands of its own; ``declare`` is `Parser.declare`."""
    parser.declare = declare
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def seed(text: str) -> int:
    """Read a seed, for ``type=``."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a seed is a whole number of at least 0, got {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """Read a duration, for ``type=``."""
    return _not_negative(text, "a duration")


def amount(text: str) -> float:
    """Read an amount of money, for ``type=``."""
    return _not_negative(text, "an amount")


def _not_negative(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{what} is a number of at least 0, got {text!r}")
    return value


def parse_options(
    pairs: Iterable[str], taken: Mapping[str, str] | None = None, *, dotted: bool = False
) -> dict[str, Any]:
    """Read ``key=value`` pairs; values are TOML, where a single word needs no quotes.

    For example ``["boxes=2", "reward=sparse", "size=[7, 7]"]``. ``taken``: keys that have a flag of their
    own, with its name; ``dotted``: whether keys may be names of nested settings, such as ``learner.epochs``.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not (_DOTTED_KEY if dotted else _KEY).fullmatch(key):
            raise UsageError(f"options are key=value, got {pair!r}")
        if key in options:
            raise UsageError(f"option {key!r} comes twice: keep one")
        if taken and key in taken:
            raise UsageError(f"option {key!r} has its own flag: use {taken[key]}")
        options[key] = _parse_value(key, text)
    return options


def _parse_value(key: str, text: str) -> Any:
    if _BARE_WORD.fullmatch(text):
        return text
    try:
        parsed = loads_toml(f"value = {text}", key)
    except UsageError:
        parsed = {}
    if parsed.keys() != {"value"}:
        raise UsageError(f"the value of option {key!r} is not TOML: {text!r}; write texts as '{key}=\"...\"'")
    return parsed["value"]


def add_env_options(parser: Parser) -> None:
    """Declare ``--dataset`` and ``--option``, which `env_options` reads; ``--split`` is a command's own."""
    parser.add_argument("--dataset", help="name or path of the data set (default: builtin)")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="option of the environment, a TOML value; repeat for several",
    )


def add_mirror(parser: Parser) -> None:
    """Declare the flags that name a mirror."""
    where = "address or folder where NAME/FILE is searched first (default: $AGENTGYM_MIRROR)"
    parser.add_argument("--mirror", default="", metavar="URL", help=where)
    parser.add_argument("--only-mirror", action="store_true", help="use only the mirror")


def env_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the environment; UsageError as `parse_options`."""
    options = parse_options(arguments.option, {"split": "--split", "dataset": "--dataset"})
    return options if arguments.dataset is None else options | {"dataset": arguments.dataset}


def add_debug(parser: Parser, *, default: Any) -> None:
    """Add ``--debug``, which every command understands in any place."""
    parser.add_argument("--debug", action="store_true", default=default, help="show tracebacks of errors")


def add_suites(parser: Parser) -> None:
    """Declare ``--suite``, for commands that read runs of several suites."""
    parser.add_argument(
        "--suite",
        action="append",
        default=[],
        metavar="SUITE",
        help="suite file of runs whose suite does not ship; repeat for several "
        "(default: suites/NAME.toml in a folder above the run)",
    )


def chosen_suites(arguments: argparse.Namespace) -> dict[str, Path]:
    """Return the suite files of ``--suite`` by the suite's name."""
    from agentgym.evaluation.suites import suite_file
    from agentgym.evaluation.suites.suite import load_suite

    return {load_suite(path).name: path for path in map(suite_file, arguments.suite)}


def add_allow(parser: Parser) -> None:
    """Declare ``--allow``, for commands that read files of other people."""
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="NAME",
        help="MODULE:NAME that a run or its suite may import although it is not installed, or the full path "
        "of a folder that it may read; repeat for several (default: none)",
    )


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Declare ``--bound``, which `chosen_limits` reads."""
    parser.add_argument(
        "--bound",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="limit for verifying one run: memory in GiB (default: 8), processor and wall in seconds "
        "(900, 3600), open files (256); repeat for several",
    )


def chosen_limits(arguments: argparse.Namespace) -> Limits:
    """Return the limits of ``--bound``."""
    from agentgym.evaluation.verify.box import Limits
    from agentgym.io.records import parse

    return parse(Limits, parse_options(arguments.bound), "--bound")
