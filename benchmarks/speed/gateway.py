"""Time that the gateway adds to a model call, with many sessions at once.

``python -m benchmarks.speed.gateway`` serves Sokoban through a gateway in a process of its own, with a
journal on the disk, over an engine that answers each request some seconds after it was asked. Each session
asks, plays a step and asks again, its chat growing; the times are those of the client, from a request's first
byte to its answer's last, less the engine's seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from time import perf_counter, sleep
from typing import Any

import numpy as np

from agentgym.serving.app_server import AppServer
from agentgym.serving.env.service import EnvService
from agentgym.serving.env.sessions import EnvLimits
from agentgym.serving.gateway.app import make_app
from agentgym.serving.gateway.gateway import Gateway
from agentgym.serving.gateway.journal import SessionJournal
from agentgym.training.engines.types import Generation, GenerationRequest
from agentgym.training.models.families import make_family_model

ENV = "agentgym/Sokoban-v0"
SECONDS = 4.0
"""Of the engine, for each answer, where the command line does not say."""
ANSWER = 64
"""Tokens of an answer."""


class ConstantEngine:
    """Answers each request alike, some seconds after it was asked."""

    context_length, version = 65_536, 0

    def __init__(self, ids: tuple[int, ...], seconds: float):
        """Take the tokens of all answers."""
        self._answer = Generation(ids, (-1.0,) * len(ids), 0, "stop")
        self._seconds = seconds
        self._asked: SimpleQueue[tuple[float, Future[Generation]]] = SimpleQueue()
        Thread(target=self._answer_all, daemon=True).start()

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Answer at once."""
        return [self._answer for _ in requests]

    def submit(self, request: GenerationRequest) -> Future[Generation]:
        """Answer later."""
        future: Future[Generation] = Future()
        self._asked.put((perf_counter() + self._seconds, future))
        return future

    def _answer_all(self) -> None:
        while True:
            due, future = self._asked.get()
            sleep(max(0.0, due - perf_counter()))
            future.set_result(self._answer)

    def sync(self, state: Any, version: int) -> None:
        """Have no weights."""


def serve(folder: Path, seconds: float) -> None:
    """Serve until the process is ended."""
    model = make_family_model("qwen2", ["Which way? Up, left, down or right: I go there."], context=65_536)
    words = model.chat.encode("I go up " * ANSWER)[: ANSWER - 1]
    assert isinstance(model.tokenizer.eos_token_id, int)
    engine = ConstantEngine((*words, model.tokenizer.eos_token_id), seconds)
    env = EnvService.open(ENV, EnvLimits(), split="train")
    gateway = Gateway(model.chat, engine, model.stop_ids, SessionJournal(folder), env=env)
    with AppServer("127.0.0.1", 0, partial(make_app, gateway, None)) as server:
        print(server.url, flush=True)
        server.serve_forever()


class Connection:
    """One connection that stays open."""

    def __init__(self, address: str):
        """Name the server."""
        self._host, self._port = address.removeprefix("http://").split(":")

    async def post(self, path: str, body: Any) -> tuple[float, Any]:
        """Return the seconds until the answer, and the answer."""
        if not hasattr(self, "_reader"):
            self._reader, self._writer = await asyncio.open_connection(self._host, int(self._port))
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        began = perf_counter()
        self._writer.write(head.encode() + data)
        answered = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answered.partition("content-length:")[2].split("\r\n")[0])
        text = await self._reader.readexactly(length)
        seconds = perf_counter() - began
        if " 200 " not in answered.split("\r\n")[0]:
            raise SystemExit(text.decode())
        return seconds, json.loads(text)

    def close(self) -> None:
        """Close it."""
        self._writer.close()


async def play(address: str, place: int, calls: int, start: float, engine: float) -> dict[str, list[float]]:
    """Play a session, beginning after ``start`` seconds; return what its requests took, by kind."""
    connection = Connection(address)
    spent: dict[str, list[float]] = {"call": [], "step": []}
    await asyncio.sleep(start)
    _, begun = await connection.post("/sessions", {"index": place})
    session = f"/sessions/{begun['session_id']}"
    seen = begun["env"]["observation"]["text"]
    chat = [{"role": "user", "content": seen}]
    for number in range(calls):
        seconds, answer = await connection.post(f"{session}/v1/chat/completions", {"messages": chat})
        spent["call"].append(seconds - engine)
        seconds, row = await connection.post(
            f"{session}/env/step", {"action": "up" if number % 2 else "down"}
        )
        spent["step"].append(seconds)
        chat += [answer["choices"][0]["message"], {"role": "user", "content": row["observation"]["text"]}]
    connection.close()
    return spent


async def measure(address: str, sessions: int, calls: int, engine: float) -> dict[str, list[float]]:
    """Return the seconds of all requests, by kind; sessions begin one after the other."""
    starts = (engine * place / sessions for place in range(sessions))
    plays = (play(address, place, calls, start, engine) for place, start in enumerate(starts))
    played = await asyncio.gather(*plays)
    return {kind: [value for each in played for value in each[kind]] for kind in ("call", "step")}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=256)
    parser.add_argument("--calls", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of the engine, for each answer")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        serve(arguments.serve, arguments.seconds)
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.speed.gateway", "--serve", folder]
        command += ["--seconds", str(arguments.seconds)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            measured = asyncio.run(measure(address, arguments.sessions, arguments.calls, arguments.seconds))
            server.terminate()
    print(f"| {arguments.sessions} sessions, {arguments.seconds:g} s an answer | p50 | p90 | p99 |")
    print("|---|---|---|---|")
    for kind, seconds in measured.items():
        shown = (f"{value:.1f} ms" for value in np.percentile(seconds, (50, 90, 99)) * 1000)
        print(f"| {kind} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()
