"""Template files: a whole prompt as one TOML file, laid out as its author wants.

A wording and an answer share an order: instructions first. A published template may have another, and a model
that was trained on it is asked as it was trained. The names of its slots are those of verl-agent's templates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from string import Formatter
from typing import Any, Self

from agentgym.core.hashing import sha256_json
from agentgym.core.tools import ACT, Tool, listed_schemas
from agentgym.errors import UsageError
from agentgym.prompts.fields import FieldsOf, PromptFields
from agentgym.prompts.formats.tags import tag_format
from agentgym.prompts.parsers import AnswerFormat, format_of
from agentgym.prompts.sections import Section, check_text
from agentgym.prompts.wording import check_complete, check_keys, parse_table, read_built_in, read_file

_SEEN = "task_description step_count current_step admissible_actions location held moved tools"
_PAST = "action_history history_length summary"

TEXTS: Mapping[str, Section] = {
    "first": Section(frozenset(("current_observation",)), frozenset(_SEEN.split())),
    "later": Section(
        frozenset(("current_observation", "action_history")), frozenset(f"{_SEEN} {_PAST}".split()), True
    ),
    "turn": Section(frozenset(("current_observation",)), frozenset(_SEEN.split()), True),
    "exchange": Section(frozenset(("action",)), frozenset(("observation", "number")), True),
    "action": Section(frozenset(("action",)), optional=True),
    "cut": Section(frozenset(("cut",)), optional=True),
}
"""The texts of a file, and the slots that each must and may have."""

_KEYS = {
    "id": str,
    "version": int,
    "between": str,
    "separator": str,
    "response": dict,
    **dict.fromkeys(TEXTS, str),
}
_RESPONSE = {"format": str, "action_tag": str, "thought_tag": str}


@dataclass(frozen=True, slots=True)
class TemplateFile:
    """Template of prompts in one file, in place of an `agentgym.prompts.template.Template`.

    Example:
        >>> template = load_template_file("instructions-last")
        >>> template.id, template.version
        ('instructions-last/tags', '1')
        >>> template.answer.parse("<think>Up.</think><action>up</action>").action
        'up'
    """

    id: str
    """Name of the file, a slash, and the format of its answers."""
    version: str
    sha256: str
    """64 hex digits over everything in the file."""
    texts: Mapping[str, str]
    """Texts by name, with slots as ``{name}``: `TEXTS` has the names."""
    between: str
    """Separator between past turns."""
    separator: str
    """Separator between possible actions."""
    answer: AnswerFormat
    """Format of the responses."""
    tools: str = ""
    """Text of the slot ``tools``."""
    above: str = ""
    """Text before every prompt: a system message that a chat template has no place for."""

    @property
    def fields(self) -> FieldsOf:
        """Builder of the slots: never a suite's own function."""
        return PromptFields.of

    @property
    def native(self) -> str:
        """Empty: a file tells the tools itself, and no chat template is handed them."""
        return ""

    def below(self, text: str) -> Self:
        """Return the template with a text, such as a system message, before everything else."""
        return replace(self, above=text)

    def takes(self, text: str, slot: str) -> bool:
        """Return whether the file has a text, and the text a slot."""
        return any(name == slot for _, name, *_ in Formatter().parse(self.texts.get(text, "")))

    def words(self) -> Iterator[str]:
        """Yield the words of the template, without its slots."""
        for text in (*self.texts.values(), self.between, self.separator, self.tools):
            yield from (piece for piece, *_ in Formatter().parse(text))

    def render_whole(self, fields: PromptFields, omitted: int, cut: int) -> str:
        """Return a prompt that holds everything; as the first one where no past turn is to be told."""
        first = not (fields.recent or fields.summary or omitted)
        return self._filled("first" if first else "later", fields, cut)

    def render_opening(self, fields: PromptFields, cut: int) -> str:
        """Return the first message of a chat."""
        return self._filled("first", fields, cut)

    def render_present(self, fields: PromptFields, cut: int) -> str:
        """Return a later message of a chat."""
        return self._filled("turn", fields, cut)

    def _filled(self, name: str, fields: PromptFields, cut: int) -> str:
        texts, recent = self.texts, fields.recent
        seen = fields.observation
        if cut:
            seen = seen[: len(seen) - cut] + texts.get("cut", "").format(cut=cut)
        past = [
            texts["exchange"].format(number=number, observation=past.observation, action=past.action)
            for number, past in enumerate(recent, start=fields.turn - len(recent) + 1)
        ]
        actions = [texts.get("action", "{action}").format(action=each) for each in fields.admissible_actions]
        text = texts[name].format(
            task_description=fields.task,
            step_count=fields.turn,
            current_step=fields.turn + 1,
            history_length=len(recent),
            action_history=self.between.join(past),
            summary=fields.summary,
            current_observation=seen,
            admissible_actions=self.separator.join(actions),
            location=fields.location,
            held=fields.held,
            moved=", ".join(fields.moved),
            tools=self.tools,
        )
        return f"{self.above}\n\n{text}" if self.above and name != "turn" else text


def load_template_file(name: str, tools: tuple[Tool, ...] = ()) -> TemplateFile:
    """Read a template file.

    Args:
        name: the path of a file that ends in ``.toml``, or a built-in one.
        tools: the environment's, which fill the slot ``tools`` and check the calls of a response.

    Raises:
        UsageError: there is no such file, or it is no good; the message names the key or the slot.
    """
    own = name.endswith(".toml")
    where = f"the template file {name}"
    text = read_file(Path(name), where) if own else read_built_in("files", name, "template file")
    table = parse_table(text, _KEYS, where)
    check_complete(table, ("id", "version", "first", "response"), where)
    texts = {key: table[key] for key in TEXTS if key in table}
    for key, each in texts.items():
        check_text(each, TEXTS[key], f"{where}: {key}")
    if "later" in texts and "exchange" not in texts:
        raise UsageError(f"{where} lacks 'exchange', one past turn of {{action_history}}: add it")
    answer = _answer(table["response"], where)
    listing = ""
    if answer.tools or answer.needs or any("{tools}" in each for each in texts.values()):
        tools = tools or answer.tools or (ACT,)
        answer, listing = answer.bound(tools), listed_schemas(tools)
    return TemplateFile(
        id=f"{table['id']}/{answer.name}",
        version=str(table["version"]),
        sha256=sha256_json({"template_file": table}),
        texts=texts,
        between=table.get("between", "\n"),
        separator=table.get("separator", ", "),
        answer=answer,
        tools=listing,
    )


def _answer(table: Mapping[str, Any], where: str) -> AnswerFormat:
    """Return what reads the responses: a known format, or tags."""
    check_keys(table, _RESPONSE, f"{where}: response")
    if ("format" in table) == ("action_tag" in table):
        raise UsageError(
            f"{where}: response says how to read an answer: give either format, or action_tag and, where the "
            "answer begins with a thought, thought_tag"
        )
    if "format" not in table:
        return tag_format(table["action_tag"], table.get("thought_tag", ""))
    if "thought_tag" in table:
        raise UsageError(f"{where}: response: a format has its own tags: leave out thought_tag")
    return format_of(table["format"])
