"""``POST /retrieve`` in both public dialects, and ``GET /health``, over a searcher."""

# no postponed annotations: FastAPI reads those of the endpoints, whose types are imported with it

import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agentgym.errors import UsageError
from agentgym.io.optional import load
from agentgym.retrieval.corpus.wire_formats import (
    DEFAULT_K,
    RetrievalLimits,
    RetrievalRequest,
    read_request,
    write_answer,
    write_document,
)
from agentgym.retrieval.searcher import Searcher
from agentgym.serving.hosts import HostGuard
from agentgym.serving.requests import Application, error_response, guarded, read_body, refusal
from agentgym.serving.retrieval.batching import WAIT, MicroBatcher, QueueFullError
from agentgym.version import __version__

if TYPE_CHECKING:
    from fastapi import Response

MAX_CACHED_DOCUMENTS = 16_384
"""Most documents cached in their encoded form."""

_LOGGER = logging.getLogger("uvicorn.error")  # the server's own, which is shown


class LargeAnswerError(Exception):
    """The answer to a request has more bytes than one may have."""


class RetrievalService:
    """Answers requests of all connections from one searcher."""

    def __init__(
        self,
        searcher: Searcher,
        *,
        limits: RetrievalLimits | None = None,
        default_k: int = DEFAULT_K,
        quoted: bool = False,
        wait: float = WAIT,
    ):
        """Prepare; the application of `make_app` begins and ends it.

        ``default_k``: passages for each query by default; ``quoted``: whether titles stand in quotation marks
        in ``contents``, as in wiki-18; ``wait``: seconds that a call of the index waits for further requests,
        while there are several.
        """
        self.limits = limits or RetrievalLimits()
        if not 1 <= default_k <= self.limits.k:
            raise UsageError(
                f"the default number of passages is from 1 to {self.limits.k:,}, not {default_k}"
            )
        self.default_k = default_k
        self._searcher = searcher
        limits = self.limits
        self.batcher = MicroBatcher(
            self._search, waiting=limits.waiting, most_found=limits.passages, wait=wait
        )

        @lru_cache(MAX_CACHED_DOCUMENTS)
        def document(number: int) -> str:
            return write_document(searcher.store[number], quoted=quoted)

        self._document = document

    def health(self) -> dict[str, Any]:
        """Return the content of ``/health``."""
        manifest = self._searcher.index.manifest
        return {
            "status": "ok",
            "version": __version__,
            "index": {
                "engine": manifest.engine,
                "standing": manifest.standing,
                "fingerprint": manifest.fingerprint,
                "corpus": manifest.corpus,
                "corpus_sha256": self._searcher.store.sha256,
                "count": manifest.count,
            },
            "queries": self.batcher.queries,
            "calls": self.batcher.calls,
            "waiting": self.batcher.waiting,
        }

    def read(self, body: bytes) -> RetrievalRequest:
        """Parse the body of a request."""
        return read_request(body, self.limits, default_k=self.default_k)

    async def answer(self, request: RetrievalRequest) -> bytes:
        """Return the body of the answer to a request.

        `QueueFullError` where too many queries wait, `LargeAnswerError` where it would be too large.
        """
        found = await self.batcher.search(request.queries, request.k)
        size = sum(len(document) for passages in found for document, _ in passages)
        body = write_answer(found, scores=request.scores) if size <= self.limits.answer else b""
        if max(size, len(body)) > self.limits.answer:
            raise LargeAnswerError
        return body

    def _search(self, queries: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        return [
            [
                (self._document(number), score)
                for number, score in zip(hits.documents.tolist(), hits.scores.tolist(), strict=True)
            ]
            for hits in self._searcher.hits(queries, min(k, len(self._searcher.store)) or 1)
        ]


def make_app(service: RetrievalService, guard: HostGuard) -> Application:
    """Return the application of a service, for names that the guard knows."""
    load("fastapi", "serve", "the retrieval server")
    from fastapi import FastAPI, Request, Response
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect

    async def retrieve(request: Request) -> Response:
        most = service.limits.body
        try:
            body = await read_body(request, most)
        except ClientDisconnect:
            _LOGGER.error("a client went before its request was whole")
            return error_response(400, "the request is not whole")
        if body is None:
            return error_response(413, f"a request has at most {most:,} bytes: send it in parts")
        return await _answer(service, body)

    async def health(request: Request) -> Response:
        return Response(json.dumps(service.health()), media_type="application/json")

    async def not_found(request: Request, problem: Exception) -> Response:
        status = problem.status_code if isinstance(problem, HTTPException) else 500
        return error_response(status, "there are POST /retrieve, GET /health and GET /openapi.json")

    async def failed(request: Request, problem: Exception) -> Response:
        return error_response(
            500, f"the search failed ({type(problem).__name__}): see what the server printed"
        )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.batcher.start()
        yield
        await service.batcher.close()

    app = FastAPI(
        title="agentgym retrieval", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.add_api_route(
        "/retrieve", retrieve, methods=["POST"], response_model=None, openapi_extra=_DESCRIPTION
    )
    app.add_api_route("/health", health, methods=["GET"], response_model=None)
    app.add_exception_handler(HTTPException, not_found)
    app.add_exception_handler(Exception, failed)

    def check(connection: Any) -> Response | None:
        refused = refusal(connection, guard, "search")
        return None if refused is None else error_response(*refused)

    return guarded(app, check)


async def _answer(service: RetrievalService, body: bytes) -> "Response":
    """Return the response to the body of a request."""
    from fastapi import Response

    try:
        query = service.read(body)
    except UsageError as problem:
        return error_response(422, str(problem))
    try:
        return Response(await service.answer(query), media_type="application/json")
    except QueueFullError:
        line = f"{service.batcher.waiting:,} queries wait already: ask again in a moment"
        return error_response(503, line, {"Retry-After": "1"})
    except LargeAnswerError:
        line = f"an answer has at most {service.limits.answer:,} bytes: ask for fewer passages at once"
        return error_response(413, line)
    except UsageError as problem:
        return error_response(500, f"the index cannot answer: {problem}")


_TEXT = {"type": "string"}
_OPTIONS = {
    "topk": {"type": ["integer", "null"], "description": "passages for each query"},
    "return_scores": {"type": "boolean", "default": False},
}
_DESCRIPTION = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "oneOf": [
                        {
                            "type": "object",
                            "properties": {name: kind, **_OPTIONS},
                            "required": [name],
                            "additionalProperties": False,
                        }
                        for name, kind in (("queries", {"type": "array", "items": _TEXT}), ("query", _TEXT))
                    ]
                }
            }
        },
    }
}
