"""ALFWorld's speed beside the real engine's: ``python -m benchmarks.speed.alfworld``.

First come games that are new (`benchmarks.speed.alfworld_cold`). In the other disciplines all contestants
play the same kitchens with random admissible commands in one process, one after the other, in several
rounds; a ratio compares two contestants within a round. TextWorld runs as it is and
with its parsing remembered. Memory and start-up are measured in processes of their own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np

from agentgym.core.hashing import StateHasher, canonical
from agentgym.core.tasks import Task
from agentgym.envs.alfworld.engine.game import Game
from agentgym.envs.alfworld.engine.gametext import GameText
from agentgym.envs.alfworld.engine.textworld import TextWorldEngine
from agentgym.envs.alfworld.env import ALFWorldEnv
from agentgym.envs.alfworld.source import load_game
from agentgym.errors import MissingDataError
from agentgym.vector.serial import SerialVectorEnv
from benchmarks.harness.processes import alone, status
from benchmarks.harness.report import Texts, parser
from benchmarks.harness.rounds import Discipline, Run, measure_all, publish_rows, timed
from benchmarks.parity.memoised import forget_games, memoised
from benchmarks.speed.alfworld_cold import cold_disciplines, store_facts

OUT = Path(__file__).with_suffix(".json")
KITCHENS = 8
"""Games played. Floor plans 1 to 30 are kitchens."""

ENDLESS = 1 << 30
STEPS = 64
"""Steps between two looks at the clock, for what is fast."""

WARM = 2000
"""Walks before the clock starts: games remember what they have computed, and training plays them often."""

EPISODES, GAMES = 1024, 200
"""Whose memory is measured."""

TEXTS = Texts(
    "Speed of ALFWorld",
    "New games: every episode of agentgym's is in a game of the train split that was never played before,\n"
    "TextWorld plays one of them a round. A group of attempts is extrapolated for TextWorld from one game's\n"
    "load, reset and 50 steps. Here the processor's time is counted, elsewhere the clock's.\n"
    f"All else: {KITCHENS} kitchens, random admissible commands. Before the clock starts the native engine\n"
    f"has walked {WARM:,} times through them.",
    "agentgym's engine computes the next state, its sentence, the admissible commands and the state hash;\n"
    "the environments hand out everything the contract asks for, and resets are part of their time.\n"
    "Whoever loads a game from its text parses it, grounds it and says the first sentence; a store keeps\n"
    "what a problem comes to, so that there a new game is read.",
    "memory of a process",
)


# ---- this project ----------------------------------------------------------------------------


def engine_steps(tasks: list[Task]) -> Run:
    """Step, list the admissible commands, answer and hash the state, without the environment around it."""
    games = [(load_game(task.content), StateHasher("alfworld", 1, task.id)) for task in tasks]
    rng = np.random.default_rng(0)
    turns = cycle(games)

    def once() -> int:
        game, hasher = next(turns)
        state = game.initial
        for draw in rng.random(STEPS).tolist():
            choices = game.choices(state)
            operation = game.find(choices, choices.commands[int(draw * len(choices.commands))])
            assert operation is not None
            state = game.apply(state, operation)
            game.feedback(operation, state)
            hasher.hash(canonical(game.physical(state)), game.won(state))
        return STEPS

    for _ in range(WARM):
        once()
    return timed(once)


def single(tasks: list[Task]) -> Run:
    """Step a single environment."""
    env = make_env(tasks)
    rng = np.random.default_rng(0)
    turns = cycle(tasks)

    def once() -> int:
        commands = env.reset(options={"task": next(turns).id})[1]["admissible_actions"]
        for draw in rng.random(STEPS).tolist():
            info = env.step(commands[int(draw * len(commands))])[4]
            commands = info["admissible_actions"] or ("look",)
            if info["won"]:
                commands = env.reset(options={"task": next(turns).id})[1]["admissible_actions"]
        return STEPS

    return timed(once)


def batched(tasks: list[Task], num: int) -> Run:
    """Step a vector environment that resets itself; as `single`, all begin anew after so many steps."""
    envs = SerialVectorEnv(
        num, env_class=ALFWorldEnv, dataset=dataset(), split="valid_seen", max_steps=ENDLESS
    )
    names = [tasks[i % len(tasks)].id for i in range(num)]
    rng = np.random.default_rng(0)

    def once() -> int:
        rows = envs.reset(options={"tasks": names})[1]["admissible_actions"]
        for draws in rng.random((STEPS, num)).tolist():
            actions = [
                row[int(draw * len(row))] if row else "look" for row, draw in zip(rows, draws, strict=True)
            ]
            rows = envs.step(actions)[4]["admissible_actions"]
        return STEPS * num

    return timed(once)


def backend(tasks: list[Task]) -> Run:
    """Step the environment over TextWorld."""
    env = ALFWorldEnv(dataset=dataset(), split="valid_seen", engine="textworld", max_steps=ENDLESS)
    commands = env.reset(options={"task": tasks[0].id})[1]["admissible_actions"]
    rng = np.random.default_rng(0)
    last = [commands]

    def once() -> int:
        info = env.step(last[0][int(rng.integers(len(last[0])))])[4]
        last[0] = info["admissible_actions"]
        if info["won"]:
            last[0] = env.reset(options={"task": tasks[0].id})[1]["admissible_actions"]
        return 1

    return timed(once)


def resets(tasks: list[Task]) -> Run:
    """Reset an environment to games that are loaded."""
    env = make_env(tasks)
    names = [task.id for task in tasks] * (STEPS // len(tasks))

    def once() -> int:
        for name in names:
            env.reset(options={"task": name})
        return len(names)

    return timed(once)


def snapshots(tasks: list[Task]) -> Run:
    """Take a snapshot and restore it."""
    env = make_env(tasks)
    env.reset(options={"task": tasks[0].id})
    env.step(env.admissible_actions()[0])

    def once() -> int:
        for _ in range(STEPS):
            env.restore(env.snapshot())
        return STEPS

    return timed(once)


def loads(tasks: list[Task]) -> Run:
    """Compile games from their text."""
    texts = cycle([task.content.read() for task in tasks])

    def once() -> int:
        text = next(texts)
        game = Game(text.domain, text.grammar, text.problem)
        game.intro()
        game.choices(game.initial)
        return 1

    return timed(once)


def make_env(tasks: list[Task]) -> ALFWorldEnv:
    """Make an environment whose games are loaded."""
    env = ALFWorldEnv(dataset=dataset(), split="valid_seen", max_steps=ENDLESS)
    for task in tasks:
        env.reset(options={"task": task.id})
    return env


# ---- TextWorld -------------------------------------------------------------------------------

Memory = Callable[[], AbstractContextManager[None]]
"""`memoised`, or nothing."""


def start(engine: TextWorldEngine, text: GameText) -> None:
    """Load a game and say its first sentence."""
    engine.start(text.domain, text.grammar, text.problem)


def stock_steps(tasks: list[Task], memory: Memory) -> Run:
    """Step TextWorld."""
    engine = TextWorldEngine()
    with memory():
        start(engine, tasks[0].content.read())
    rng = np.random.default_rng(0)

    def once() -> int:
        commands = engine.commands
        engine.step(commands[int(rng.integers(len(commands)))])
        return 1

    return within(memory, timed(once))


def stock_resets(tasks: list[Task], memory: Memory) -> Run:
    """Reset TextWorld to the game that is loaded."""
    engine = TextWorldEngine()
    with memory():
        start(engine, tasks[0].content.read())

    def once() -> int:
        engine.restart()
        return 1

    return within(memory, timed(once))


def stock_loads(tasks: list[Task], memory: Memory) -> Run:
    """Load games in TextWorld."""
    engine = TextWorldEngine()
    texts = cycle([task.content.read() for task in tasks])

    def once() -> int:
        forget_games()
        start(engine, next(texts))
        return 1

    return within(memory, timed(once))


def within(memory: Memory, run: Run) -> Run:
    """Run with TextWorld's parsing remembered, or not."""

    def remembering(seconds: float) -> float:
        with memory():
            return run(seconds)

    return remembering


