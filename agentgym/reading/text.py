"""Replies as text: thoughts, tool calls in any of the conventions, and other text."""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import islice

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
    RawCall,
    UnreadableError,
    read_json,
    read_python,
    skip_blanks,
)

MAX_REPLY = 1 << 21
"""Characters of a reply at most."""

_TAIL = 4_096
"""Characters at the end of a reply in which marks that end it are looked for."""

_SIGN = re.compile(r"[<\[◁]|Here is my thought process:")
"""Pattern that matches within the marks of every convention."""

_FEW = 512

_TOO_LONG = f"a reply of more than {MAX_REPLY:,} characters"


@dataclass(frozen=True)
class Reading:
    """Content of a reply."""

    thought: str = ""
    text: str = ""
    """Text that is neither thought nor call."""
    calls: tuple[RawCall, ...] = ()
    """Calls in order; empty where one of them is malformed, since half a reply may be another one."""
    problem: str = ""
    """Fault that keeps the reply from being read, in one line; empty where it can be."""
    convention: str = ""
    """Convention of the first call; empty without calls."""
    outside: str = field(default="", compare=False)
    """Text without the calls; thoughts and their tags stay."""


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
        (RawCall(name='go', arguments={'n': 3}, id='', typed=True),)
    """
    if len(text) > MAX_REPLY:
        return Reading(problem=_TOO_LONG, outside=text)
    scan = _Scan(text, (ANSWER_TAGS,) if answer_tags else (), thoughts() if thinks else (), tools)
    problem = ""
    try:
        scan.run()
        scan.read_unmarked()
    except UnreadableError as error:
        problem = str(error)
    thought = "\n".join(each.strip() for each in scan.thoughts if each.strip())
    plain = "".join(scan.texts)
    if problem:
        plain = _without_marks(plain + text[scan.place :])
        return Reading(thought, plain, problem=problem, outside=text)
    return Reading(thought, _without_marks(plain), tuple(scan.calls), "", scan.convention, scan.outside)


def split_thought(text: str) -> tuple[str, str]:
    """Return the thoughts of a reply that begins with one, in any family's marks, and what follows them.

    A thought may have begun in the prompt. Without one the reply is returned as it is.

    Raises:
        UnreadableError: a thought is not closed.

    Example:
        >>> split_thought("[THINK]A box![/THINK]up")
        ('A box!', 'up')
    """
    if len(text) > MAX_REPLY:
        raise UnreadableError(_TOO_LONG)
    reply = text.lstrip()
    for each in thoughts():
        begun, end = reply.startswith(each.begin), reply.find(each.end)
        if begun and end < 0:
            raise UnreadableError(f"a {each.begin} that is not closed")
        if begun or (end >= 0 and not each.shared and each.begin not in reply[:end]):
            thought = reply[len(each.begin) * begun : end].removeprefix(each.label)
            return thought.strip(), _without_marks(reply[end + len(each.end) :])
    return "", text


class _Scan:
    """One pass over a reply."""

    def __init__(
        self,
        text: str,
        more: tuple[CallConvention, ...],
        thinking: tuple[ThoughtMarks, ...],
        tools: Collection[str],
    ):
        self.text = text
        self._tools, self._near = tools, _near_signs(text)
        self._thinking = tuple(
            each for each in thinking if each.begin in self._near or each.end in self._near
        )
        self._conventions = tuple(each for each in (*conventions(), *more) if each.marker in self._near)
        self.place = 0
        """Where what has not been read begins."""
        self.thoughts: list[str] = []
        self.texts: list[str] = []
        self.calls: list[RawCall] = []
        self.convention = ""
        self._spans = [(0, 0)]
        """Of calls."""
        self._covered: list[tuple[int, int]] = []
        """By calls and thoughts."""

    @property
    def outside(self) -> str:
        """Text without the calls."""
        ends = [*(begin for begin, _ in self._spans[1:]), len(self.text)]
        parts = [self.text[end:begin].strip() for (_, end), begin in zip(self._spans, ends, strict=True)]
        return "\n".join(part for part in parts if part)

    def run(self) -> None:
        """Read to the end, or to a malformed call or thought: `UnreadableError`; it begins at ``place``."""
        self._begun_before()
        self._scan()

    def _scan(self) -> None:
        if self._alone():
            return
        opening = tuple(
            each
            for each in self._thinking
            if each.begin in self.text and (each.marked or each.end in self.text)
        )
        found = self._conventions
        pattern = scanner(found, opening) if found or opening else None
        while pattern and (match := pattern.search(self.text, self.place)):
            self.texts.append(self.text[self.place : match.start()])
            self.place = match.start()
            kind, number = match.lastgroup[0], int(match.lastgroup[1:])  # type: ignore[index]
            if kind == "t":
                self.place = self._thought(opening[number], match.end())
                self._covered.append((match.start(), self.place))
                if len(self.thoughts) == 1 and not "".join(self.texts).strip() and self._alone():
                    return
            else:
                end = self._call(found[number], match.start())
                self._take_span(match.start(), end)
                self.place = end
        left = self.text[self.place :]
        announced = (each for each in marks().announcing if each in self._near and each in left)
        if not self.calls and (open_ := next(announced, "")):
            raise UnreadableError(f"a {open_} without a call")
        self.texts.append(left)
        self.place = len(self.text)

    def _begun_before(self) -> None:
        """Take the text before the end of a thought whose beginning is in the prompt."""
        for each in self._thinking:
            begin, closed = self.text.find(each.begin), self.text.find(each.end)
            if closed < 0 or each.shared or 0 <= begin < closed:
                continue
            closed = self._outside(each.end)
            if closed >= 0 and not 0 <= begin < closed:
                self.thoughts.append(self.text[:closed])
                self.place = closed + len(each.end)
                return

    def _outside(self, mark: str) -> int:
        """Return where a mark first stands that is in no whole thought or call, or -1."""
        place = self.text.find(mark)
        for begin, end in self._whole:
            if begin <= place < end:
                place = self.text.find(mark, end)
        return place

    @cached_property
    def _whole(self) -> list[tuple[int, int]]:
        """Find thoughts and calls, up to the first that cannot be read, as if the prompt had begun none.

        Thoughts speak of ``<answer>`` tags too often for what stands between these to count.
        """
        scan = _Scan(self.text, (), self._thinking, self._tools)
        with suppress(UnreadableError):
            scan._scan()
        return scan._covered

    def _take_span(self, begin: int, end: int) -> None:
        self._spans.append((begin, end))
        self._covered.append((begin, end))

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
        cut = end == len(self.text) and convention.syntax == "arguments" and calls[0].arguments is None
        if closed is None and convention.whole and not cut and not _without_marks(self.text[end:]):
            end = len(self.text)  # the call is whole, whatever would close it
        elif closed is not None and not cut:
            end = closed.end()
        else:
            after = "JSON object" if convention.syntax in ("json", "arguments") else "arguments"
            raise UnreadableError(f"a {convention.marker} that is not closed after its {after}")
        self.calls += calls
        if len(self.calls) > MAX_CALLS:
            raise UnreadableError(f"more than {MAX_CALLS} tool calls")
        self.convention = self.convention or convention.name
        return end

    def _alone(self) -> bool:
        """Take calls without marks where they are all that is left; marks within them belong to arguments."""
        if self._tools and _BEGINNING.match(self.text, _begun(self.text, self.place)):
            with suppress(UnreadableError):
                return self._unmarked(_trimmed(self.text[self.place :]), self.place)
        return False

    def read_unmarked(self) -> None:
        """Read calls without marks: all of a reply that has no others, or a code fence that ends it."""
        plain = _trimmed("".join(self.texts))
        begin = len(self.text) - len(self.texts[-1]) if self.texts else 0
        if self.calls or self._unmarked(plain, begin):
            return
        if plain.endswith("```") and plain.count("```") == 2:
            place = plain.index("```")
            if self._unmarked(plain[place:], begin + place):
                self.texts = [plain[:place]]

    def _unmarked(self, plain: str, begin: int) -> bool:
        """Take a text that is nothing but calls, perhaps in a code fence; return whether it is."""
        body = unfenced(plain)
        if _OBJECT.match(body):
            kind, read = "fenced-json" if body != plain else "json", read_json
        elif (called := _PYTHON.match(body)) and called[1] in self._tools:
            kind, read = "python", read_python
        else:
            return False
        try:
            calls, end = read(body, 0)
        except UnreadableError:
            if any(f'"{name}"' in body[:200] for name in self._tools):
                raise
            return False
        if body[end:].strip(" \n;") or not all(call.name in self._tools for call in calls):
            return False
        self.calls, self.convention, self.texts = list(calls), kind, []
        self._take_span(begin, len(self.text))
        return True


def _near_signs(text: str) -> str:
    """Return what stands around the signs of marks where there are few of them; else the text."""
    places = [found.start() for found in islice(_SIGN.finditer(text), _FEW)]
    if len(places) == _FEW:
        return text
    return "\n".join(text[max(place - 96, 0) : place + 96] for place in places)


# ---- without marks -----------------------------------------------------------------------------

_OBJECT = re.compile(r'[\[\s]*\{\s*"(?:name|function|type|tool_name|parameters|arguments|id)"')
_BEGINNING = re.compile(r"[\[{`]|[A-Za-z_][\w-]{0,63}\(")
_PYTHON = re.compile(r"\[?\s*([A-Za-z_][\w-]{0,63})\(")


def unfenced(text: str) -> str:
    """Return what stands in the one code fence that a text consists of, or the text."""
    bare = text.strip()
    if bare.startswith("```") and bare.endswith("```") and len(bare) >= 6 and bare.count("```") == 2:
        body = bare[3:-3]
        first, line, rest = body.partition("\n")
        if line and " " not in first.strip():
            return rest.strip()
        return body.removeprefix("json").strip()
    return bare


def _without_marks(text: str) -> str:
    """Return a text without what surrounds calls, and without the special tokens that end it."""
    stripped = text.strip()
    if "<" in stripped or "[" in stripped:
        stripped = _around().sub("", stripped)
        stripped = stripped[: _ended(stripped, marks().final)].strip()
    return stripped


@cache
def _around() -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, marks().around)))


def _trimmed(text: str) -> str:
    """Return a text without the marks before and after it."""
    end = _ended(text, (*marks().final, *marks().around))
    return text[_begun(text[:end]) : end]


def _begun(text: str, place: int = 0) -> int:
    """Return where the marks and blanks end that begin at a place."""
    begin = skip_blanks(text, place)
    found = _run(marks().around).match(text, begin)
    return found.end() if found else begin


def _ended(text: str, final: Collection[str]) -> int:
    """Return where the marks and blanks begin that end a text."""
    length = len(text.rstrip())
    found = _run(tuple(each[::-1] for each in final)).match(text[max(length - _TAIL, 0) : length][::-1])
    return length - (found.end() if found else 0)


@cache
def _run(words: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of words and blanks, as many as there are."""
    return re.compile(rf"(?:\s|{'|'.join(map(re.escape, words))})*+")
