"""Language agents whose model takes its time: ``python -m benchmarks.speed.endpoints``.

ReAct episodes of 20 turns each, with a model that always says the same after a delay: once as a timer in the
process, which shows what agents and rollouts cost, and once as a server over HTTP, which adds the client of
endpoints. The ideal time is that of one episode that nothing but the model delays. What OpenAI's SDK needs
for as many requests to the same server, without episodes, agents and this package, stands beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from heapq import heappop, heappush
from pathlib import Path
from threading import Condition, Thread
from typing import Any, TypeAlias

from agentgym.agents.language.making import endpoint_of, language_agent
from agentgym.agents.language.model import ChatModel
from agentgym.agents.language.settings import REACT, ChatAgentSettings
from agentgym.endpoint import ChatReply, ChatRequest, EndpointSession, open_endpoint
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from benchmarks.harness.processes import alone
from benchmarks.harness.report import machine, parser, publish, table
from benchmarks.speed.chat_server import serving

SAID = "<think>\nNothing will come of it.\n</think>\n<action>wait</action>"
"""No environment accepts it, so that every episode has all its turns."""
TURNS = 20
EPISODES = 64
DELAY = 0.05
SLOW = 10.0
MANY = 1_000
WAYS = ("timer in the process", "server over HTTP")
LONGER = 0.2
SDK = "OpenAI's SDK alone, same server"
PARTS = ("speed", "memory")
RECORD = Path(__file__).with_suffix(".json")
WORLDS = ("agentgym/Sokoban-v0", "agentgym/ALFWorld-v0", "agentgym/WebShop-v0", "agentgym/Sotopia-v0")
PROMPT = "Which way? " * 150
"""Of requests of the SDK alone: about what a turn of an episode in the middle of it sends."""

BOUND = f"""\
Over HTTP every request takes processor time of the SDK and of the HTTP library below it, of which one core
has no more than a second a second: {EPISODES} answers every {DELAY * 1e3:g} ms leave each of them
{DELAY / EPISODES * 1e3:.2f} ms. The SDK alone takes more, so that 1.3 of the ideal time is out of its reach
there."""

Record: TypeAlias = dict[str, Any]


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


def ask_by_sdk() -> Played:
    """Send as many requests as `EPISODES` episodes do, each chain one after the other, by the SDK alone."""
    from openai import AsyncOpenAI

    ends: list[float] = []

    async def ask(url: str) -> None:
        async with AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:

            async def chain() -> None:
                for _ in range(TURNS):
                    await client.chat.completions.create(
                        model="scripted", messages=[{"role": "user", "content": PROMPT}], max_tokens=512
                    )
                ends.append(time.perf_counter() - began)

            await asyncio.gather(*(chain() for _ in range(EPISODES)))

    with serving(SAID, DELAY) as url:
        cpu, began = time.process_time(), time.perf_counter()
        asyncio.run(ask(url))
        return Played(tuple(ends), time.process_time() - cpu, 0)


def print_memory(env_id: str, way: str) -> None:
    """Play many episodes with all requests in flight, and print the peak."""
    played = play(way, MANY, 3.0 if way == WAYS[0] else 0.5, env_id=env_id)
    assert played.in_flight == MANY or way != WAYS[0], played.in_flight
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)


def speed_rows(rounds: int) -> Iterator[Record]:
    """Yield each way's rounds without and with one slow answer; beside HTTP, the SDK and longer answers."""
    for way in WAYS:
        play(way, 2, 0.001)  # warm
        plain, slow, alone, longer = [], [], [], []
        for _ in range(rounds):
            plain.append(asdict(play(way, EPISODES, DELAY)))
            slow.append(asdict(play(way, EPISODES, DELAY, SLOW)))
            if way != WAYS[0]:  # in turn with what they are compared to
                alone.append(asdict(ask_by_sdk()))
                longer.append(asdict(play(way, EPISODES, LONGER)))
        yield {"way": way, "delay": DELAY, "plain": plain, "slow": slow}
        if alone:
            yield {"way": SDK, "delay": DELAY, "plain": alone, "slow": []}
            yield {"way": f"{way}, {LONGER * 1e3:g} ms", "delay": LONGER, "plain": longer, "slow": []}


