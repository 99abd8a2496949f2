"""Partners: who plays the other side. Each is an answerer, so that a batch of episodes is one call.

A partner says what it wants to be asked (`Partner.question`) and answers with an action string. Scripted ones
are exact: nothing of them is recorded, and verification computes their moves anew. A language model's moves
are attested: a run records them, and its replay reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

from agentgym.core.hashing import content_id
from agentgym.core.queries import AnswerKind
from agentgym.endpoint.chat import ChatMessage, ChatReply, ChatRequest, ChatSampling
from agentgym.envs.sotopia.actions import ACTION_TYPES, NOTHING, SocialAction
from agentgym.envs.sotopia.builtin.partners import PARTNERS_VERSION, ScriptedPartner
from agentgym.envs.sotopia.builtin.temperaments import Temperament
from agentgym.envs.sotopia.game import GameState
from agentgym.envs.sotopia.modelcalls import ModelPart, begun, finished, unanswered
from agentgym.envs.sotopia.pages import goal, page, read_move, templates
from agentgym.envs.sotopia.scenarios import Scenario, Side
from agentgym.envs.sotopia.views import Detail
from agentgym.errors import UsageError
from agentgym.prompts import load_template
from agentgym.prompts.defusing import defused
from agentgym.prompts.fields import PromptFields
from agentgym.prompts.rendering import render

MAX_REPLY_LENGTH: Final = 4_096
"""Characters of a partner's action. A longer one is none."""


def read_reply(answer: Any) -> SocialAction:
    """Validate a partner's untrusted answer as an action."""
    action = _read(answer) if isinstance(answer, str) else None
    if action is None:
        raise UsageError(f"a partner answers with an action such as speak[words], got {answer!r:.80}")
    return action


def _read(text: str) -> SocialAction | None:
    return read_move(text) if len(text) <= MAX_REPLY_LENGTH else None


class Partner(Protocol):
    """Plays the other side; an `agentgym.core.queries.QueryBackend`."""

    @property
    def kind(self) -> AnswerKind:
        """The kind of its answers."""
        ...

    def question(self, scenario: Scenario, side: Side, state: GameState, sample: int) -> Any:
        """Return the question: all that the answer depends on.

        Args:
            scenario: is played.
            side: the partner's.
            state: the conversation so far, the partner to act.
            sample: tells attempts at one task apart, where answers are sampled.
        """
        ...

    def answer(self, questions: Sequence[Any]) -> Sequence[Any]:
        """Return an action string for each question."""
        ...

    def agrees(self, said: Any, computed: Any) -> bool:
        """Return whether an answer that was recorded is the one computed here."""
        ...


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

    def agrees(self, said: Any, computed: Any) -> bool:
        """Return whether both are the same action."""
        return bool(said == computed)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerOptions:
    """Request options of a model that is the partner."""

    temperature: float = 0.7
    max_tokens: int = 512
    wording: str = "sotopia"
    """As `agentgym.prompts.load_template` takes it."""
    format: str = "plain"
    """The way to answer: ``plain`` or ``think-action``, as there."""


class ModelPartner:
    """A language model that plays the other side.

    It is asked in the prompt that a learner is asked in, on the same view, in one message. What it answers is
    recorded as text and read here: an answer that is no action that it may do is ``none``.
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
        """Ask; the result is an action string, ``none`` where the model gave no action."""
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
        self._model.ask(request).add_done_callback(lambda done: self._settle(answer, known, done))
        return answer

    def _settle(self, answer: Future[Any], known: str, done: Future[ChatReply]) -> None:
        try:
            answer.set_result(self._action(done.result().text))
        except Exception as error:  # noqa: BLE001 (whoever waits for the action gets it)
            self._begun.pop(known, None)
            answer.set_exception(unanswered(error, "the partner"))

    def _action(self, text: str) -> str:
        action = self._template.answer.parse(text).action
        return action if _read(action) is not None else NOTHING.written

    def answer(self, questions: Sequence[Any]) -> list[Any]:
        """Ask all at once, and wait; an UnansweredError stands for an answer that cannot be had."""
        return [finished(future) for future in [self.submit(question) for question in questions]]

    def agrees(self, said: Any, computed: Any) -> bool:
        """Return whether both are the same action."""
        return bool(said == computed)
