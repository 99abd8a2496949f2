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

import numpy as np
import torch
from transformers import PreTrainedModel

from agentgym.core.arrays import Floats
from agentgym.core.rng import TurnRng
from agentgym.core.types import Completion, Request
from agentgym.errors import UsageError
from agentgym.training.engines.types import Generation, GenerationRequest
from agentgym.training.learner.config import CPU_TOKENS
from agentgym.training.learner.logprobs import response_log_probs
from agentgym.training.learner.packing import StepRow
from agentgym.training.learner.tree import PACKINGS
from agentgym.training.models.models import LanguageModel
from agentgym.training.models.reward_model_file import (
    REFERENCE,
    RewardModelFile,
    check_tokenizer,
    read_reward_model,
)
from agentgym.training.policy.policy import LanguageModelPolicy, Question


class ResponseReward:
    """The reward of responses by a saved reward model."""

    def __init__(self, model: PreTrainedModel, compared: PreTrainedModel, record: RewardModelFile):
        """Bind what rewards.

        Args:
            model: the reward model.
            compared: the policy that plays, or the frozen reference.
            record: how the two are compared.
        """
        self._model = model
        self._compared = compared
        self._record = record

    @classmethod
    def open(
        cls, directory: Path, policy: LanguageModel, load: Callable[[Path], LanguageModel]
    ) -> ResponseReward:
        """Load a reward model that a training run has saved.

        Args:
            directory: ``reward_model`` in a checkpoint.
            policy: that plays.
            load: loads a model directory as the policy was loaded.

        Raises:
            UsageError: there is none, or its tokenizer is another one.
        """
        record = read_reward_model(directory)
        loaded = load(directory)
        check_tokenizer(loaded, policy, str(directory))
        compared = load(directory / REFERENCE) if record.compared_with == "reference" else policy
        return cls(loaded.model, compared.model, record)

    def rewards(self, rows: Sequence[StepRow]) -> Floats:
        """Return (n,) the reward of each response.

        Args:
            rows: n responses with their prompts.
        """
        lengths = np.array([len(row.response_ids) for row in rows], dtype=np.int64)
        ratios = self._log_probs(self._model, rows) - self._log_probs(self._compared, rows)
        sums = np.bincount(np.repeat(np.arange(len(rows)), lengths), ratios, len(rows))
        return self._record.beta * sums.astype(np.float64)

    def _log_probs(self, model: PreTrainedModel, rows: Sequence[StepRow]) -> Floats:
        result = np.zeros(sum(len(row.response_ids) for row in rows))
        with torch.inference_mode():
            for pack in PACKINGS["tree"](rows, token_budget=CPU_TOKENS, device=model.device):
                log_probs, _ = response_log_probs(model, pack, temperature=self._record.temperature)
                result[pack.tokens] = log_probs.double().cpu().numpy()
        return result


class RerankedPolicy:
    """A language model policy that samples several responses a step and plays the most rewarded one.

    The first candidate is what the policy would have answered alone. All candidates count in the tokens of an
    answer: each is a response of its own to the prompt. Which tokens the chosen one has is not kept, since
    they are not all that was sampled.
    """

    def __init__(self, policy: LanguageModelPolicy, reward: ResponseReward, candidates: int):
        """Bind who answers and who chooses.

        Args:
            policy: samples; at a temperature above 0, or all candidates would be the same.
            reward: of a response.
            candidates: responses a step, k.

        Raises:
            UsageError: there is nothing to choose among.
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
        """Answer requests.

        Raises:
            UsageError: as the policy.
        """
        began = perf_counter()
        answers = [self.policy.question(request) for request in requests]
        questions = [answer for answer in answers if isinstance(answer, Question)]
        drawn = [one for question in questions for one in self._draws(question)]
        generations = self.policy.engine.generate(drawn)
        rows = [_row(one, generation) for one, generation in zip(drawn, generations, strict=True)]
        rewards = self.reward.rewards(rows).reshape(len(questions), self.candidates)
        seconds = (perf_counter() - began) / max(len(questions), 1)
        chosen = []
        for place, question in enumerate(questions):
            own = generations[place * self.candidates : (place + 1) * self.candidates]
            chosen.append(self._answer(question, own, int(rewards[place].argmax()), seconds))
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


def _row(request: GenerationRequest, generation: Generation) -> StepRow:
    allowed = request.allowed
    choices = None if allowed is None else allowed.allowed_along(generation.ids)
    return StepRow(request.prompt_ids, generation.ids, choices)
