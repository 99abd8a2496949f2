"""Best of k at test time: of several sampled responses, the one that a saved reward model rewards most.

The reward of a response is what training gave it (`agentgym.training.learner.reward_model`):
``beta (log pi_RM - log pi_compared)``, summed over its tokens, at the temperature of training; compared with
the policy that plays (iStar), or with the reward model's frozen reference (PRIME).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from agentgym.core.arrays import Floats
from agentgym.core.rng import TurnRng
from agentgym.core.types import Completion, Request
from agentgym.errors import UsageError
from agentgym.inference.engines.types import Generation, GenerationRequest
from agentgym.inference.models.language_model import LanguageModel
from agentgym.inference.models.reward_model_file import (
    REFERENCE,
    RewardModelFile,
    check_tokenizer,
    read_reward_model,
)
from agentgym.inference.policy.policy import LanguageModelPolicy, Question


class Candidate(NamedTuple):
    """A response to a prompt."""

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    choices: tuple[tuple[int, ...], ...] | None
    """Tokens that each was chosen from; None for the whole vocabulary."""


class ResponseReward:
    """The reward of responses by a saved reward model."""

    def __init__(self, model: PreTrainedModel, compared: PreTrainedModel, record: RewardModelFile):
        """Bind the reward model and what it is compared with: the playing policy, or the frozen reference."""
        self._model = model
        self._compared = compared
        self._record = record

    @classmethod
    def open(
        cls, directory: Path, policy: LanguageModel, load: Callable[[Path], LanguageModel]
    ) -> ResponseReward:
        """Load a checkpoint's reward model by ``load``, which loads a directory as the policy was loaded."""
        record = read_reward_model(directory)
        loaded = load(directory)
        check_tokenizer(loaded, policy, str(directory))
        compared = load(directory / REFERENCE) if record.compared_with == "reference" else policy
        return cls(loaded.model, compared.model, record)

    def rewards(self, candidates: Sequence[Candidate]) -> Floats:
        """Return (k,) the reward of each of k responses to one prompt."""
        ratios = self._log_probs(self._model, candidates) - self._log_probs(self._compared, candidates)
        return self._record.beta * ratios

    def _log_probs(self, model: PreTrainedModel, candidates: Sequence[Candidate]) -> Floats:
        """Return (k,) the sum of each response's log-probabilities."""
        longest = max(len(each.response_ids) for each in candidates)
        padded = [
            (*each.prompt_ids, *each.response_ids, *(0,) * (longest - len(each.response_ids)))
            for each in candidates
        ]  # attention is causal, so no token attends to the padding after it
        with torch.inference_mode():
            tokens = torch.tensor(padded, device=model.device)
            logits = model(input_ids=tokens[:, :-1], use_cache=False, logits_to_keep=longest).logits
            return np.array([self._sum(row, each) for row, each in zip(logits, candidates, strict=True)])

    def _sum(self, logits: Tensor, candidate: Candidate) -> float:
        """Return the log-probability of a response, from (at least its length, vocabulary) logits."""
        ids = torch.tensor(candidate.response_ids, device=logits.device)
        scaled = logits[: len(ids)].float() / (self._record.temperature or 1.0)
        if candidate.choices is not None:
            allowed = torch.full_like(scaled, -torch.inf)
            for place, choices in enumerate(candidate.choices):
                allowed[place, list(choices)] = 0.0
            scaled += allowed
        return float(scaled.log_softmax(-1).gather(1, ids[:, None]).double().sum())


class RerankedPolicy:
    """A language model policy that samples several responses a step and plays the most rewarded one.

    The first candidate is what the policy would have answered alone. All candidates count in the tokens of an
    answer: each is a response of its own to the prompt. Which tokens the chosen one has is not kept, since
    they are not all that was sampled.
    """

    def __init__(self, policy: LanguageModelPolicy, reward: ResponseReward, candidates: int):
        """Bind who answers and who chooses among k candidates a step.

        At a temperature of 0 all candidates would be the same.
        """
        if candidates < 1:
            raise UsageError(f"candidates must be at least 1, got {candidates}")
        if candidates > 1 and policy.sampling.greedy:
            raise UsageError(
                "at temperature 0 all candidates are the same: set a temperature above 0, such as "
                "--option temperature=0.4"
            )
        self.policy = policy
        self.reward = reward
        self.candidates = candidates

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer requests."""
        began = perf_counter()
        answers = [self.policy.question(request) for request in requests]
        questions = [answer for answer in answers if isinstance(answer, Question)]
        drawn = [one for question in questions for one in self._draws(question)]
        generations = self.policy.engine.generate(drawn)
        candidates = [_candidate(one, generation) for one, generation in zip(drawn, generations, strict=True)]
        best = [
            int(self.reward.rewards(candidates[first : first + self.candidates]).argmax())
            for first in range(0, len(candidates), self.candidates)
        ]
        seconds = (perf_counter() - began) / max(len(questions), 1)
        chosen = []
        for place, question in enumerate(questions):
            own = generations[place * self.candidates : (place + 1) * self.candidates]
            chosen.append(self._answer(question, own, best[place], seconds))
        completions = iter(chosen)
        return [next(completions) if isinstance(answer, Question) else answer for answer in answers]

    def _draws(self, question: Question) -> list[GenerationRequest]:
        """Return a request for each candidate, the policy's own first."""
        request, generation = question.request, question.generation
        numbers = TurnRng(request.seed, request.turn)
        return [replace(generation, seed=numbers.below(1 << 64)) for _ in range(self.candidates)]

    def _answer(
        self, question: Question, candidates: Sequence[Generation], best: int, seconds: float
    ) -> Completion:
        answer = self.policy.completion(question, candidates[best], seconds)
        if self.candidates == 1:
            return answer
        return replace(
            answer,
            prompt_ids=(),
            response_ids=(),
            logprobs=(),
            prompt_tokens=self.candidates * answer.prompt_tokens,
            completion_tokens=sum(len(each.ids) for each in candidates),
        )


def _candidate(request: GenerationRequest, generation: Generation) -> Candidate:
    allowed = request.allowed
    choices = None if allowed is None else allowed.allowed_along(generation.ids)
    return Candidate(request.prompt_ids, generation.ids, choices)
