"""Probe of an endpoint: parameters that it refuses, ignores or heeds, as far as its answers show.

A server may ignore what it does not know without a word. So each parameter is asked for where its effect can
be seen, and what cannot be seen is ``accepted`` only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from agentgym.core.hashing import sha256_json
from agentgym.endpoint.chat import ChatMessage, ChatReply, ChatRequest, ChatSampling
from agentgym.endpoint.errors import CacheMissError
from agentgym.endpoint.transport import RefusedRequestError
from agentgym.endpoint.wire import DROPPABLE
from agentgym.io.records import parse

if TYPE_CHECKING:
    from agentgym.endpoint.session import EndpointSession
    from agentgym.endpoint.spec import EndpointSpec

ParameterSupport: TypeAlias = Literal["heeded", "accepted", "ignored", "refused"]
"""``heeded``: the answer shows the parameter's effect. ``accepted``: no error, and no answer could show more.
``ignored``: no error, and the answer lacks the effect. ``refused``: an error."""

LABEL = "probe"
"""Label of its calls in the ledger."""

PROBE_REQUESTS = 12
"""Requests of a probe that nothing refuses."""

_VERSION = 1
_SHORT = 8
_LONG = 64
_COUNT = "Count from 1 to 100, separated by commas."
_DRAW = "Write five random words."
_COLOUR = "Name a colour."
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"colour": {"type": "string"}},
    "required": ["colour"],
    "additionalProperties": False,
}
_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {"name": "paint", "description": "Paint in a colour.", "parameters": dict(_SCHEMA)},
}


@dataclass(frozen=True, slots=True)
class EndpointProbe:
    """Support of parameters by an endpoint, as one run found it."""

    url: str
    model: str
    answers_as: str
    """Model name that the endpoint reports."""
    fingerprint: str
    """Fingerprint that the endpoint reports for its software and settings; empty without one."""
    temperature: ParameterSupport
    seed: ParameterSupport
    """``heeded``: two answers at temperature 1 agree with one seed and differ with another."""
    n: ParameterSupport
    logprobs: ParameterSupport
    token_ids: ParameterSupport
    response_format: ParameterSupport
    tools: ParameterSupport
    """``accepted``: it was not refused, but the model called nothing."""
    max_tokens: ParameterSupport
    max_completion_tokens: ParameterSupport
    usage: bool
    """Whether answers count their tokens."""
    repeatable: bool
    """Whether two answers at temperature 0 agreed."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Error message of each refused parameter, which is then never sent."""

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return asdict(self)


class _Seen(NamedTuple):
    """Result of a request with a parameter."""

    answer: ChatReply | None
    refusal: str = ""

    def support(self, heeded: bool | None) -> ParameterSupport:
        """Return what that says of it; None where no answer could show it."""
        if self.answer is None:
            return "refused"
        return "accepted" if heeded is None else "heeded" if heeded else "ignored"


class ProbedEndpoint(Protocol):
    """Part of `agentgym.endpoint.client.Endpoint` that a probe needs, on the event loop."""

    spec: EndpointSpec
    left_out: dict[str, str]

    async def reply(self, request: ChatRequest, session: EndpointSession, **fields: Any) -> ChatReply:
        """Return the reply to a request with further fields of the body."""


async def probe_endpoint(endpoint: ProbedEndpoint, session: EndpointSession) -> EndpointProbe:
    """Probe which parameters an endpoint supports, or return the cached probe."""
    spec = endpoint.spec
    key = sha256_json({"probe": _VERSION, "url": spec.url, "model": spec.model, "extra": dict(spec.extra)})
    stored = session.find(key)
    if stored is not None:
        return _heeded(parse(EndpointProbe, dict(stored), "the cache's probe"), endpoint)
    if session.mode == "replay-only":
        raise CacheMissError(
            f"the cache has no probe of {spec.identity}: record it with the cache mode 'write' first"
        )
    probe = await _Prober(endpoint, session).probe()
    await session.keep(key, probe.to_json())
    return _heeded(probe, endpoint)


