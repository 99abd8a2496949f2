"""Clients that never close, for as long as is asked: ``python -m benchmarks.bridges.server_soak``.

Each round, clients begin sessions over WebSockets and over HTTP, play some steps and go silent, with their
connections open; others connect and send nothing, or half of a request. What ends their sessions and their
connections is the server's idle time alone. Its memory, descriptors and threads are taken down throughout.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from benchmarks.bridges.served import Served, running, serve_env
from benchmarks.harness.report import machine, parser, publish, table

RESULTS = Path(__file__).with_suffix(".json")
ENV = "agentgym/WebShop-v0"
IDLE = 15.0
"""Seconds after which the server ends a session."""
ROUND = 1.0
"""Seconds between two rounds."""
KINDS = 4
"""Clients of each kind in a round."""
WARM = 0.1
"""Share of the time before memory counts: by_key and caches fill."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The server at a moment."""

    minute: float
    mib: float
    descriptors: int
    threads: int
    sessions: int
    begun: int
    """Sessions so far."""


class Traffic:
    """Clients, of which none closes anything before the server does."""

    def __init__(self, url: str):
        """Play on a server."""
        self._address = url.removeprefix("http://")
        self._open: list[Any] = []
        self.begun = 0

    async def round(self) -> None:
        """Begin some clients of each kind."""
        sockets = await asyncio.gather(*(self._by_socket() for _ in range(KINDS)))
        self._open += sockets
        for number in range(KINDS):
            self._open.append(self._by_http())
            silent = socket.create_connection(("127.0.0.1", int(self._address.rpartition(":")[2])))
            silent.sendall(b"" if number % 2 else b"POST /reset HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le")
            self._open.append(silent)
        # forgotten by the client, long after the server has closed them
        del self._open[: max(0, len(self._open) - int(3 * KINDS * 4 * IDLE / ROUND))]

    async def _by_socket(self) -> ClientConnection:
        client = await connect(f"ws://{self._address}/ws", max_size=None, open_timeout=60).__aenter__()
        for message in ({"type": "reset"}, *({"type": "step", "data": {"action": "search[lamp]"}},) * 3):
            await client.send(json.dumps(message))
            await client.recv()
        self.begun += 1
        return client

    def _by_http(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(self._address, timeout=60)
        connection.request("POST", "/reset", b"{}")
        metadata = json.loads(connection.getresponse().read())["metadata"]
        step = {"action": "search[lamp]", "session_id": metadata["session_id"]}
        connection.request("POST", "/step", json.dumps(step))
        connection.getresponse().read()
        self.begun += 1
        return connection

    def sessions(self) -> int:
        """Return how many sessions the server holds."""
        connection = http.client.HTTPConnection(self._address, timeout=60)
        connection.request("GET", "/environment")
        count = int(json.loads(connection.getresponse().read())["sessions"])
        connection.close()
        return count


async def soak(served: Served, minutes: float) -> list[Sample]:
    """Have clients come for minutes; return samples of the server."""
    samples: list[Sample] = []
    traffic, began = Traffic(served.url), time.monotonic()
    while (passed := time.monotonic() - began) < minutes * 60:
        await traffic.round()
        if not samples or passed / 60 - samples[-1].minute >= max(minutes / 60, 1 / 30):
            usage = served.usage()
            samples.append(
                Sample(
                    round(passed / 60, 2),
                    round(usage.mib, 1),
                    usage.descriptors,
                    usage.threads,
                    traffic.sessions(),
                    traffic.begun,
                )
            )
        await asyncio.sleep(max(0.0, ROUND - (time.monotonic() - began - passed)))
    return samples


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak, and write the report; return 1 unless memory and descriptors stay flat."""
    given = parser(__spec__.name, __doc__, RESULTS)
    given.add_argument("--minutes", type=float, default=20.0, help="how long (default: 20)")
    asked = given.parse_args(arguments)
    command = serve_env(ENV, "--limit", f"idle={IDLE}", "--limit", "sessions=512")
    with running(command) as served:
        samples = asyncio.run(soak(served, asked.minutes))
    warm = [sample for sample in samples if sample.minute >= WARM * asked.minutes]
    third = max(1, len(warm) // 3)
    first, last = (
        {name: max(getattr(sample, name) for sample in part) for name in ("mib", "descriptors", "threads")}
        for part in (warm[:third], warm[-third:])
    )
    flat = last["mib"] <= 1.05 * first["mib"] and last["descriptors"] <= 1.1 * first["descriptors"]
    result = {
        "machine": machine(),
        "env": ENV,
        "idle_seconds": IDLE,
        "minutes": asked.minutes,
        "sessions_begun": samples[-1].begun,
        "most_in_the_first_third": first,
        "most_in_the_last_third": last,
        "flat": flat,
        "samples": [asdict(sample) for sample in samples],
    }
    publish(asked.out, result, page(result))
    return 0 if flat else 1


def page(result: dict[str, Any]) -> str:
    """Return the report of a soak."""
    first, last = result["most_in_the_first_third"], result["most_in_the_last_third"]
    growths = [(name, f"{first[name]:,}", f"{last[name]:,}") for name in first]
    samples = result["samples"][:: max(1, len(result["samples"]) // 12)]
    names = ("minute", "mib", "descriptors", "threads", "sessions", "begun")
    rows = [[f"{sample[name]:,}" for name in names] for sample in samples]
    warm = "most, after a tenth of the time for warming up"
    most = table((warm, "in the first third", "in the last third"), growths, 2)
    lines = "\n".join([*most, "", *table(names, rows, len(names))])
    return f"""# Clients that never close

`server_soak --minutes {result["minutes"]:g}` on {result["machine"]["cpu"]}.
`agentgym serve env {result["env"]}` ends a session after {result["idle_seconds"]:g} s
without a message. Every second, {KINDS} clients begin a session over a WebSocket and {KINDS} over HTTP, play
some steps and go silent; {KINDS} more send nothing, or half of a request. None closes its connection.
{result["sessions_begun"]:,} sessions were begun.

{lines}
"""


if __name__ == "__main__":
    sys.exit(main())
