"""A template: a wording, which tells a suite, and a way to answer.

Both are TOML files. Every word of a prompt that does not come from the environment is in them, so that
a template's sha256 pins its prompts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from agentgym.hashing import sha256_json
from agentgym.prompts.parsers import AnswerFormat, format_of
from agentgym.prompts.sections import ANSWER, check_text
from agentgym.prompts.wording import (
    check_complete,
    names_of,
    parse_table,
    read_built_in,
    read_wording,
)

ASSEMBLY = 1
"""Version of how `agentgym.prompts.rendering.render` puts sections together; hashed with the words."""

_ANSWER_KEYS = {"id": str, "version": int, "format": str, "text": str}


@dataclass(frozen=True, slots=True)
class Template:
    """What prompts are rendered from, and what reads the responses.

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
    """64 hex digits over every word of it, whatever files they are in."""
    sections: Mapping[str, str]
    """Texts by name, with slots as ``{name}``; `agentgym.prompts.sections` has the slots."""
    separator: str
    """Stands between possible actions."""
    static: str
    """The beginning of every prompt: the role, and how to answer with its example."""
    answer: AnswerFormat
    """Reads the responses."""


def wordings() -> tuple[str, ...]:
    """Return the names of the built-in wordings; a suite has one of its own name."""
    return names_of("wordings")


def answers() -> tuple[str, ...]:
    """Return the names of the ways to answer."""
    return names_of("answers")


def load_template(wording: str, answer: str) -> Template:
    """Put a template together.

    Args:
        wording: one of `wordings`, or the path of a file of one's own, which ends in ``.toml``.
        answer: one of `answers`.

    Raises:
        UsageError: there is no such wording, answer or file, or the file is no good; the message says
            which key, section or slot.
    """
    told = read_wording(wording)
    where = f"the answer {answer!r}"
    how = parse_table(read_built_in("answers", answer, "answer"), _ANSWER_KEYS, where)
    check_complete(how, _ANSWER_KEYS, where)
    check_text(how["text"], ANSWER, where)
    answer_format = format_of(how["format"])
    example = answer_format.write(told.example_thought, told.example_actions)
    beginning = (told.sections.get("role", "").format(), how["text"].format(example=example))
    return Template(
        id=f"{told.id}/{how['id']}",
        version=".".join(str(version) for version in (*told.versions, how["version"])),
        sha256=sha256_json({"assembly": ASSEMBLY, "wording": asdict(told), "answer": how}),
        sections=told.sections,
        separator=told.separator,
        static="\n\n".join(text for text in beginning if text),
        answer=answer_format,
    )
