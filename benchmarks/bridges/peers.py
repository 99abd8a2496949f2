"""Whole episodes through the entry points of other projects: ``python -m benchmarks.bridges.peers``.

Each door is a client, server or maker of another project, in an environment of its own (``tools/peers``), as
`benchmarks.bridges.peer_play` calls it. Episodes are recorded by the environment itself, half by the oracle
and half at random, and played again through the door. What it shows of each state is compared: text, reward,
end and state hash, the words at the beginning, and the sum of rewards where it has one. The table
``peers.md`` is written from the record.
"""

from __future__ import annotations

import datetime
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from agentgym.core.tools import ACT, call_of
from agentgym.registration import open_env
from agentgym.serving.env.description import instructions_of
from benchmarks.bridges.server_parity import Recorded, record, serving
from benchmarks.harness.report import parser, table_text

ROOT = Path(__file__).resolve().parents[2]
RESULTS, PAGE = Path(__file__).with_suffix(".json"), Path(__file__).with_suffix(".md")
PLAY = Path(__file__).with_name("peer_play.py")
TITLE = "Whole episodes through other projects' entry points"
SUITES = tuple(f"agentgym/{name}-v0" for name in ("Sokoban", "EZPoints", "ALFWorld", "WebShop", "HotpotQA"))
SHOWN = ("text", "reward", "end", "state hash")
"""What a door may show of a state."""


class Peer(NamedTuple):
    """An entry point of another project, and the environment that it is installed in."""

    title: str
    door: str
    """Name of its function in `benchmarks.bridges.peer_play`."""
    venv: str
    python: str = sys.executable
    """What makes the environment."""


PEERS = (
    Peer("OpenEnv: `GenericEnvClient`", "openenv", "openenv"),
    Peer("OpenEnv: `GenericEnvClient`", "openenv", "openenv-0.4"),
    Peer("OpenEnv: `MCPToolClient`", "openenv-tools", "openenv"),
    Peer("OpenEnv: `MCPToolClient`", "openenv-tools", "openenv-0.4"),
    Peer("OpenEnv: server of an `Environment` class", "openenv-class", "openenv"),
    Peer("NeMo Gym: resources server of an OpenEnv class", "nemo-gym", "nemo-gym", "python3.12"),
    Peer("MCP SDK: `Client`", "mcp", "mcp"),
    Peer("MCP SDK: `ClientSession`", "mcp", "openenv"),
    Peer("gem: `make`, in its episode wrapper", "gem", "gem"),
)


class PeerEpisode(NamedTuple):
    """A recorded episode, and the words that an environment's server states at its beginning."""

    recorded: Recorded
    opening: str
    calls: list[tuple[str, dict[str, Any]]]
    """Actions as tool calls."""


def record_episodes(env_id: str, count: int) -> list[PeerEpisode]:
    """Record whole episodes of an environment, with the seeds from 0 up."""
    env, found = open_env(env_id), []
    for seed in range(count):
        recorded = record(env, seed, whole=True)
        seen, info = env.reset(seed=seed)
        calls = [call_of(env.tools or (ACT,), action) for action in recorded.actions]
        made = [(call.name, dict(call.arguments)) for call in calls if call is not None]
        assert len(made) == len(calls), f"{env_id}, seed {seed}: an action that no tool call is"
        opening = instructions_of(env, {"observation": {"text": seen}, "metadata": info})
        found.append(PeerEpisode(recorded, opening, made))
    return found


Job = tuple[str, str, list[PeerEpisode]]
"""An environment's id, the address of its server, and its episodes."""


