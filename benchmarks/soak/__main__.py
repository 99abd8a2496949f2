"""Soak for some minutes, and write a report: ``python -m benchmarks.soak``, or ``make soak``."""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from agentgym.data.directory import CACHE_VARIABLE
from agentgym.io.files import replace_file
from benchmarks.bridges.served import Served, running, serve_env
from benchmarks.harness.report import machine
from benchmarks.soak.report import page
from benchmarks.soak.traffic import Traffic
from benchmarks.soak.watch import Watch
from benchmarks.soak.workers import ADDRESS, CLIENT_IDLE, WORKERS, work

OUT = Path("benchmarks/soak.md")

QUIET = 40.0
"""Seconds between the moments at which all visitors leave, and only what stays open is open."""

SLOWEST = 5.0
"""Seconds that 99 of 100 requests of visitors must be answered in, while everything else runs."""

STEPS = {
    "server": ("clients", "sessions"),
    "train": ("train", "steps"),
    "play": ("play", "steps"),
    "publish": ("publish", "boards"),
}
"""What counts as the steps of a process: of which worker, and under which name."""

ENDING = 180.0
"""Seconds that workers may take to end their rounds."""


@dataclass(slots=True)
class _Running:
    """What runs."""

    site: subprocess.Popen[bytes]
    server: Served
    workers: dict[str, BaseProcess]
    folder: Path
    traffic: Traffic

    @property
    def pids(self) -> dict[str, int]:
        """Processes by name."""
        pids = {name: int(worker.pid or 0) for name, worker in self.workers.items()}
        return {"site": self.site.pid, "server": self.server.pid, **pids, "visitors": os.getpid()}

    def steps(self, name: str) -> int:
        """Return how many steps a process's work has come to; 0 where they are not counted."""
        if name == "site":
            return len(self.traffic.seconds)
        worker, what = STEPS.get(name, ("", ""))
        return int(self.status(worker)["done"].get(what, 0)) if worker else 0

    def status(self, name: str) -> dict[str, Any]:
        """Return what a worker has done."""
        path = self.folder / name / "status.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"done": {}}
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak; return 1 if a bound was broken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (default: 30)")
    parser.add_argument("--every", type=float, default=2.0, help="seconds between samples (default: 2)")
    parser.add_argument("--share", type=float, default=1.0, help="of the time that workers work (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument("--out", type=Path, default=OUT, help=f"the report (default: {OUT})")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        os.environ[CACHE_VARIABLE] = str(Path(place) / "cache")
        with _running(Path(place), asked.seed, asked.share) as running:
            watch = Watch(running.pids, running.steps)
            problems = _watch(running, watch, 60 * asked.minutes, asked.every)
        for name in WORKERS:
            status = running.status(name)
            if "error" in status:
                problems.append(f"{name}: {status['error'].strip().splitlines()[-1]}")
                sys.stderr.write(status["error"])
            elif not status["done"].get("rounds"):
                problems.append(f"{name}: no round was ended")
        done = {name: running.status(name)["done"] for name in WORKERS}
    growths = watch.growths(60 * asked.minutes)
    problems += running.traffic.problems
    problems += [problem for growth in growths for problem in growth.problems]
    slow = _quantile(running.traffic.seconds, 0.99)
    if slow > SLOWEST:
        problems.append(f"site: one request in 100 took more than {slow:.1f} s, allowed are {SLOWEST} s")
    command = (
        f"python -m benchmarks.soak --minutes {asked.minutes:g} --share {asked.share:g} --seed {asked.seed}"
    )
    about = {key: text.replace(", one used", "") for key, text in machine().items()}
    replace_file(asked.out, page(command, about, growths, done, running.traffic, problems))
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    sys.stdout.write(f"{len(problems)} found; the report is {asked.out}\n")
    return 1 if problems else 0


@contextmanager
def _running(folder: Path, seed: int, share: float) -> Iterator[_Running]:
    """Start everything; end it at the end."""
    context = get_context("spawn")
    ended = context.Event()
    with ExitStack() as stack:
        port = _free_port()
        words = ["serve", "webshop", "--split", "test", "--port", str(port), "--record", str(folder / "shop")]
        site = subprocess.Popen(
            [sys.executable, "-m", "agentgym", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        stack.callback(site.wait)
        stack.callback(site.terminate)
        server = stack.enter_context(_serving())
        workers: dict[str, BaseProcess] = {}
        for name in WORKERS:
            (folder / name).mkdir()
            (folder / name / ADDRESS).write_text(server.url)
            workers[name] = context.Process(target=work, args=(name, folder / name, seed, share, ended))
            workers[name].start()
            stack.callback(_end, workers[name])
        stack.callback(ended.set)
        _await_site(site, port)
        traffic = Traffic(port, seed)
        traffic.start()
        stack.callback(traffic.stop)
        yield _Running(site, server, workers, folder, traffic)


def _watch(running: _Running, watch: Watch, seconds: float, every: float) -> list[str]:
    """Sample until the time is over or a process is gone; return what is wrong."""
    began = monotonic()
    quiet = began + QUIET
    while (now := monotonic()) < began + seconds:
        gone = list(watch.take(now - began))
        gone += [name for name, worker in running.workers.items() if not worker.is_alive()]
        if running.site.poll() is not None:
            gone.append("site")
        if gone:
            return [f"{name}: it ended by itself" for name in dict.fromkeys(gone)]
        if now > quiet:
            running.traffic.pause(10.0)
            sleep(1.0)
            list(watch.take(monotonic() - began))
            running.traffic.resume()
            quiet = monotonic() + QUIET
        sleep(every)
    return []


def _serving() -> AbstractContextManager[Served]:
    return running(
        serve_env("agentgym/WebShop-v0", "--limit", f"idle={CLIENT_IDLE}", "--limit", "sessions=512")
    )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _await_site(site: subprocess.Popen[bytes], port: int) -> None:
    until = monotonic() + 60.0
    while monotonic() < until and site.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        except OSError:
            sleep(0.1)
        else:
            return
    raise RuntimeError("the site did not open: run `agentgym serve webshop` to see why")


def _end(worker: BaseProcess) -> None:
    worker.join(ENDING)
    if worker.is_alive():
        worker.kill()
        worker.join()


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))] if values else 0.0


if __name__ == "__main__":
    raise SystemExit(main())
