"""The application: routes of sessions, OpenAI's and Anthropic's APIs, and the environment, over `Gateway`."""

# no postponed annotations: Starlette's types are imported with it

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from agentgym.endpoint.wire import message_table
from agentgym.errors import UsageError
from agentgym.io.optional import load
from agentgym.io.untrusted import loads_json
from agentgym.serving.env.sessions import SessionError
from agentgym.serving.gateway import anthropic_messages, openai_chat
from agentgym.serving.gateway.journal import encode_json
from agentgym.serving.gateway.model_queries import table_in
from agentgym.serving.gateway.openai_chat import usage
from agentgym.serving.gateway.service import Gateway
from agentgym.serving.gateway.sessions import GatewaySession
from agentgym.serving.hosts import HostGuard, Refusal
from agentgym.serving.requests import read_in_time, refusal

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_EXPIRY = 5.0
"""Seconds between two searches for idle sessions."""

Route: TypeAlias = Callable[["Request"], Awaitable[Any]]
"""Handler that returns a response, or a value written as JSON."""
ErrorForm: TypeAlias = Callable[[SessionError], Any]


_ABSENT: Mapping[str, tuple[str, ErrorForm]] = {
    "responses": (
        "call /v1/chat/completions, in OpenAI-Agents by set_default_openai_api('chat_completions')",
        openai_chat.error_table,
    ),
    "completions": ("call /v1/chat/completions", openai_chat.error_table),
    "messages/count_tokens": (
        "read usage.input_tokens of the answer from /v1/messages",
        anthropic_messages.error_table,
    ),
}
"""Routes of the two APIs that clients ask for and the gateway lacks: what to call, and the form of errors."""

_SHOWN = ("session_id", "task", "seed", "group", "group_size", "rollout")


def make_app(gateway: Gateway, token: str | None, guard: HostGuard) -> "Starlette":
    """Return the application of a gateway, for names that the guard knows and clients that show the token."""
    load("fastapi", "serve", "the gateway")
    from starlette.applications import Starlette
    from starlette.routing import Route as Path

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

    def checked(answer: Route, form: ErrorForm) -> Callable[["Request"], Awaitable["Response"]]:
        async def route(request: "Request") -> "Response":
            try:
                _check(request, guard, token)
                return _answered(await answer(request))
            except SessionError as error:
                problem = error
            except UsageError as error:
                problem = SessionError(400, "invalid_request_error", str(error))
            headers = {"WWW-Authenticate": "Bearer"} if problem.status == 401 else None
            return _answered(form(problem), problem.status, headers)

        return route

    paths = [
        Path(path, checked(answer, form), methods=methods.split())
        for path, methods, answer, form in _Routes(gateway).table()
    ]
    handlers: dict[Any, Any] = {404: no_route, 405: no_route, Exception: no_route}
    return Starlette(routes=paths, exception_handlers=handlers, lifespan=lifespan)


async def _expire(gateway: Gateway) -> None:
    while True:
        await asyncio.sleep(_EXPIRY)
        gateway.expire()


def _check(request: "Request", guard: HostGuard, token: str | None) -> None:
    """Raise a SessionError where a request is refused."""
    if (refused := refusal(request, guard, "call the model")) is not None:
        raise SessionError(refused.status, "SESSION_ERROR", refused.line)
    if token is None:
        return
    bearer, key = (request.headers.get(name, "").encode() for name in ("authorization", "x-api-key"))
    shown = hmac.compare_digest(bearer, f"Bearer {token}".encode())
    if not (shown | hmac.compare_digest(key, token.encode())):
        raise SessionError(401, "invalid_api_key", "this gateway asks for a token: give it as the API key")


