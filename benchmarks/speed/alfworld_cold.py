"""ALFWorld's speed where training meets it: games that have never been played before, and groups of attempts.

Every episode of ours is in another game of the train split; none comes twice. TextWorld plays one new game a
round: what a group of attempts takes it is that game's load, and a reset and 50 steps as often as there are
attempts. Time is the processor's: a busy machine would not hit such long and such short turns alike.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from agentgym.core.tasks import ListTaskSet, Task
from agentgym.data.directory import data_directory
from agentgym.envs.alfworld.data.importer import open_games
from agentgym.envs.alfworld.data.trials import Harvest, read_trials
from agentgym.envs.alfworld.engine.gametext import GameText
from agentgym.envs.alfworld.engine.textworld import TextWorldEngine
from agentgym.envs.alfworld.env import ALFWorldEnv
from benchmarks.harness.rounds import Discipline, Run
from benchmarks.parity.memoised import forget_games, memoised

STEPS = 50
"""Of an episode."""

GROUP_GAMES, ATTEMPTS = 16, 8
"""Games of a batch, and episodes in each."""

ARCHIVE = "json_2.1.1_train.tar.xz"

Memory = Callable[[], AbstractContextManager[None]]
"""`memoised`, or nothing."""


@dataclass(frozen=True, slots=True)
class Given:
    """A game given as text."""

    name: str
    text: GameText

    def read(self) -> GameText:
        """Return the text."""
        return self.text


def new_tasks(dataset: str, part: int) -> Iterator[Task]:
    """Yield the tasks of one of three parts of the train split, shuffled."""
    tasks = ALFWorldEnv(dataset=dataset, split="train").tasks
    for number in np.random.default_rng(0).permutation(len(tasks))[part::3].tolist():
        yield tasks[number]


def archived_tasks() -> Iterator[Task]:
    """Yield tasks as they come out of the published archive: nothing has been imported."""
    harvest = Harvest()
    files = [data_directory() / "alfworld" / ARCHIVE]
    for trial in read_trials(files, harvest, progress=lambda done, total: None):
        yield Task(trial.name, Given(trial.name, trial.text), trial.name, trial.type)


def play(env: ALFWorldEnv, task: Task, rng: np.random.Generator) -> int:
    """Play one episode of random admissible commands; return its steps."""
    commands = env.reset(options={"task": task.id})[1]["admissible_actions"]
    for done, draw in enumerate(rng.random(STEPS).tolist()):
        if not commands:
            return done
        commands = env.step(commands[int(draw * len(commands))])[4]["admissible_actions"]
    return STEPS


def counted(once: Callable[[], int]) -> Run:
    """Make a run of ``once``: steps a second, at least one call."""

    def run(seconds: float) -> float:
        steps, began = 0, time.process_time()
        while True:
            steps += once()
            if (took := time.process_time() - began) >= seconds:
                return steps / took

    return run


def ours(dataset: str, games: int, attempts: int) -> Run:
    """Play batches of new games from the imported store."""
    env = ALFWorldEnv(dataset=dataset, split="train", max_steps=1 << 30)
    tasks, rng = new_tasks(dataset, part=int(attempts > 1)), np.random.default_rng(0)

    def once() -> int:
        batch = [next(tasks) for _ in range(games)]
        return sum(play(env, task, rng) for task in batch for _ in range(attempts))

    return counted(once)


def ours_archived(dataset: str) -> Run:
    """Play new games out of the archive."""
    env = ALFWorldEnv(dataset=dataset, split="valid_seen", max_steps=1 << 30)
    tasks, rng = archived_tasks(), np.random.default_rng(0)

    def once() -> int:
        task = next(tasks)
        env.tasks = ListTaskSet("cold", [task], dataset="cold", suite="alfworld")
        return play(env, task, rng)

    return counted(once)


def stock(dataset: str, memory: Memory, attempts: int) -> Run:
    """Play one new game in TextWorld; return the steps a second of so many attempts in it."""
    engine, rng = TextWorldEngine(), np.random.default_rng(0)
    tasks = new_tasks(dataset, part=2)

    def run(seconds: float) -> float:
        del seconds  # a game takes longer
        text = next(tasks).content.read()
        forget_games()
        with memory():
            loading = clock(lambda: engine.start(text.domain, text.grammar, text.problem))
            playing = clock(lambda: walk(engine, rng))
            again = clock(engine.restart) if attempts > 1 else 0.0
        return attempts * STEPS / (loading + attempts * playing + (attempts - 1) * again)

    return run


def walk(engine: TextWorldEngine, rng: np.random.Generator) -> None:
    """Take random steps."""
    for draw in rng.random(STEPS).tolist():
        engine.step(engine.commands[int(draw * len(engine.commands))])


def clock(act: Callable[[], object]) -> float:
    """Return the processor's seconds of one call."""
    began = time.process_time()
    act()
    return time.process_time() - began


def cold_disciplines(dataset: str) -> Iterator[Discipline]:
    """Yield what is measured in games that are new."""
    peers: dict[str, Memory] = {"TextWorld": nullcontext, "TextWorld, remembering": memoised}

    def beside(games: int, attempts: int) -> dict[str, Callable[[], Run]]:
        found: dict[str, Callable[[], Run]] = {"agentgym": partial(ours, dataset, games, attempts)}
        return found | {name: partial(stock, dataset, memory, attempts) for name, memory in peers.items()}

    cold = beside(1, 1)
    if (data_directory() / "alfworld" / ARCHIVE).exists():
        cold["agentgym, out of the archive, nothing imported"] = partial(ours_archived, dataset)
    yield Discipline(f"new games: load and {STEPS} steps", "steps/s", cold)
    grouped = beside(GROUP_GAMES, ATTEMPTS)
    yield Discipline(f"{GROUP_GAMES} new games, {ATTEMPTS} attempts each", "steps/s", grouped)


def store_facts(dataset: str) -> dict[str, float]:
    """Return what a store costs: seconds to build one, and bytes of the train split's; a game of each."""
    if dataset != "official":
        return {}
    train = open_games(dataset, "train")
    before = os.environ.get("AGENTGYM_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AGENTGYM_CACHE"] = folder
        try:
            began = time.process_time()
            built = open_games(dataset, "valid_train")
            took = time.process_time() - began
        finally:
            os.environ.pop("AGENTGYM_CACHE")
            if before is not None:
                os.environ["AGENTGYM_CACHE"] = before
    return {
        "build_seconds_per_game": took / len(built.entries),
        "built_games": float(len(built.entries)),
        "bytes_per_game": Path(train.path).stat().st_size / len(train.entries),
    }
