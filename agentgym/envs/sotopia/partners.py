"""Partners: who plays the other side. Each is a backend, so that a batch of episodes is one call.

A partner says what it wants to be asked (`Partner.question`) and answers with an action string. Scripted ones
are exact: nothing of them is recorded, and verification computes their moves anew. A language model's moves
are attested: a run records them, and its replay reads them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Final, Protocol, Self

from agentgym.core.hashing import canonical_json, content_id
from agentgym.core.queries import UNREADABLE, AnswerKind, QueryBackend
from agentgym.endpoint.chat import ChatMessage, ChatReply, ChatRequest, ChatSampling
from agentgym.envs.sotopia.actions import ACTION_TYPES, CALLS, NOTHING, SocialAction
from agentgym.envs.sotopia.builtin.partners import PARTNERS_VERSION, ScriptedPartner
from agentgym.envs.sotopia.builtin.temperaments import Temperament
from agentgym.envs.sotopia.game import GameState
from agentgym.envs.sotopia.modelcalls import (
    ModelPart,
    begun,
    finished,
    retry_messages,
    unanswered,
    unreadable,
)
from agentgym.envs.sotopia.pages import goal, page, read_move, templates
from agentgym.envs.sotopia.scenarios import Scenario, Side
from agentgym.envs.sotopia.suite import TOOLS
from agentgym.envs.sotopia.views import Detail
from agentgym.errors import UsageError
from agentgym.io.untrusted import loads_json, loads_toml
from agentgym.prompts import load_template
from agentgym.prompts.defusing import defused
from agentgym.prompts.fields import PromptFields
from agentgym.prompts.parsers import format_of
from agentgym.prompts.rendering import render
from agentgym.reading import read_text
from agentgym.reading.plain import last_object
from agentgym.reading.text import unfenced

_CALLING = format_of("tool-calls").bound(TOOLS)
_TOOL_NAMES = tuple(tool.name for tool in TOOLS)

MAX_REPLY_LENGTH: Final = 4_096
"""Characters of a partner's action. A longer one is none."""


def read_reply(answer: Any) -> SocialAction:
    """Validate a partner's untrusted answer as an action.

    It is an action string; or a table with replies that could not be read, and the action that came after.
    """
    if isinstance(answer, dict) and answer.get(UNREADABLE):
        answer = answer.get("action", NOTHING.written)
    action = _read(answer) if isinstance(answer, str) else None
    if action is None:
        raise UsageError(f"a partner answers with an action such as speak[words], got {answer!r:.80}")
    return action


def _read(text: str) -> SocialAction | None:
    return read_move(text) if len(text) <= MAX_REPLY_LENGTH else None


_MARKS = " \t>*`\"'“”.-"
_MARKED = f"[{re.escape(_MARKS)}]{{0,16}}"
_BEGIN = re.compile(
    rf"^{_MARKED}(?:action[ \t]*:{_MARKED})?(?:(?P<name>speak|non-verbal|action)(?: communication)?[ \t]*\[|"
    rf"(?P<bare>none|leave){_MARKED}$)",
    re.IGNORECASE | re.MULTILINE,
)
_BRACKET = re.compile(r"[\[\]]")


def read_action_reply(text: str) -> SocialAction | None:
    r"""Return the action that a model's reply states; None where it states none, or two.

    It may stand after a thought, in a code fence, quotes or bold, after ``Action:``, on the first line or the
    last of several, be SOTOPIA's JSON at the end, or a tool call.

    Example:
        >>> read_action_reply("<think>Hm.</think>**Speak[Good\nmorning!]**")
        SocialAction(type='speak', argument='Good morning!')
    """
    reading = read_text(text, _TOOL_NAMES)
    if reading.problem:
        return None
    if reading.calls:
        called = set(_CALLING.parse(text).actions)
        return read_move(called.pop()) if len(called) == 1 else None
    body = unfenced(reading.text)
    begun = list(_BEGIN.finditer(body))
    if not begun:
        return _object(text)
    ends = [*(each.start() for each in begun[1:]), len(body)]
    found = [_stated(body, each, end) for each, end in zip(begun, ends, strict=True)]
    action, last = found[-1]
    around = (body[: begun[0].start()], body[last:])
    same = all(each == action for each, _ in found)
    return action if same and not all(text.strip(_MARKS + "\n") for text in around) else None


def _stated(text: str, begun: re.Match[str], end: int) -> tuple[SocialAction | None, int]:
    """Return the action that begins at a match, and where it ends; none where its bracket is not closed."""
    if begun["bare"]:
        return read_move(begun["bare"].lower()), begun.end()
    depth = 1
    for bracket in _BRACKET.finditer(text, begun.end(), end):
        depth += 1 if bracket[0] == "[" else -1
        if depth == 0:  # an action ends with its line
            line = text.find("\n", bracket.end(), end)
            end = end if line < 0 else line
            words = " ".join(text[begun.end() : end].rstrip(_MARKS).split())
            return read_move(f"{begun['name'].lower()}[{words}") if words.endswith("]") else None, end
    return None, end


def _object(text: str) -> SocialAction | None:
    try:
        record = loads_json(last_object(text), "action", half_characters="kept")
    except UsageError:
        return None
    kind = record.get("action_type") if isinstance(record, dict) else None
    if not isinstance(kind, str):
        return None
    argument = record.get("argument")
    kind = CALLS.get(kind.lower(), kind.lower())
    return read_move(canonical_json({"action_type": kind, "argument": "" if argument is None else argument}))


class Partner(QueryBackend, Protocol):
    """Plays the other side: its answers are action strings."""

    def question(self, scenario: Scenario, side: Side, state: GameState, sample: int) -> Any:
        """Return the question: all that the answer depends on.

        Args:
            scenario: is played.
            side: the partner's.
            state: the conversation so far, the partner to act.
            sample: number of the attempt at a task, where answers are sampled.
        """


