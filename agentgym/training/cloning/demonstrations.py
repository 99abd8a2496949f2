"""Demonstrations: a teacher's actions, as a model would write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agentgym.agents import make_agent
from agentgym.core.types import Completion, Policy, Request
from agentgym.errors import UsageError
from agentgym.inference.engines.choices import ActionSpeller
from agentgym.inference.models.language_model import LanguageModel
from agentgym.inference.policy.prompted import make_speller, prompt_maker
from agentgym.prompts.budget import PromptBuilder
from agentgym.prompts.fitting import FittedPrompt
from agentgym.prompts.settings import Prompting
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.learner.packing import StepRow, step_row, step_rows
from agentgym.vector.core import AgentVectorEnv


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """A teacher's episodes on some tasks, as a model would have written them."""

    rows: tuple[StepRow, ...]
    """Tokens of each step of the episodes that the teacher won."""
    episodes: int
    """Number of episodes that the teacher won."""
    played: int

    def __add__(self, other: Demonstrations) -> Demonstrations:
        """Return both together."""
        rows = (*self.rows, *other.rows)
        return Demonstrations(rows, self.episodes + other.episodes, self.played + other.played)

    @property
    def tokens(self) -> int:
        """Tokens of all answers."""
        return sum(len(row.response_ids) for row in self.rows)


class Demonstrator:
    """A policy that acts as the expert, and records each action as a model would write it."""

    def __init__(
        self,
        expert: Policy,
        builder: PromptBuilder,
        language_model: LanguageModel,
        speller: ActionSpeller | None,
        build: Callable[[Request], FittedPrompt] | None = None,
    ):
        """Bind the expert, and the parts that write its answers.

        ``speller`` is for constrained choices; None for free answers, which are written without a thought.
        ``build`` makes prompts of pictures too (default: the builder's, of words).
        """
        self._expert = expert
        self._builder = builder
        self._build = build or builder.build
        self._pictures = language_model.pictures
        self._chat = language_model.chat
        self._speller = speller
        end = language_model.tokenizer.eos_token_id
        if end is None:
            raise UsageError("the tokenizer has no eos_token, which ends an answer: set it")
        self._end: int = end

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer as the expert does."""
        decided = self._expert.act(requests)
        return [self._written(*pair) for pair in zip(requests, decided, strict=True)]

    def row(self, request: Request, written: Completion) -> StepRow:
        """Return an answer that was written to a request as a model is trained on it."""
        return step_row(written, request, self._speller, self._pictures)

    def _written(self, request: Request, decided: Completion) -> Completion:
        if decided.error is not None:
            return decided
        prompt = self._build(request).ids
        if self._speller is None:
            text = self._builder.template.answer.write("", [decided.action])
            response = (*self._chat.encode(text), self._end)
        else:
            response = self._speller.response(decided.action, request.admissible_actions)
        return replace(decided, prompt_ids=prompt, response_ids=response)


def demonstrator(
    envs: AgentVectorEnv,
    language_model: LanguageModel,
    prompting: Prompting,
    teacher: str = "oracle",
    *,
    speller: ActionSpeller | None = None,
) -> Demonstrator:
    """Return a teacher of an environment that writes as the model would."""
    builder = prompting.builder(language_model.chat, envs.prototype.tools)
    expert = envs.oracle() if teacher == "oracle" else make_agent(teacher, envs)
    return Demonstrator(
        expert,
        builder,
        language_model,
        speller or make_speller(prompting, language_model),
        prompt_maker(prompting, builder, language_model),
    )


def demonstrate(
    envs: AgentVectorEnv,
    language_model: LanguageModel,
    prompting: Prompting,
    *,
    tasks: int | Sequence[str],
    seed: int,
    teacher: str = "oracle",
) -> Demonstrations:
    """Let a teacher play tasks of an environment's split, each once.

    ``envs`` in autoreset mode DISABLED; ``tasks``: ids, or how many of the first, all where the split has
    fewer. `UsageError` where it wins nothing.
    """
    speller = make_speller(prompting, language_model)
    writer = demonstrator(envs, language_model, prompting, teacher, speller=speller)
    shown = envs.tasks.ids[:tasks] if isinstance(tasks, int) else tasks
    played = RolloutWorker(envs, writer, env_id="").collect(shown, group_size=1, seed=seed)
    won = [group for group in played if group.trajectories[0].won]
    if not won:
        name = "the oracle wins" if teacher == "oracle" else f"the agent {teacher!r} wins"
        raise UsageError(
            f"{name} none of {len(played)} tasks, so there is nothing to learn from: "
            "raise max_steps, or choose another split"
        )
    return Demonstrations(tuple(step_rows(won, speller, language_model.pictures)), len(won), len(played))