def beside(plain: Sequence[Record], slow: Sequence[Record]) -> float:
    """Return how much later other episodes end beside one with a slow answer, which is the last to end.

    Of each place in the order of ending its earliest time over rounds, which other work on the machine delays
    least.
    """
    free, held = (
        [min(times) for times in zip(*(played["ends"][:-1] for played in rounds), strict=True)]
        for rounds in (plain, slow)
    )
    return float(statistics.median(late / early for late, early in zip(held, free, strict=True)))


def report(record: Record) -> str:
    """Return the page of what was measured."""
    about = record["machine"]
    lines = [
        "# Language agents whose model takes its time",
        "",
        f"`python -m benchmarks.speed.endpoints --rounds {record['rounds']}` on {about['cpu']}; "
        f"Python {about['python']}, openai {about['openai']}. Load of the machine before: "
        f"{record['load']:.1f}.",
        "",
        f"{EPISODES} ReAct episodes of {TURNS} turns side by side, Sokoban. An answer takes "
        f"{DELAY * 1e3:g} ms, so that the ideal time is {TURNS * DELAY:g} s. Then one answer takes {SLOW:g} "
        "s: the others are compared, each place in the order of ending with the same place where no answer "
        "is slow.",
        "Medians over rounds; the least in brackets. Processor time is this process's, per request.",
        "",
    ]
    cells = []
    for row in record["rows"]:
        seconds = [played["ends"][-1] for played in row["plain"]]
        share = [each / (TURNS * row["delay"]) for each in seconds]
        cost = statistics.median(played["cpu"] for played in row["plain"]) / (EPISODES * TURNS) * 1e3
        others = f"{beside(row['plain'], row['slow']) - 1:+.1%}" if row["slow"] else "-"
        spread = (f"{statistics.median(each):.2f} ({min(each):.2f})" for each in (seconds, share))
        cells.append((row["way"], *spread, f"{cost:.2f}", others))
    head = ("model", "seconds", "of the ideal time", "ms of processor per request")
    lines += table((*head, "others beside a slow answer"), cells, 4)
    if any(row["way"] == SDK for row in record["rows"]):
        lines += ["", BOUND]
    held = (
        (env_id.rpartition("/")[2], *(f"{sizes[way]:,.0f}" if way in sizes else "-" for way in WAYS))
        for env_id, sizes in record["memory"].items()
    )
    lines += ["", *table((f"peak memory, MB: {MANY:,} episodes in flight", *WAYS), held, 2)]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, and write a record and a table."""
    arguments = parser(__spec__.name, __doc__, rounds=5)
    arguments.add_argument("--part", choices=PARTS, help="measure this alone; the rest of the record stays")
    arguments.add_argument("--memory", help=argparse.SUPPRESS)
    arguments.add_argument("--way", default=WAYS[0], help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.memory:
        print_memory(options.memory, options.way)
        return 0
    record: Record = {} if options.part is None else json.loads(RECORD.read_text(encoding="utf-8"))
    if options.part != "memory":
        record |= {"machine": machine("openai"), "load": os.getloadavg()[0], "rounds": options.rounds}
        record["rows"] = list(speed_rows(options.rounds))
    if options.part != "speed":
        peaks = [*((env_id, WAYS[0]) for env_id in WORLDS), (WORLDS[0], WAYS[1])]
        record["memory"] = {env_id: {} for env_id in WORLDS}
        for env_id, way in peaks:
            record["memory"][env_id][way] = alone(__spec__.name, "--memory", env_id, "--way", way)
    publish(RECORD, record, report(record))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
