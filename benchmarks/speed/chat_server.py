"""A server of chat completions that answers after a while, in a process of its own, for benchmarks.

It reads no more of HTTP than clients need, so that it takes little of the machine that both share.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def answer(said: str) -> bytes:
    """Return the response of every request."""
    body = json.dumps(
        {
            "id": "0",
            "object": "chat.completion",
            "created": 0,
            "model": "scripted",
            "choices": [
                {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
            ],
            "usage": {"prompt_tokens": 500, "completion_tokens": 20, "total_tokens": 520},
        }
    ).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def serve(said: str, delay: float, slow: float) -> None:
    """Serve until the process ends; print the port first.

    Args:
        said: every answer.
        delay: seconds before an answer.
        slow: seconds before the answer to one request, the 14th; 0 for none.
    """
    response, seen = answer(said), 0

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.partition(b":")[2])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length")
                )
                await reader.readexactly(length)
                seen += 1
                await asyncio.sleep(slow if slow and seen == 14 else delay)
                writer.write(response)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


@contextmanager
def serving(said: str, delay: float, slow: float = 0.0) -> Iterator[str]:
    """Start the server; yield its URL, and stop it after."""
    command = [sys.executable, "-m", __name__, "--say", said, "--delay", str(delay), "--slow", str(slow)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # it is a pipe
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--say", required=True)
    parser.add_argument("--delay", type=float, required=True)
    parser.add_argument("--slow", type=float, default=0.0)
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.say, arguments.delay, arguments.slow))
