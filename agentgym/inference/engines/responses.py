"""Responses that are being drawn, token by token."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentgym.errors import UsageError
from agentgym.inference.engines.choices import ROOT
from agentgym.inference.engines.types import Finish, Generation, GenerationRequest


@dataclass(slots=True, eq=False)
class SampledResponse:
    """A response that is being drawn."""

    request: GenerationRequest
    limit: int
    """Most tokens of the response."""
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    fed: int = 0
    """Number of its tokens that the model has processed."""
    node: int = ROOT
    """Position in the trie of allowed actions."""
    finish: Finish | None = None
    versions: list[int] = field(default_factory=list)
    """Versions of the weights that sampled the tokens up to the last `mark`."""

    @classmethod
    def to(cls, request: GenerationRequest, context_length: int) -> SampledResponse:
        """Begin a response, with the tokens that have no alternative.

        `UsageError` where the prompt is empty, or leaves no room in the context for a response.
        """
        room = context_length - len(request.prompt_ids)
        if not request.prompt_ids:
            raise UsageError("a prompt has no tokens: give at least one")
        needed = 1 if request.allowed is None else request.allowed.longest
        if room < needed:
            raise UsageError(
                f"a prompt of {len(request.prompt_ids)} tokens leaves room for {max(room, 0)} of the "
                f"{needed} that its response needs in the model's context of {context_length}: "
                "shorten the prompt"
            )
        limit = needed if request.allowed is not None else min(room, request.sampling.max_tokens)
        response = cls(request, limit)
        response._follow()
        return response

    def take(self, token: int, logprob: float) -> None:
        """Append a drawn token, and those that then have no alternative."""
        self.ids.append(token)
        self.logprobs.append(logprob)
        if self.request.allowed is not None:
            self.node = self.request.allowed.child(self.node, token)
            self._follow()
        elif token in self.request.sampling.stop_ids:
            self.finish = "stop"
        elif len(self.ids) == self.limit:
            self.finish = "length"

    def _follow(self) -> None:
        trie = self.request.allowed
        if trie is None:
            return
        while len(allowed := trie.allowed(self.node)) == 1:
            self.ids.append(allowed[0])
            self.logprobs.append(0.0)
            self.node = trie.child(self.node, allowed[0])
        if not allowed:
            self.finish = "choice"

    def mark(self, version: int) -> None:
        """Note which weights drew the tokens since the last call."""
        self.versions += [version] * (len(self.ids) - len(self.versions))

    def generation(self, version: int) -> Generation:
        """Return the finished response; ``version`` is of the weights that drew its last tokens."""
        if self.finish is None:
            raise ValueError(f"a response of {len(self.ids)} tokens is not over")
        self.mark(version)
        versions = tuple(self.versions)
        mixed = versions if versions[0] != versions[-1] else ()
        return Generation(tuple(self.ids), tuple(self.logprobs), versions[0], self.finish, mixed)
