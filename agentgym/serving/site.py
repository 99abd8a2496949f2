"""An environment as a web site: every click of a visitor is a step.

`EnvSite` answers requests with the pages of a suite, `agentgym.core.suite_spec.SitePages`;
`agentgym.serving.http_server` brings them over HTTP. It works without scripts: clicks are forms, and after
each the browser is sent to the page that is open then.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from agentgym.core.options import check_choice
from agentgym.core.suite_spec import PLACE, PageFrame, SitePages
from agentgym.core.types import Trajectory
from agentgym.env import AgentEnv
from agentgym.errors import UsageError
from agentgym.evaluation.log.recordings import Recording
from agentgym.evaluation.suites.plan import open_single
from agentgym.evaluation.suites.suite import SuiteAgent, SuiteEnv
from agentgym.io.optional import load_reference
from agentgym.registration import known_ids, suite_spec
from agentgym.serving.http_server import HttpRequest, HttpResponse, redirect
from agentgym.serving.play_session import PlaySession, SharedEnv

COOKIE = "visit"

MAX_VISITORS = 1_000
"""Most open visits; a new one replaces the one idle for longest, of those without a step if any."""

PERSON = SuiteAgent("human", "human")

STALE = "That page was left before: this is the one that is open."

_NAMES_TASK = ("split", "task")
"""Fields that name the task to begin."""

_TRIES = 100
"""Draws of a new task before one that the visitor has played is accepted."""


@dataclass(slots=True)
class _Visitor:
    """A visitor, by cookie."""

    number: int
    session: PlaySession[AgentEnv[Any]]
    rng: np.random.Generator
    """Generator that draws tasks."""
    played: set[str]
    episode: str = ""
    """Identifier of the episode, so that forms of an earlier one are recognised."""
    notice: str = ""
    hint: bool = True
    """Whether the page explains the task: until the visitor ends that, or an episode."""
    acted: bool = False
    """Whether the visitor has ever taken a step."""

    @property
    def place(self) -> str:
        """Names the page that is open."""
        return f"{self.episode}.{len(self.session.steps)}"


def pages_of(suite: str) -> SitePages:
    """Return the pages of a suite that has some."""
    specs = {spec.name: spec for spec in map(suite_spec, known_ids()) if spec.site is not None}
    check_choice("suite of pages", suite, sorted(specs))
    pages: SitePages = load_reference(str(specs[suite].site))
    return pages


class EnvSite:
    """One environment for any number of visitors, over one world."""

    def __init__(
        self,
        pages: SitePages,
        *,
        split: str,
        options: Mapping[str, Any],
        seed: int = 0,
        record: Path | None = None,
        say: Callable[[str], None] = lambda line: None,
    ):
        """Open the environment.

        Visitors get tasks of the split unless they choose another; ``seed`` draws tasks, and later chance;
        ``record``: folder of recordings, None for none; ``say`` is called with a line for each episode that
        ends.
        """
        self._options, self._seed, self._record, self._say = dict(options), seed, record, say
        self._split, self._pages = split, pages
        self._shared: dict[str, SharedEnv[AgentEnv[Any]]] = {}
        self._visitors: OrderedDict[str, _Visitor] = OrderedDict()
        self._count = 0
        self._lock = Lock()
        with_tasks = pages.splits(self._open_split(split).prototype)
        self._splits = tuple(dict.fromkeys((split, *with_tasks)))

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer a request. Requests may come from many threads: they are answered one at a time."""
        if (request.method, request.path) == ("GET", "/style.css"):
            return HttpResponse(200, self._pages.style, {"Content-Type": "text/css; charset=utf-8"})
        routes = {
            ("GET", "/"): self._open,
            ("POST", "/act"): self._act,
            ("POST", "/next"): self._next,
            ("POST", "/begin"): self._choose,
            ("POST", "/hint"): self._hide_hint,
        }
        route = routes.get((request.method, request.path))
        if route is None:
            return HttpResponse(404, self._pages.message("Not found", f"There is no page {request.path}."))
        with self._lock:
            try:
                return route(request)
            except UsageError as error:
                return HttpResponse(400, self._pages.message("That did not work", str(error)))

    def _open(self, request: HttpRequest) -> HttpResponse:
        """Show the page that is open, or offer the task that the address names; a new visitor begins it."""
        visitor, headers = self._visitor(request), {}
        wanted = {name: request.fields[name] for name in _NAMES_TASK if name in request.fields}
        if visitor is None:
            token, visitor = self._welcome(wanted)
            headers = {"Set-Cookie": f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Lax"}
            if wanted:
                return redirect("/", headers)
        elif wanted:
            return HttpResponse(200, self._pages.offer(PageFrame(visitor.place, self._splits), wanted))
        frame = PageFrame(visitor.place, self._splits, visitor.notice, visitor.hint)
        visitor.notice = ""
        return HttpResponse(200, self._pages.page(visitor.session, frame), headers)

    def _act(self, request: HttpRequest) -> HttpResponse:
        """Take the step that a form requests, if the form is from the open page."""
        visitor = self._at_place(request)
        if visitor is None:
            return redirect("/")
        session = visitor.session
        if session.over:
            visitor.notice = STALE
            return redirect("/")
        session.act(self._pages.action(request.fields, session.info["admissible_actions"]))
        visitor.acted, visitor.hint = True, visitor.hint and not session.over
        return redirect("/")

    def _next(self, request: HttpRequest) -> HttpResponse:
        visitor = self._at_place(request)
        if visitor is not None:
            self._begin(visitor, {})
        return redirect("/")

    def _choose(self, request: HttpRequest) -> HttpResponse:
        """Begin the task that a form names, if it is of the page that is open."""
        visitor = self._at_place(request)
        if visitor is not None:
            self._begin(visitor, request.fields)
        return redirect("/")

    def _hide_hint(self, request: HttpRequest) -> HttpResponse:
        visitor = self._at_place(request)
        if visitor is not None:
            visitor.hint = False
        return redirect("/")

    def _at_place(self, request: HttpRequest) -> _Visitor | None:
        """Return the visitor whose form is of the open page; None, with a notice to them, if it is stale."""
        visitor = self._visitor(request)
        if visitor is not None and request.fields.get(PLACE) != visitor.place:
            visitor.notice = STALE
            return None
        return visitor

    def _visitor(self, request: HttpRequest) -> _Visitor | None:
        token = request.cookies.get(COOKIE, "")
        if token not in self._visitors:
            return None
        self._visitors.move_to_end(token)
        return self._visitors[token]

    def _welcome(self, fields: Mapping[str, str]) -> tuple[str, _Visitor]:
        number = self._count + 1
        recording = None
        if self._record is not None:
            name = f"{self._pages.title.lower()}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
            recording = Recording(self._record, name, PERSON, seed=self._seed)

        def ended(trajectory: Trajectory, recorded: bool) -> None:
            place = "" if recording is None or not recorded else f", recorded in {recording.run_folder}"
            steps, score = len(trajectory.steps), trajectory.score
            self._say(f"visitor {number}: task {trajectory.task_id}, {steps} steps, score {score:.2f}{place}")

        session = PlaySession[AgentEnv[Any]](seed=self._seed, recording=recording, ended=ended)
        rng = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(number,)))
        visitor = _Visitor(number, session, rng, set())
        self._begin(visitor, fields)
        self._count = number
        token = secrets.token_urlsafe(16)
        if len(self._visitors) >= MAX_VISITORS:
            without_step = (name for name, one in self._visitors.items() if not one.acted)
            del self._visitors[next(without_step, next(iter(self._visitors)))]
        self._visitors[token] = visitor
        return token, visitor

    def _begin(self, visitor: _Visitor, fields: Mapping[str, str]) -> None:
        """Begin the task that fields name, or one that the visitor has not played."""
        shared = visitor.session.shared
        if "split" in fields or shared is None:
            shared = self._open_split(fields.get("split", self._split))
        task = fields.get("task", "").strip()
        if not task:
            for _ in range(_TRIES):
                task = shared.prototype.tasks.draw(visitor.rng).id
                if task not in visitor.played:
                    break
        visitor.session.start(shared, task)
        visitor.played.add(visitor.session.info["task_id"])
        visitor.episode, visitor.notice = secrets.token_urlsafe(8), ""

    def _open_split(self, split: str) -> SharedEnv[AgentEnv[Any]]:
        if split not in self._shared:
            env = SuiteEnv(
                self._pages.env_id,
                f"{self._pages.title} {split}",
                split,
                tasks=0,
                metric="score",
                kwargs=self._options,
            )
            self._shared[split] = SharedEnv(env, open_single(env))
        return self._shared[split]
