"""Prompts: templates filled with an agent's knowledge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from agentgym.errors import UsageError
from agentgym.prompts.fields import PromptFields
from agentgym.prompts.template import Template
from agentgym.prompts.template_file import TemplateFile

PromptTemplate: TypeAlias = Template | TemplateFile
"""Source of prompts: a wording and an answer, or a file that is both."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt, and what was left out of it."""

    text: str
    shown: int
    """Past turns in it."""
    dropped: int
    """Past turns left out of it, the oldest."""
    cut: int
    """Characters left out of the end of the current observation."""


def render(template: PromptTemplate, slots: PromptFields, *, dropped: int = 0, cut: int = 0) -> Prompt:
    r"""Fill a template.

    What never changes comes first, then what stays the same throughout an episode, then what changes
    every turn; so all prompts of a template share a beginning, and those of an episode a longer one.
    The task and the possible actions are always whole.

    Args:
        template: the words.
        slots: values of its slots.
        dropped: number of past turns that are left out, the oldest first; the prompt says so.
        cut: number of characters left out of the end of the observation; the prompt says so.

    Raises:
        UsageError: more is to be left out than there is.

    Example:
        >>> from agentgym.prompts import load_template
        >>> slots = PromptFields(task="", observation="#@$.#", turn=0, recent=(),
        ...                     admissible_actions=("left", "right"), location="", held="", moved=())
        >>> print(render(load_template("sokoban", "bare"), slots).text[-70:])
        The warehouse now, after 0 turns:
        #@$.#
        <BLANKLINE>
        Possible actions:
        left, right
    """
    if not (0 <= dropped <= len(slots.recent) and 0 <= cut <= len(slots.observation)):
        raise UsageError(
            f"cannot leave out {dropped} of {len(slots.recent)} past turns "
            f"and {cut} of {len(slots.observation)} characters: leave out less"
        )
    shown = slots if not dropped else replace(slots, recent=slots.recent[dropped:])
    return Prompt(render_whole(template, shown, omitted=dropped, cut=cut), len(shown.recent), dropped, cut)


def render_whole(template: PromptTemplate, slots: PromptFields, *, omitted: int = 0, cut: int = 0) -> str:
    """Render one message that holds everything: instructions, task, summary, past turns and observation.

    Args:
        template: the words.
        slots: values of its slots.
        omitted: number of the oldest turns that are left out; the text says so.
        cut: number of characters left out of the end of the observation; the text says so.
    """
    if isinstance(template, TemplateFile):
        return template.render_whole(slots, omitted, cut)
    parts = [*_beginning(template, slots.task, omitted)]
    parts += [slots.summary] if slots.summary else []
    parts += _past(template, slots)
    parts += _present(template, slots, cut)
    return "\n\n".join(parts)


def render_opening(template: PromptTemplate, slots: PromptFields, *, omitted: int = 0, cut: int = 0) -> str:
    """Render the first message of a conversation: instructions, task and observation.

    Args:
        template: the words.
        slots: values of its slots.
        omitted: number of earlier turns that the conversation leaves out.
        cut: number of characters left out of the end of the observation.
    """
    if isinstance(template, TemplateFile):
        return template.render_opening(slots, cut)
    return "\n\n".join((*_beginning(template, slots.task, omitted), *_present(template, slots, cut)))


def render_beginning(template: Template, task: str, *, dropped: int = 0) -> str:
    """Render the beginning of a conversation: the role, how to answer, and the task.

    Args:
        template: the words.
        task: goal of the task; empty where observations alone state it.
        dropped: number of the oldest turns that the conversation leaves out; the text says so.
    """
    return "\n\n".join(_beginning(template, task, dropped))


def render_present(template: PromptTemplate, slots: PromptFields, *, cut: int = 0) -> str:
    r"""Render the observation and the possible actions: a turn of a conversation.

    Example:
        >>> from agentgym.prompts import load_template
        >>> slots = PromptFields(task="", observation="#@$.#", turn=3, recent=(),
        ...                     admissible_actions=("left", "right"), location="", held="", moved=())
        >>> print(render_present(load_template("sokoban", "bare"), slots))
        The warehouse now, after 3 turns:
        #@$.#
        <BLANKLINE>
        Possible actions:
        left, right
    """
    if isinstance(template, TemplateFile):
        return template.render_present(slots, cut)
    return "\n\n".join(_present(template, slots, cut))


def _beginning(template: Template, task: str, dropped: int) -> Iterator[str]:
    if template.static:
        yield template.static
    if task:
        yield template.sections["task"].format(task=task)
    if dropped:
        yield template.sections["omitted"].format(dropped=dropped)


def _past(template: Template, slots: PromptFields) -> Iterator[str]:
    sections = template.sections
    shown = slots.recent
    if shown and "history" in sections:
        yield sections["history"].format(shown=len(shown), turn=slots.turn)
    exchange = sections["exchange"]
    for number, past in enumerate(shown, start=slots.turn - len(shown) + 1):
        yield exchange.format(number=number, observation=past.observation, action=past.action)


def _present(template: Template, slots: PromptFields, cut: int) -> Iterator[str]:
    sections = template.sections
    seen = slots.observation
    if cut:
        seen = f"{seen[: len(seen) - cut]}\n{sections['cut'].format(cut=cut)}"
    yield sections["observation"].format(turn=slots.turn, observation=seen)
    if slots.location and "location" in sections:
        yield sections["location"].format(location=slots.location)
    if slots.held and "held" in sections:
        yield sections["held"].format(held=slots.held)
    if slots.moved and "moved" in sections:
        yield sections["moved"].format(moved=", ".join(slots.moved))
    if slots.admissible_actions:
        yield sections["actions"].format(actions=template.separator.join(slots.admissible_actions))
    else:
        yield sections["stuck"].format()
