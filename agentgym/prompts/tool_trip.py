"""Round trip of tool calls: a call that a chat template writes must be read back as that call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from agentgym.core.tools import Tool, ToolCall, call_of
from agentgym.prompts.chat_template import REFUSALS, ChatSetup, ChatTemplate
from agentgym.reading import UnreadableError, fitted, read_text
from agentgym.reading.conventions import thoughts

TEXTS = ("Go.", "a \"b\" 'c'", "two\nlines <b>", "é 北京 🙂", "1994", "true", "{}")
"""Arguments that are tried where a tool takes a text."""

_VALUES: Mapping[str, tuple[Any, ...]] = {
    "integer": (3, -1),
    "number": (0.5, 2.0),
    "boolean": (True, False),
}
_ASKED, _SAID = "agentgym-asked-3b7e", "agentgym-said-9c41"
_NONE = "no call is found in it"
INSTEAD = "choose another way to answer, such as --answer think-action"


@dataclass(frozen=True)
class ToolTrip:
    """Result of a round trip of calls through a chat template."""

    template: ChatTemplate
    setup: ChatSetup
    convention: str = ""
    """Convention of the first call; empty where none was read."""
    tried: int = 0
    problem: str = ""
    """Difference, in one line, of the first call that was not read as it was made; empty where all were."""

    def write(self, calls: Sequence[ToolCall]) -> str:
        """Return calls as the template writes them in an answer, without what begins and ends that.

        Raises:
            UnreadableError: it writes none such.
        """
        tables = [
            {
                "type": "function",
                "id": f"call{number:05d}",
                "function": {"name": call.name, "arguments": dict(call.arguments)},
            }
            for number, call in enumerate(calls)
        ]
        try:
            made = self._answer({"content": "", "tool_calls": tables})
            words = self._words
        except REFUSALS as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise UnreadableError(f"the chat template writes no such calls: {reason}") from error
        begin = _mark_begins(made, _alike(made, words.partition(_SAID)[0]))
        end = len(made) - _alike(made[begin:][::-1], words.rpartition(_SAID)[2][::-1])
        if _mark_begins(made, end) < end:  # both marks may end alike
            end = made.find(">", end) + 1 or end
        return made[begin:end].strip()

    @cached_property
    def _words(self) -> str:
        return self._answer({"content": _SAID})

    def _answer(self, answer: Mapping[str, Any]) -> str:
        """Return what follows the question in a chat in which this is the answer."""
        chat = [{"role": "user", "content": _ASKED}, {"role": "assistant", **answer}]
        return self.template.render(chat, self.setup).rpartition(_ASKED)[2]


@dataclass(frozen=True)
class NativeWriter:
    """Writes answers as a model's chat template does: the writer of an `AnswerFormat`."""

    trip: ToolTrip

    def __call__(self, thought: str, actions: Sequence[str], tools: tuple[Tool, ...]) -> str:
        """Write the thought, where there is one, and a call for each action."""
        calls = [call_of(tools, action) for action in actions]
        if None in calls:
            names = ", ".join(tool.name for tool in tools)
            raise UnreadableError(f"{actions[calls.index(None)]!r:.80} is no call of {names}")
        calls_text = self.trip.write([call for call in calls if call is not None])
        if not thought.strip():
            return calls_text
        kinds = thoughts()
        kind = next(
            (each for each in kinds if each.marked and each.begin in self.trip.template.source), kinds[0]
        )
        return f"{kind.begin}{kind.label}\n{thought}\n{kind.end}{kind.after}{calls_text}"


def _alike(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    unlike = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(unlike, min(len(one), len(other)))


def _mark_begins(text: str, place: int) -> int:
    """Return where the mark begins in the middle of which a place is, such as ``<|end|>``; else the place."""
    begin = text.rfind("<", max(place - 64, 0), place)
    within = begin >= 0 and not any(each in text[begin:place] for each in ">\n")
    return begin if within else place


def round_trip(
    template: ChatTemplate, tools: Sequence[Tool], options: Mapping[str, Any] | None = None
) -> ToolTrip:
    """Try calls of each tool, with texts, numbers and nothing for arguments.

    Args:
        template: the chat template, which has a place for tools.
        tools: tools of the suite.
        options: further variables of the template.
    """
    special = sorted((name, each) for name, each in template.special.items() if isinstance(each, str))
    return _round_trip(template.source, tuple(special), tuple(tools), tuple(sorted((options or {}).items())))


@lru_cache(maxsize=64)
def _round_trip(
    source: str,
    special: tuple[tuple[str, Any], ...],
    tools: tuple[Tool, ...],
    options: tuple[tuple[str, Any], ...],
) -> ToolTrip:
    setup = ChatSetup(tools=tuple(tool.schema() for tool in tools), options=dict(options))
    trip = ToolTrip(ChatTemplate(source, dict(special)), setup)
    names = [tool.name for tool in tools]
    convention = ""
    tried = 0
    for tool in tools:
        for arguments in _tries(tool):
            tried += 1
            try:
                written = trip.write([ToolCall(tool.name, arguments)])
                reading = read_text(written, names)
                schema = tool.schema()["function"]["parameters"]
                back = [(call.name, fitted(call, schema)[0]) for call in reading.calls]
                problem = reading.problem or ("" if back else _NONE)
            except UnreadableError as error:
                written, back, problem = "", [], str(error)
            if back != [(tool.name, arguments)]:
                shown = f"{written!r:.80} is read as {back!r:.80}" if back else f"{written!r:.80}: {problem}"
                shown = shown if written or problem != _NONE else "it writes none"
                return replace(
                    trip, tried=tried, problem=f"its call of {tool.name} is not read back: {shown}"
                )
            convention = convention or reading.convention
    return replace(trip, convention=convention, tried=tried)


def _tries(tool: Tool) -> list[dict[str, Any]]:
    """Return arguments of a tool: each parameter takes a few values, the others their first one."""
    values = {
        each.name: each.choices or TEXTS if each.type == "string" else _VALUES[each.type]
        for each in tool.parameters
    }
    first = {name: some[0] for name, some in values.items()}
    rows = [first | {name: value} for name, some in values.items() for value in some]
    required = {each.name: first[each.name] for each in tool.parameters if each.required}
    return [row for place, row in enumerate([required, *rows]) if row not in [required, *rows][:place]]
