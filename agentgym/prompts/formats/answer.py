"""Answers read from responses, and the record of an answer format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

from agentgym.core.tools import Tool, tool_schemas
from agentgym.errors import UsageError
from agentgym.reading.syntaxes import UnreadableError
from agentgym.reading.text import split_thought as split_thought_marks

AnswerWriter: TypeAlias = Callable[[str, Sequence[str], tuple[Tool, ...]], str]


@dataclass(frozen=True, slots=True)
class Answer:
    """Thought and actions that were read from a response."""

    thought: str
    """The reasoning; empty where there is none or the format has no place for it."""
    actions: tuple[str, ...]
    """Actions without blanks around them; empty where none could be read."""
    problem: str
    """One line on how the response departs from the format; empty where it keeps to it.

    A response without the asked-for thought has a problem and actions nevertheless.
    """

    @property
    def action(self) -> str:
        """String for the environment: the actions, one a line."""
        return "\n".join(self.actions)


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """Answer format: a writer, and a reader that undoes it.

    Example:
        >>> from agentgym.prompts.parsers import FORMATS
        >>> answer = FORMATS["think-action"].parse("<think>A box!</think> <action>up</action>")
        >>> answer.thought, answer.action, answer.problem
        ('A box!', 'up', '')
        >>> FORMATS["plain"].write("A box!", ["up"])
        'up'
    """

    name: str
    thinks: bool
    """Whether there is a place for the thought."""
    several: bool
    """Whether there is a place for more than one action."""
    writer: AnswerWriter
    """Writer of a thought and actions; raises `UnreadableError` where the format has no words for one."""
    reader: Callable[[str, tuple[Tool, ...]], Answer]
    """Reader of the writer's responses; raises `UnreadableError` on any other."""
    tools: tuple[Tool, ...] = ()
    """Tools that calls are checked against, and whose actions they are; empty where any call is taken."""
    needs: tuple[str, ...] = ()
    """Names of tools, with a single string each, without which it cannot be used."""

    def bound(self, tools: tuple[Tool, ...]) -> Self:
        """Return the format with the tools of an environment.

        Raises:
            UsageError: two have the same name, or one that it needs is not there.
        """
        tool_schemas(tools)  # refuses equal names
        found = [tool.name for tool in tools if tool.takes_text]
        if not set(self.needs) <= set(found):
            raise UsageError(
                f"the answer format {self.name!r} needs the tools {' and '.join(self.needs)}, each with one "
                f"string, but there are {', '.join(tool.name for tool in tools)}: choose another answer"
            )
        return replace(self, tools=tools)

    def parse(self, text: str) -> Answer:
        """Read a response. Any text has an answer: what is wrong with it is in `Answer.problem`."""
        try:
            answer = self.reader(text, self.tools)
            if not all(answer.actions):
                raise UnreadableError("an empty action")
            answer.action.encode()
        except UnreadableError as error:
            return Answer("", (), str(error))
        except UnicodeEncodeError:
            return Answer("", (), "half a surrogate pair in the action")
        return answer

    def write(self, thought: str, actions: Sequence[str]) -> str:
        """Write the response that says this, such as an expert's for a model to learn from.

        Args:
            thought: the thought, which a format without a place for it omits.
            actions: one action or several; exactly one where the format has no place for several.

        Raises:
            UsageError: `parse` would read something else, for example because an action holds a
                closing tag or has blanks around it; or an action is no call of the tools.
        """
        try:
            text = self.writer(thought, actions, self.tools)
        except UnreadableError as error:
            raise UsageError(f"the format {self.name!r} cannot state the actions: {error}") from error
        expected = Answer(thought.strip() if self.thinks else "", tuple(actions), "")
        if (self.several or len(actions) == 1) and self.parse(text) == expected:
            return text
        raise UsageError(
            f"the format {self.name!r} cannot state the actions {list(actions)!r:.200}: "
            f"give {'one or more' if self.several else 'one'}, without blanks around or tags within"
        )

    def written(self, action: str, thought: str = "") -> str:
        """Return the response that states an action; the action itself where the format cannot state it."""
        try:
            return self.write(thought, action.split("\n") if self.several else [action])
        except UsageError:
            return action


def split_thought(text: str, tag: str, *, first: bool = False) -> tuple[str, str, str]:
    """Return the thought, what comes after it, and a problem.

    The thought ends at the last closing tag, so that what it quotes is not taken for an answer; or at the
    ``first`` one: a model that goes on after its answer with turns of its own making thinks again there, and
    those turns belong to what is read. Its opening ``tag`` may be missing: some chat templates end with it.
    """
    opening, closing = f"<{tag}>", f"</{tag}>"
    head, closed, rest = text.partition(closing) if first else text.rpartition(closing)
    if not closed:
        if opening in text:
            raise UnreadableError(f"a {opening} that is not closed")
        thought, rest = split_thought_marks(text) if tag == "think" else ("", text)  # another family's tag
        return thought, rest, "" if thought else f"no {opening}...{closing}"
    before, opened, thought = head.partition(opening)
    return (thought if opened else before).strip(), rest, ""
