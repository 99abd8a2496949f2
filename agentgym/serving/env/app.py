"""The application: OpenEnv's routes and WebSocket over an `EnvService`."""

# no postponed annotations: FastAPI reads those of the endpoints, whose types are imported with it

import asyncio
import hmac
import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from agentgym.errors import UsageError
from agentgym.io.optional import load
from agentgym.io.untrusted import loads_json
from agentgym.serving.app_server import PATIENCE, AppServer
from agentgym.serving.env.service import Client, EnvService
from agentgym.serving.env.sessions import SessionError
from agentgym.serving.hosts import HostGuard, Refusal
from agentgym.serving.requests import Application, error_response, guarded, read_in_time, refusal
from agentgym.serving.turns import Turns
from agentgym.version import __version__

if TYPE_CHECKING:
    from fastapi import Request, Response, WebSocket

POSTED = ("reset", "step", "state", "snapshot", "restore", "reset_many", "step_many", "close_many", "mcp")
"""Messages that are also routes of HTTP."""

PURPOSE = "the environment server"

ADDRESSES = 4_096
"""Most addresses whose message rates are counted."""

_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}, 503: {"Retry-After": "1"}}


class _Door:
    """Admission and execution of messages: at once, or in a thread where the environment may wait."""

    def __init__(self, service: EnvService, guard: HostGuard, token: str | None):
        self.service = service
        self.turns = Turns()
        self.sockets = 0
        """WebSockets that are open."""
        self._guard = guard
        self._token = None if token is None else token.encode()
        self._room: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Number of messages that an address may still send, and the time of that count."""

    def check(self, connection: Any) -> "Response | None":
        """Return the refusal of a request or a WebSocket; None where it is let in. All may ask for health."""
        try:
            if (refused := refusal(connection, self._guard, "play")) is not None:
                raise SessionError(refused.status, "SESSION_ERROR", refused.line)
            given = connection.headers.get("authorization", "").encode()
            needs_token = self._token is not None and connection.scope["path"] != "/health"
            if needs_token and not hmac.compare_digest(given, b"Bearer " + (self._token or b"")):
                line = "this server asks for a token: send Authorization: Bearer TOKEN"
                raise SessionError(401, "SESSION_ERROR", line)
            self.count(connection)
        except SessionError as error:
            return _denied(error)
        return None

    def count(self, connection: Any) -> None:
        """Count a message of an address; SessionError where it sends too many."""
        address, now = _address_of(connection), time.monotonic()
        rate = float(self.service.limits.rate)
        room, before = self._room.pop(address, (rate, now))
        room = min(room + (now - before) * rate, rate)
        self._room[address] = max(room - 1, 0.0), now
        if len(self._room) > ADDRESSES:
            self._room.popitem(last=False)
        if room < 1:
            line = f"an address sends at most {rate:,.0f} messages a second: wait"
            raise SessionError(429, "CAPACITY_REACHED", line)

    async def expire(self) -> None:
        """End idle sessions, for good."""
        while True:
            await asyncio.sleep(min(self.service.limits.idle / 4, 5.0))
            await self.service.call(self.service.sessions.expire)


def make_app(service: EnvService, guard: HostGuard, token: str | None = None) -> Application:
    """Return the application of a service, for names that the guard knows and clients that show the token.

    WebSockets and messages bypass FastAPI, whose routing takes longer than a step.
    """
    load("fastapi", "serve", PURPOSE)
    from fastapi import FastAPI, Request, WebSocket
    from fastapi.websockets import WebSocketDisconnect
    from starlette.exceptions import HTTPException

    door = _Door(service, guard, token)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        sweep = asyncio.get_running_loop().create_task(door.expire())
        yield
        sweep.cancel()

    async def not_found(request: Request, problem: Exception) -> "Response":
        status = problem.status_code if isinstance(problem, HTTPException) else 500
        return error_response(status, "there is no such route: GET /openapi.json names them")

    async def failed(request: Request, problem: Exception) -> "Response":
        why = type(problem).__name__
        return error_response(500, f"the request failed ({why}): see what the server printed")

    app = FastAPI(title=service.env_id, version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.add_exception_handler(HTTPException, not_found)
    app.add_exception_handler(Exception, failed)
    shown: dict[str, Callable[[], Any]] = {
        "metadata": service.metadata,
        "schema": service.schema,
        "environment": service.description,
    }
    shown |= {"list_environments": lambda: [service.env_id], "health": lambda: {"status": "healthy"}}
    for name, value in shown.items():
        app.add_api_route(f"/{name}", _shown(value), methods=["GET"], response_model=None)
    app.add_api_route("/state", _message(door, "state"), methods=["GET"], response_model=None)
    app.add_api_route("/mcp", _ended(door), methods=["DELETE"], response_model=None)
    tasks = {f"{service.env_id}/{kind}": kind for kind in ("num_tasks", "task", "task_range")}
    messages = {
        f"/{path}": _message(door, kind) for path, kind in ({each: each for each in POSTED} | tasks).items()
    }
    for path, route in messages.items():
        app.add_api_route(path, route, methods=["POST"], response_model=None)

    async def front(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket" and scope["path"] == "/ws":
            with suppress(WebSocketDisconnect):  # the client disconnected before its answer
                await _play(door, WebSocket(scope, receive, send))
        elif scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in messages:
            response = await messages[scope["path"]](Request(scope, receive))
            await response(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guarded(front, door.check)


class EnvServer(AppServer):
    """Serves an environment."""

    purpose = PURPOSE

    def __init__(
        self,
        host: str,
        port: int,
        service: EnvService,
        *,
        token: str | None = None,
        allowed_hosts: Iterable[str] = (),
    ):
        """Listen; ``serve_forever`` answers.

        Args:
            host: name or address of this machine.
            port: 0 for any that is free.
            service: carries out the messages.
            token: what requests have to show as their bearer; None for nothing.
            allowed_hosts: names that requests may have for the server, besides ``host`` and this machine's.
        """
        super().__init__(
            host,
            port,
            lambda guard: make_app(service, guard, token),
            allowed_hosts=allowed_hosts,
            patience=min(service.limits.idle, PATIENCE),
            ws_max_size=service.limits.body,
            ws_per_message_deflate=False,
        )


# ---- routes ------------------------------------------------------------------------------------


def _answered(value: Any) -> "Response":
    from fastapi import Response

    return Response(_json(value), media_type="application/json")


def _denied(error: SessionError) -> "Response":
    return error_response(error.status, error.line, _HEADERS.get(error.status), code=error.code)


def _shown(value: Callable[[], Any]) -> Callable[["Request"], Awaitable["Response"]]:
    """Return the route of a value, which each request computes anew."""
    from fastapi import Request

    async def route(request: Request) -> "Response":
        return _answered(value())

    return route


def _message(door: _Door, kind: str) -> Callable[["Request"], Awaitable["Response"]]:
    """Return the route of a message."""
    from fastapi import Request

    async def route(request: Request) -> "Response":
        try:
            body = await _in_time(door, request)
            async with door.turns.turn(address := _address_of(request)):
                data = _read(body or b"{}")
                if kind == "step" and isinstance(data, dict):  # HTTP nests the action in an object
                    action = data.pop("action", None)
                    data |= (
                        action if isinstance(action, dict) else {} if action is None else {"action": action}
                    )
                query, own = request.query_params, request.headers.get("mcp-session-id")
                client = Client(query.get("session_id") or own, speaks_mcp=own is not None)
                away = partial(door.turns.away, address)
                if kind == "mcp" and isinstance(data, dict):
                    return await _called(door, client, data, query, away)
                return _answered((await door.service.handle(client, kind, data, away)).data)
        except SessionError as error:
            return _denied(error)

    return route


async def _called(door: _Door, client: Client, data: Any, query: Mapping[str, str], away: Any) -> "Response":
    """Answer a client of the Model Context Protocol; its session's id is in the header of ``initialize``."""
    from fastapi import Response

    method = data.get("method")
    if isinstance(method, str) and method.startswith("notifications/"):
        return Response(status_code=202)
    begins = method == "initialize" and isinstance(data.get("params"), dict)
    if begins:
        chosen: dict[str, Any] = {name: query[name] for name in ("task", "seed", "index") if name in query}
        # what is no number, or a longer one than any seed, is refused by the message's own check
        short = {name: text for name, text in chosen.items() if name != "task" and len(text) < 20}
        numbers = {name: int(text) for name, text in short.items() if text.isdecimal()}
        data = data | {"params": data["params"] | {"reset": chosen | numbers}}
    response = _answered((await door.service.handle(client, "mcp", data, away)).data)
    if begins and client.session is not None:
        response.headers["Mcp-Session-Id"] = client.session
    return response


