"""Endpoint specs: address, model and limits of an endpoint, as in the options of agents and environments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from agentgym.core.hashing import canonical_json
from agentgym.core.options import Bounds, check_fields
from agentgym.errors import UsageError
from agentgym.io.records import parse
from agentgym.io.untrusted import check_json

# names that redaction recognises as secrets, so that transcripts do not contain the key either
_KEY_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,99}", re.ASCII)
_SECRET_ENDINGS = ("KEY", "TOKEN", "SECRET")

_OWN_FIELDS = frozenset(
    (
        *("model", "messages", "temperature", "max_tokens", "max_completion_tokens", "seed", "stop", "top_p"),
        *("n", "tools", "response_format", "stream", "stream_options", "logprobs", "return_token_ids"),
    )
)
"""Fields of a request that `EndpointSpec.extra` must not hold, since the request or an option sets them."""


@dataclass(frozen=True, slots=True)
class EndpointSpec:
    """A model behind an endpoint of chat completions, and the settings of requests. It holds no key.

    Example:
        >>> spec = EndpointSpec.of({"url": "http://127.0.0.1:8000/v1/", "model": "tiny", "concurrency": 8})
        >>> spec.identity
        'tiny at http://127.0.0.1:8000/v1'
        >>> EndpointSpec.of({"url": "http://127.0.0.1:8000/v1", "modle": "tiny"})
        Traceback (most recent call last):
        agentgym.errors.UsageError: endpoint: unknown key 'modle' (did you mean 'model'?); known: ...
    """

    url: str
    """Base address that ``/chat/completions`` is appended to, such as ``https://api.openai.com/v1``."""
    model: str
    key_env: str = ""
    """Name of the environment variable that holds the key; it ends in KEY, TOKEN or SECRET. Empty: no key."""
    stream: bool = False
    """Whether answers are streamed: no proxy then closes the connection while the model is silent."""
    concurrency: Annotated[int, Bounds(1, 4_096)] = 64
    """Most requests in flight."""
    requests_per_minute: Annotated[float, Bounds(1, 1e12)] | None = None
    tokens_per_minute: Annotated[float, Bounds(1, 1e12)] | None = None
    """Most tokens a minute: estimated ones of prompts, and `ChatSampling.max_tokens` of each answer."""
    timeout: Annotated[float, Bounds(0.001, 86_400)] = 120.0
    """Seconds for one attempt, to its last byte."""
    attempts: Annotated[int, Bounds(1, 100)] = 8
    """Most attempts at a request."""
    first_pause: Annotated[float, Bounds(0, 3_600)] = 0.5
    """Seconds before the second attempt; doubled before each further one."""
    longest_pause: Annotated[float, Bounds(0, 86_400)] = 60.0
    """Longest pause between attempts, in seconds; none follows where an endpoint asks for a longer one."""
    logprobs: bool = False
    """Whether to request the log-probabilities of answers' tokens."""
    token_ids: bool = False
    """Whether to request the token ids of answers, which vLLM supports."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of a request, such as ``{"reasoning_effort": "low"}``; part of the identity."""

    def __post_init__(self) -> None:
        """Check the address and the ranges; cut off the slash at the address's end.

        Raises:
            UsageError: a value is malformed; the message does not repeat one that may be a secret.
        """
        object.__setattr__(self, "url", checked_url(self.url))
        if not self.model or len(self.model) > 200 or not self.model.isprintable():
            raise UsageError(
                "endpoint: model is the name that the server knows it by, of at most 200 characters"
            )
        if self.key_env and not (
            _KEY_NAME.fullmatch(self.key_env) and self.key_env.endswith(_SECRET_ENDINGS)
        ):
            raise UsageError(
                "endpoint: key_env (--key-env) is the name of an environment variable, in capitals and "
                "ending in KEY, TOKEN or SECRET, such as OPENAI_API_KEY, and never the key itself"
            )
        check_fields(self, "endpoint: ")
        _check_extra(self.extra)

    @classmethod
    def of(cls, table: Any) -> Self:
        """Read a table such as an option's or a file's; unknown and mistyped keys are errors.

        Raises:
            UsageError: it does not fit.
        """
        return parse(cls, dict(table) if isinstance(table, Mapping) else table, "endpoint")

    @property
    def identity(self) -> str:
        """Model and address, and what further fields say: what names and digests hold of an endpoint."""
        more = f" with {canonical_json(dict(self.extra))}" if self.extra else ""
        return f"{self.model} at {self.url}{more}"

    def to_json(self) -> dict[str, Any]:
        """Return all fields, as `of` reads them."""
        return asdict(self)


def checked_url(url: str) -> str:
    """Return an endpoint's address without a slash at its end.

    The message about an address that holds credentials or a query does not repeat it.
    """
    form = "write http://HOST:PORT/v1 or https://HOST/v1"
    try:
        parts = urlsplit(url)
        port = parts.port
        problem = "" if parts.hostname and port != 0 else "it names no host"
    except ValueError:
        problem = "its host or port is none"
    if problem or parts.scheme not in ("http", "https"):
        raise UsageError(f"endpoint: url is no server's address: {problem or 'it has no scheme'}; {form}")
    if "@" in parts.netloc:
        raise UsageError(
            f"endpoint: url holds credentials; {form}, and name the key's environment variable in key_env"
        )
    if "?" in url or "#" in url or not url.isascii() or any(map(str.isspace, url)) or not url.isprintable():
        raise UsageError(f"endpoint: url has a query, a fragment or characters that no address has; {form}")
    return url.rstrip("/").removesuffix("/chat/completions")


def _check_extra(extra: Mapping[str, Any]) -> None:
    own = sorted(name for name in extra if name in _OWN_FIELDS)
    if own:
        raise UsageError(f"endpoint: extra holds {own[0]!r}, which requests or options set: leave it out")
    try:
        check_json(json.dumps(dict(extra), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"endpoint: extra is not JSON: {error}") from error
