"""Cost estimate of a suite: calls, tokens and dollars, without any call.

Random agents play a few tasks of each environment while the real agents build their real prompts. Requests
are counted instead of sent, and answered with filler words. So prompts have their true sizes in characters.
The assumptions are: four bytes a token, a thousand tokens a picture, `ANSWER_TOKENS` an answer, and episodes
as long as those of random play, or as long as the step limit.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from agentgym.agents import make_agent
from agentgym.core.types import Completion, EpisodeListener, Policy, Request, Trajectory
from agentgym.endpoint.chat import ChatReply, ChatRequest
from agentgym.endpoint.client import Endpoint
from agentgym.endpoint.prices import PriceTable
from agentgym.endpoint.replies import TokenUsage
from agentgym.endpoint.session import EndpointSession
from agentgym.endpoint.spec import EndpointSpec
from agentgym.endpoint.wire import BYTES_A_TOKEN, answer_limit, estimated_prompt_tokens
from agentgym.errors import MissingDataError, MissingPackageError, UnsupportedEnvError
from agentgym.evaluation.log.endpoint_runs import NamedEndpoint, named_endpoints
from agentgym.evaluation.log.results import AGENT, Excluded
from agentgym.evaluation.play.attempts import is_sequential
from agentgym.evaluation.suites.plan import open_slots, planned_episodes
from agentgym.evaluation.suites.suite import Suite, SuiteAgent, SuiteEnv
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker

SAMPLE = 4
"""Tasks of each environment that random agents play."""

ANSWER_TOKENS = 100
"""Assumed tokens of an answer, or the limit where that is lower."""

FIELD_TOKENS = 20
"""Assumed tokens of a text in a structured answer, such as a judge's reason, besides the JSON's own."""

_WORD = "word "
"""Filler of an assumed answer; about a token."""


@dataclass(frozen=True, slots=True)
class RequestTokens:
    """Calls of a model, and their tokens."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def plus(self, other: RequestTokens) -> RequestTokens:
        """Return the sum."""
        return RequestTokens(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
        )


@dataclass(frozen=True, slots=True)
class EnvEstimate:
    """Estimated calls of an agent's run to one model in one environment."""

    agent: str
    env: str
    """Label of the environment."""
    asked_by: str
    """User of the model, as in `agentgym.evaluation.log.results.RunEndpoint.asked_by`."""
    url: str
    model: str
    episodes: int
    likely: RequestTokens
    """Tokens if episodes are as long as random ones, and answers have `ANSWER_TOKENS` or fill in a form."""
    most: RequestTokens
    """Tokens if every episode reaches its step limit, and every answer its token limit."""

    def dollars(self, tokens: RequestTokens, prices: PriceTable) -> float | None:
        """Return the cost of the calls by today's prices; None for a model without prices."""
        price = prices.of(self.url, self.model, datetime.now(UTC).date().isoformat())
        if price is None:
            return None
        return price.cost(TokenUsage(tokens.prompt_tokens, tokens.completion_tokens))


@dataclass(frozen=True, slots=True)
class SuiteEstimate:
    """Estimated calls of a suite."""

    parts: tuple[EnvEstimate, ...]
    left_out: tuple[Excluded, ...]
    """Environments without data here, for which there is no estimate."""


def estimate_suite(suite: Suite, agents: Sequence[SuiteAgent]) -> SuiteEstimate:
    """Estimate the agents' calls to endpoints in a suite, without any call."""
    parts: list[EnvEstimate] = []
    left_out: list[Excluded] = []
    for env in suite.env:
        for agent in agents:
            if not named_endpoints(agent, [env]):
                continue
            try:
                parts += _estimate(suite, env, agent)
            except UnsupportedEnvError:
                pass  # the agent does not play this environment
            except (MissingDataError, MissingPackageError) as error:
                left_out.append(Excluded(env.label, str(error)))
                break
    return SuiteEstimate(tuple(parts), tuple(left_out))


# ---- one environment -----------------------------------------------------------------------------


@dataclass(slots=True)
class _Tally:
    """Requests that would have been sent to one endpoint."""

    calls: list[tuple[int, int, int]] = field(default_factory=list)
    """Tokens of each prompt, with the most and the likely tokens of its answer."""


class _Unasked(Endpoint):
    """An endpoint stub that counts requests and answers without a call."""

    def __init__(self, spec: EndpointSpec, tally: _Tally):
        super().__init__(spec)
        self._tally = tally

    def submit(self, request: ChatRequest) -> Future[ChatReply]:
        """Count a request; answer it with words."""
        limit = answer_limit(request)
        text, likely = _WORD * min(limit, ANSWER_TOKENS), ANSWER_TOKENS
        if request.response_schema is not None:
            text = json.dumps(instance_of(request.response_schema))
            likely = len(text) // BYTES_A_TOKEN + FIELD_TOKENS * text.count(json.dumps(_WORD.strip()))
        self._tally.calls.append((estimated_prompt_tokens(request), limit, min(limit, likely)))
        future: Future[ChatReply] = Future()
        future.set_result(ChatReply(text))
        return future


