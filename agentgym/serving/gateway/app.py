"""The application: routes of sessions, OpenAI's and Anthropic's APIs, and the environment, over `Gateway`."""

# no postponed annotations: Starlette's types are imported with it

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from agentgym.errors import UsageError
from agentgym.io.optional import load
from agentgym.io.untrusted import loads_json
from agentgym.serving.app_server import PATIENCE, AppServer
from agentgym.serving.env.sessions import SessionError
from agentgym.serving.gateway.anthropic_messages import (
    error_table,
    read_message,
    stream_message,
    write_message,
)
from agentgym.serving.gateway.gateway import Gateway
from agentgym.serving.gateway.openai_chat import read_completion, stream_completion, write_completion
from agentgym.serving.gateway.records import summary, traces
from agentgym.serving.gateway.sessions import GatewaySession
from agentgym.serving.hosts import HostGuard, Refusal
from agentgym.serving.requests import read_in_time, refusal

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

PURPOSE = "the gateway"

_EXPIRY = 5.0
"""Seconds between looks at which sessions are idle."""

_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode

Route: TypeAlias = Callable[["Request"], Awaitable["Response"]]


class _Door:
    """Lets requests in, finds their session and answers their errors in the form of their API."""

    def __init__(self, gateway: Gateway, guard: HostGuard, token: str | None):
        self.gateway = gateway
        self._guard = guard
        self._token = None if token is None else token.encode()

    def route(self, answer: Route, form: Callable[[SessionError], Any]) -> Route:
        """Return a route; ``form`` writes its errors."""
        from starlette.responses import Response

        async def checked(request: "Request") -> "Response":
            try:
                self._check(request)
                return await answer(request)
            except SessionError as error:
                problem = error
            except UsageError as error:
                problem = SessionError(400, "invalid_request_error", str(error))
            headers = {"WWW-Authenticate": "Bearer"} if problem.status == 401 else None
            return Response(_json(form(problem)), problem.status, headers, "application/json")

        return checked

    def _check(self, request: "Request") -> None:
        if (refused := refusal(request, self._guard, "call the model")) is not None:
            raise SessionError(refused.status, "SESSION_ERROR", refused.line)
        if self._token is None:
            return
        bearer, key = (request.headers.get(name, "").encode() for name in ("authorization", "x-api-key"))
        shown = hmac.compare_digest(bearer, b"Bearer " + self._token)
        if not (shown | hmac.compare_digest(key, self._token)):
            line = "this gateway asks for a token: give it as the API key"
            raise SessionError(401, "invalid_api_key", line)

    async def session(self, request: "Request") -> GatewaySession:
        """Return the session that a path names."""
        return await self.gateway.find(request.path_params["id"])

    async def body(self, request: "Request") -> Any:
        """Return the JSON of a request, an empty object where there is none."""
        limits = self.gateway.limits
        body = await read_in_time(request, limits.body, limits.patience)
        if isinstance(body, Refusal):
            raise SessionError(body.status, "SESSION_ERROR", body.line)
        return loads_json(body or b"{}", "the request", half_characters=True)

    async def table(self, request: "Request") -> dict[str, Any]:
        """Return the object that a request is."""
        value = await self.body(request)
        if not isinstance(value, dict):
            raise UsageError("the request is an object of JSON")
        return value


def make_app(gateway: Gateway, guard: HostGuard, token: str | None = None) -> "Starlette":
    """Return the application of a gateway, for names that the guard knows and clients that show the token."""
    load("fastapi", "serve", PURPOSE)
    from starlette.applications import Starlette
    from starlette.routing import Route as Path

    door = _Door(gateway, guard, token)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await gateway.restore()
        sweep = asyncio.get_running_loop().create_task(_expire(gateway))
        yield
        sweep.cancel()

    async def no_route(request: "Request", problem: Exception) -> "Response":
        status = getattr(problem, "status_code", 500)
        line = "there is no such route" if status < 500 else f"the request failed ({type(problem).__name__})"
        return _answered(_own_error(SessionError(status, "SESSION_ERROR", line)), status)

    openai = {"v1/chat/completions": ("POST", _completion(door)), "v1/models": ("GET", _models(door))}
    forms: list[tuple[Mapping[str, tuple[str, Route]], Callable[[SessionError], Any]]] = [
        (openai, _openai_error),
        ({"v1/messages": ("POST", _message(door))}, error_table),
        (_session_routes(door), _own_error),
    ]
    routes = [
        Path(f"/sessions/{{id}}/{path}", door.route(answer, form), methods=method.split())
        for own, form in forms
        for path, (method, answer) in own.items()
    ]
    for path, method, answer in _open_routes(door):
        routes.append(Path(path, door.route(answer, _own_error), methods=[method]))
    handlers: dict[Any, Any] = {404: no_route, 405: no_route, Exception: no_route}
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)