class TemperamentPartner:
    """A scripted partner of one temperament, for built-in scenarios.

    Its answers follow from the scenario and the conversation: they are exact, hence never recorded, and a
    question may hold the scenario itself.
    """

    def __init__(self, temperament: Temperament):
        """Know how it acts, as `agentgym.envs.sotopia.builtin.partners.ScriptedPartner` names it."""
        self._script = ScriptedPartner(temperament)
        self.temperament: Temperament = temperament
        self.kind = AnswerKind(f"partner {temperament}/{PARTNERS_VERSION}")

    def question(self, scenario: Scenario, side: Side, state: GameState, sample: int) -> Any:
        """Return scenario, side and conversation."""
        return scenario, side, state

    def answer(self, questions: Sequence[Any]) -> list[str]:
        """Return the script's action."""
        return [self._script.reply(*question).written for question in questions]

    def agrees(self, recorded: Any, computed: Any) -> bool:
        """Return whether both are the same action."""
        return bool(recorded == computed)


@cache
def _repair() -> str:
    file = files("agentgym.envs.sotopia").joinpath("prompts", "partner", "repair.toml")
    return str(loads_toml(file.read_text(encoding="utf-8"), file.name)["text"])


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerOptions:
    """Request options of a model that is the partner."""

    temperature: float = 0.7
    max_tokens: int = 512
    wording: str = "sotopia"
    """Wording, as `agentgym.prompts.load_template` takes it."""
    format: str = "plain"
    """The way to answer: ``plain`` or ``think-action``, as there."""


class ModelPartner:
    """A language model that plays the other side.

    It is asked in the prompt that a learner is asked in, on the same view, in one message;
    `read_action_reply` reads its answer. One that is no action is quoted back once; if the next one is none
    either, the partner does nothing in this turn, and what it said is recorded.
    """

    def __init__(
        self,
        model: ModelPart,
        options: PartnerOptions,
        detail: Detail,
        *,
        opening: bool = False,
    ):
        """Set model and options; ``detail`` bounds a side's knowledge of the other.

        Attempts at one task begin alike: with ``opening``, an opening is generated once for a task, at
        temperature 0.
        """
        self._template = load_template(options.wording, options.format)
        self._model, self._options, self._detail = model, options, detail
        self._opening = opening
        temperature = 0.0 if opening else options.temperature
        self._sampling = ChatSampling(temperature=temperature, max_tokens=options.max_tokens)
        self._prompt_id = f"{self._template.id} {self._template.version}"
        self._begun: dict[str, Future[Any]] = {}
        """Openings by the digest of what was asked; never filled for what comes after."""
        name = f"{model.identity} prompt {self._template.sha256[:16]} view {detail}"
        self.kind = AnswerKind(
            f"{'opening' if opening else 'partner'} {name} temperature {temperature:g} "
            f"max_tokens {options.max_tokens}",
            standing="attested",
            sampled=temperature > 0,
        )

    def for_openings(self) -> Self:
        """Return the same model as what opens conversations."""
        return type(self)(self._model, self._options, self._detail, opening=True)

    def question(self, scenario: Scenario, side: Side, state: GameState, sample: int) -> list[Any]:
        """Return the prompt, and which sample of its answers is wanted."""
        fields = PromptFields(
            task=defused(goal(scenario, side)),
            observation=defused(page(scenario, side, state, self._detail)),
            turn=sum(side in turn.acting for turn in state.turns),
            recent=(),
            admissible_actions=templates(ACTION_TYPES),
            location="",
            held="",
            moved=(),
        )
        return [render(self._template, fields).text, sample if self.kind.sampled else 0]

    def submit(self, question: Any) -> Future[Any]:
        """Request an action, twice at most; the result is one that `read_reply` takes."""
        prompt, sample = question
        known = content_id(prompt)
        if known in self._begun:
            return self._begun[known]
        answer = begun()
        request = ChatRequest(
            messages=(ChatMessage("user", prompt),),
            sampling=self._sampling,
            prompt_id=self._prompt_id,
            sample=sample,
        )
        if self._opening:
            self._begun[known] = answer
        self._model.ask(request).add_done_callback(
            lambda done: self._settle(answer, known, request, [], done)
        )
        return answer

    def _settle(
        self,
        answer: Future[Any],
        known: str,
        request: ChatRequest,
        unread: list[str],
        done: Future[ChatReply],
    ) -> None:
        try:
            reply = done.result().text
            action = self._action(reply)
            if action is not None:
                answer.set_result({"action": action, **unreadable(unread)} if unread else action)
            elif unread:
                answer.set_result(unreadable([*unread, reply]))
            else:
                again = replace(request, messages=retry_messages(request.messages[0], reply, _repair()))
                self._model.ask(again).add_done_callback(
                    lambda done: self._settle(answer, known, again, [reply], done)
                )
        except Exception as error:  # noqa: BLE001 (whoever waits for the action gets it)
            self._begun.pop(known, None)
            answer.set_exception(unanswered(error, "the partner"))

    def _action(self, text: str) -> str | None:
        """Return the action as it is recorded: as it was said, where a learner may say it so."""
        action = self._template.answer.parse(text).action
        if _read(action) is not None:
            return action
        found = read_action_reply(action or text)
        return found.written if found is not None and _read(found.written) is not None else None

    def answer(self, questions: Sequence[Any]) -> list[Any]:
        """Ask all at once, and wait; an UnansweredError stands for an answer that cannot be had."""
        return [finished(future) for future in [self.submit(question) for question in questions]]

    def agrees(self, recorded: Any, computed: Any) -> bool:
        """Return whether both are the same action."""
        return bool(recorded == computed)
