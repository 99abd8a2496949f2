"""Replies as text: thoughts, tool calls in any of the conventions, and what is neither."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from agentgym.reading.conventions import (
    Convention,
    Thought,
    conventions,
    marks,
    name_at,
    scanner,
    thoughts,
)
from agentgym.reading.syntaxes import (
    MAX_CALLS,
    SaidCall,
    UnreadableError,
    read_json,
    read_python,
)


@dataclass(frozen=True)
class Reading:
    """What a reply says."""

    thought: str = ""
    text: str = ""
    """What is neither thought nor call."""
    calls: tuple[SaidCall, ...] = ()
    """In order; empty where one of them is malformed, since half a reply may be another one."""
    problem: str = ""
    """One line on what cannot be read; empty where everything can."""
    convention: str = ""
    """Of the first call; empty without calls."""
    outside: str = field(default="", compare=False)
    """All but the calls, thoughts and their tags included."""


def read_text(text: str, tools: Collection[str] = ()) -> Reading:
    """Read a reply.

    A call is read where a convention's marks announce it. JSON or Python without marks is a call only where
    it is all that follows the thought, alone or in a code fence, and calls one of ``tools``.

    Args:
        text: the reply; special tokens may be in it, and at its end.
        tools: names of the tools that there are.

    Example:
        >>> said = read_text("<think>Hm.</think>Well.<tool_call>{'name'", ())
        >>> said.thought, said.text, said.problem
        ('Hm.', "Well.<tool_call>{'name'", 'a tool call that is not JSON')
        >>> read_text("<|tool_call>call:go{n:3}<tool_call|>").calls
        (SaidCall(name='go', arguments={'n': 3}, id='', typed=True),)
    """
    scan = _Scan(text)
    try:
        scan.run()
        calls, convention, bare = scan.calls, scan.convention, scan.said
        if not calls and tools and (found := _unmarked(bare, tools)):
            calls, convention = found
            bare = ""
            scan.outside = scan.outside[: len(scan.outside) - len(scan.said)]
    except UnreadableError as error:
        thought = "\n".join(each.strip() for each in scan.thoughts).strip()
        rest = scan.said + text[scan.place :] if scan.place < len(text) else scan.said
        return Reading(thought, _without_marks(rest), (), str(error), "", text)
    thought = "\n".join(each.strip() for each in scan.thoughts if each.strip())
    return Reading(thought, _without_marks(bare), tuple(calls), "", convention, scan.outside.strip())


class _Scan:
    """One pass over a reply."""

    def __init__(self, text: str):
        self.text = text
        self.place = 0
        """Where what has not been read begins."""
        self.thoughts: list[str] = []
        self.calls: list[SaidCall] = []
        self.convention = ""
        self.said = ""
        self.outside = ""

    def run(self) -> None:
        """Read to the end.

        Raises:
            UnreadableError: at the first call or thought that is malformed; ``place`` is where it begins.
        """
        text = self.text
        opening = tuple(each for each in thoughts() if each.begin in text)
        self._begun_before()
        found = tuple(each for each in conventions() if each.marker in text)
        said, outside = [], [text[: self.place]]
        if found or opening:
            for match in self._matches(scanner(found, opening)):
                said.append(text[self.place : match.start()])
                kind, number = match.lastgroup[0], int(match.lastgroup[1:])  # type: ignore[index]
                self.place = match.start()
                self.said = "".join(said)
                if kind == "t":
                    end = self._thought(opening[number], match.end())
                    outside.append(text[match.start() - len(said[-1]) : end])
                else:
                    outside.append(said[-1].strip("\n") and said[-1])
                    end = self._call(found[number], match)
                self.place = end
        said.append(text[self.place :])
        self.said, self.outside, self.place = "".join(said), "".join([*outside, said[-1]]), len(text)

    def _matches(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        while (match := pattern.search(self.text, self.place)) is not None:
            yield match

    def _begun_before(self) -> None:
        """Take what comes before the end of a thought that begins nowhere: the prompt began it."""
        for each in thoughts():
            closed = self.text.find(each.end)
            if closed >= 0 and not 0 <= self.text.find(each.begin) < closed and each.end != "<|end|>":
                self.thoughts.append(self.text[:closed])
                self.place = closed + len(each.end)
                return

    def _thought(self, kind: Thought, begin: int) -> int:
        end = self.text.find(kind.end, begin)
        if end < 0:
            if not self.calls:
                raise UnreadableError(f"a {kind.begin} that is not closed")
            end = len(self.text)
        self.thoughts.append(self.text[begin:end])
        return min(end + len(kind.end), len(self.text))

    def _call(self, convention: Convention, match: re.Match[str]) -> int:
        name = name_at(convention, self.text, match.start())
        calls, end = convention.content(self.text, match.end(), name)
        closed = convention.closing.match(self.text, end)
        if closed is None:
            raise UnreadableError(f"a {convention.marker} that is not closed after its call")
        self.calls += calls
        if len(self.calls) > MAX_CALLS:
            raise UnreadableError(f"more than {MAX_CALLS} tool calls")
        self.convention = self.convention or convention.name
        return closed.end()


# ---- without marks -----------------------------------------------------------------------------

_FENCE = re.compile(r"```(?:json|tool_call|python|tool_code)?[ \t]*\n(.*)\n?```", re.DOTALL)
_OBJECT = re.compile(r'[\[\s]*\{\s*"(?:name|function|type|tool_name|parameters|arguments|id)"')
_PYTHON = re.compile(r"\[?\s*([A-Za-z_]\w{0,63})\(")


def unfenced(text: str) -> str:
    """Return what stands in the one code fence that a text consists of, or the text."""
    said = text.strip()
    if said.startswith("```") and said.endswith("```") and len(said) >= 6 and said.count("```") == 2:
        body = said[3:-3]
        first, line, rest = body.partition("\n")
        if line and " " not in first.strip():
            return rest.strip()
        return body.removeprefix("json").strip()
    return said


def _unmarked(text: str, tools: Collection[str]) -> tuple[list[SaidCall], str] | None:
    """Return calls that are all of a text, or all but a preface before a code fence or object at its end."""
    said = _without_marks(text)
    fenced = said.endswith("```") and said.count("```") == 2
    body = unfenced(said[said.find("```") :] if fenced else said)
    if _OBJECT.match(body):
        kind, read = "fenced-json" if fenced else "json", read_json
    elif (called := _PYTHON.match(body)) and called[1] in tools:
        kind, read = "python", read_python
    else:
        return None
    try:
        calls, end = read(body, 0)
    except UnreadableError:
        if any(f'"{name}"' in body[:200] for name in tools):
            raise
        return None
    whole = not body[end:].strip(" \n;")
    known = all(call.name in tools for call in calls)
    return (calls, kind) if calls and whole and known else None


def _without_marks(text: str) -> str:
    """Return a text without what surrounds calls, and without the special tokens that end it."""
    said = text.strip()
    if "<" in said or "[" in said:
        for mark in marks().around:
            said = said.replace(mark, "")
        said = said.strip()
        while (last := next((each for each in marks().final if said.endswith(each)), "")) != "":
            said = said[: len(said) - len(last)].rstrip()
    return said