def _heeded(probe: EndpointProbe, endpoint: ProbedEndpoint) -> EndpointProbe:
    """Return a probe, after removing its refused parameters from further requests."""
    for name, line in probe.refused.items():
        if name in DROPPABLE:
            endpoint.left_out.setdefault(name, line)
    return probe


class _Prober:
    """Sender of short requests, one after the other."""

    def __init__(self, endpoint: ProbedEndpoint, session: EndpointSession):
        self._endpoint = endpoint
        self._session = session
        self._refused: dict[str, str] = {}

    async def probe(self) -> EndpointProbe:
        first, again = await self._ask(_COUNT), await self._ask(_COUNT)
        left_out = self._endpoint.left_out
        limits = {name: await self._limit(name) for name in ("max_tokens", "max_completion_tokens")}
        temperature: ParameterSupport = "refused" if "temperature" in left_out else "accepted"
        rest = {
            "seed": await self._seed(),
            "n": await self._shown("n", 2, lambda answer: answer.choices == 2),
            "logprobs": await self._shown("logprobs", True, lambda answer: bool(answer.logprobs)),
            "token_ids": await self._shown("return_token_ids", True, lambda answer: bool(answer.token_ids)),
            "response_format": await self._format(),
            "tools": await self._tools(),
        }
        return EndpointProbe(
            url=self._endpoint.spec.url,
            model=self._endpoint.spec.model,
            answers_as=first.served_model,
            fingerprint=first.fingerprint,
            temperature=temperature,
            **limits,
            **rest,
            usage=first.usage_stated,
            repeatable=(first.text, first.tool_calls) == (again.text, again.tool_calls),
            refused={**left_out, **self._refused},
        )

    async def _ask(
        self, text: str, *, temperature: float = 0.0, tokens: int | None = _SHORT, **fields: Any
    ) -> ChatReply:
        request = ChatRequest((ChatMessage("user", text),), ChatSampling(temperature, tokens), label=LABEL)
        return await self._endpoint.reply(request, self._session, **fields)

    async def _try(self, name: str, text: str, **fields: Any) -> _Seen:
        try:
            return _Seen(await self._ask(text, **fields))
        except RefusedRequestError as error:
            self._refused[name] = error.refusal.line
            return _Seen(None, error.refusal.line)

    async def _limit(self, name: str) -> ParameterSupport:
        """Ask for few tokens of a long answer, by one of the two names of the limit."""
        if name in self._endpoint.left_out:
            return "refused"
        seen = await self._try(name, _COUNT, tokens=None, **{name: _SHORT})
        answer = seen.answer
        return seen.support(
            answer is not None
            and answer.finish_reason == "length"
            and (not answer.usage_stated or answer.completion_tokens <= _SHORT)
        )

    async def _seed(self) -> ParameterSupport:
        if "seed" in self._endpoint.left_out:
            return "refused"
        seen = [await self._try("seed", _DRAW, temperature=1.0, seed=seed) for seed in (1, 1, 2)]
        texts = [each.answer.text for each in seen if each.answer is not None]
        if len(texts) < len(seen):
            return "refused"
        if texts[0] != texts[1]:
            return "ignored"
        return "heeded" if texts[0] != texts[2] else "accepted"

    async def _shown(self, name: str, value: Any, shows: Any) -> ParameterSupport:
        if name in self._endpoint.left_out:
            return "refused"
        seen = await self._try(name, _COLOUR, **{name: value})
        return seen.support(seen.answer is not None and shows(seen.answer))

    async def _format(self) -> ParameterSupport:
        schema = {"name": "answer", "schema": dict(_SCHEMA), "strict": True}
        wanted = {"type": "json_schema", "json_schema": schema}
        seen = await self._try("response_format", _COLOUR, tokens=_LONG, response_format=wanted)
        return seen.support(seen.answer is not None and _fits(seen.answer.text))

    async def _tools(self) -> ParameterSupport:
        seen = await self._try("tools", "Paint in blue by the tool.", tokens=_LONG, tools=[dict(_TOOL)])
        # a model without a call may still have received the tool
        return seen.support(True if seen.answer is not None and seen.answer.tool_calls else None)


def _fits(text: str) -> bool:
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(table, dict) and list(table) == ["colour"] and isinstance(table["colour"], str)