# ---- what is compared ------------------------------------------------------------------------


def dataset() -> str:
    """Return ``"official"`` where the published games are on this machine, else ``"builtin"``."""
    try:
        ALFWorldEnv(dataset="official", split="valid_seen")
    except MissingDataError:
        return "builtin"
    return "official"


def kitchens() -> list[Task]:
    """Return the games played."""
    tasks = ALFWorldEnv(dataset=dataset(), split="valid_seen").tasks
    if dataset() == "official":
        found = [task for task in tasks if int(task.metadata["scene"]) <= 30]
    else:
        found = [task for task in tasks[:500] if task.metadata["room"] == "kitchen"]
    return found[:: len(found) // KITCHENS][:KITCHENS]


def disciplines(tasks: list[Task]) -> Iterator[Discipline]:
    """Yield everything that is measured in rounds."""
    peers: dict[str, Memory] = {"TextWorld": nullcontext, "TextWorld, remembering": memoised}

    def beside(
        ours: Callable[[list[Task]], Run], theirs: Callable[[list[Task], Memory], Run]
    ) -> dict[str, Callable[[], Run]]:
        found: dict[str, Callable[[], Run]] = {"agentgym": partial(ours, tasks)}
        return found | {name: partial(theirs, tasks, memory) for name, memory in peers.items()}

    yield Discipline("step, admissible commands, state hash", "steps/s", beside(engine_steps, stock_steps))
    full = beside(single, stock_steps)
    full["agentgym over TextWorld"] = partial(backend, tasks)
    yield Discipline("single environment", "steps/s", full)
    batch = {"agentgym": partial(batched, tasks, 128), "agentgym, single": partial(single, tasks)}
    yield Discipline("vector environment, N = 128", "steps/s", batch)
    yield Discipline("reset to a loaded game", "resets/s", beside(resets, stock_resets))
    yield Discipline("load a game", "games/s", beside(loads, stock_loads))
    yield Discipline("snapshot and restore", "pairs/s", {"agentgym": partial(snapshots, tasks)})


# ---- processes of their own ------------------------------------------------------------------


def hold_episodes() -> None:
    """Hold many episodes over many games, and play some steps in each."""
    envs = SerialVectorEnv(EPISODES, env_class=ALFWorldEnv, dataset=dataset(), split="train")
    names = [task.id for task in envs.tasks[:GAMES]]
    rows = envs.reset(seed=0, options={"tasks": [names[i % GAMES] for i in range(EPISODES)]})[1]
    rng = np.random.default_rng(0)
    for _ in range(20):
        commands = rows["admissible_actions"]
        rows = envs.step([row[int(rng.integers(len(row)))] if row else "look" for row in commands])[4]


def hold_game() -> None:
    """Hold one game in TextWorld."""
    start(TextWorldEngine(), kitchens()[0].content.read())


def hold_nothing() -> None:
    """Import what the others import."""


def begin_train() -> None:
    """Make the environment of the whole train split and begin an episode."""
    ALFWorldEnv(dataset=dataset(), split="train").reset(seed=0)


ALONE: dict[str, Callable[[], None]] = {
    f"agentgym, {EPISODES:,} episodes over {GAMES} games": hold_episodes,
    "TextWorld, one game": hold_game,
    "neither: Python and what is imported": hold_nothing,
    "start-up of the train split": begin_train,
}


def run_alone(name: str) -> None:
    """Run one of `ALONE` and print its peak of memory in bytes, and its seconds after imports."""
    began = time.perf_counter()
    ALONE[name]()
    print([status("VmHWM"), time.perf_counter() - began])


def main() -> int:
    """Measure everything, and write the report."""
    arguments = parser(__spec__.name, __doc__, OUT, rounds=5, seconds=0.5)
    arguments.add_argument("--alone", choices=list(ALONE), help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.alone:
        run_alone(given.alone)
        return 0
    rows = measure_all([*cold_disciplines(dataset()), *disciplines(kitchens())], given)
    store = store_facts(dataset())
    measured = {name: alone(__spec__.name, "--alone", name) for name in ALONE}
    *memory, startup = measured
    seconds = measured[startup][1]
    notes = f"\nThe whole train split is opened, and an episode begun, in {seconds:.2f} s."
    if store:
        notes += (
            f"\nThe imported train split takes {store['bytes_per_game']:,.0f} bytes a game; an import of "
            f"{store['built_games']:.0f} games takes {1000 * store['build_seconds_per_game']:.0f} ms a game."
        )
    return publish_rows(
        f"python -m {__spec__.name}",
        given,
        rows,
        TEXTS,
        peers=("textworld", "alfworld"),
        memory={name: measured[name][0] for name in memory},
        notes=f"{notes}\nGames: the {dataset()} ones.\n",
        dataset=dataset(),
        startup_seconds=seconds,
        store=store,
    )


if __name__ == "__main__":
    raise SystemExit(main())