class _Routes:
    """Answers the requests of clients."""

    def __init__(self, gateway: Gateway):
        self.gateway = gateway

    def table(self) -> list[tuple[str, str, Route, ErrorForm]]:
        """Return paths, methods and answers, each with the form of its errors."""
        session = "/sessions/{id}"
        plays = [(f"{session}/env/{kind}", "POST", partial(self.play, kind)) for kind in ("step", "reset")]
        own: list[tuple[str, str, Route]] = [
            ("/health", "GET", self.health),
            ("/sessions", "GET", self.listed),
            ("/sessions", "POST", self.create),
            (session, "GET", self.shown),
            (session, "DELETE", self.delete),
            (f"{session}/complete", "POST", self.complete),
            (f"{session}/traces", "GET", self.traced),
            (f"{session}/env/state", "GET POST", partial(self.play, "state")),
            *plays,
        ]
        absent = [
            (f"{session}/v1/{path}", "POST", partial(self.absent, path, line), form)
            for path, (line, form) in _ABSENT.items()
        ]
        return [
            *absent,
            (f"{session}/v1/chat/completions", "POST", self.completion, openai_chat.error_table),
            (f"{session}/v1/models", "GET", self.models, openai_chat.error_table),
            (f"{session}/v1/messages", "POST", self.message, anthropic_messages.error_table),
            *((path, methods, answer, _own_error) for path, methods, answer in own),
        ]

    async def _session(self, request: "Request") -> GatewaySession:
        return await self.gateway.find(request.path_params["id"])

    async def _body(self, request: "Request") -> Mapping[str, Any]:
        """Return the JSON object of a request, an empty one without a body."""
        limits = self.gateway.limits
        body = await read_in_time(request, limits.body, limits.patience)
        if isinstance(body, Refusal):
            raise SessionError(body.status, "SESSION_ERROR", body.line)
        return table_in(loads_json(body or b"{}", "the request", half_characters="replaced"), "the request")

    # ---- the model -------------------------------------------------------------------------

    async def completion(self, request: "Request") -> Any:
        session, gateway = await self._session(request), self.gateway
        body = {**session.spec.sampling_params, **await self._body(request)}
        query = openai_chat.read_completion(body, gateway.limits.tokens)
        call = await gateway.call(session, query)
        id = f"chatcmpl-{session.spec.session_id}-{call.number}"
        whole = openai_chat.write_completion(call, query, gateway.model, id, gateway.chat.decode)
        if not query.stream:
            return whole
        events = map(encode_json, openai_chat.stream_completion(whole, query))
        return _streamed(f"data: {event}\n\n" for event in (*events, "[DONE]"))

    async def message(self, request: "Request") -> Any:
        session, gateway = await self._session(request), self.gateway
        body = {**session.spec.sampling_params, **await self._body(request)}
        query = anthropic_messages.read_message(body)
        call = await gateway.call(session, query)
        id = f"msg_{session.spec.session_id}_{call.number}"
        whole = anthropic_messages.write_message(call, query, gateway.model, id, gateway.chat.decode)
        if not query.stream:
            return whole
        events = anthropic_messages.stream_message(whole)
        return _streamed(f"event: {event['type']}\ndata: {encode_json(event)}\n\n" for event in events)

    async def absent(self, path: str, line: str, request: "Request") -> Any:
        raise SessionError(404, "not_found_error", f"/v1/{path} is not offered: {line}")

    async def models(self, request: "Request") -> Any:
        await self._session(request)
        model = {"id": self.gateway.model, "object": "model", "created": 0, "owned_by": "agentgym"}
        return {"object": "list", "data": [model]}

    # ---- sessions and their environment ----------------------------------------------------

    async def health(self, request: "Request") -> Any:
        version, sessions = self.gateway.engine.version, len(self.gateway.sessions)
        return {"status": "healthy", "sessions": sessions, "version": version}

    async def listed(self, request: "Request") -> Any:
        return [summary(session) for session in self.gateway.sessions.values()]

    async def create(self, request: "Request") -> Any:
        session, row = await self.gateway.create(await self._body(request))
        url = f"{str(request.base_url).rstrip('/')}/sessions/{session.spec.session_id}"
        addresses = {"url": f"{url}/v1", "base_url": f"{url}/v1", "anthropic_base_url": url}
        return details(session) | addresses | ({} if row is None else {"env": row})

    async def shown(self, request: "Request") -> Any:
        return details(await self._session(request))

    async def delete(self, request: "Request") -> Any:
        return {"deleted": self.gateway.delete(await self._session(request))}

    async def complete(self, request: "Request") -> Any:
        return await self.gateway.complete(await self._session(request), await self._body(request))

    async def traced(self, request: "Request") -> Any:
        return traces(await self._session(request), self.gateway.model)

    async def play(self, kind: str, request: "Request") -> Any:
        return await self.gateway.play(await self._session(request), kind, await self._body(request))


def _answered(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> "Response":
    from starlette.responses import Response

    if isinstance(value, Response):
        return value
    return Response(encode_json(value), status, headers, "application/json")


def _streamed(events: Iterable[str]) -> "Response":
    """Return server-sent events of a complete answer: it is sampled and stored before the first is sent."""
    from starlette.responses import Response

    return Response("".join(events), 200, {"Cache-Control": "no-cache"}, "text/event-stream")


def _own_error(error: SessionError) -> dict[str, Any]:
    return {"error": error.line, "code": error.code}


def summary(session: GatewaySession) -> dict[str, Any]:
    """Return a session among others: nothing that its client may have made long."""
    return {name: getattr(session.spec, name) for name in _SHOWN} | {
        "state": "open" if session.completed is None else "complete",
        "created_at": session.spec.created,
        "trace_count": len(session.tree.calls),
        "step_count": len(session.rows[1:]),
    }


def details(session: GatewaySession) -> dict[str, Any]:
    """Return the detailed view of a session."""
    spec = session.spec
    return summary(session) | {
        "labels": spec.labels, "metadata": spec.metadata, "completed": session.completed
    }  # fmt: skip


def traces(session: GatewaySession, model: str) -> list[dict[str, Any]]:
    """Return a session's calls in order, under the names that rLLM's gateway has, and ours beside them."""
    trained = {call.number for call in session.tree.trained()}
    id = session.spec.session_id
    return [
        {
            "trace_id": f"{id}/{call.number}",
            "session_id": id,
            "parent_trace_id": None if call.parent is None else f"{id}/{call.parent}",
            "model": model,
            "messages": [message_table(each) for each in session.tree.messages(call)],
            "tools": call.tools,
            "response_message": message_table(call.answer),
            "prompt_token_ids": call.prompt_ids,
            "completion_token_ids": call.generation.ids,
            "logprobs": call.generation.logprobs,
            "finish_reason": call.finish,
            "weight_version": call.generation.version,
            "weight_versions": call.generation.versions,
            "temperature": call.temperature,
            "token_counts": usage(call),
            "latency_ms": call.seconds * 1000,
            "timestamp": call.time,
            "state_hash": call.view.state_hash,
            "next_state_hash": (call.moves[-1] if call.moves else call.view).state_hash,
            "turn": call.view.turn,
            "observation": call.view.observation,
            "admissible_actions": call.view.admissible_actions,
            "actions": [move.action for move in call.moves],
            "reward": call.reward,
            "valid": call.valid,
            "terminated": any(move.terminated for move in call.moves),
            "truncated": any(move.truncated for move in call.moves),
            "trained": call.number in trained,
        }
        for call in session.tree.calls
    ]
