"""Checks of every request to an application, and their refusals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from email.message import Message
from typing import TYPE_CHECKING, Any, TypeAlias

from agentgym.serving.hosts import HostGuard, Refusal

if TYPE_CHECKING:
    from fastapi import Request, Response

READ_ON = 64 << 20
"""Bytes read beyond the limit, since a client that is still sending does not read the refusal."""


Application: TypeAlias = Callable[..., Awaitable[None]]
"""Application in ASGI's form."""


def guarded(app: Application, check: Callable[[Any], Application | None]) -> Application:
    """Return an application whose every route is behind a check, which returns what answers in its place."""
    from starlette.requests import HTTPConnection

    async def front(scope: Any, receive: Any, send: Any) -> None:
        refused = None if scope["type"] == "lifespan" else check(HTTPConnection(scope))
        await (refused or app)(scope, receive, send)

    return front


async def read_body(request: Request, most: int) -> bytes | None:
    """Return the body of a request; None where it has more than ``most`` bytes."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size <= most:
            parts.append(part)
        elif size > max(READ_ON, most):
            break
    return b"".join(parts) if size <= most else None


async def read_in_time(request: Request, most: int, patience: float) -> bytes | Refusal:
    """Return the body of a request; or why it is refused, which is too large, too slow or cut off."""
    from starlette.requests import ClientDisconnect

    try:
        async with asyncio.timeout(patience):
            body = await read_body(request, most)
    except TimeoutError:
        return Refusal(408, f"the request was not whole within {patience:g} s: send it faster")
    except ClientDisconnect:
        return Refusal(400, "the request is not whole")
    return Refusal(413, f"a message has at most {most:,} bytes: send it in parts") if body is None else body


def refusal(connection: Any, guard: HostGuard, doing: str) -> Refusal | None:
    """Return why a request for another name, or from another site's page, is refused; None otherwise.

    ``doing``: what pages of other sites may not do here.
    """
    headers = Message()
    for name in ("host", "origin", "sec-fetch-site"):
        for value in connection.headers.getlist(name):
            headers[name] = value
    if "content-length" in connection.headers and "transfer-encoding" in connection.headers:
        return Refusal(400, "a request has a Content-Length or a Transfer-Encoding, not both")
    # a WebSocket begins as GET, but can change state
    method = connection.scope["method"] if connection.scope["type"] == "http" else "POST"
    refused = guard.refusal(method, headers, named=True)
    if refused is not None and refused.status == 403:
        return Refusal(403, f"pages of other sites may not {doing} here")
    return refused


def error_response(status: int, line: str, headers: dict[str, str] | None = None, **more: Any) -> Response:
    """Return a response that closes the connection, since the request may not have been read whole."""
    from fastapi import Response

    body = json.dumps({"error": line, **more}, ensure_ascii=False).encode("utf-8", "backslashreplace")
    return Response(body, status, {"Connection": "close", **(headers or {})}, "application/json")
