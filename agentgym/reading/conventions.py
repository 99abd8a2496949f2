"""Conventions of model families for tool calls and thoughts, as the file ``conventions.toml`` has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib.resources import files
from typing import Any

from agentgym.io.untrusted import loads_toml
from agentgym.reading.syntaxes import (
    LISTS,
    RawCall,
    read_arguments,
    read_between,
    read_gemma,
    read_pairs,
)


@dataclass(frozen=True)
class CallConvention:
    """How a family writes a call; the file describes the fields."""

    name: str
    families: str
    marker: str
    begin: str
    syntax: str
    end: str
    key: str = ""
    value: str = ""
    quote: str = ""

    @property
    def whole(self) -> bool:
        """Whether the content itself shows where it ends."""
        return self.syntax not in ("pairs", "between")

    @cached_property
    def opening(self) -> re.Pattern[str]:
        """Pattern before the content; a group has the tool's name where the content has none."""
        return re.compile(self.begin)

    @cached_property
    def closing(self) -> re.Pattern[str]:
        """Pattern after the content."""
        return re.compile(self.end)

    @cached_property
    def _arguments(self) -> Callable[[str, int], tuple[Any, int]]:
        if self.syntax == "pairs":
            return partial(read_pairs, key=re.compile(self.key), value=re.compile(self.value))
        if self.syntax == "between":
            return partial(read_between, closing=self.end)
        return partial(read_gemma, quote=self.quote) if self.syntax == "gemma" else read_arguments

    def content(self, text: str, start: int) -> tuple[Sequence[RawCall], int]:
        """Return the calls that begin at a place, and where their content ends.

        Raises:
            UnreadableError: it is malformed.
        """
        opened = self.opening.match(text, start)
        assert opened is not None
        if self.syntax in LISTS:
            return LISTS[self.syntax](text, opened.end())
        arguments, end = self._arguments(text, opened.end())
        name = opened.groupdict().get("name") or ""
        return [RawCall(name, arguments, typed=self.syntax != "pairs")], end


@dataclass(frozen=True)
class ThoughtMarks:
    """Marks that begin and end a thought."""

    begin: str
    end: str
    after: str = "\n\n"
    """Text that the family writes between a thought and the rest."""
    label: str = ""
    """A word that may follow the beginning and is no part of the thought."""
    shared: bool = False
    """Whether its end also ends other parts of a reply, so that it says nothing without the beginning."""
    marked: bool = True
    """Whether these are marks; words of a language say nothing one without the other."""


@dataclass(frozen=True)
class Marks:
    """Texts that say nothing."""

    around: tuple[str, ...]
    final: tuple[str, ...]
    announcing: tuple[str, ...]


@cache
def _table() -> dict[str, Any]:
    text = files("agentgym.reading").joinpath("conventions.toml").read_text(encoding="utf-8")
    return loads_toml(text, "conventions.toml")


@cache
def conventions() -> tuple[CallConvention, ...]:
    """Return the conventions of calls, the more special ones first."""
    return tuple(CallConvention(**each) for each in _table()["convention"])


ANSWER_TAGS = CallConvention(
    "answer-tags", "Search-R1", "<answer>", "<(?P<name>answer)>", "between", "</answer>"
)
"""A call of the tool ``answer``, where that takes a text and nothing else."""


@cache
def thoughts() -> tuple[ThoughtMarks, ...]:
    """Return the conventions of thoughts."""
    return tuple(ThoughtMarks(**each) for each in _table()["thought"])


@cache
def marks() -> Marks:
    """Return what stands around calls and answers."""
    return Marks(**{name: tuple(each) for name, each in _table()["marks"].items()})


@cache
def scanner(calls: tuple[CallConvention, ...], opening: tuple[ThoughtMarks, ...]) -> re.Pattern[str]:
    """Return the pattern that finds where the next call (group c0, c1, ...) or thought (t0, ...) begins."""
    found = [f"(?P<c{place}>{each.begin.replace('(?P<name>', '(?:')})" for place, each in enumerate(calls)]
    found += [f"(?P<t{place}>{re.escape(each.begin)})" for place, each in enumerate(opening)]
    return re.compile("|".join(found))