def play(peer: Peer, jobs: Sequence[Job]) -> dict[str, Any]:
    """Play episodes through a door; RuntimeError with the end of what it printed where it fails."""
    given = [
        (
            env_id,
            url,
            [{"seed": each.seed, "actions": each.actions, "calls": calls} for each, _, calls in episodes],
        )
        for env_id, url, episodes in jobs
    ]
    python = ROOT / f".venv-{peer.venv}" / "bin" / "python"
    command = [str(python), "-W", "ignore", str(PLAY), peer.door]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{peer.title} in .venv-{peer.venv}: {done.stderr[-2_000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def compare(episodes: Sequence[PeerEpisode], played: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return how many values a door showed and how many of them are others, by what they are."""
    compared = dict.fromkeys((*SHOWN, "opening", "sum of rewards"), 0)
    differences = compared.copy()

    def note(name: str, own: Any, theirs: Any) -> None:
        if theirs is not None:
            compared[name] += 1
            differences[name] += own != theirs

    for episode, found in zip(episodes, played, strict=True):
        rows = [[text, reward, end, state] for text, _, reward, end, state, *_ in episode.recorded.rows]
        for own, theirs in zip(rows, found["rows"], strict=True):
            for name, *pair in zip(SHOWN, own, theirs, strict=True):
                note(name, *pair)
        note("opening", episode.opening, found["opening"])
        note("sum of rewards", sum(row[1] for row in rows[1:]), found["total"])
    return {"compared": compared, "differences": differences}


def make_venv(peer: Peer) -> str:
    """Install a peer where it is not yet; return why it cannot be, empty where it can."""
    if (ROOT / f".venv-{peer.venv}" / ".installed").exists():
        return ""
    python = shutil.which(peer.python)
    if python is None:
        return f"{peer.python} is not here"
    done = subprocess.run(["tools/peer.sh", python, peer.venv], capture_output=True, text=True, cwd=ROOT)
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def newest(peer: Peer, package: str) -> str:
    """Return the newest version of a package for the Python of a peer, as pip finds it; empty for none."""
    python = str(ROOT / f".venv-{peer.venv}" / "bin" / "python")
    command = [python, "-m", "pip", "index", "versions", package, "--disable-pip-version-check"]
    lines = subprocess.run(command, capture_output=True, text=True).stdout
    found = re.match(rf"{package} \((\S+)\)", lines)
    return found[1] if found else ""


def run(peers: Sequence[Peer], suites: Sequence[str], count: int) -> Iterator[dict[str, Any]]:
    """Play episodes of each suite through each door; yield a row for both."""
    with ExitStack() as stack:
        jobs = [
            (env_id, stack.enter_context(serving(env_id)), record_episodes(env_id, count))
            for env_id in suites
        ]
        for peer in peers:
            played = play(peer, jobs)
            about = {"title": peer.title, "door": peer.door, "versions": played["versions"]}
            for (env_id, _, episodes), found in zip(jobs, played["found"], strict=True):
                steps = sum(len(each.recorded.actions) for each in episodes)
                size = {"env": env_id, "episodes": count, "steps": steps}
                yield about | size | compare(episodes, found)


def block(made: dict[str, Any]) -> str:
    """Return the table of a record: a line for each door and version."""
    lines = []
    for title, versions in dict.fromkeys((row["title"], str(row["versions"])) for row in made["rows"]):
        rows = [row for row in made["rows"] if (row["title"], str(row["versions"])) == (title, versions)]
        named = [f"{name} {each}" for name, each in rows[0]["versions"].items()]
        later = [
            f"{name} {made['newest'][name]}"
            for name, each in rows[0]["versions"].items()
            if made["newest"][name] != each
        ]
        sums = {key: sum(row[key] for row in rows) for key in ("episodes", "steps")}
        least = dict.fromkeys(SHOWN, sums["steps"])  # a text of first states alone is not one of states
        shown = {name: sum(row["compared"][name] for row in rows) for name in rows[0]["compared"]}
        compared = [name for name, count in shown.items() if count >= least.get(name, 1)]
        wrong = sum(sum(row["differences"].values()) for row in rows)
        cells = (title, ", ".join(named), ", ".join(later) or "this one", ", ".join(compared))
        lines.append((*cells, sums["episodes"], f"{sums['steps']:,}", wrong))
    head = ("entry point", "version", "newest", "compared", "episodes", "steps", "differences")
    suites = [env_id.partition("/")[2].partition("-")[0] for env_id in made["suites"]]
    left = "".join(f" Not run: {title}: {why}." for title, why in made["missing"].items())
    about = f"""\
`make doors` wrote this table on {made["date"]}. Each project's own entry point plays whole episodes of
{", ".join(suites)}, half by the oracle and half at random. They are compared with the same episodes of the
environment itself.{left}

"""
    return about + table_text(head, lines, 3)


def page(made: dict[str, Any]) -> str:
    """Return the page of a record."""
    return f"# {TITLE}\n\n{block(made)}\nA value that an entry point does not show is not compared.\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Play through every door, write the record and the table; return 1 if anything differs."""
    given = parser("benchmarks.bridges.peers", __doc__, RESULTS)
    given.add_argument("--episodes", type=int, default=8, help="of each suite (default: 8)")
    asked = given.parse_args(arguments)
    problems = {peer.venv: make_venv(peer) for peer in PEERS}
    peers = [peer for peer in PEERS if not problems[peer.venv]]
    rows = []
    for row in run(peers, SUITES, asked.episodes):
        rows.append(row)
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
    packages = {
        name: peer for peer in peers for row in rows if row["title"] == peer.title for name in row["versions"]
    }
    made = {
        "date": datetime.date.today().isoformat(),
        "suites": SUITES,
        "newest": {name: newest(peer, name) for name, peer in packages.items()},
        "missing": {peer.title: problems[peer.venv] for peer in PEERS if problems[peer.venv]},
        "rows": rows,
    }
    asked.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    if asked.out == RESULTS:
        PAGE.write_text(page(made), encoding="utf-8")
    return int(any(sum(row["differences"].values()) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
