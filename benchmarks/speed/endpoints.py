"""Language agents whose model takes its time: ``python -m benchmarks.speed.endpoints``.

ReAct episodes of 20 turns each, with a model that always says the same after a delay: once as a timer in the
process, which shows what agents and rollouts cost, and once as a server over HTTP, which adds the client of
endpoints. The ideal time is that of one episode that nothing but the model delays.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from heapq import heappop, heappush
from pathlib import Path
from threading import Condition, Thread

from agentgym.agents.language.making import endpoint_of, language_agent
from agentgym.agents.language.model import ChatModel
from agentgym.agents.language.settings import REACT, ChatAgentSettings
from agentgym.endpoint import ChatReply, ChatRequest, EndpointSession, open_endpoint
from agentgym.registration import open_vector
from agentgym.rollout import EpisodeSpec, RolloutWorker
from benchmarks.speed.chat_server import serving
from benchmarks.speed.report import machine

SAID = "<think>\nNothing will come of it.\n</think>\n<action>wait</action>"
"""No environment accepts it, so that every episode has all its turns."""
TURNS = 20
EPISODES = 64
DELAY = 0.05
SLOW = 10.0
MANY = 1_000
WAYS = ("timer in the process", "server over HTTP")
WORLDS = ("agentgym/Sokoban-v0", "agentgym/ALFWorld-v0", "agentgym/WebShop-v0")


class TimerModel:
    """Answers every request after a delay, one of them after another; counts what is in flight."""

    def __init__(self, delay: float, slow: float = 0.0):
        """Start the timer's thread.

        Args:
            delay: seconds before an answer.
            slow: seconds before the 14th answer; 0 for the delay.
        """
        self.most = 0
        self._delay, self._slow, self._asked = delay, slow, 0
        self._due: list[tuple[float, int, Future[ChatReply]]] = []
        self._changed = Condition()
        Thread(target=self._run, daemon=True).start()

    def submit(self, request: ChatRequest) -> Future[ChatReply]:
        """Return the answer to come."""
        future: Future[ChatReply] = Future()
        with self._changed:
            self._asked += 1
            delay = self._slow if self._slow and self._asked == 14 else self._delay
            heappush(self._due, (time.perf_counter() + delay, self._asked, future))
            self.most = max(self.most, len(self._due))
            self._changed.notify()
        return future

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._due or self._due[0][0] > time.perf_counter():
                    wait = self._due[0][0] - time.perf_counter() if self._due else None
                    self._changed.wait(wait)
                future = heappop(self._due)[2]
            future.set_result(ChatReply(SAID, prompt_tokens=500, completion_tokens=20, seconds=self._delay))


@dataclass(frozen=True, slots=True)
class Played:
    """Episodes played side by side."""

    ends: tuple[float, ...]
    """Seconds at which each ended, in the order in which they did."""
    cpu: float
    """Seconds of processor time of this process, without the server's."""
    in_flight: int
    """Requests at most; 0 where nobody counted."""

    @property
    def seconds(self) -> float:
        """Until the last ended."""
        return self.ends[-1]


@contextmanager
def models(way: str, delay: float, slow: float = 0.0) -> Iterator[tuple[ChatModel, Callable[[], int]]]:
    """Open a model in one of `WAYS`; yield it, and what returns its most requests in flight."""
    if way == WAYS[0]:
        timer = TimerModel(delay, slow)
        yield timer, lambda: timer.most
        return
    with serving(SAID, delay, slow) as url, EndpointSession():
        settings = ChatAgentSettings(endpoint=url, model="scripted", request={"concurrency": MANY})
        yield open_endpoint(endpoint_of(settings)), lambda: 0


def play(way: str, episodes: int, delay: float, slow: float = 0.0, env_id: str = WORLDS[0]) -> Played:
    """Play episodes of `TURNS` turns side by side."""
    envs = open_vector(env_id, episodes, options={"max_steps": TURNS})
    settings = ChatAgentSettings(endpoint="http://127.0.0.1/v1", model="scripted", temperature=1.0)
    tasks = [envs.tasks[number % len(envs.tasks)].id for number in range(episodes)]
    ends = []
    with models(way, delay, slow) as (model, most):
        policy = language_agent(envs, model, REACT, settings)
        worker = RolloutWorker(envs, policy, env_id=env_id)
        cpu, began = time.process_time(), time.perf_counter()
        for trajectory in worker.run(EpisodeSpec(task, 0, n) for n, task in enumerate(tasks)):
            assert len(trajectory.steps) == TURNS, trajectory.end_reason
            ends.append(time.perf_counter() - began)
        return Played(tuple(ends), time.process_time() - cpu, most())