def _ended(door: _Door) -> Callable[["Request"], Awaitable["Response"]]:
    """Return the route by which a client of the Model Context Protocol ends its session."""
    from fastapi import Request

    async def route(request: Request) -> "Response":
        named = request.headers.get("mcp-session-id", "")
        try:
            await door.service.call(door.service.sessions.close, [named])
        except SessionError as error:
            return _denied(error)
        return _answered({"session_id": named, "closed": True})

    return route


def _address_of(connection: Any) -> str:
    return connection.client.host if connection.client else ""


async def _in_time(door: _Door, request: "Request") -> bytes:
    """Return the body of a request; SessionError where it is too large or too slow."""
    limits = door.service.limits
    body = await read_in_time(request, limits.body, limits.patience)
    if isinstance(body, Refusal):
        code = "VALIDATION_ERROR" if body.status == 413 else "SESSION_ERROR"
        raise SessionError(body.status, code, body.line)
    return body


def _read(text: str | bytes) -> Any:
    """Return the value of a JSON text; SessionError for another text."""
    try:
        return loads_json(text, "the message", half_characters="kept")
    except UsageError as error:
        raise SessionError(422, "INVALID_JSON", str(error)) from error


# ---- the WebSocket -----------------------------------------------------------------------------


async def _play(door: _Door, websocket: "WebSocket") -> None:
    """Carry out the messages of a WebSocket, whose session ends with it."""
    from starlette.websockets import WebSocketState

    if door.sockets >= door.service.limits.sessions:
        line = f"{door.sockets:,} WebSockets are open: close some, or try again later"
        await websocket.send_denial_response(_denied(SessionError(503, "CAPACITY_REACHED", line)))
        return
    client, named = Client(attaches=True), websocket.query_params.get("session_id")
    door.sockets += 1
    try:
        await websocket.accept()
        if named is not None:
            await door.service.call(door.service.attach, client, named)
        while (message := await _received(websocket, door.service.limits.idle)) is not None:
            async with door.turns.turn(websocket):
                reply = await _replied(door, websocket, client, message)
                written = _json(reply)
            if reply is None:
                break
            try:
                await websocket.send_text(written)  # no further message is read before the client takes this
            except RuntimeError:  # the server has closed it meanwhile for want of a pong
                return
    except SessionError as error:
        await websocket.send_text(_json(_error(error)))
    finally:
        door.sockets -= 1
        await asyncio.shield(door.service.call(lambda: door.service.leave(client, owned=named is None)))
    if websocket.client_state is WebSocketState.CONNECTED:
        await websocket.close()


