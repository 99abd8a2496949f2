"""Sokoban against gym-sokoban, step for step: ``python -m benchmarks.parity.sokoban``.

gym-sokoban runs in a child process, because it warns, prints and seeds the global generators. It
makes rooms, plays random actions (and in every other episode a solution with random actions mixed
in, so that boxes reach targets and games end), and writes what happened. The parent replays the
same actions on `SokobanEnv` and on `BoardBatch` and counts every difference.

Rooms start as gym-sokoban makes them, or in the middle of a game; its counter of boxes on targets
is 0 at both, which ``parity="gym-sokoban"`` reproduces.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import platform
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agentgym.envs.sokoban.arrays import BoardBatch
from agentgym.envs.sokoban.engine import ACTIONS, REWARDS
from agentgym.envs.sokoban.env import SokobanEnv
from agentgym.envs.sokoban.level import Level
from agentgym.envs.sokoban.solver import solve
from agentgym.envs.sokoban.tiles import draw, grid
from benchmarks.harness.report import parser, publish, table

ROOMS = ((6, 6, 1), (6, 6, 2), (7, 7, 2), (7, 7, 3), (8, 10, 3))
"""Height, width and boxes of the rooms compared."""

MAX_STEPS = 60
EPISODES_A_ROOM = 10
CODES = np.array([ord(symbol) for symbol in "# .*$@"], dtype=np.uint8)
"""Symbols of gym-sokoban's codes: wall, floor, target, box on target, box, player."""

Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Report:
    """What was compared, and what differed."""

    steps: int
    episodes: int
    solved: int
    """Episodes that ended with all boxes on targets."""
    starts_on_target: int
    """Episodes that began with a box on a target."""
    steps_by_room: dict[str, int]
    mismatches: dict[str, int]
    """Differences by quantity; all zero when the two agree."""


