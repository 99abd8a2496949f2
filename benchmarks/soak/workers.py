"""Processes that work for as long as they are let: players, benchmarks and publishers."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.data.directory import CACHE_VARIABLE
from agentgym.env import AgentEnv
from agentgym.evaluation.board.leaderboard import build_leaderboard
from agentgym.evaluation.verify.verification import verify_run
from agentgym.io.files import replace_file
from agentgym.registration import ENVIRONMENTS, make, make_vec
from benchmarks.fuzz.arena import NARROW, make_arena
from benchmarks.fuzz.hostile import HostileActions
from benchmarks.fuzz.kills import run_kills

SLOTS = 8
STEPS = 200
"""Of an environment in a round."""

HOSTILE = 0.2
"""Share of the actions that are."""

VERDICTS = 20
"""Rounds after which the verdicts that are kept are thrown away, so that runs are verified anew."""

Round = Callable[[Path, int], Mapping[str, int]]


def play(folder: Path, seed: int) -> Iterator[Mapping[str, int]]:
    """Play in every suite, one after the other: hostile and random actions, copies, snapshots, many slots."""
    del folder
    hostile = HostileActions(seed)
    singles: dict[str, AgentEnv[Any]] = {env_id: make(env_id) for env_id in ENVIRONMENTS}
    vectors = {env_id: make_vec(env_id, SLOTS, autoreset_mode="SameStep") for env_id in ENVIRONMENTS}
    for number in count(seed):
        for env_id, env in singles.items():
            _play_single(env, hostile, number)
            _, infos = vectors[env_id].reset(seed=number)
            for _ in range(STEPS // SLOTS):
                actions = [hostile.fair(row, "red shoes") for row in infos["admissible_actions"]]
                infos = vectors[env_id].step(actions)[4]
            vectors[env_id].copy(0, SLOTS - 1)
        yield {"episodes": len(singles) * (1 + SLOTS), "steps": 2 * len(singles) * STEPS}


def _play_single(env: AgentEnv[Any], hostile: HostileActions, seed: int) -> None:
    _, info = env.reset(seed=seed)
    for step in range(STEPS):
        bad = hostile.rng.random() < HOSTILE
        action = hostile.draw(info["admissible_actions"]).action if bad else None
        if not isinstance(action, str):
            action = hostile.fair(info["admissible_actions"], "red shoes")
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()
        if step % 50 == 0:
            snapshot = env.snapshot()
            twin = copy.deepcopy(env)
            twin.restore(pickle.loads(pickle.dumps(snapshot)))  # its own bytes
            twin.close()


def publish(folder: Path, seed: int) -> Iterator[Mapping[str, int]]:
    """Verify runs, packed ones too, and build the leaderboard, mostly from verdicts that are kept."""
    del seed
    arena = make_arena(folder)
    page = folder / "page" / "LEADERBOARD.md"
    text = ""
    for number in count():
        build_leaderboard(arena.results, page, allow=[NARROW])
        build_leaderboard(folder / "packed", page, allow=[NARROW])
        verify_run(list(arena.folders.values())[number % len(arena.folders)], allow=[NARROW])
        now = page.read_text()
        if text not in ("", now):
            raise AssertionError("the page changed, though the runs did not")
        text = now
        if number % VERDICTS == 0:
            shutil.rmtree(folder / "cache")
        yield {"boards": 2, "verified runs": 1}


def bench(folder: Path, seed: int) -> Iterator[Mapping[str, int]]:
    """Bench, kill, resume, verify and rank in further processes."""
    for number in count():
        with tempfile.TemporaryDirectory(dir=folder) as place:
            report = run_kills(Path(place), 3, seed=seed + number)
        if report.wrong:
            raise AssertionError("; ".join(report.wrong))
        yield {"benchmarks": report.rounds, "kills": report.kills, "episodes": report.lines}


WORKERS: Mapping[str, Callable[[Path, int], Iterator[Mapping[str, int]]]] = {
    "play": play,
    "bench": bench,
    "publish": publish,
}


def work(name: str, folder: Path, seed: int, ended: Event) -> None:
    """Work round by round until told to end; keep count in ``folder/status.json``.

    Args:
        name: one of `WORKERS`.
        folder: an empty one of its own.
        seed: of its random numbers.
        ended: says when.
    """
    os.environ[CACHE_VARIABLE] = str(folder / "cache")
    np.seterr(all="raise")
    done: Counter[str] = Counter()
    try:
        for counts in WORKERS[name](folder, seed):
            done.update(counts)
            done["rounds"] += 1
            replace_file(folder / "status.json", json.dumps({"done": done}))
            if ended.is_set():
                return
    except Exception:  # noqa: BLE001  # whatever it is, it is what is looked for
        replace_file(folder / "status.json", json.dumps({"done": done, "error": traceback.format_exc()}))
