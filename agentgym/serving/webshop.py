"""WebShop as a web site: every click of a visitor is a step of an environment.

`ShopSite` answers requests; `agentgym.serving.server` brings them over HTTP. It works without scripts: clicks
are forms, and after each the browser is sent to the page that is open then.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, cast

import numpy as np

from agentgym.envs.webshop.env import WebShopEnv
from agentgym.envs.webshop.html import CHOICE, QUERY
from agentgym.evaluation.recordings import Recording
from agentgym.evaluation.suite import SuiteAgent, SuiteEnv
from agentgym.evaluation.worlds import open_single
from agentgym.serving.documents import CLICK, PLACE, message_document, shop_document
from agentgym.serving.server import MOST_DIGITS, Request, Response, redirect
from agentgym.serving.sitting import Hall, Sitting
from agentgym.types import Trajectory, UsageError

ENV_ID = "agentgym/WebShop-v0"

COOKIE = "visit"

MOST_VISITORS = 1_000
"""Visits that are kept; the one that has been idle for longest makes room."""

PERSON = SuiteAgent("human", "human")

STALE = "That page was left before: this is the one that is open."

_STYLE = Path(__file__).with_name("style.css")

_TRIES = 100
"""Draws of a task until one is taken that the visitor has played before."""


@dataclass(slots=True)
class _Visitor:
    """Who comes back with the same cookie."""

    number: int
    sitting: Sitting[WebShopEnv]
    rng: np.random.Generator
    """Draws tasks."""
    played: set[str]
    episode: str = ""
    """Names the episode, so that forms of another one are known."""
    notice: str = ""

    @property
    def place(self) -> str:
        """Names the page that is open."""
        return f"{self.episode}.{len(self.sitting.steps)}"


class ShopSite:
    """The shop for any number of visitors, over one world."""

    def __init__(
        self,
        *,
        split: str,
        options: Mapping[str, Any],
        seed: int = 0,
        record: Path | None = None,
        say: Callable[[str], None] = lambda line: None,
    ):
        """Open the shop.

        Args:
            split: whose tasks visitors get, unless they choose another.
            options: of the environment, besides the split.
            seed: draws tasks, and later chance.
            record: folder of recordings; None for none.
            say: is told, in a line, of each episode that ends.

        Raises:
            UsageError: unknown split or option, or something that is not installed.
            MissingDataError: the data set is not on this machine.
        """
        self._options, self._seed, self._record, self._say = dict(options), seed, record, say
        self._split = split
        self._halls: dict[str, Hall[WebShopEnv]] = {}
        self._visitors: OrderedDict[str, _Visitor] = OrderedDict()
        self._count = 0
        self._lock = Lock()
        self._style = _STYLE.read_bytes()
        self._hall(split)

    def answer(self, request: Request) -> Response:
        """Answer a request. Requests may come from many threads: they are answered one at a time."""
        if (request.method, request.path) == ("GET", "/style.css"):
            return Response(200, self._style, {"Content-Type": "text/css; charset=utf-8"})
        routes = {("GET", "/"): self._open, ("POST", "/act"): self._act, ("POST", "/next"): self._next}
        route = routes.get((request.method, request.path))
        if route is None:
            return Response(404, message_document("Not found", f"There is no page {request.path}."))
        with self._lock:
            try:
                return route(request)
            except UsageError as error:
                return Response(400, message_document("That did not work", str(error)))

    def _open(self, request: Request) -> Response:
        """Show the page that is open, or begin the task that the address names."""
        visitor, headers = self._visitor(request), {}
        if visitor is None:
            token, visitor = self._welcome(request.fields)
            headers = {"Set-Cookie": f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Lax"}
            if request.fields:
                return redirect("/", headers)
        elif request.fields:
            self._begin(visitor, request.fields)
            return redirect("/")
        notice, visitor.notice = visitor.notice, ""
        splits = list(dict.fromkeys((self._split, *WebShopEnv.splits)))
        return Response(200, shop_document(visitor.sitting, visitor.place, splits, notice), headers)

    def _act(self, request: Request) -> Response:
        """Take the step that a form asks for, if it is of the page that is open."""
        visitor = self._visitor(request)
        if visitor is None:
            return redirect("/")
        sitting = visitor.sitting
        if request.fields.get(PLACE) != visitor.place or sitting.over:
            visitor.notice = STALE
            return redirect("/")
        sitting.act(_action(request.fields, sitting.info["admissible_actions"]))
        return redirect("/")

    def _next(self, request: Request) -> Response:
        visitor = self._visitor(request)
        if visitor is not None and request.fields.get(PLACE) == visitor.place:
            self._begin(visitor, {})
        return redirect("/")

    def _visitor(self, request: Request) -> _Visitor | None:
        token = request.cookies.get(COOKIE, "")
        if token not in self._visitors:
            return None
        self._visitors.move_to_end(token)
        return self._visitors[token]

    def _welcome(self, fields: Mapping[str, str]) -> tuple[str, _Visitor]:
        number = self._count + 1
        recording = None
        if self._record is not None:
            name = f"webshop-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
            recording = Recording(self._record, name, PERSON, seed=self._seed)

        def ended(trajectory: Trajectory, recorded: bool) -> None:
            kept = "" if recording is None or not recorded else f", recorded in {recording.run_folder}"
            steps, score = len(trajectory.steps), trajectory.score
            self._say(f"visitor {number}: task {trajectory.task_id}, {steps} steps, score {score:.2f}{kept}")

        sitting = Sitting[WebShopEnv](seed=self._seed, recording=recording, ended=ended)
        rng = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(number,)))
        visitor = _Visitor(number, sitting, rng, set())
        self._begin(visitor, fields)
        self._count = number
        token = secrets.token_urlsafe(16)
        self._visitors[token] = visitor
        if len(self._visitors) > MOST_VISITORS:
            self._visitors.popitem(last=False)
        return token, visitor

    def _begin(self, visitor: _Visitor, fields: Mapping[str, str]) -> None:
        """Begin the task that fields name, or one that the visitor has not played."""
        hall = visitor.sitting.hall
        if "split" in fields or hall is None:
            hall = self._hall(fields.get("split", self._split))
        task = fields.get("task", "").strip()
        if not task:
            for _ in range(_TRIES):
                task = hall.prototype.tasks.draw(visitor.rng).id
                if task not in visitor.played:
                    break
        visitor.sitting.start(hall, task)
        visitor.played.add(visitor.sitting.info["task_id"])
        visitor.episode, visitor.notice = secrets.token_urlsafe(8), ""

    def _hall(self, split: str) -> Hall[WebShopEnv]:
        if split not in self._halls:
            env = SuiteEnv(ENV_ID, f"WebShop {split}", split, tasks=0, metric="score", kwargs=self._options)
            self._halls[split] = Hall(env, cast(WebShopEnv, open_single(env)))
        return self._halls[split]


def _action(fields: Mapping[str, str], admissible: tuple[str, ...]) -> str:
    """Return the action that a form asks for.

    Raises:
        UsageError: it asks for none.
    """
    if QUERY in fields:
        return f"search[{fields[QUERY].strip()}]"
    choice = fields.get(CHOICE, "")
    written = choice.isascii() and choice.isdigit() and len(choice) <= MOST_DIGITS
    if written and int(choice) < len(admissible):
        action = admissible[int(choice)]
        if action.startswith(CLICK):
            return action
    raise UsageError("that form asks for nothing: go back to the shop and click there")
