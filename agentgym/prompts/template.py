"""A template: a wording, which tells a suite, and a way to answer.

Both are TOML files. Every word of a prompt that does not come from the environment is in them, so that
a template's sha256 pins its prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from string import Formatter
from typing import Self

from agentgym.core.hashing import sha256_json
from agentgym.core.tools import ACT, Tool, listed_schemas
from agentgym.errors import UsageError
from agentgym.io.optional import load_reference
from agentgym.prompts.fields import FieldsOf, PromptFields
from agentgym.prompts.formats.answer import AnswerWriter
from agentgym.prompts.parsers import AnswerFormat, format_of
from agentgym.prompts.sections import ANSWER, TOOLS, check_text
from agentgym.prompts.wording import (
    Wording,
    check_complete,
    names_of,
    parse_table,
    read_built_in,
    read_wording,
)

ASSEMBLY = 1
"""Version of how `agentgym.prompts.rendering.render` puts sections together; hashed with the words."""

_ANSWER_KEYS = {"id": str, "version": int, "format": str, "text": str}
_TOOLS = {"tools": str, "native": str}
"""Keys of an answer that is given with the environment's tools. ``tools`` is empty where the prompt does not
list them, ``native`` missing where no chat template is handed them."""


@dataclass(frozen=True, slots=True)
class Template:
    """Template of prompts, and the format that reads the responses.

    Example:
        >>> template = load_template("sokoban", "think-action")
        >>> template.id, template.version, template.answer.name
        ('sokoban/think-action', '1.1.1', 'think-action')
    """

    id: str
    """Wording and answer, with a slash between."""
    version: str
    """Versions of the files it is made of: wordings, the most general first, then the answer."""
    sha256: str
    """64 hex digits over every word of it, whatever files they are in. Tools are no part of it: they are the
    environment's, as its observations are."""
    sections: Mapping[str, str]
    """Texts by name, with slots as ``{name}``; `agentgym.prompts.sections` has the slots."""
    separator: str
    """Separator between possible actions."""
    static: str
    """The beginning of every prompt: the role, how to answer with its example, and `listing`."""
    answer: AnswerFormat
    """Format of the responses."""
    listing: str = ""
    """Text that lists the tools; empty where the answer names none."""
    order: str = ""
    """Text that says how to answer."""
    native: str = ""
    """Text in place of order and listing where a chat template has both; empty where they stay."""
    fields: FieldsOf = PromptFields.of
    """Builder of the slots."""

    @property
    def remembers(self) -> bool:
        """Whether prompts show the past as a suite's own function tells it."""
        return self.fields != PromptFields.of

    @property
    def lists_actions(self) -> bool:
        """Whether prompts list the possible actions; otherwise a policy must choose among them alone."""
        return "{actions}" in self.sections["actions"]

    def words(self) -> Iterator[str]:
        """Yield the words of the template, without its slots."""
        yield self.static
        for section in self.sections.values():
            yield from (text for text, *_ in Formatter().parse(section))

    def natively(self, writer: AnswerWriter) -> Self:
        """Return the template for models whose chat template tells the tools, and how to call them.

        ``writer``: writes answers as that does.
        """
        static = self.static.replace(f"{self.order}\n\n{self.listing}", self.native)
        return replace(self, static=static, listing="", answer=replace(self.answer, writer=writer))

    def below(self, text: str) -> Self:
        """Return the template with a text, such as a system message, before everything else."""
        return replace(self, static="\n\n".join(part for part in (text, self.static) if part))


def wordings() -> tuple[str, ...]:
    """Return the names of the built-in wordings; a suite has one of its own name."""
    return names_of("wordings")


def answers() -> tuple[str, ...]:
    """Return the names of the ways to answer."""
    return names_of("answers")


def load_template(wording: str, answer: str, tools: tuple[Tool, ...] = ()) -> Template:
    """Put a template together.

    Args:
        wording: one of `wordings`, or the path of a file of one's own, which ends in ``.toml``.
        answer: one of `answers`.
        tools: the environment's, its attribute ``tools``, for answers that call them; empty for those that
            the answer can do with: one that does any action, or a search and an answer.

    Raises:
        UsageError: there is no such wording, answer or file, or the file is no good; the message says
            which key, section or slot. Or the answer cannot be given with these tools.
    """
    phrases = read_wording(wording)
    where = f"the answer {answer!r}"
    how = parse_table(read_built_in("answers", answer, "answer"), _ANSWER_KEYS | _TOOLS, where)
    native = how.pop("native", "")  # no part of the words that a template always has
    check_complete(how, _ANSWER_KEYS, where)
    check_text(how["text"], ANSWER, where)
    answer_format, listing = format_of(how["format"]), ""
    if "tools" in how:
        tools = tools or answer_format.tools or (ACT,)
        answer_format = answer_format.bound(tools)
        check_text(how["tools"], TOOLS, where)
        listing = how["tools"].format(tools=listed_schemas(tools))
    order = how["text"].format(example=_example(phrases, answer_format))
    beginning = (phrases.sections.get("role", "").format(), order, listing)
    return Template(
        id=f"{phrases.id}/{how['id']}",
        version=".".join(str(version) for version in (*phrases.versions, how["version"])),
        sha256=sha256_json({"assembly": ASSEMBLY, "wording": phrases.to_json(), "answer": how}),
        sections=phrases.sections,
        separator=phrases.separator,
        static="\n\n".join(text for text in beginning if text),
        answer=answer_format,
        listing=listing,
        order=order,
        native=native,
        fields=load_reference(phrases.fields) if phrases.fields else PromptFields.of,
    )


def _example(phrases: Wording, answer_format: AnswerFormat) -> str:
    """Return the example of an answer: the wording's, or a call of the first tool where that is none."""
    try:
        return answer_format.write(phrases.example_thought, phrases.example_actions)
    except UsageError:
        if not answer_format.tools:
            raise
    return answer_format.write(phrases.example_thought, [answer_format.tools[0].example()])
