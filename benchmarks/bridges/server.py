"""The environment server beside OpenEnv's: ``python -m benchmarks.bridges.server --openenv PYTHON``.

The servers are pinned to one core and their clients to the other. Both are asked by OpenEnv's own client, one
step at a time and by 64 clients at once; ours also by Remote-v0, and by one message for 64 sessions. What a
step takes is given in seconds of the clock, and in processor seconds of the server, which another load on the
machine does not change. Rounds alternate between the servers, and the median counts.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentgym import remote
from agentgym.serving.env.client import RemoteVectorEnv
from benchmarks.bridges.served import Served, running, serve_env
from benchmarks.harness.report import machine, parser, publish

RESULTS = Path(__file__).with_suffix(".json")
PEER = Path(__file__).with_name("openenv_peer.py")
MANY = 64
STEPS = 2_000
MESSAGES = 300
SHOPS = 512
ACTIONS = ("up", "down", "left", "right")

Figures = dict[str, float]


def by_openenv(python: str, served: Served, action: dict[str, str], **reset: bool) -> Figures:
    """Return what OpenEnv's client measures, single and 64 at once, with the server's processor time."""
    before = served.usage().seconds
    words = ("time", served.url, json.dumps(action), json.dumps(reset))
    command = ["taskset", "-c", "1", python, str(PEER), *words]
    timed: Figures = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    steps = timed.pop("steps")
    return timed | {"server_ms_per_step": 1e3 * (served.usage().seconds - before) / steps}


def single(served: Served) -> Figures:
    """Return what a step of Remote-v0 takes."""
    env, rng, seconds = remote(served.url), np.random.default_rng(0), []
    env.reset(seed=0)
    before = served.usage().seconds
    for _ in range(STEPS):
        action = str(rng.choice(ACTIONS))
        began = time.perf_counter()
        _, _, terminated, truncated, _ = env.step(action)
        seconds.append(time.perf_counter() - began)
        if terminated or truncated:
            env.reset()
    taken = served.usage().seconds - before
    env.close()
    p50, p99 = (1e3 * float(np.percentile(seconds, share)) for share in (50, 99))
    rate = STEPS / sum(seconds)
    per_step = 1e3 * taken / STEPS
    return {"p50_ms": p50, "p99_ms": p99, "steps_per_second": rate, "server_ms_per_step": per_step}


def many(served: Served) -> Figures:
    """Return how many steps a second 64 sessions take that one message steps."""
    envs = RemoteVectorEnv(MANY, url=served.url, autoreset_mode="Disabled")
    rng = np.random.default_rng(0)
    actions = [rng.choice(ACTIONS, MANY).tolist() for _ in range(MESSAGES)]
    tasks = envs.reset(seed=0)[1]["task_id"]
    before, began = served.usage().seconds, time.perf_counter()
    for each in actions:
        _, _, terminations, truncations, _ = envs.step(each)
        ended = np.flatnonzero(terminations | truncations)
        if ended.size:  # the same levels anew: making one takes longer than many steps
            envs.reset_at(ended.tolist(), tasks[ended].tolist())
    passed, taken = time.perf_counter() - began, served.usage().seconds - before
    envs.close()
    steps = MANY * MESSAGES
    return {"steps_per_second": steps / passed, "steps_per_server_second": steps / taken}


def shops() -> Figures:
    """Return the memory of a server that holds 512 sessions of WebShop, each some steps into its episode."""
    with running(serve_env("agentgym/WebShop-v0", "--limit", f"sessions={SHOPS}")) as served:
        empty = served.usage().mib
        envs = RemoteVectorEnv(SHOPS, url=served.url, autoreset_mode="Disabled")
        envs.reset(seed=0)
        for action in ("search[lamp]", "click[next >]"):
            envs.step([action] * SHOPS)
        return {"empty_mib": empty, "mib": served.usage().mib}


def median(rounds: Sequence[Figures]) -> Figures:
    """Return the median of each figure."""
    return {name: round(statistics.median(each[name] for each in rounds), 4) for name in rounds[0]}


def measure(python: str, rounds: int) -> dict[str, Figures]:
    """Measure all, in rounds."""
    os.sched_setaffinity(0, {1})
    found: dict[str, list[Figures]] = {}
    sokoban = serve_env("agentgym/Sokoban-v0")
    with running(sokoban, core=0) as ours, running([python, str(PEER), "echo"], core=0) as theirs:
        refused = {"action": "no such action"}
        parts: dict[str, Callable[[], Figures]] = {
            "ours_by_openenv": lambda: by_openenv(python, ours, refused, instructions=False),
            "ours_without_snapshots_by_openenv": lambda: by_openenv(
                python, ours, refused, instructions=False, snapshot=False
            ),
            "openenv_echo_by_openenv": lambda: by_openenv(python, theirs, {"message": "no such action"}),
            "ours_by_remote": lambda: single(ours),
            "ours_64_a_message": lambda: many(ours),
        }
        for _ in range(rounds):
            for name, part in parts.items():
                found.setdefault(name, []).append(part())
                sys.stdout.write(f"{name} {found[name][-1]}\n")
    return {name: median(each) for name, each in found.items()} | {"webshop_512": shops()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write the report."""
    given = parser(__spec__.name, __doc__, RESULTS, rounds=3)
    given.add_argument("--openenv", required=True, help="a Python that has openenv")
    given.add_argument("--nice", type=int, default=0, help="of servers and clients, where others compute")
    asked = given.parse_args(arguments)
    os.setpriority(os.PRIO_PROCESS, 0, asked.nice)
    load = os.getloadavg()[0]
    figures = measure(asked.openenv, asked.rounds)
    result = {
        "machine": machine(),
        "load_before": round(load, 2),
        "nice": asked.nice,
        "rounds": asked.rounds,
        **figures,
    }
    publish(asked.out, result, page(result))
    return 0