def compare(steps: int, seed: int = 0) -> Report:
    """Play at least ``steps`` steps in gym-sokoban and replay them.

    Args:
        steps: number of steps over all rooms.
        seed: of the rooms and actions.
    """
    totals: Counter[str] = Counter()
    differences: Counter[str] = Counter()
    by_room = {}
    for number, (height, width, boxes) in enumerate(ROOMS):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "played.npz"
            wanted = -(-steps // len(ROOMS))
            spec = [str(n) for n in (height, width, boxes, wanted, seed + number)]
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.parity.sokoban", "--peer", str(path)]
            child = subprocess.run([*command, *spec], stderr=subprocess.PIPE, text=True)
            if child.returncode:
                cause = child.stderr.strip().rpartition("\n")[2]
                raise RuntimeError(f"gym-sokoban did not run ({cause}): install the extra 'bench'")
            with np.load(path) as played:
                columns = {name: played[name] for name in played.files}
            counts, wrong = _replay(columns, Path(folder))
        totals.update(counts)
        differences.update(wrong)
        by_room[f"{height}x{width}-{boxes}"] = counts["steps"]
    return Report(
        totals["steps"],
        totals["episodes"],
        totals["solved"],
        totals["starts_on_target"],
        by_room,
        {name: int(count) for name, count in differences.items()},
    )


def _replay(played: Columns, folder: Path) -> tuple[Counter[str], Counter[str]]:
    """Replay the episodes of one room size; return counts and differences."""
    starts = np.flatnonzero(played["first"])
    ends = np.append(starts[1:], len(played["first"]))
    texts = [_text(played["room"][at], played["fixed"][at]) for at in starts]
    levels = folder / "levels.xsb"
    levels.write_text("".join(f"; {i}\n{text}\n\n" for i, text in enumerate(texts)))
    env = SokobanEnv(dataset=str(levels), actions="full", parity="gym-sokoban", max_steps=MAX_STEPS)
    counts: Counter[str] = Counter(episodes=len(starts), steps=int((~played["first"]).sum()))
    wrong: Counter[str] = Counter(dict.fromkeys(("room", "reward", "done", "flags", "picture", "arrays"), 0))
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        env.reset(options={"task": f"levels.xsb#{i}"})
        level = Level.parse(texts[i].split("\n"))
        counts["starts_on_target"] += level.on_target > 0
        batch = BoardBatch(
            1,
            len(level.board),
            ACTIONS["full"],
            REWARDS["native"],
            max_steps=MAX_STEPS,
            upstream_count=True,
        )
        batch.load(0, level)
        for at in range(start + 1, end):
            action = int(played["action"][at])
            text, reward, terminated, truncated, _ = env.step(ACTIONS["full"][action].name)
            arrays = batch.step(np.array([action]))
            flags = (bool(arrays.moved[0]), bool(arrays.pushed[0]), terminated)
            picture = draw(grid(text.encode(), level.width, (level.height, level.width))[None], "tiny")[0]
            wrong["room"] += text != _text(played["room"][at], played["fixed"][at])
            wrong["reward"] += reward != played["reward"][at]
            wrong["done"] += (terminated or truncated) != played["done"][at]
            wrong["flags"] += flags != tuple(played["flags"][at].tolist())
            wrong["picture"] += not _same_picture(picture, played, int(at))
            wrong["arrays"] += (
                batch.text(0) != text
                or arrays.rewards[0] != reward
                or (arrays.terminated[0], arrays.truncated[0]) != (terminated, truncated)
            )
        counts["solved"] += bool(played["flags"][end - 1][2])
    return counts, wrong


def _text(room: npt.NDArray[Any], fixed: npt.NDArray[Any]) -> str:
    """Write a room as .xsb; gym-sokoban's codes do not tell all that stands on a target."""
    symbols = CODES[room]
    symbols[(fixed == 2) & ((room == 3) | (room == 4))] = ord("*")  # a box that never moved stays a 4
    symbols[(fixed == 2) & (room == 5)] = ord("+")
    return "\n".join(row.tobytes().decode() for row in symbols)


def _same_picture(picture: npt.NDArray[np.uint8], played: Columns, at: int) -> bool:
    # gym-sokoban paints a box that started on a target as if it stood off it, until it moves
    unmoved = (played["fixed"][at] == 2) & (played["room"][at] == 4)
    return bool((picture == played["picture"][at])[~unmoved].all())


def _play_peer(path: str, height: int, width: int, boxes: int, steps: int, seed: int) -> None:
    """Play in gym-sokoban and save every step; runs in the child process."""
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        import random

        from gym_sokoban.envs.sokoban_env import SokobanEnv as Peer

        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 (the peer draws from it)
        peer = Peer(dim_room=(height, width), num_boxes=boxes, max_steps=MAX_STEPS)
        rng = np.random.default_rng(seed)
        rows: list[tuple[Any, ...]] = []
        played = 0
        while played < steps:
            peer.reset(render_mode="tiny_rgb_array")
            for episode in range(EPISODES_A_ROOM):
                if played >= steps or peer._check_if_all_boxes_on_target():
                    break
                peer.num_env_steps = peer.boxes_on_target = 0  # as reset leaves them
                played += _play_episode(peer, rng, rows, guided=bool(episode % 2))
    names = ("first", "room", "fixed", "action", "reward", "done", "flags", "picture")
    columns = {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    np.savez(path, allow_pickle=False, **columns)


def _play_episode(peer: Any, rng: np.random.Generator, rows: list[tuple[Any, ...]], *, guided: bool) -> int:
    """Play one episode from the room as it is; return its number of steps."""

    def note(
        first: bool, action: int, reward: float, done: bool, flags: tuple[bool, ...], picture: Any
    ) -> None:
        room, fixed = peer.room_state.astype(np.uint8), peer.room_fixed.astype(np.uint8)
        rows.append((first, room, fixed, action, reward, done, flags, picture))

    note(True, 0, 0.0, False, (False,) * 3, peer.get_image("tiny_rgb_array"))
    text = _text(peer.room_state.astype(np.uint8), peer.room_fixed.astype(np.uint8))
    plan = list(solve(text.encode(), max_nodes=20_000) or ()) if guided else []
    names = [action.name for action in ACTIONS["full"]]
    done = False
    steps = 0
    while not done:
        if plan and rng.random() < 0.97:
            action = names.index(f"push {plan.pop(0)}")
        else:
            action = int(rng.integers(len(names)))
            plan = []  # it may no longer fit; the rest is random
        picture, reward, done, info = peer.step(action, observation_mode="tiny_rgb_array")
        won = bool(info.get("all_boxes_on_target", False))
        note(
            False, action, reward, done, (info["action.moved_player"], info["action.moved_box"], won), picture
        )
        steps += 1
    return steps


def _markdown(report: Report, versions: str) -> str:
    lines = [
        "# Sokoban against gym-sokoban",
        "",
        f"`make parity`: {report.steps:,} steps in {report.episodes:,} episodes ({report.solved:,} solved, "
        f"{report.starts_on_target:,} begun with a box on a target). {versions}.",
        "",
        *table(("compared at every step", "mismatches"), report.mismatches.items()),
        "",
        "room: the whole board. flags: player moved, box moved, all boxes on targets. picture: the tiny",
        "picture. arrays: the array form against the single environment.",
        "",
        *table(("room", "steps"), ((room, f"{count:,}") for room, count in report.steps_by_room.items())),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Compare, write the report beside this file, and exit 1 on any mismatch."""
    arguments = parser(__spec__.name, __doc__, Path(__file__).with_suffix(".json"))
    arguments.add_argument("--steps", type=int, default=100_000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--peer", nargs=6, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.peer:
        path, *numbers = options.peer
        _play_peer(path, *map(int, numbers))
        return 0
    report = compare(options.steps, options.seed)
    versions = (
        f"gym-sokoban {version('gym-sokoban')}, numpy {np.__version__}, Python {platform.python_version()}"
    )
    record = {**asdict(report), "seed": options.seed, "versions": versions}
    publish(options.out, record, _markdown(report, versions))
    return int(any(report.mismatches.values()))


if __name__ == "__main__":
    raise SystemExit(main())
