"""Runs that use endpoints: the models they name, their sessions, and the servers' capabilities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from agentgym.endpoint.budget import EndpointBudget, Spending
from agentgym.endpoint.cache import CacheMode
from agentgym.endpoint.client import network_is_replaced, open_endpoint
from agentgym.endpoint.errors import CacheMissError
from agentgym.endpoint.reach import check_reachable
from agentgym.endpoint.session import EndpointSession
from agentgym.endpoint.spec import EndpointSpec
from agentgym.evaluation.log.results import AGENT, RunEndpoint
from agentgym.evaluation.suites.suite import PlayedEnv, SuiteAgent

CALLS_FILE = "calls.jsonl"
"""File in a run's folder with the ledger of its calls, a line each; the package never reads it."""

_SPEC_FIELDS = frozenset(each.name for each in fields(EndpointSpec)) - {"url"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """Endpoint settings of one command's runs."""

    cache: Path | None = None
    """File of cached answers; None for no cache."""
    mode: CacheMode = "off"
    """Mode of the cache."""
    budget: EndpointBudget = field(default_factory=EndpointBudget)
    """Budget of all runs together; the runs stop when it is spent."""
    prices: Path | None = None
    """File of prices; None for no prices."""
    probe: bool = True
    """Whether each endpoint's parameters are probed first, which costs about a dozen short requests."""


class NamedEndpoint(NamedTuple):
    """A model behind an endpoint that a suite's agent or environment names."""

    spec: EndpointSpec
    asked_by: tuple[str, ...]
    """Agent or environments that use it, `agentgym.evaluation.log.results.RunEndpoint.asked_by`."""


def named_endpoints(agent: SuiteAgent | None, envs: Iterable[PlayedEnv]) -> list[NamedEndpoint]:
    """Return the models behind endpoints that options name, each once, with the option's owner.

    Options name one by ``endpoint`` and ``model``: an agent's own, an environment's in a table such as
    ``judge``.
    """
    found: dict[tuple[str, str], tuple[EndpointSpec, list[str]]] = {}
    tables = [] if agent is None else [(AGENT, agent.options)]
    tables += [
        (f"{env.label}: {name}", option)
        for env in envs
        for name, option in env.kwargs.items()
        if isinstance(option, Mapping)
    ]
    for asks, table in tables:
        if {"endpoint", "model"} <= table.keys():
            spec = _spec_of(table)
            found.setdefault((spec.url, spec.model), (spec, []))[1].append(asks)
    return [NamedEndpoint(spec, tuple(asked_by)) for spec, asked_by in found.values()]


def _spec_of(table: Mapping[str, Any]) -> EndpointSpec:
    own = {key: value for key, value in table.items() if key in _SPEC_FIELDS}
    return EndpointSpec.of({"url": table["endpoint"], **own, **table.get("request", {})})


class RunSessions:
    """Endpoint sessions of a command: one for each run, with the rest of the budgets."""

    def __init__(self, settings: EndpointSettings):
        """Begin with nothing spent."""
        self.settings = settings
        self._spent = Spending()

    @contextmanager
    def opened(self, folder: Path, endpoints: Sequence[NamedEndpoint]) -> Iterator[EndpointSession]:
        """Open the session of a run; with endpoints, its folder gets the ledger."""
        settings = self.settings
        session = EndpointSession(
            cache=settings.cache,
            mode=settings.mode,
            ledger=folder / CALLS_FILE if endpoints else None,
            budget=_left(settings.budget, self._spent),
            prices=settings.prices,
        )
        try:
            with session:
                yield session
        finally:
            self._spent = self._spent.plus(session.spent)

    def check_reachable(self, endpoints: Iterable[NamedEndpoint]) -> None:
        """Refuse endpoints that cannot be reached; not where nothing is sent or probed."""
        if self.settings.probe and self.settings.mode != "replay-only" and not network_is_replaced():
            for spec in {named.spec.url: named.spec for named in endpoints}.values():
                check_reachable(spec)

    def probed(
        self, endpoints: Sequence[NamedEndpoint], known: Sequence[RunEndpoint]
    ) -> tuple[RunEndpoint, ...]:
        """Probe the endpoints' capabilities, within the run's session, but for ``known`` ones."""
        before = {(each.url, each.model): each for each in known if each.probe}
        return tuple(
            before.get((spec.url, spec.model))
            or RunEndpoint(spec.url, spec.model, asked_by, self._probe(spec))
            for spec, asked_by in endpoints
        )

    def _probe(self, spec: EndpointSpec) -> dict[str, Any]:
        if not self.settings.probe:
            return {}
        try:
            return open_endpoint(spec).probe().to_json()
        except CacheMissError:
            return {}  # the run only replays, and the cache has no probe


def _left(budget: EndpointBudget, spent: Spending) -> EndpointBudget:
    def left(name: str) -> Any:
        limit = getattr(budget, name)
        return None if limit is None else max(0, limit - getattr(spent, name))

    return EndpointBudget(left("requests"), left("tokens"), left("dollars"))