class _UnaskedEndpoints(dict[str, Any]):
    """The endpoint stubs of a session."""

    def __init__(self) -> None:
        super().__init__()
        self.tallies: dict[tuple[str, str], _Tally] = defaultdict(_Tally)

    def get(self, place: str, default: Any = None) -> Any:
        """Return the endpoint of a spec, made on first use."""
        if place not in self:
            spec = EndpointSpec.of(json.loads(place))
            self[place] = _Unasked(spec, self.tallies[spec.url, spec.model])
        return self[place]


class _RandomPlay:
    """Plays at random, while an agent's requests are counted."""

    def __init__(self, agent: Policy, random: Policy):
        self._agent = agent
        self._random = random

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Let the agent answer, which is counted, and play a random action in place of its own."""
        completions = self._agent.act(requests)
        drawn = self._random.act(requests)
        return [
            replace(answer, action=chance.action, error=None, format_error="")
            for answer, chance in zip(completions, drawn, strict=True)
        ]

    def ended(self, trajectory: Trajectory) -> None:
        """Pass the episode on to the agent, where it listens."""
        if isinstance(self._agent, EpisodeListener):
            self._agent.ended(trajectory)


def _estimate(suite: Suite, env: SuiteEnv, agent: SuiteAgent) -> Iterator[EnvEstimate]:
    endpoints = _UnaskedEndpoints()
    with ExitStack() as stack:
        session = stack.enter_context(EndpointSession())
        session.endpoints = endpoints
        slots = open_slots(env, 1)
        stack.callback(slots.close)
        plan = planned_episodes(suite, env, slots.tasks)
        few = plan[: SAMPLE * suite.attempts]  # every attempt at the first tasks
        policy = make_agent(agent.kind, slots, **agent.options)
        if not is_sequential(agent.kind, policy):
            few = [episode for episode in few if episode.rollout == 0]
        if any(AGENT in named.asked_by for named in named_endpoints(agent, [])):
            policy = _RandomPlay(policy, make_agent("random", slots))
        worker = RolloutWorker(slots, policy, env_id=env.id)
        lengths = [len(t.steps) for t in worker.run(EpisodeSpec(e.task.id, e.seed, e.rollout) for e in few)]
        limit = slots.prototype.max_steps
    for named in named_endpoints(agent, [env]):
        calls = endpoints.tallies[named.spec.url, named.spec.model].calls
        yield _extrapolated(agent, env, named, calls, lengths, limit, len(plan))


def _extrapolated(
    agent: SuiteAgent,
    env: SuiteEnv,
    named: NamedEndpoint,
    calls: Sequence[tuple[int, int, int]],
    lengths: Sequence[int],
    limit: int,
    episodes: int,
) -> EnvEstimate:
    """Return the extrapolated requests of all episodes, from those of a few.

    Up to the step limit, each further step asks as often as the steps played did on average, with prompts
    that grow on from the longest one as they grew.
    """
    played = max(1, len(lengths))
    share = episodes / played
    prompts = [tokens for tokens, _, _ in calls] or [0]
    answers = sum(completions for _, _, completions in calls)
    likely = RequestTokens(round(share * len(calls)), round(share * sum(prompts)), round(share * answers))
    steps = max(lengths, default=0)
    growth = (max(prompts) - min(prompts)) / max(1, steps - 1)
    later = max(prompts) + growth * max(0, limit - steps) / 2
    further = max(0, played * limit - sum(lengths)) * len(calls) / max(1, sum(lengths))
    largest = max((most for _, most, _ in calls), default=0)
    most = RequestTokens(
        round(share * (len(calls) + further)),
        round(share * (sum(prompts) + further * later)),
        round(share * (len(calls) + further) * largest),
    )
    return EnvEstimate(
        agent=agent.display_name,
        env=env.label,
        asked_by=", ".join(named.asked_by),
        url=named.spec.url,
        model=named.spec.model,
        episodes=episodes,
        likely=likely,
        most=most,
    )


def instance_of(schema: Mapping[str, Any]) -> Any:
    """Return the least value that a JSON Schema of objects, arrays, numbers and texts allows.

    Example:
        >>> instance_of({"type": "object", "properties": {"goal": {"type": "integer", "minimum": -5}}})
        {'goal': -5}
    """
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {name: instance_of(part) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [instance_of(schema.get("items", {}))] * int(schema.get("minItems", 0))
    if kind in ("integer", "number"):
        return schema.get("minimum", 0)
    return {"boolean": False, "null": None}.get(str(kind), _WORD.strip())


def total(parts: Iterable[RequestTokens]) -> RequestTokens:
    """Return the sum of calls and tokens."""
    summed = RequestTokens()
    for part in parts:
        summed = summed.plus(part)
    return summed
