"""Records that engines take and give, and the protocol of an engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from torch import Tensor

from agentgym.core.options import NonNegativeFloat, PositiveInt, check_fields
from agentgym.inference.engines.choices import ActionTrie
from agentgym.inference.models.pictures import PicturePrompt

Finish: TypeAlias = Literal["stop", "length", "choice"]
"""Reason why a response ended: a stop id, its limit, or a complete allowed action."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters.

    None truncates the distribution, since what a learner recomputes must be what was sampled from: a sampler
    of one's own (`agentgym.inference.engines.sampling`) is applied by both.

    Example:
        >>> Sampling(temperature=0.7, max_tokens=32, stop_ids=(2,)).greedy
        False
    """

    temperature: NonNegativeFloat = 1.0
    """Divisor of the logits. 0 takes the likeliest token and reports its log-probability at 1: for evaluation
    only, since a learner refuses responses that were not sampled."""
    max_tokens: PositiveInt = 512
    """Most tokens of a free generation; a constrained one ends with its action."""
    stop_ids: tuple[int, ...] = ()
    """Token ids that end a free generation; the id is part of the response."""

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn from."""
        check_fields(self)

    @property
    def greedy(self) -> bool:
        """Whether decoding is greedy."""
        return self.temperature == 0


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prompt to be continued."""

    prompt_ids: tuple[int, ...]
    """Token ids of the prompt, at least one."""
    allowed: ActionTrie | None
    """Allowed actions, one of which the response must spell; None for a free generation."""
    sampling: Sampling
    seed: int
    """Seed of all draws of this response, independent of its batch."""
    shown: PicturePrompt | None = None
    """Pictures among the prompt's tokens; None for none."""
    episode: int = 0
    """Key of its episode: all its requests go to one server, which has cached the prompt's beginning."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One sampled response."""

    ids: tuple[int, ...]
    """Sampled tokens, the stop id included."""
    logprobs: tuple[float, ...]
    """Natural-log probability of each token under the sampling distribution."""
    version: int
    """Version of the weights; of the first token's where they changed within the response."""
    finish: Finish
    versions: tuple[int, ...] = ()
    """Weights' version for each token where it changed within the response; else empty."""


@runtime_checkable
class Engine(Protocol):
    """Anything that continues prompts with one causal language model."""

    @property
    def version(self) -> int:
        """Version of the weights that the next generation is sampled from."""

    @property
    def context_length(self) -> int:
        """Most tokens that a prompt and its response may have together."""

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Continue every prompt.

        Returns:
            One generation per request, in order. Neither its tokens nor its log-probabilities depend
            on the other requests, but for rounding.

        Raises:
            UsageError: a prompt leaves no room in the context for a response.
        """

    def submit(self, request: GenerationRequest) -> Future[Generation]:
        """Return the generation to come, as `generate` would; requests are drawn side by side.

        Raises:
            UsageError: as `generate`. What fails later is the future's exception.
        """

    def sync(self, state: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take over weights.

        Args:
            state: every tensor of the model by name, in any order; one of several tied names suffices.
            version: of these weights.

        Raises:
            UsageError: a tensor is unknown, missing or of another shape. Then all weights are as before.
        """
