"""Refusals of an endpoint: which are retried and when, and which are the request's fault."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from agentgym.errors import UsageError
from agentgym.io.untrusted import loads_json

BUSY = frozenset((408, 409, 425, 429, *range(500, 600)))
"""HTTP statuses after which another attempt may succeed."""

_MAX_LINE_LENGTH = 300

_OVERFLOW = re.compile(
    r"context[ _](?:length|window|size|limit)"
    r"|maximum (?:model|context|sequence|input) length"
    r"|max(?:imum)?[ _]model[ _]len"
    r"|prompt is too long|input is too long|(?:prompt|input|request) (?:is )?too large"
    r"|input token count .{0,80}exceeds"
    r"|must have less than \d+ tokens|`?inputs`? tokens \+ `?max_new_tokens`?"
    r"|reduce the length of the (?:messages|prompt|input)"
    r"|tokens to keep from the initial prompt",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content[ _]?(?:filter|policy|management policy)|responsible ?ai", re.IGNORECASE)
_SPENT = re.compile(
    r"insufficient_quota|exceeded your current quota|billing_(?:hard_limit|not_active)"
    r"|insufficient (?:balance|credits?|funds)",
    re.IGNORECASE,
)


class EndpointRefusal(NamedTuple):
    """An answer with a status that is no success."""

    status: int
    line: str
    """Error message of the endpoint, as one line."""
    code: str = ""
    """Error code of the endpoint."""
    fields: tuple[str, ...] = ()
    """Fields of the request that the endpoint names as the cause."""
    pause: float = 0.0
    """Seconds that the endpoint requests before the next attempt."""

    @property
    def overflow(self) -> bool:
        """Whether the request is too long for the model."""
        return self.status == 413 or (
            self.status in (400, 422, 500) and bool(_OVERFLOW.search(f"{self.code} {self.line}"))
        )

    @property
    def filtered(self) -> bool:
        """Whether the content of the request is not wanted."""
        return self.status in (400, 403, 422) and bool(_FILTERED.search(f"{self.code} {self.line}"))

    @property
    def spent(self) -> bool:
        """Whether the account has nothing left."""
        return self.status == 402 or (self.status == 429 and bool(_SPENT.search(f"{self.code} {self.line}")))

    def refused(self, sent: Collection[str]) -> str | None:
        """Return the parameter that is refused, among those that were sent; None where none is named."""
        if self.status not in (400, 422):
            return None
        for name in self.fields:
            if name in sent:
                return name
        return next((name for name in sent if _names(self.line, name)), None)


def read_refusal(
    status: int, body: bytes, headers: Mapping[str, str], now: float, redact: Callable[[str], str] = str
) -> EndpointRefusal:
    """Read an answer with a status that is no success, whatever its body is.

    ``headers`` have names in small letters. ``redact`` takes out of each text, decoded and not yet cut,
    what must not be shown.
    """
    pause = retry_after(headers, now)
    try:
        table = loads_json(body, "", repeated_keys=True, half_characters="kept")
    except UsageError:
        page = body.lstrip()[:1] == b"<"
        line = "a page of HTML" if page else one_line(redact(body.decode("utf-8", "replace")))
        return EndpointRefusal(status, line, pause=pause)
    error = table.get("error", table) if isinstance(table, dict) else table
    if isinstance(error, str):
        return EndpointRefusal(status, one_line(redact(error)), pause=pause)
    if not isinstance(error, dict):
        return EndpointRefusal(status, "", pause=pause)
    detail = error.get("detail")
    text = next((error[key] for key in ("message", "detail", "error") if isinstance(error.get(key), str)), "")
    places = [each for each in detail if isinstance(each, dict)] if isinstance(detail, list) else []
    text = text or "; ".join(f"{_place(each)}: {each.get('msg', '')}" for each in places)
    named = [error.get("param"), *(_place(each) for each in places)]
    code = error.get("code") or error.get("type")
    fields = tuple(redact(name) for name in named if isinstance(name, str) and name)
    return EndpointRefusal(
        status, one_line(redact(text)), redact(code) if isinstance(code, str) else "", fields, pause
    )


def retry_after(headers: Mapping[str, str], now: float) -> float:
    """Return the seconds of a Retry-After header, a number or a date; 0 without one.

    Example:
        >>> retry_after({"retry-after": "1.5"}, 0.0)
        1.5
        >>> retry_after({"retry-after": "Thu, 01 Jan 1970 00:00:07 GMT"}, 0.0)
        7.0
    """
    value = headers.get("retry-after", "").strip()
    if not value:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
        except (ValueError, TypeError):
            return 0.0
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        seconds = (date - datetime.fromtimestamp(now, UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


def one_line(text: str) -> str:
    """Return a text of a server as one line that a terminal can show."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:4_096]).split())
    return line if len(line) <= _MAX_LINE_LENGTH else f"{line[:_MAX_LINE_LENGTH]}..."


def _place(problem: Mapping[str, Any]) -> str:
    """Return the field that a validation error is about: the second part of its place, after ``body``."""
    place = problem.get("loc")
    names = [name for name in place if isinstance(name, str)] if isinstance(place, list) else []
    return next((name for name in names if name != "body"), "")


def _names(line: str, name: str) -> bool:
    """Whether a message names a parameter: in quotes, after a word for parameters, or by a rare word."""
    quoted = rf"[\"'`\[({{]{name}[\"'`\])}}:=]"
    after = (
        rf"(?:param(?:eter)?s?|arguments?|fields?|inputs?|propert(?:y|ies)|supplied|option)\W{{1,3}}{name}\b"
    )
    alone = rf"\b{name}\b" if "_" in name or name in ("temperature", "logprobs") else r"(?!)"
    return re.search(f"{quoted}|{after}|{alone}", line, re.IGNORECASE) is not None