def page(result: dict[str, Any]) -> str:
    """Return the report."""
    ours, echo = result["ours_by_openenv"], result["openenv_echo_by_openenv"]
    bare = result["ours_without_snapshots_by_openenv"]
    far, many, shop = result["ours_by_remote"], result["ours_64_a_message"], result["webshop_512"]
    per_step = 1e3 / many["steps_per_server_second"]
    together = "steps_per_second_of_64_clients"
    single = "server_ms_per_step"

    def cells(row: Figures) -> str:
        return f"{row['p50_ms']:.2f} | {row['p99_ms']:.2f} | {row['steps_per_second']:,.0f}"

    return f"""# The environment server

`python -m benchmarks.bridges.server --openenv PYTHON --nice {result["nice"]}` on {result["machine"]["cpu"]};
load before: {result["load_before"]}, of other work. Server on one core, clients on the other, medians of
{result["rounds"]} rounds. Ours plays Sokoban, with hash, actions and snapshot in every answer; OpenEnv's
echoes. *Server ms* is processor time.

| client | server | p50 ms | p99 ms | steps/s | server ms a step |
|---|---|---:|---:|---:|---:|
| OpenEnv's, one | OpenEnv 0.10, echo | {cells(echo)} | |
| OpenEnv's, one | ours, Sokoban | {cells(ours)} | |
| OpenEnv's, one | ours, without snapshots | {cells(bare)} | |
| OpenEnv's, 64 at once | OpenEnv 0.10, echo | | | {echo[together]:,.0f} | {echo[single]:.3f} |
| OpenEnv's, 64 at once | ours, Sokoban | | | {ours[together]:,.0f} | {ours[single]:.3f} |
| OpenEnv's, 64 at once | ours, without snapshots | | | {bare[together]:,.0f} | {bare[single]:.3f} |
| Remote-v0, one | ours, Sokoban | {cells(far)} | {far[single]:.3f} |
| Remote-v0, 64 a message | ours, Sokoban | | | {many["steps_per_second"]:,.0f} | {per_step:.4f} |

| ours against OpenEnv's | by the clock | by the server's processor time |
|---|---:|---:|
| single against single | {echo["p50_ms"] / ours["p50_ms"]:.1f} x | {echo[single] / ours[single]:.1f} x |
| single, without snapshots | {echo["p50_ms"] / bare["p50_ms"]:.1f} x | {echo[single] / bare[single]:.1f} x |
| many against many | {many["steps_per_second"] / echo[together]:.1f} x | {echo[single] / per_step:.1f} x |

At 64 sessions a message a core answers {many["steps_per_server_second"]:,.0f} Sokoban steps in a second of
its time. {SHOPS} sessions of WebShop take {shop["mib"]:.0f} MiB, an empty server {shop["empty_mib"]:.0f} MiB.
"""


if __name__ == "__main__":
    sys.exit(main())
