"""A seeded stand-in for a server of chat completions, over HTTP: equal requests have equal answers."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-marker-of-a-key-0123456789abcdef"


class ChatServer(ThreadingHTTPServer):
    """Answers by the sha256 of what it is asked; counts its requests."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int] = ("127.0.0.1", 0), *, delay: float = 0.0, key: str = ""):
        """Listen.

        Args:
            address: host and port; port 0 for any.
            delay: seconds before each answer.
            key: without which requests are refused; empty for none.
        """
        super().__init__(address, _Handler)
        self.delay = delay
        self.key = key
        self.bodies: list[dict[str, Any]] = []
        self.noise = 0.0
        """Standard deviation of ratings of one speech."""
        self.calls_itself = ""
        """The model that answers say they are of; empty for the one that was asked for."""
        self.mute = False
        """Whether ratings are words that nobody can read."""
        self.mumbles = 0
        """How often in a row a partner is not understood when it is asked for one answer."""
        self.rambles = False
        """Whether an agent's answers hold no action."""
        self._random = random.Random(0)

    @property
    def url(self) -> str:
        """What endpoints are given."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def answer(self, body: dict[str, Any]) -> str:
        """Return what is said to a request: a thought and a move, or a rating."""
        asked = json.dumps([body["messages"], body.get("seed"), body.get("temperature")], sort_keys=True)
        draw = int(hashlib.sha256(asked.encode()).hexdigest()[:8], 16)
        if "grams" in str(body.get("response_format")):
            return json.dumps({"grams": [draw % 7 + 40 + self._random.gauss(0, self.noise)]})
        if "response_format" in body and self.mute:
            return "I would rather not say."
        if "response_format" in body:
            return json.dumps(rated(body["response_format"]["json_schema"]["schema"], draw))
        if "speak[" in asked:
            said = "leave" if draw % 5 == 0 else f"speak[word {draw % 97}]"
            if "<action>" in asked:
                return f"<think>draw {draw}</think><action>{said}</action>"
            return "Hm,\x1b[2J let me see." if len(body["messages"]) < 2 * self.mumbles else said
        if self.rambles:
            return "I would <b>go\x1b[2J right</b>."
        action = "right" if draw % 4 else "left"
        return f"<think>draw {draw}</think><action>{action}</action>"


def rated(schema: dict[str, Any], draw: int) -> Any:
    """Return an instance of a schema of objects, texts and bounded numbers."""
    if schema["type"] == "object":
        return {
            name: rated(part, draw + 7 * place)
            for place, (name, part) in enumerate(schema["properties"].items(), start=1)
        }
    if schema["type"] == "integer":
        return schema["minimum"] + draw % (schema["maximum"] - schema["minimum"] + 1)
    return f"reason {draw % 97}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ChatServer

    def do_POST(self) -> None:
        """Answer a chat completion."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.key and self.headers.get("Authorization") != f"Bearer {self.server.key}":
            self._send(401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}})
            return
        self.server.bodies.append(body)
        time.sleep(self.server.delay)
        said = self.server.answer(body)
        size = len(json.dumps(body["messages"]))
        self._send(
            200,
            {
                "id": "x",
                "object": "chat.completion",
                "created": 0,
                "model": self.server.calls_itself or body["model"],
                "choices": [
                    {
                        "index": 0,
                        "finish_reason": "stop",
                        "message": {"role": "assistant", "content": said},
                    }
                ],
                "usage": {
                    "prompt_tokens": size // 4,
                    "completion_tokens": len(said) // 4,
                    "total_tokens": size // 4 + len(said) // 4,
                },
            },
        )

    def _send(self, status: int, table: dict[str, Any]) -> None:
        data = json.dumps(table).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving(**options: Any) -> Iterator[ChatServer]:
    """Serve from a thread of this process."""
    server = ChatServer(**options)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