def peak_memory(env_id: str) -> float:
    """Return the memory of a process that plays `MANY` episodes at once, at its peak, in MB."""
    command = [sys.executable, "-m", __spec__.name, "--memory", env_id]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_memory(env_id: str) -> None:
    """Play many episodes with all requests in flight, and print the peak."""
    played = play(WAYS[0], MANY, 3.0, env_id=env_id)
    assert played.in_flight == MANY, played.in_flight
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)


def speed_rows(rounds: int) -> Iterator[tuple[str, list[Played], list[Played]]]:
    """Yield for each way the rounds without and with one slow answer."""
    for way in WAYS:
        play(way, 2, 0.001)  # warm
        plain, slow = [], []
        for _ in range(rounds):
            plain.append(play(way, EPISODES, DELAY))
            slow.append(play(way, EPISODES, DELAY, SLOW))
        yield way, plain, slow


def beside(plain: list[Played], slow: list[Played]) -> float:
    """Return how much later other episodes end beside one with a slow answer, which is the last to end.

    Of each place in the order of ending its earliest time over rounds, which other work on the machine delays
    least.
    """
    free, held = (
        [min(times) for times in zip(*(played.ends[:-1] for played in rounds), strict=True)]
        for rounds in (plain, slow)
    )
    return float(statistics.median(late / early for late, early in zip(held, free, strict=True)))


def main() -> int:
    """Measure, and write a record and a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    options = parser.parse_args()
    if options.memory:
        print_memory(options.memory)
        return 0
    ideal = TURNS * DELAY
    about = machine("openai")
    load = os.getloadavg()[0]
    lines = [
        "# Language agents whose model takes its time",
        "",
        f"`python -m benchmarks.speed.endpoints --rounds {options.rounds}` on {about['cpu']}; "
        f"Python {about['python']}, openai {about['openai']}. Load of the machine before: {load:.1f}.",
        "",
        f"{EPISODES} ReAct episodes of {TURNS} turns side by side, Sokoban. An answer takes "
        f"{DELAY * 1e3:g} ms, so that the ideal time is {ideal:g} s. Then one answer takes {SLOW:g} s: the "
        "others are compared, each place in the order of ending with the same place where no answer is slow.",
        "Medians over rounds; the least in brackets. Processor time is this process's, per request.",
        "",
        "| model | seconds | of the ideal time | ms of processor per request | others beside a slow answer |",
        "|---|---:|---:|---:|---:|",
    ]
    record = []
    for way, plain, slow in speed_rows(options.rounds):
        seconds = [played.seconds for played in plain]
        cost = statistics.median(played.cpu for played in plain) / (EPISODES * TURNS) * 1e3
        lines.append(
            f"| {way} | {statistics.median(seconds):.2f} ({min(seconds):.2f}) | "
            f"{statistics.median(seconds) / ideal:.2f} ({min(seconds) / ideal:.2f}) | {cost:.2f} | "
            f"{beside(plain, slow) - 1:+.1%} |"
        )
        record.append({"way": way, "plain": [*map(asdict, plain)], "slow": [*map(asdict, slow)]})
    lines += ["", f"| {MANY:,} episodes in flight, 20 turns | peak memory of the process, MB |", "|---|---:|"]
    memory = {env_id: peak_memory(env_id) for env_id in WORLDS}
    lines += [f"| {env_id.rpartition('/')[2]} | {size:,.0f} |" for env_id, size in memory.items()]
    text = "\n".join(lines) + "\n"
    (options.out / "endpoints.md").write_text(text, encoding="utf-8")
    kept = {"machine": about, "load": load, "rows": record, "memory": memory}
    (options.out / "endpoints.json").write_text(json.dumps(kept, indent=1) + "\n")
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
