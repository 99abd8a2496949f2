"""Recorded episodes, played over the wire: ``python -m benchmarks.bridges.server_parity --openenv PYTHON``.

Episodes of every suite are recorded by its own environment, every other one by the oracle and the others at
random, with actions that are refused among them. Then a server is played with the same actions, by Remote-v0
and by OpenEnv's own client, and every observation, reward, end and state hash is compared.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agentgym import remote
from agentgym.core.markup import png
from agentgym.core.types import Request
from agentgym.env import AgentEnv
from agentgym.registration import ENVIRONMENTS, open_env
from agentgym.serving.env.app import EnvServer
from agentgym.serving.env.service import EnvService
from agentgym.serving.env.sessions import EnvLimits
from benchmarks.harness.report import machine, parser, publish, table

RESULTS = Path(__file__).with_suffix(".json")
PEER = Path(__file__).with_name("openenv_peer.py")
NOT_BUILT_IN = {"agentgym/SearchQA-v0"}
"""Suites that need data of their own."""
MAX_STEPS = 60
"""Actions recorded of an episode."""

Row = list[Any]
"""Text, picture, reward, end, state hash, turn and success."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """An episode."""

    seed: int
    actions: list[str]
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class Compared:
    """A suite's episodes over the wire."""

    env: str
    client: str
    episodes: int
    steps: int
    ended: int
    won: int
    differences: int


def record(env: AgentEnv[Any], seed: int, *, whole: bool = False) -> Recorded:
    """Play an episode with the oracle where the seed is even, else at random.

    ``whole``: to its end, without actions that are refused, and with one call an action at most.
    """
    rng, player = np.random.default_rng(seed), env.oracle()
    seen, info = env.reset(seed=seed)
    actions: list[str] = []
    rows, ended = [_row(seen, None, False, info)], False
    while not ended and (whole or len(actions) < MAX_STEPS):
        if seed % 2 == 0:
            action = player.act([_request(env, seen, info)])[0].action
            action = action.partition("\n")[0] if whole else action
        elif not whole and rng.random() < 0.1:
            action = "no such action \ud800"
        else:
            action = str(rng.choice(info["admissible_actions"])).replace("<", "").replace(">", "")
        seen, reward, terminated, truncated, info = env.step(action)
        ended = terminated or truncated
        actions.append(action)
        rows.append(_row(seen, reward, ended, info))
    return Recorded(seed, actions, rows)


def _request(env: AgentEnv[Any], seen: Any, info: dict[str, Any]) -> Request:
    names = ("task_id", "task_type", "turn", "admissible_actions", "state_hash")
    given = {name: info[name] for name in names}
    return Request(episode=0, observation=seen, seed=0, snapshot=env.snapshot, extra=info, **given)


def _row(seen: Any, reward: float | None, ended: bool, info: dict[str, Any]) -> Row:
    picture = "" if isinstance(seen, str) else hashlib.sha256(png(seen["image"])).hexdigest()
    return [
        seen if isinstance(seen, str) else seen["text"],
        picture,
        reward,
        ended,
        info["state_hash"],
        info["turn"],
        info["won"],
    ]


def play_remote(url: str, episodes: Sequence[Recorded]) -> list[list[Row]]:
    """Play recorded actions with Remote-v0."""
    env, found = remote(url), []
    for episode in episodes:
        seen, info = env.reset(seed=episode.seed)
        rows = [_row(seen, None, False, info)]
        for action in episode.actions:
            seen, reward, terminated, truncated, info = env.step(action)
            rows.append(_row(seen, reward, terminated or truncated, info))
        found.append(rows)
    env.close()
    return found


def play_openenv(python: str, url: str, episodes: Sequence[Recorded]) -> list[list[Row]]:
    """Play recorded actions with OpenEnv's own client."""
    given = json.dumps([{"seed": episode.seed, "actions": episode.actions} for episode in episodes])
    played = subprocess.run(
        [python, str(PEER), "play", url], input=given, capture_output=True, text=True, check=True
    )
    return [episode["rows"] for episode in json.loads(played.stdout)]


@contextmanager
def serving(env_id: str) -> Iterator[str]:
    """Serve an environment from a thread; yields its address."""
    service = EnvService.open(env_id, EnvLimits(sessions=4))
    with EnvServer("127.0.0.1", 0, service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.url
        finally:
            server.stop()
            thread.join()


def compare(env_id: str, count: int, python: str | None, seed: int = 0) -> Iterator[Compared]:
    """Record a suite's episodes and play them with each client."""
    env = open_env(env_id)
    episodes = [record(env, number) for number in range(seed, seed + count)]
    with serving(env_id) as url:
        played = {"Remote-v0": play_remote(url, episodes)}
        if python is not None:
            played["OpenEnv"] = play_openenv(python, url, episodes)
    for client, found in played.items():
        pairs = zip(episodes, found, strict=True)
        yield Compared(
            env_id,
            client,
            count,
            sum(len(episode.actions) for episode in episodes),
            sum(episode.rows[-1][3] for episode in episodes),
            sum(episode.rows[-1][6] for episode in episodes),
            sum(
                ours != theirs
                for episode, rows in pairs
                for ours, theirs in zip(episode.rows, rows, strict=True)
            ),
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare every suite, and write the report; return 1 if anything differs."""
    given = parser(__spec__.name, __doc__, RESULTS)
    given.add_argument("--episodes", type=int, default=200, help="of each suite (default: 200)")
    given.add_argument("--openenv", help="a Python that has openenv (default: Remote-v0 alone)")
    asked = given.parse_args(arguments)
    rows = []
    for env_id in ENVIRONMENTS:
        if env_id not in NOT_BUILT_IN:
            for row in compare(env_id, asked.episodes, asked.openenv):
                rows.append(row)
                sys.stdout.write(f"{row}\n")
    publish(asked.out, {"machine": machine(), "rows": rows}, page(rows))
    return 1 if any(row.differences for row in rows) else 0


def page(rows: Sequence[Compared]) -> str:
    """Return the report."""
    head = ("environment", "client", "episodes", "steps", "ended", "won", "differences")
    cells = (
        (row.env, row.client, row.episodes, f"{row.steps:,}", row.ended, row.won, row.differences)
        for row in rows
    )
    lines = "\n".join(table(head, cells, 5))
    return f"""# Episodes over the wire

`python -m benchmarks.bridges.server_parity --openenv PYTHON`: each suite's episodes, half of them by the
oracle and half at random with refused actions among them, recorded by the environment itself and played again
through `agentgym serve env`. A difference is a step whose text, picture, reward, end, state hash, turn or
success is another.

{lines}
"""


if __name__ == "__main__":
    sys.exit(main())
