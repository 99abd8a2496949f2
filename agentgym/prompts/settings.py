"""Prompt settings: wording, answer format, history, budget and sampling of a policy's prompts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agentgym.core.hashing import sha256_json
from agentgym.core.options import NonNegativeFloat, NonNegativeInt, PositiveInt, check_fields
from agentgym.core.suite_spec import PromptDefaults
from agentgym.core.tools import Tool, listed_schemas, tool_schemas
from agentgym.core.types import Message
from agentgym.errors import UsageError
from agentgym.io.records import parse
from agentgym.prompts import Template, load_template
from agentgym.prompts.budget import PromptBuilder
from agentgym.prompts.chat_template import NO_OPTIONS, ChatSetup
from agentgym.prompts.chat_tokenizer import ChatTokenizer
from agentgym.prompts.contexts import CHATS, Context
from agentgym.prompts.pictured import PictureUse
from agentgym.prompts.rendering import PromptTemplate
from agentgym.prompts.summary import summary_words
from agentgym.prompts.template_file import TemplateFile, load_template_file
from agentgym.prompts.tool_trip import INSTEAD, NativeWriter

ActionChoice: TypeAlias = Literal["constrained", "free"]
"""Whether a response spells one of the admissible actions, or is free text that is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompting:
    """How prompts are worded, and how responses are drawn and read.

    Example:
        >>> from agentgym.registration import suite_spec
        >>> prompting = Prompting.tiny(suite_spec("agentgym/Sokoban-v0").prompt)
        >>> prompting.template.id, prompting.choice
        ('terse/bare', 'constrained')
        >>> Prompting.from_json(prompting.to_json()) == prompting
        True
    """

    wording: str = ""
    """Name of one of `agentgym.prompts.wordings`, or the path of a file that ends in ``.toml``."""
    answer: str = ""
    """Name of one of `agentgym.prompts.answers`: how to answer, and what reads the response."""
    history: NonNegativeInt = 2
    """Past turns told, k, where they fit."""
    budget: PositiveInt = 2048
    """Largest number of tokens in a prompt."""
    choice: ActionChoice = "free"
    temperature: NonNegativeFloat = 1.0
    max_tokens: PositiveInt = 512
    """Longest free response."""
    system: str = ""
    """System message; empty for none. Where the chat template has no place for it, prompts begin with it."""
    template_options: Mapping[str, Any] = field(default_factory=dict)
    """Further variables of the model's chat template, such as ``{"enable_thinking": False}``."""
    pictures: PictureUse = "none"
    """Whether a vision-language model is shown the picture of the observation it answers."""
    context: Context = "rebuilt"
    """Part of an episode's past that a prompt shows, and its form: one of `agentgym.prompts.contexts`."""
    template_file: str = ""
    """A whole prompt in place of wording and answer: the path of a file that ends in ``.toml``, or a built-in
    one, as `agentgym.prompts.template_file.load_template_file` takes it."""

    def __post_init__(self) -> None:
        """Refuse what no template, prompt or sampling can be made of.

        Raises:
            UsageError: names the setting.
        """
        check_fields(self)
        if self.pictures != "none" and self.context in CHATS:
            raise UsageError(
                f"a chat of several turns has no place for pictures: use the context 'rebuilt', not "
                f"{self.context!r}"
            )
        for name, value in self.template_options.items():
            _check_option(name, value)
        if bool(self.template_file) == bool(self.wording or self.answer):
            raise UsageError(
                "give either a wording and an answer or a template_file, which is both: leave the other out"
            )
        template = self.template
        if isinstance(template, TemplateFile):
            self._check_file(template)
        if self.choice == "constrained" and template.answer.name != "plain":
            raise UsageError(
                f"a constrained response is the action alone, but {self.answer or self.template_file!r} "
                "asks for more: "
                "use the answer 'bare' or 'plain', or free choice"
            )
        if isinstance(template, Template):
            self._check_wording(template)

    def _check_wording(self, template: Template) -> None:
        """Refuse a wording that the context or the choice cannot do with."""
        if self.context != "rebuilt" and template.remembers:
            raise UsageError(
                f"the wording {self.wording!r} tells the past by itself: use context 'rebuilt', "
                f"or another wording with {self.context!r}"
            )
        if self.choice == "free" and not template.lists_actions:
            raise UsageError(
                f"the wording {self.wording!r} does not list the possible actions: use choice 'constrained', "
                "or a wording that does"
            )

    def _check_file(self, template: TemplateFile) -> None:
        """Refuse a file without a text that the context needs."""
        where = f"the template file {self.template_file}"
        if self.context in CHATS:
            if "turn" not in template.texts:
                raise UsageError(
                    f"{where} lacks 'turn', a later message of the context {self.context!r}: add it"
                )
        elif self.context == "summarised" and not template.takes("later", "summary"):
            raise UsageError(f"{where} lacks the slot {{summary}} in 'later', for its context: add it")
        elif self.history and "later" not in template.texts:
            raise UsageError(
                f"{where} lacks 'later', a prompt that tells past turns: add it, or set history to 0"
            )

    @classmethod
    def tiny(cls, default: PromptDefaults) -> Prompting:
        """Return the settings for tiny models: few words, and a choice among the admissible actions.

        Args:
            default: the suite's defaults: `agentgym.registration.suite_spec` has them.
        """
        return cls(
            wording=default.tiny_wording,
            answer="bare",
            history=default.tiny_history,
            choice="constrained",
        )

    @classmethod
    def default(cls, default: PromptDefaults) -> Prompting:
        """Return the settings for models that can read: free text, a thought and an action between tags."""
        return cls(wording=default.wording, answer="think-action", history=default.history)

    # ---- what it makes ------------------------------------------------------------------------

    @property
    def context_length(self) -> int:
        """Largest number of tokens in a prompt (in a context of chats: the whole chat) and its response."""
        return self.budget + self.max_tokens

    @property
    def template(self) -> PromptTemplate:
        """The words; read once, and again where another wording, answer or file is named."""
        return self.template_with(())

    def template_with(self, tools: tuple[Tool, ...]) -> PromptTemplate:
        """Return the words with an environment's tools, where the answer calls them.

        Raises:
            UsageError: the answer cannot be given with these tools.
        """
        if self.template_file:
            return _template_file(self.template_file, tools)
        return _template(self.wording, self.answer, tools)

    @property
    def sha256(self) -> str:
        """64 hex digits over the template's words, system message, options of the chat template and context.

        The template's own where there are only words.
        """
        more: dict[str, Any] = {}
        if self.system or self.template_options:
            more |= {"system": self.system, "template_options": dict(self.template_options)}
        if self.context != "rebuilt":
            more["context"] = self.context
        if self.pictures != "none":
            more["pictures"] = self.pictures
        if self.context == "summarised":
            more["summary"] = summary_words().sha256
        words = self.template.sha256
        return sha256_json({"template": words, **more}) if more else words

    def builder(self, chat: ChatTokenizer, tools: tuple[Tool, ...] = ()) -> PromptBuilder:
        """Return what turns requests into prompts and responses into actions.

        Args:
            chat: writes out what the model is sent. Its chat template is handed the system message and the
                tools where it has a place for them; else they are written into the prompts.
            tools: tools of the environment.

        Raises:
            UsageError: the answer cannot be given with these tools, the chat template never reads one of
                `template_options`, writes calls that cannot be read back, or no chat of several turns where
                the context is one.
        """
        template = self.template_with(tools)
        handed = tuple(tool_schemas(template.answer.tools)) if template.native else ()
        chat = chat.set_up(ChatSetup(self.system, handed, self.template_options))
        before = []
        if chat.setup.tools and isinstance(template, Template):
            trip = chat.tool_trip(template.answer.tools)
            if trip.problem:
                raise UsageError(f"the model's chat template takes tools, but {trip.problem}; {INSTEAD}")
            template = template.natively(NativeWriter(trip))
            before.append(Message("tools", listed_schemas(template.answer.tools)))
        if chat.setup.system:
            before.append(Message("system", self.system))
        else:
            template = template.below(self.system)
        if self.context in CHATS:
            chat.encode_next("a", ())  # refuses a chat template that writes no chat of several turns
        if self.context == "window":
            chat.check_window()
        return PromptBuilder(template, chat, self.budget, self.history, tuple(before), self.context)

    # ---- JSON ---------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON, with what pins the template's words."""
        template = self.template
        pin = {"id": template.id, "version": template.version, "sha256": template.sha256}
        return {**asdict(self), "template": pin}

    @classmethod
    def from_json(
        cls, table: Mapping[str, Any], *, where: str = "prompting", folder: Path | None = None
    ) -> Prompting:
        """Undo `to_json`.

        Args:
            table: the JSON.
            where: names its place in messages.
            folder: folder of a file of one's own; None for where its path leads from here.

        Raises:
            UsageError: something is missing, unknown or of another type, or the template's words are no
                longer those that the settings were saved with.
        """
        settings = {key: value for key, value in table.items() if key != "template"}
        for name in OWN_FILES:
            path = settings.get(name)
            if folder is not None and isinstance(path, str) and path.endswith(".toml"):
                settings[name] = str(folder / path)
        prompting = parse(cls, settings, where)
        pinned = parse(TemplatePin, table.get("template", {}), f"{where}: template")
        template = prompting.template
        if pinned.sha256 != template.sha256:
            raise UsageError(
                f"{where}: the words of the template {pinned.id} have changed: version {pinned.version} "
                f"(sha256 {pinned.sha256:.12}) was saved, version {template.version} "
                f"(sha256 {template.sha256:.12}) is here; install the agentgym it was saved with"
            )
        return prompting

    def replaced(self, settings: Mapping[str, Any]) -> Prompting:
        """Return the record with some settings replaced; those that are None stay.

        A template file replaces wording and answer, and they it.

        Raises:
            UsageError: a setting is unknown, of another type, or no good.
        """
        given = {key: value for key, value in settings.items() if value is not None}
        return parse(Prompting, with_words_of(given, {**asdict(self), **given}), "prompting")


