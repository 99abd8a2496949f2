"""Recomputation of recorded responses: a model reads each with its prompt (teacher forcing)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor
from transformers import PreTrainedModel

from agentgym.core.options import check_choice
from agentgym.core.types import Completion, Request
from agentgym.errors import UsageError
from agentgym.evaluation.log.transcripts import TranscriptRecord, TranscriptTokens
from agentgym.evaluation.verify.model_check import Recomputed, Tolerance
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.responses import SampledResponse
from agentgym.inference.engines.sampling import uniform
from agentgym.inference.engines.types import Generation, GenerationRequest
from agentgym.inference.policy.agent import AgentEngine, make_model_agent
from agentgym.inference.policy.policy import LanguageModelPolicy, Question
from agentgym.inference.policy.rerank import RerankedPolicy
from agentgym.vector.core import AgentVectorEnv

TOLERANCES: Mapping[torch.dtype, Tolerance] = {
    torch.float32: Tolerance(logprob=1e-3, mean=1e-4, draw=1e-4),
    torch.bfloat16: Tolerance(logprob=0.5, mean=0.06, draw=0.05),
}
"""Tolerances by the type of the weights. Tokens sampled in batches with cached attention and recomputed
alone, of models of 0.1 to 5 million weights on one core, differ by at most 2e-5 nats in float32 (mean 5e-6,
draws 2e-8) and 0.12 in bfloat16 (mean 0.022, draws 0.012), over 19,500 tokens. Other machines add in another
order: float32 leaves room for twenty times that; bfloat16, whose rounding is the larger part on any machine,
for three times."""


def open_checker(envs: AgentVectorEnv, engine: AgentEngine = "hf", **options: Any) -> ModelResponseChecker:
    """Open what recomputes the responses of the agent ``model``; options are as of `make_model_agent`.

    transformers recomputes in any case; ``engine`` is what sampled.
    """
    check_choice("engine", engine, AgentEngine)
    policy = make_model_agent(envs, **options)
    if isinstance(policy, RerankedPolicy):
        raise UsageError(
            "responses that a reward model chose cannot be recomputed, since the others are not recorded: "
            "verify the run without its model"
        )
    return ModelResponseChecker(policy, own_draws=engine != "hf" and not policy.sampling.greedy)


_JudgedToken: TypeAlias = tuple[float, float, float, float]
"""Figures of a token, as `_judged` returns them."""

_ANOTHER = "a run of another version of agentgym is checked with that version, which run.json names"


@dataclass(frozen=True, slots=True)
class ModelResponseChecker:
    """Checker of responses with the policy that, by the run, sampled them."""

    policy: LanguageModelPolicy
    own_draws: bool = False
    """Whether the engine drew by numbers of its own, rather than by the episode's seed."""

    @property
    def model(self) -> PreTrainedModel:
        """The policy's model."""
        engine = self.policy.engine
        assert isinstance(engine, HfEngine)  # `make_model_agent` sees to it
        return engine.model

    @property
    def tolerance(self) -> Tolerance:
        """Tolerance for the weights' type."""
        tolerance = TOLERANCES[self.model.dtype]
        return replace(tolerance, draw=1.0) if self.own_draws else tolerance

    def recorded(self, request: Request, record: TranscriptRecord, number: int) -> Completion:
        """Return a recorded answer with its prompt made anew, as the `ResponseChecker` protocol."""
        step, question = record.steps[number], self.policy.question(request)
        if isinstance(question, Completion) or step.tokens is None:
            return Completion(step.action, text=step.response)
        return Completion(
            step.action,
            text=step.response,
            prompt_ids=question.generation.prompt_ids,
            response_ids=step.tokens.response_ids,
            messages=question.messages,
        )

    def recompute(self, request: Request, record: TranscriptRecord, number: int) -> Recomputed:
        """Recompute a response, as a `ResponseChecker` does."""
        step = record.steps[number]
        question = self.policy.question(request)
        if isinstance(question, Completion):
            same = (question.action, question.error or "") == (step.action, step.error)
            silent = not (step.response or step.completion_tokens)
            return Recomputed("" if same and silent else "the model is not asked here, but has answered")
        if step.tokens is None:
            return Recomputed("there are no token ids of the response")
        for problem in self._departures(question, record, number, step.tokens):
            return Recomputed(problem)
        return self._measured(question.generation, step.tokens)

    def _departures(
        self, question: Question, record: TranscriptRecord, number: int, tokens: TranscriptTokens
    ) -> Iterator[str]:
        """Yield what in a transcript differs from what its token ids say."""
        step, generation = record.steps[number], question.generation
        ids = tokens.response_ids
        if tokens.prompt is not None:
            if list(record.prompt_ids())[number] != generation.prompt_ids:
                yield f"the prompt has other token ids than those made anew; {_ANOTHER}"
            if record.messages(number) != question.messages:
                yield f"the messages are not those made anew; {_ANOTHER}"
        vocabulary = self.model.config.get_text_config().vocab_size
        if not ids or not all(0 <= token < vocabulary for token in ids):
            yield "the token ids of the response are none of the model's"
            return
        try:
            completion = self._completion(question, tokens)
        except ValueError as error:
            yield str(error)
            return
        ours = (completion.text, completion.action, completion.format_error, "")
        if ours != (step.response, step.action, step.format_error, step.error):
            yield f"its tokens say {completion.text!r:.60} and are read as {completion.action!r:.60}"

    def _completion(self, question: Question, tokens: TranscriptTokens) -> Completion:
        """Return the completion of token ids; ValueError where no response has these tokens."""
        request, ids = question.generation, tokens.response_ids
        if request.allowed is not None:
            request.allowed.action(ids)
            return self.policy.completion(question, Generation(ids, tokens.logprobs, 0, "choice"), 0.0)
        stops = request.sampling.stop_ids
        limit = SampledResponse.to(request, self.policy.engine.context_length).limit
        stopped = ids[-1] in stops
        if (
            any(token in stops for token in ids[:-1])
            or len(ids) > limit
            or not (stopped or len(ids) == limit)
        ):
            raise ValueError("the response does not end where the model stops")
        finish = Generation(ids, tokens.logprobs, 0, "stop" if stopped else "length")
        return self.policy.completion(question, finish, 0.0)

    def _measured(self, request: GenerationRequest, tokens: TranscriptTokens) -> Recomputed:
        ids = tokens.response_ids
        if len(tokens.logprobs) != len(ids):
            return Recomputed("there is not one log-probability for each token")
        log_probs, draws, surprises, variances = zip(*self._read(request, ids), strict=True)
        differences = tuple(ours - theirs for ours, theirs in zip(log_probs, tokens.logprobs, strict=True))
        furthest = max(range(len(ids)), key=lambda place: abs(differences[place]))
        missed = max(range(len(ids)), key=lambda place: draws[place])
        problem = ""
        if abs(differences[furthest]) > self.tolerance.logprob:
            problem = (
                f"token {furthest} has the log-probability {log_probs[furthest]:.4f}, "
                f"{tokens.logprobs[furthest]:.4f} was recorded"
            )
        elif draws[missed] > self.tolerance.draw:
            problem = f"token {missed} is not the one that the episode's seed draws, by {draws[missed]:.4f}"
        return Recomputed(problem, differences, draws[missed], sum(surprises), sum(variances))

    def _read(self, request: GenerationRequest, ids: tuple[int, ...]) -> list[_JudgedToken]:
        """Return what the model says about each token of a response, as `_judged`."""
        model, trie = self.model, request.allowed
        choices = None if trie is None else trie.allowed_along(ids)
        training = model.training
        model.train(False)
        try:
            with torch.inference_mode():
                tokens = torch.tensor([[*request.prompt_ids, *ids[:-1]]], device=model.device)
                logits = model(input_ids=tokens, use_cache=False, logits_to_keep=len(ids)).logits[0]
                return [
                    _judged(
                        row if choices is None else row[list(choices[place])],
                        token if choices is None else choices[place].index(token),
                        request.sampling.temperature,
                        uniform(request.seed, place),
                    )
                    for place, (row, token) in enumerate(zip(logits, ids, strict=True))
                ]
        finally:
            model.train(training)


def _judged(logits: Tensor, column: int, temperature: float, drawn: float) -> _JudgedToken:
    """Return a column's log-probability, and by how much probability a draw in [0, 1) misses it.

    Then its surprise, which is its negative log-probability less the entropy and in expectation 0 where it
    was sampled, and the variance of that.
    """
    log_probs = (logits.float() / (temperature or 1.0)).log_softmax(-1)
    log_prob = float(log_probs[column])
    if temperature == 0:
        return log_prob, float(log_probs.max().exp() - log_probs[column].exp()), 0.0, 0.0
    exact = log_probs.double()
    probabilities = exact.exp()
    cumulative = probabilities.cumsum(-1)
    place = drawn * float(cumulative[-1])
    begin = float(cumulative[column - 1]) if column else 0.0
    draw = max(begin - place, place - float(cumulative[column]), 0.0)
    entropy = -float((probabilities * exact).nansum())
    variance = float((probabilities * exact.square()).nansum()) - entropy**2
    return log_prob, draw, -log_prob - entropy, max(variance, 0.0)
