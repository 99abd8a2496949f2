"""Replies as text: thoughts, tool calls in any of the conventions, and what is neither."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from agentgym.reading.conventions import (
    ANSWER_TAGS,
    CallConvention,
    ThoughtMarks,
    conventions,
    marks,
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


def read_text(
    text: str, tools: Collection[str] = (), *, answer_tags: bool = False, thinks: bool = True
) -> Reading:
    """Read a reply.

    A call is read where a convention's marks announce it. JSON or Python without marks is a call only where
    it is all that follows the thought, alone or in a code fence, and calls one of ``tools``.

    Args:
        text: the reply; special tokens may be in it, and at its end.
        tools: names of the tools that there are.
        answer_tags: whether ``<answer>...</answer>`` is a call of the tool ``answer``.
        thinks: whether thoughts are told from the rest.

    Example:
        >>> said = read_text("<think>Hm.</think>Well.<tool_call>{'name'", ())
        >>> said.thought, said.text, said.problem
        ('Hm.', "Well.<tool_call>{'name'", 'a tool call that is not JSON')
        >>> read_text("<|tool_call>call:go{n:3}<tool_call|>").calls
        (SaidCall(name='go', arguments={'n': 3}, id='', typed=True),)
    """
    scan = _Scan(text, (ANSWER_TAGS,) if answer_tags else (), thoughts() if thinks else ())
    problem, preface = "", ""
    try:
        scan.run()
        if not scan.calls and tools:
            preface = scan.read_unmarked(tools)
    except UnreadableError as error:
        problem = str(error)
    thought = "\n".join(each.strip() for each in scan.thoughts if each.strip())
    if problem:
        return Reading(
            thought, _without_marks("".join(scan.said) + text[scan.place :]), problem=problem, outside=text
        )
    said = _without_marks(preface if scan.convention in UNMARKED else "".join(scan.said))
    return Reading(thought, said, tuple(scan.calls), "", scan.convention, scan.outside)


def split_thought(text: str) -> tuple[str, str]:
    """Return the thoughts of a reply that begins with one, in any family's marks, and what follows them.

    A thought may have begun in the prompt. Without one the reply is returned as it is.

    Raises:
        UnreadableError: a thought is not closed.

    Example:
        >>> split_thought("[THINK]A box![/THINK]up")
        ('A box!', 'up')
    """
    said = text.lstrip()
    for each in thoughts():
        begun, end = said.startswith(each.begin), said.find(each.end)
        if begun and end < 0:
            raise UnreadableError(f"a {each.begin} that is not closed")
        if begun or (end >= 0 and not each.shared and each.begin not in said[:end]):
            thought = said[len(each.begin) * begun : end].removeprefix(each.label)
            return thought.strip(), _without_marks(said[end + len(each.end) :])
    return "", text


class _Scan:
    """One pass over a reply."""

    def __init__(self, text: str, more: tuple[CallConvention, ...], thinking: tuple[ThoughtMarks, ...]):
        self.text = text
        self._thinking = thinking
        self._conventions = (*conventions(), *more)
        self.place = 0
        """Where what has not been read begins."""
        self.thoughts: list[str] = []
        self.said: list[str] = []
        self.calls: list[SaidCall] = []
        self.convention = ""
        self._spans = [(0, 0)]
        """Of calls."""

    @property
    def outside(self) -> str:
        """All but the calls."""
        ends = [*(begin for begin, _ in self._spans[1:]), len(self.text)]
        parts = [self.text[end:begin].strip() for (_, end), begin in zip(self._spans, ends, strict=True)]
        return "\n".join(part for part in parts if part)

    def run(self) -> None:
        """Read to the end.

        Raises:
            UnreadableError: at the first call or thought that is malformed; ``place`` is where it begins.
        """
        self._begun_before()
        opening = tuple(
            each
            for each in self._thinking
            if each.begin in self.text and (each.marked or each.end in self.text)
        )
        found = tuple(each for each in self._conventions if each.marker in self.text)
        pattern = scanner(found, opening) if found or opening else None
        while pattern and (match := pattern.search(self.text, self.place)):
            self.said.append(self.text[self.place : match.start()])
            self.place = match.start()
            kind, number = match.lastgroup[0], int(match.lastgroup[1:])  # type: ignore[index]
            if kind == "t":
                self.place = self._thought(opening[number], match.end())
            else:
                end = self._call(found[number], match.start())
                self._spans.append((match.start(), end))
                self.place = end
        left = self.text[self.place :]
        if not self.calls and (open_ := next((each for each in marks().announcing if each in left), "")):
            raise UnreadableError(f"a {open_} without a call")
        self.said.append(left)
        self.place = len(self.text)

    def _begun_before(self) -> None:
        """Take what comes before the end of a thought that begins nowhere: the prompt began it."""
        for each in self._thinking:
            closed = self.text.find(each.end)
            if closed >= 0 and not each.shared and not 0 <= self.text.find(each.begin) < closed:
                self.thoughts.append(self.text[:closed])
                self.place = closed + len(each.end)
                return

    def _thought(self, kind: ThoughtMarks, begin: int) -> int:
        end = self.text.find(kind.end, begin)
        if end < 0:
            if not self.calls:
                raise UnreadableError(f"a {kind.begin} that is not closed")
            end = len(self.text)
        self.thoughts.append(self.text[begin:end].removeprefix(kind.label))
        return min(end + len(kind.end), len(self.text))

    def _call(self, convention: CallConvention, start: int) -> int:
        calls, end = convention.content(self.text, start)
        closed = convention.closing.match(self.text, end)
        if closed is None and convention.whole and not _without_marks(self.text[end:]):
            end = len(self.text)  # the call is whole, whatever would close it
        elif closed is not None:
            end = closed.end()
        else:
            after = "JSON object" if convention.syntax in ("json", "arguments") else "arguments"
            raise UnreadableError(f"a {convention.marker} that is not closed after its {after}")
        self.calls += calls
        if len(self.calls) > MAX_CALLS:
            raise UnreadableError(f"more than {MAX_CALLS} tool calls")
        self.convention = self.convention or convention.name
        return end

    def read_unmarked(self, tools: Collection[str]) -> str:
        """Read calls of ``tools`` that end the reply without marks; return what comes before them.

        They are all of what is said, or follow a preface in a code fence.
        """
        said = _without_marks("".join(self.said))
        preface, body = "", unfenced(said)
        if body == said and said.endswith("```") and said.count("```") == 2:
            begin = said.index("```")
            preface, body = said[:begin], unfenced(said[begin:])
        if _OBJECT.match(body):
            kind, read = "fenced-json" if body != said else "json", read_json
        elif (called := _PYTHON.match(body)) and called[1] in tools:
            kind, read = "python", read_python
        else:
            return ""
        try:
            calls, end = read(body, 0)
        except UnreadableError:
            if any(f'"{name}"' in body[:200] for name in tools):
                raise
            return ""
        if body[end:].strip(" \n;") or not all(call.name in tools for call in calls):
            return ""
        self.calls, self.convention = list(calls), kind
        self._spans.append((len(self.text) - len(self.said[-1]) + len(preface), len(self.text)))
        return preface


UNMARKED = ("json", "fenced-json", "python")
"""Conventions without marks."""


# ---- without marks -----------------------------------------------------------------------------

_OBJECT = re.compile(r'[\[\s]*\{\s*"(?:name|function|type|tool_name|parameters|arguments|id)"')
_PYTHON = re.compile(r"\[?\s*([A-Za-z_][\w-]{0,63})\(")


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
