"""Processes that work for as long as they are let: trainers, players, benchmarks, publishers and clients."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import count
from multiprocessing.synchronize import Event
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np

from agentgym.data.directory import CACHE_VARIABLE
from agentgym.env import AgentEnv
from agentgym.evaluation.board.leaderboard import build_leaderboard
from agentgym.evaluation.verify.verification import verify_run
from agentgym.history.run import METRICS_FILE
from agentgym.io.files import replace_file
from agentgym.registration import ENVIRONMENTS, make, make_vec
from agentgym.training.config import TINY, override
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.setup import TrainingSetup
from agentgym.training.track.checkpoint import last_checkpoint, load_checkpoint
from benchmarks.bridges.server_soak import Traffic as Clients
from benchmarks.fuzz.arena import ALLOW, make_arena
from benchmarks.fuzz.hostile import HostileActions
from benchmarks.fuzz.kills import run_kills

SLOTS = 8
STEPS = 200
"""Of an environment in a round."""

HOSTILE = 0.2
"""Share of the actions that are."""

VERDICTS = 20
"""Rounds after which the verdicts that are kept are thrown away, so that runs are verified anew."""

ADDRESS = "address"
"""File of a worker's folder that names the server of an environment."""

CLIENT_IDLE, ROUNDS = 5.0, 30
"""Seconds after which that server ends a session, and rounds of clients until they wait for it to end all."""

TASKS, GROUP_SIZE, ITERATIONS = 4, 4, 12
"""Of a training that is killed."""

KILLS = 3
"""Of a training; then it may end."""

TRAINING = {
    "rollout.tasks": TASKS,
    "rollout.group_size": GROUP_SIZE,
    "rollout.num_envs": 16,
    "rollout.asynchronous": True,
    "rollout.overlap": True,
    "rollout.max_staleness": 1,
    "rollout.updates_in_flight": True,
    "evaluation.every": 0,
    # weights are updated and handed over, but what is played stays alike, so that a step costs the same
    "learner.learning_rate": 1e-12,
    "patience": 10_000,
    "decay": "constant",
}


def train(folder: Path, seed: int) -> Iterator[Mapping[str, int]]:
    """Train without end."""
    config = override(
        TINY.config("grpo", "agentgym/EZPoints-v0", seed=seed),
        {**TRAINING, "rollout.tasks": 16, "iterations": 1_000_000},
    )
    with closing(TrainingSetup.open(resolve(config))) as setup, closing(Trainer(setup, folder)) as trainer:
        while True:
            metrics = trainer.iterate()
            if metrics.iteration % 20 == 0:
                trainer.save()
            lost = metrics.diagnostics["pool"]["lost"]
            if metrics.dropped or lost:
                raise AssertionError(f"{metrics.dropped} groups were dropped and {lost} lost")
            steps = round(metrics.steps_per_episode * 16 * GROUP_SIZE)
            yield {"updates": 1, "steps": steps, "tokens": metrics.tokens_out}


def retrain(folder: Path, seed: int) -> Iterator[Mapping[str, int]]:
    """Train in further processes, kill, resume, and count the groups."""
    for number in count(seed):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            _train_killed(Path(place) / "run", number)
        yield {"trainings": 1, "kills": KILLS, "updates": ITERATIONS}


def _train_killed(run: Path, seed: int) -> None:
    chance = np.random.default_rng(seed)
    settings = [f"{name}={json.dumps(value)}" for name, value in TRAINING.items()]
    words = ["grpo", "--env", "agentgym/EZPoints-v0", "--preset", "tiny", "--seed", str(seed)]
    words += ["--iterations", str(ITERATIONS), "--out", str(run), "--set", "checkpoint_every=1"]
    words += [word for setting in settings for word in ("--set", setting)]
    for kills in range(KILLS + 1):
        again = ["--resume", str(run)] if (run / METRICS_FILE).exists() else words
        process = subprocess.Popen(
            [sys.executable, "-m", "agentgym", "train", *again, "--log", "jsonl"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if kills < KILLS:
            _await_updates(process, run, int(chance.integers(1, 4)))
            sleep(float(chance.uniform(0, 1)))
            process.kill()
        error = process.communicate()[1]
        if process.returncode not in (0, -9):
            raise AssertionError(f"a training ended with {process.returncode}: {error}")
    numbers = [json.loads(line)["iteration"] for line in (run / METRICS_FILE).read_text().splitlines()]
    (counts,) = load_checkpoint(last_checkpoint(run))["pool"]["counts"]
    if numbers != list(range(1, ITERATIONS + 1)) or counts["trained"] != ITERATIONS * TASKS:
        raise AssertionError(f"iterations {numbers}, groups {counts}")


def _await_updates(process: subprocess.Popen[str], run: Path, updates: int) -> None:
    """Wait until a training has done so many more, or is over."""
    path, until = run / METRICS_FILE, monotonic() + 300.0
    lines = path.read_text().count("\n") if path.exists() else 0
    while process.poll() is None and monotonic() < until:
        if path.exists() and path.read_text().count("\n") >= lines + updates:
            return
        sleep(0.05)


def clients(folder: Path, seed: int) -> Iterator[Mapping[str, int]]:
    """Begin sessions at the server of an environment, never end one, and wait until it has ended them."""
    del seed
    yield from _clients((folder / ADDRESS).read_text())


def _clients(url: str) -> Iterator[Mapping[str, int]]:
    with asyncio.Runner() as runner:
        while True:
            visit = Clients(url)
            for _ in range(ROUNDS):
                runner.run(visit.round())
                runner.run(asyncio.sleep(1.0))
            runner.run(asyncio.sleep(4 * CLIENT_IDLE))
            if left := visit.sessions():
                raise AssertionError(f"{left} sessions were kept by an idle server")
            yield {"sessions": visit.begun}


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
        build_leaderboard(arena.results, page, allow=ALLOW)
        build_leaderboard(folder / "packed", page, allow=ALLOW)
        verify_run(list(arena.folders.values())[number % len(arena.folders)], allow=ALLOW)
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
    "train": train,
    "retrain": retrain,
    "clients": clients,
    "play": play,
    "bench": bench,
    "publish": publish,
}


def work(name: str, folder: Path, seed: int, share: float, ended: Event) -> None:
    """Work round by round until the event is set; keep count in ``folder/status.json``.

    Args:
        name: one of `WORKERS`.
        folder: an empty one of its own.
        seed: of its random numbers.
        share: of the time in which it works; after each round it rests.
        ended: says when.
    """
    os.environ[CACHE_VARIABLE] = str(folder / "cache")
    np.seterr(all="raise")
    done: Counter[str] = Counter()
    began = monotonic()
    try:
        for counts in WORKERS[name](folder, seed):
            done.update(counts)
            done["rounds"] += 1
            replace_file(folder / "status.json", json.dumps({"done": done}))
            if ended.wait((monotonic() - began) * (1 / share - 1)):
                return
            began = monotonic()
    except Exception:  # noqa: BLE001  # whatever it is, it is what is looked for
        replace_file(folder / "status.json", json.dumps({"done": done, "error": traceback.format_exc()}))
