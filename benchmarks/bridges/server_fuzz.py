"""Hostile messages to an environment server: ``python -m benchmarks.bridges.server_fuzz``.

Messages that sessions would send are changed in every way that JSON and HTTP allow, snapshots among them byte
for byte, and sent over HTTP and over WebSockets. Each has to be answered, with one line where it is refused;
nothing may fail inside the server, and a session that is played besides has to go on as if nothing had come.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from agentgym.registration import open_env
from agentgym.serving.env.app import EnvServer
from agentgym.serving.env.service import EnvService
from agentgym.serving.env.sessions import EnvLimits
from benchmarks.harness.report import machine, parser, publish, table

RESULTS = Path(__file__).with_suffix(".json")
ENVS = ("agentgym/Sokoban-v0", "agentgym/WebShop-v0", "agentgym/HotpotQA-v0")
ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        10**30,
        -(10**18),
        0.5,
        1e308,
        "",
        "x",
        "x" * 9_000,
        "\ud800",
        "\x00",
        "äß",
    ),
    *([], {}, [[]], [None], {"": {}}, ["up"] * 300, [0] * 300, "up", "search[lamp]", "answer[]", "0" * 32),
)
KINDS = (
    *("reset", "step", "state", "snapshot", "restore", "reset_many", "step_many", "close_many", "mcp"),
    *("ID/num_tasks", "ID/task", "ID/task_range", "nothing"),
)
TEXTS = (
    b"",
    b"{",
    b"[",
    b"\xff",
    b"null",
    b"NaN",
    b'{"a":1e999}',
    b'{"a":1,"a":2}',
    b"[" * 5_000,
    b" " * 70_000,
)
METHODS = ("tools/list", "tools/call", "openenv/session/create", "openenv/session/close", "x")


class Fuzzer:
    """Sends hostile messages to one server, and watches it."""

    def __init__(self, server: EnvServer, service: EnvService, seed: int):
        """Begin a session that is played throughout."""
        self._random = random.Random(seed)
        self._service = service
        self._address = server.url.removeprefix("http://")
        self._connection = http.client.HTTPConnection(self._address, timeout=120)
        self._socket: ClientConnection | None = None
        self._near, self._turn = open_env(service.env_id, options={"max_steps": 1_000_000}), 0
        self._near.reset(seed=1)
        self._session = self._reset()
        self._snapshot = self._ask("snapshot", {"session_id": self._session})["snapshot"]
        self.statuses: Counter[int] = Counter()
        self.problems: list[str] = []

    def run(self, count: int) -> None:
        """Send messages."""
        for number in range(count):
            kind = self._random.choice(KINDS).replace("ID", self._service.env_id)
            body = self._body(kind)
            status, answer = self._say(kind, body) if number % 4 == 0 else self._send(kind, body)
            self.statuses[status] += 1
            line = answer.get("error") if isinstance(answer, dict) else None
            if status != 200 and (not isinstance(line, str) or "\n" in line or len(line) > 600):
                self._found(f"{kind} {body[:200]!r} is answered {status} {str(answer)[:200]}")
            if status == 500 or " failed (" in str(line):
                self._found(f"{kind} {body[:200]!r} fails: {line}")
            if number % 200 == 0:
                self._check()

    def _reset(self) -> str:
        return str(self._ask("reset", {"seed": 1})["metadata"]["session_id"])

    def _ask(self, kind: str, data: Any) -> Any:
        status, answer = self._send(kind, json.dumps(data).encode())
        if status != 200:
            raise RuntimeError(f"{kind} is refused: {answer}")
        return answer

    def _check(self) -> None:
        """Play a step of the session beside, here and there."""
        action = self._random.choice(self._near.admissible_actions())
        answer = self._ask("step", {"action": action, "session_id": self._session, "turn": self._turn})
        self._turn += 1
        _, _, terminated, _, info = self._near.step(action)
        if answer["metadata"]["state_hash"] != info["state_hash"]:
            self._found("the session beside is elsewhere")
        if terminated:
            self._near.reset(seed=1)
            self._session, self._turn = self._reset(), 0
        if len(self._service.sessions) > 200:  # room for those that hostile resets begin
            for session in list(self._service.sessions.ids())[:100]:
                if session != self._session:
                    self._ask("close_many", {"sessions": [session]})

    def _found(self, problem: str) -> None:
        self.problems.append(problem)

    def _body(self, kind: str) -> bytes:
        """Return a message of a kind, changed."""
        choose = self._random.choice
        if self._random.random() < 0.05:
            return choose(TEXTS)
        named = {"session_id": choose((self._session_of_others(), "none", None))}
        message: Any = {
            "step": {"action": choose(("up", "search[lamp]", {"action": "up"})), **named},
            "restore": {"snapshot": self._changed_snapshot(), **named},
            "reset": {"seed": self._random.randrange(99), **named},
            "reset_many": {"sessions": [None, named["session_id"]], "seeds": [1, 2]},
            "step_many": {"sessions": [named["session_id"]], "actions": ["up"], "turns": [0]},
            "close_many": {"sessions": [named["session_id"]]},
            "mcp": {
                "jsonrpc": "2.0",
                "id": 1,
                "method": choose(("tools/list", "tools/call", "x")),
                "params": named,
            },
        }.get(kind, {"split": "train", "start": 0, "stop": 2, **named})
        for _ in range(self._random.randrange(3)):
            message = self._changed(message)
        return json.dumps(message).encode()

    def _session_of_others(self) -> str | None:
        ids = [session for session in self._service.sessions.ids() if session != self._session]
        return self._random.choice(ids) if ids else None

    def _changed(self, value: Any) -> Any:
        """Return a value with some part of it another, missing or more."""
        choose = self._random.choice
        if not isinstance(value, dict | list) or not value or self._random.random() < 0.2:
            return choose(ODD)
        if isinstance(value, list):
            members = list(value)
            members[self._random.randrange(len(members))] = choose(ODD)
            return members * choose((1, 1, 2))
        key, copy = choose(list(value)), dict(value)
        match self._random.randrange(4):
            case 0:
                del copy[key]
            case 1:
                copy[choose(("x", "seed", "task", "turn", "metadata", "tasks", "rollouts"))] = choose(ODD)
            case _:
                copy[key] = self._changed(value[key])
        return copy

    def _changed_snapshot(self) -> str:
        """Return a snapshot with some bytes changed, and sometimes with the checksum that fits."""
        held = bytearray(base64.b64decode(self._snapshot))
        for _ in range(self._random.randrange(4)):
            held[self._random.randrange(len(held))] = self._random.randrange(256)
        if self._random.random() < 0.5:
            from agentgym.core.types import SNAPSHOT_MARK, _digest

            body = bytes(held[len(SNAPSHOT_MARK) : -len(_digest(b""))])
            held = bytearray(SNAPSHOT_MARK + body + _digest(body))
        return base64.b64encode(held[: self._random.choice((None, None, 40))]).decode()

    def _say(self, kind: str, body: bytes) -> tuple[int, Any]:
        """Send a message over a WebSocket; a refusal has the status 422."""
        text = body if body in TEXTS else b'{"type": %s, "data": %s}' % (json.dumps(kind).encode(), body)
        if self._socket is None:
            self._socket = connect(f"ws://{self._address}/ws", max_size=None).__enter__()
        try:
            self._socket.send(text, text=self._random.random() < 0.5)
            answer = json.loads(self._socket.recv(120))
        except ConnectionClosed as closed:
            self._socket = None
            if closed.rcvd is None or closed.rcvd.code not in (1007, 1009):  # no UTF-8, or too large
                self._found(f"{body[:200]!r} closes the WebSocket: {closed}")
            return 413, {"error": "closed"}
        failed = answer["type"] == "error"
        return (422, {"error": answer["data"]["message"]}) if failed else (200, answer["data"])

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()
        if self._socket is not None:
            self._socket.close()

    def _send(self, kind: str, body: bytes) -> tuple[int, Any]:
        try:
            self._connection.request("POST", f"/{kind}", body)
            response = self._connection.getresponse()
            return response.status, json.loads(response.read())
        except (http.client.HTTPException, OSError):  # the server has closed it with the last refusal
            self._connection.close()
            self._connection.request("POST", f"/{kind}", body)
            response = self._connection.getresponse()
            return response.status, json.loads(response.read())


@contextmanager
def watched() -> Iterator[list[str]]:
    """Collect the exceptions that the server logs in a block."""
    lines: list[str] = []
    handler = logging.Handler()

    def emit(record: logging.LogRecord) -> None:
        if record.exc_info:
            lines.append(record.getMessage())

    handler.emit = emit  # type: ignore[method-assign]
    logger = logging.getLogger("uvicorn.error")
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


def fuzz(env_id: str, count: int, seed: int) -> dict[str, Any]:
    """Send messages to a server of an environment; return what came of them."""
    limits = EnvLimits(sessions=256, body=65_536, rate=1_000_000)
    service = EnvService.open(env_id, limits, options={"max_steps": 1_000_000})
    with EnvServer("127.0.0.1", 0, service) as server, watched() as lines:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            fuzzer, began = Fuzzer(server, service, seed), time.monotonic()
            fuzzer.run(count)
            seconds = time.monotonic() - began
            fuzzer.close()
        finally:
            server.stop()
            thread.join()
    return {
        "env": env_id,
        "messages": count,
        "seconds": round(seconds, 1),
        "statuses": {str(status): number for status, number in sorted(fuzzer.statuses.items())},
        "exceptions": len(lines),
        "problems": [*lines, *fuzzer.problems][:20],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz, and write the report; return 1 if anything was found."""
    given = parser(__spec__.name, __doc__, RESULTS)
    given.add_argument("--messages", type=int, default=100_000, help="in all (default: 100000)")
    given.add_argument("--seed", type=int, default=0, help="(default: 0)")
    asked = given.parse_args(arguments)
    rows = [fuzz(env_id, -(-asked.messages // len(ENVS)), asked.seed) for env_id in ENVS]
    record = {"machine": machine(), "seed": asked.seed, "rows": rows}
    publish(asked.out, record, page(rows, asked.seed))
    return 1 if any(row["problems"] for row in rows) else 0


def page(rows: Sequence[dict[str, Any]], seed: int) -> str:
    """Return the report."""
    head = ("environment", "messages", "answers by status", "exceptions", "problems")
    cells = []
    for row in rows:
        answers = ", ".join(f"{status}: {number:,}" for status, number in row["statuses"].items())
        problems = len(row["problems"])
        cells.append((row["env"], f"{row['messages']:,}", answers, row["exceptions"], problems))
    lines = "\n".join(table(head, cells))
    return f"""# Hostile messages to the environment server

`python -m benchmarks.bridges.server_fuzz --seed {seed}`: messages of all kinds, changed in their values,
keys, types and bytes, with snapshots changed byte for byte and their checksum made to fit. Every refusal has
to be one line, nothing may fail inside the server, and a session that is played besides has to go on as if
nothing had come.

{lines}
"""


if __name__ == "__main__":
    sys.exit(main())