async def _received(websocket: "WebSocket", idle: float) -> str | bytes | None:
    """Return the next message, None where the client has gone; SessionError after ``idle`` seconds."""
    try:
        async with asyncio.timeout(idle):
            message = await websocket.receive()
    except TimeoutError:
        raise SessionError(408, "SESSION_ERROR", f"no message for {idle:g} s: connect again") from None
    if message["type"] == "websocket.disconnect":
        return None
    text: str | bytes | None = message.get("text")
    return message["bytes"] if text is None else text


async def _replied(
    door: _Door, websocket: "WebSocket", client: Client, text: str | bytes
) -> dict[str, Any] | None:
    """Return the answer to a message of a WebSocket; None for a closing one."""
    try:
        door.count(websocket)
        message = _read(text)
        if not isinstance(message, dict):
            raise SessionError(422, "VALIDATION_ERROR", "a message is an object with a type and data")
        kind, data = message.get("type"), message.get("data")
        if kind == "close":
            return None
        reply = await door.service.handle(client, kind, data, partial(door.turns.away, websocket))
        return {"type": reply.type, "data": reply.data}
    except SessionError as error:
        return _error(error)


def _error(error: SessionError) -> dict[str, Any]:
    return {"type": "error", "data": {"message": error.line, "code": error.code}}