UNMENTIONED: Mapping[str, Any] = {
    "system": "",
    "template_options": {},
    "pictures": "none",
    "context": "rebuilt",
}
"""Settings that runs do not mention where they have these values, as those from before them cannot."""

OWN_FILES = ("wording", "template_file")
"""Settings that may be paths of files."""

SETTINGS = tuple(field.name for field in fields(Prompting))
"""The names of all settings."""


@dataclass(frozen=True, slots=True)
class TemplatePin:
    """Record of a saved prompting's template, under the key ``template``."""

    id: str
    version: str
    sha256: str


def with_words_of(given: Iterable[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which words that were not given make room for those that were.

    Args:
        given: names of the settings that were.
        settings: all of them.
    """
    named = set(given)
    if settings.get("template_file") and "template_file" in named and not named & {"wording", "answer"}:
        return {**settings, "wording": "", "answer": ""}
    if named & {"wording", "answer"} and "template_file" not in named:
        return {**settings, "template_file": ""}
    return dict(settings)


_template_file = cache(load_template_file)
_template = cache(load_template)


def _check_option(name: str, value: Any) -> None:
    """Refuse what is no option of a chat template."""
    if not name.isidentifier() or name in NO_OPTIONS or name.startswith("_") or name.endswith("_token"):
        raise UsageError(f"template_options: {name!r} is not an option of a chat template: leave it out")
    plain = isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))
    if not plain:
        raise UsageError(
            f"template_options: {name} is true or false, a number or a string, got {value!r:.60}"
        )
