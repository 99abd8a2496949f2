"""Visitors of a site, some of them hostile: what each is answered, and how soon."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic, perf_counter, sleep
from urllib.parse import urlencode

import numpy as np

from agentgym.core.suite_spec import PLACE

VISITORS = 3
"""Threads of visitors who come, look for something, click about and leave."""

SLOW = 24
"""Connections that say next to nothing."""

PAUSE = 0.05
"""Seconds between the clicks of a visitor."""

MAX_SECONDS = 30.0
"""Seconds after which an answer counts as none."""

_HIDDEN = re.compile(rf'name="{PLACE}" value="([^"]*)"|value="([^"]*)" name="{PLACE}"')
_CHOICE = re.compile(
    r'<button[^>]*name="choice"[^>]*value="([^"]*)"|<button[^>]*value="([^"]*)"[^>]*name="choice"'
)
_QUERIES = ("red shoes", "cotton shirt for men", "lamp", "usb cable 2 m", "\u00e9t\u00e9", "a" * 300)

HOSTILE: dict[str, bytes] = {
    "another host": b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
    "a form of another site": b"POST /act HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\n"
    b"Content-Length: 7\r\n\r\nquery=x",
    "a form without length": b"POST /act HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nquery=x",
    "a length that is none": b"POST /act HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
    "a long action": b"POST /act HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 16006\r\n\r\nquery="
    + b"[" * 16_000,
    "a longer action": b"POST /act HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 200006\r\n\r\nquery="
    + b"[" * 200_000,
    "many fields": b"POST /act HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4000\r\n\r\n" + b"a=1&" * 1_000,
    "a long address": b"GET /?" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a long header": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: " + b"x" * 70_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
    "another method": b"DELETE / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "no page": b"GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
}
"""Requests that are answered with a refusal."""


@dataclass(slots=True)
class Traffic:
    """What visitors were answered."""

    port: int
    seed: int
    statuses: Counter[int] = field(default_factory=Counter)
    """Of visitors' requests."""
    refusals: Counter[str] = field(default_factory=Counter)
    """Hostile requests by kind, and the status each was answered with."""
    visits: int = 0
    seconds: list[float] = field(default_factory=list)
    """That each visitor's request took."""
    slow: int = 0
    """Slow connections."""
    problems: list[str] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _open: threading.Event = field(default_factory=threading.Event)
    _idle: list[threading.Event] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Let visitors come."""
        self._open.set()
        loops: list[Callable[[np.random.Generator], Iterator[None]]] = [self._visit] * VISITORS
        loops += [self._attack, self._dawdle]
        for number, loop in enumerate(loops):
            idle = threading.Event()
            rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(number,)))
            thread = threading.Thread(target=self._repeat, args=(loop, rng, idle), daemon=True)
            self._idle.append(idle)
            self._threads.append(thread)
            thread.start()

    def pause(self, seconds: float) -> None:
        """Let everybody leave; return when they have, or after so many seconds."""
        self._open.clear()
        until = monotonic() + seconds
        for idle in self._idle:
            idle.wait(max(0.0, until - monotonic()))

    def resume(self) -> None:
        """Let them come back."""
        self._open.set()

    def stop(self) -> None:
        """Send everybody away."""
        self._ended.set()
        self._open.set()
        for thread in self._threads:
            thread.join(MAX_SECONDS)

    # --- visitors -----------------------------------------------------------------------------------

    def _repeat(
        self,
        loop: Callable[[np.random.Generator], Iterator[None]],
        rng: np.random.Generator,
        idle: threading.Event,
    ) -> None:
        while not self._ended.is_set():
            try:
                with contextlib.closing(loop(rng)) as steps:  # type: ignore[type-var]
                    for _ in steps:
                        if self._ended.is_set() or not self._open.is_set():
                            break
            except (OSError, http.client.HTTPException, AssertionError) as error:
                self.problems.append(f"{loop.__name__.strip('_')}: {error!r}")
                sleep(1.0)
            if not self._open.is_set():
                idle.set()
                self._open.wait()
                idle.clear()

    def _visit(self, rng: np.random.Generator) -> Iterator[None]:
        """Come, look for something, and click about."""
        self.visits += 1
        page, cookie = self._ask("GET", "/", None, "")
        for _ in range(int(rng.integers(2, 12))):
            yield
            sleep(PAUSE)
            place = next(filter(None, (text for match in _HIDDEN.findall(page) for text in match)), "")
            choices = [text for match in _CHOICE.findall(page) for text in match if text]
            fields = {PLACE: place}
            if choices and rng.random() < 0.8:
                fields["choice"] = choices[int(rng.integers(len(choices)))]
            else:
                fields["query"] = _QUERIES[int(rng.integers(len(_QUERIES)))]
            path = "/act" if rng.random() < 0.95 else "/next"
            _, cookie = self._ask("POST", path, fields, cookie)
            page, cookie = self._ask("GET", "/", None, cookie)

    def _ask(self, method: str, path: str, fields: dict[str, str] | None, cookie: str) -> tuple[str, str]:
        """Send a visitor's request; return the page, and the cookie from then on."""
        headers = {"Cookie": cookie} if cookie else {}
        if fields is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        body = None if fields is None else urlencode(fields)
        began = perf_counter()
        with contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=MAX_SECONDS)
        ) as visit:
            visit.request(method, path, body, headers)
            response = visit.getresponse()
            text = response.read().decode()
        self.seconds.append(perf_counter() - began)
        self.statuses[response.status] += 1
        assert response.status in (200, 303, 400), f"{method} {path} was answered {response.status}"
        return text, (response.getheader("Set-Cookie") or cookie).partition(";")[0]

    # --- others -------------------------------------------------------------------------------------

    def _attack(self, rng: np.random.Generator) -> Iterator[None]:
        """Send what has to be refused, and look at how it is."""
        del rng
        for kind, request in HOSTILE.items():
            yield
            sleep(PAUSE)
            with socket.create_connection(("127.0.0.1", self.port), timeout=MAX_SECONDS) as connection:
                try:
                    connection.sendall(request)
                    answer = connection.recv(4096)
                except ConnectionError:  # it need not read all of what it refuses
                    self.refusals[f"{kind}: closed"] += 1
                    continue
            status = answer.split(b" ")[1].decode() if answer.startswith(b"HTTP/") else "closed"
            self.refusals[f"{kind}: {status}"] += 1
            assert status == "closed" or status.startswith(("3", "4", "501")), f"{kind} was answered {status}"

    def _dawdle(self, rng: np.random.Generator) -> Iterator[None]:
        """Hold connections open that send a byte now and then."""
        with contextlib.ExitStack() as stack:
            held = []
            for _ in range(SLOW):
                held.append(
                    stack.enter_context(socket.create_connection(("127.0.0.1", self.port), MAX_SECONDS))
                )
                held[-1].sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
                self.slow += 1
            for _ in range(int(rng.integers(10, 100))):
                yield
                sleep(0.2)
                with contextlib.suppress(ConnectionError):
                    held[int(rng.integers(SLOW))].sendall(b"x")
