"""A ledger of calls to endpoints: a line of JSON for each, whatever came of it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Self

from agentgym.endpoint.chat import ChatReply, ChatRequest
from agentgym.endpoint.spec import EndpointSpec
from agentgym.errors import UsageError
from agentgym.io.files import writing
from agentgym.io.records import parse
from agentgym.io.untrusted import loads_json, open_regular

MAX_LEDGER_SIZE = 4 << 30
"""Largest size of a ledger that is read, in bytes."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A call to an endpoint."""

    when: str
    """End of the call, as 2026-01-31T12:00:00.000Z."""
    label: str
    """Name of the episode, or another `ChatRequest.label`."""
    url: str
    """Address of the endpoint."""
    model: str
    """Name of the model on the server."""
    prompt_id: str
    """Wording, the `ChatRequest.prompt_id`; empty without one."""
    prompt_tokens: int
    """Tokens of the prompt by the endpoint's count; 0 where it states none."""
    completion_tokens: int
    """Tokens of the answer, reasoning included."""
    cached_tokens: int
    """Tokens of the prompt that the endpoint read from its prefix cache."""
    reasoning_tokens: int
    """Tokens of the answer's reasoning, where the endpoint counts them separately."""
    seconds: float
    """Time from the first attempt's start to the last one's end, pauses included."""
    retries: int
    """Attempts before the one that ended the call."""
    cost: float | None
    """US dollars; None without a price. With `from_cache`, the cost of the answer's first request."""
    from_cache: bool
    """Whether the call cost nothing: the cache had the answer, or an equal request was under way."""
    finish_reason: str
    """Reason why the model stopped; empty without an answer."""
    error: str = ""
    """Name of the error that the call ended in; empty for an answer."""
    left_out: tuple[str, ...] = ()
    """Parameters left out since the endpoint had refused them."""

    @classmethod
    def of(
        cls, spec: EndpointSpec, request: ChatRequest, reply: ChatReply, error: str, left_out: tuple[str, ...]
    ) -> Self:
        """Return the row of a call that ends now."""
        return cls(
            when=now(),
            label=request.label,
            url=spec.url,
            model=spec.model,
            prompt_id=request.prompt_id,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            cached_tokens=reply.cached_tokens,
            reasoning_tokens=reply.reasoning_tokens,
            seconds=reply.seconds,
            retries=reply.retries,
            cost=reply.cost,
            from_cache=reply.from_cache,
            finish_reason=reply.finish_reason,
            error=error,
            left_out=left_out,
        )


def now() -> str:
    """Return the time as rows have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class LedgerTotals(NamedTuple):
    """Sums over calls. Tokens and dollars are of answers that were paid for."""

    calls: int = 0
    from_cache: int = 0
    errors: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None
    """US dollars; None where an answer has no price, or no price was known."""


class Ledger:
    """An append-only file of rows; several processes may write to one.

    A row is one ``write``: killing the process loses none that was written, and half a row, which a crash may
    leave, is cut off when the file is next opened.
    """

    def __init__(self, path: Path):
        """Open or create the file, in an existing folder."""
        self.path = path
        with writing(path):
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            self._trim()

    def append(self, row: LedgerRow) -> None:
        """Write a row; if it does not fit on the disk, the file ends with the last row that did."""
        table = {name: getattr(row, name) for name in row.__slots__}
        line = json.dumps(table, allow_nan=False).encode() + b"\n"
        with writing(self.path):
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            try:
                before = os.fstat(self._fd).st_size
                if os.write(self._fd, line) != len(line):
                    os.ftruncate(self._fd, before)
                    raise UsageError(
                        f"cannot write {self.path}: no space left; free some and run the same again"
                    )
            finally:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release the file."""
        os.close(self._fd)

    def _trim(self) -> None:
        """Cut off what follows the last end of a line."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            end = size = os.fstat(self._fd).st_size
            while end > 0:
                start = max(0, end - 65_536)
                newline = os.pread(self._fd, end - start, start).rfind(b"\n")
                end = start if newline < 0 else start + newline + 1
                if newline >= 0:
                    break
            if end != size:
                os.ftruncate(self._fd, end)
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)


def read_ledger(path: Path) -> list[LedgerRow]:
    """Read the rows of a ledger; half a row at its end is left out.

    Raises:
        UsageError: it cannot be read, or a row does not fit.
    """
    try:
        with open_regular(path) as file:
            raw = file.read(MAX_LEDGER_SIZE + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; name a ledger") from error
    if len(raw) > MAX_LEDGER_SIZE:
        raise UsageError(f"{path} is larger than the {MAX_LEDGER_SIZE:,} bytes that a ledger has at most")
    lines = raw.split(b"\n")[:-1]
    places = ((f"{path}:{number}", line) for number, line in enumerate(lines, 1))
    return [parse(LedgerRow, loads_json(line, where), where) for where, line in places]


def total(rows: Iterable[LedgerRow]) -> LedgerTotals:
    """Return the sums over rows."""
    sums: dict[str, int] = dict.fromkeys(LedgerTotals._fields[:-1], 0)
    cost, priced, known = 0.0, True, False
    for row in rows:
        known |= row.cost is not None
        sums["calls"] += 1
        sums["from_cache"] += row.from_cache
        sums["errors"] += bool(row.error)
        sums["retries"] += 0 if row.from_cache else row.retries
        if row.from_cache:
            continue
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens"):
            sums[name] += getattr(row, name)
        priced = priced and (row.cost is not None or bool(row.error))
        cost += row.cost or 0.0
    return LedgerTotals(**sums, cost=cost if priced and known else None)