class GatewayServer(AppServer):
    """Serves a gateway."""

    purpose = PURPOSE

    def __init__(
        self,
        host: str,
        port: int,
        gateway: Gateway,
        *,
        token: str | None = None,
        allowed_hosts: Iterable[str] = (),
    ):
        """Listen; ``serve_forever`` answers.

        Args:
            host: name or address of this machine.
            port: 0 for any that is free.
            gateway: answers the requests.
            token: what clients have to show as their API key; None for nothing.
            allowed_hosts: names that requests may have for the server, besides ``host`` and this machine's.
        """
        super().__init__(
            host,
            port,
            lambda guard: make_app(gateway, guard, token),
            allowed_hosts=allowed_hosts,
            patience=PATIENCE,
        )


async def _expire(gateway: Gateway) -> None:
    while True:
        await asyncio.sleep(_EXPIRY)
        gateway.expire()


# ---- the model's routes ------------------------------------------------------------------------


def _completion(door: _Door) -> Route:
    gateway = door.gateway

    async def route(request: "Request") -> "Response":
        session = await door.session(request)
        body = {**session.spec.sampling_params, **await door.table(request)}
        query = read_completion(body, gateway.limits.tokens)
        call = await gateway.call(session, query)
        id = f"chatcmpl-{session.spec.session_id}-{call.number}"
        whole = write_completion(call, query, gateway.model, id, gateway.chat.decode)
        if not query.stream:
            return _answered(whole)
        events = "".join(f"data: {_json(event)}\n\n" for event in stream_completion(whole, query))
        return _streamed(events + "data: [DONE]\n\n")

    return route


def _message(door: _Door) -> Route:
    gateway = door.gateway

    async def route(request: "Request") -> "Response":
        session = await door.session(request)
        query, stops = read_message({**session.spec.sampling_params, **await door.table(request)})
        call = await gateway.call(session, query)
        id = f"msg_{session.spec.session_id}_{call.number}"
        whole = write_message(call, gateway.model, id, stops, gateway.chat.decode)
        if not query.stream:
            return _answered(whole)
        events = stream_message(whole)
        return _streamed("".join(f"event: {each['type']}\ndata: {_json(each)}\n\n" for each in events))

    return route


def _models(door: _Door) -> Route:
    async def route(request: "Request") -> "Response":
        await door.session(request)
        model = {"id": door.gateway.model, "object": "model", "created": 0, "owned_by": "agentgym"}
        return _answered({"object": "list", "data": [model]})

    return route


# ---- the other routes --------------------------------------------------------------------------


def _open_routes(door: _Door) -> list[tuple[str, str, Route]]:
    """Return the routes of sessions themselves, and of health."""
    gateway = door.gateway

    async def health(request: "Request") -> "Response":
        return _answered(
            {"status": "healthy", "sessions": len(gateway.sessions), "version": gateway.engine.version}
        )

    async def listed(request: "Request") -> "Response":
        return _answered([summary(session) for session in gateway.sessions.values()])

    async def create(request: "Request") -> "Response":
        session, row = await gateway.create(await door.body(request))
        url = f"{str(request.base_url).rstrip('/')}/sessions/{session.spec.session_id}"
        addresses = {"url": f"{url}/v1", "base_url": f"{url}/v1", "anthropic_base_url": url}
        return _answered(summary(session) | addresses | ({} if row is None else {"env": row}))

    async def shown(request: "Request") -> "Response":
        return _answered(summary(await door.session(request)))

    async def delete(request: "Request") -> "Response":
        return _answered({"deleted": gateway.delete(await door.session(request))})

    return [
        ("/health", "GET", health),
        ("/sessions", "GET", listed),
        ("/sessions", "POST", create),
        ("/sessions/{id}", "GET", shown),
        ("/sessions/{id}", "DELETE", delete),
    ]


def _session_routes(door: _Door) -> dict[str, tuple[str, Route]]:
    """Return the routes below a session that are the gateway's own."""
    gateway = door.gateway

    async def complete(request: "Request") -> "Response":
        session = await door.session(request)
        return _answered(await gateway.complete(session, await door.body(request)))

    async def traced(request: "Request") -> "Response":
        return _answered(traces(await door.session(request), gateway.model))

    def play(kind: str) -> Route:
        async def route(request: "Request") -> "Response":
            session = await door.session(request)
            return _answered(await gateway.play(session, kind, await door.body(request)))

        return route

    return {
        "complete": ("POST", complete),
        "traces": ("GET", traced),
        "env/step": ("POST", play("step")),
        "env/reset": ("POST", play("reset")),
        "env/state": ("GET POST", play("state")),
    }


def _answered(value: Any, status: int = 200) -> "Response":
    from starlette.responses import Response

    return Response(_json(value), status, media_type="application/json")


def _streamed(events: str) -> "Response":
    """Return server-sent events, all of which are there: an answer is sampled and kept before it is sent."""
    from starlette.responses import Response

    return Response(events, headers={"Cache-Control": "no-cache"}, media_type="text/event-stream")


def _openai_error(error: SessionError) -> dict[str, Any]:
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return {"error": {"message": error.line, "type": kind, "param": None, "code": error.code}}


def _own_error(error: SessionError) -> dict[str, Any]:
    return {"error": error.line, "code": error.code}
