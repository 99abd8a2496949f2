"""ALFWorld against the real engine, state for state: ``python -m benchmarks.parity.alfworld``.

Every game is played in TextWorld and in `ALFWorldEnv` side by side, in random, coverage-guided, expert
and adversarial walks, and compared in every state: observation, admissible commands, all facts, won,
score. Games speak their own dialect or the current one, and some start in an odd state.

TextWorld runs with its parsing remembered (`benchmarks.parity.memoised`); each run proves on a sample that
this changes nothing. Results are kept game by game, so that a run may be stopped and taken up
again; they are forgotten when the engine changes.
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import agentgym.envs.alfworld
from agentgym.core.tasks import ListTaskSet, Task
from agentgym.data.directory import cache_directory
from agentgym.envs.alfworld.engine.dialects import in_dialect
from agentgym.envs.alfworld.engine.gametext import GameText
from agentgym.envs.alfworld.engine.textworld import TextWorldEngine
from agentgym.envs.alfworld.env import ALFWorldEnv
from agentgym.envs.alfworld.source import load_game
from agentgym.errors import MissingDataError
from benchmarks.harness.report import parser, publish, table
from benchmarks.parity.alfworld_walks import WALKS, Scout, harder
from benchmarks.parity.memoised import hurried

SPLITS = (
    *(("official", split) for split in ("valid_seen", "train", "valid_train", "valid_unseen")),
    *(("builtin", split) for split in ("train", "valid_seen", "valid_unseen")),
)
"""(data set, split); what is not on this machine is left out."""

COMPARED = ("observation", "admissible commands", "facts", "won", "score")
CHANGED_EVERY = 5
"""One game in so many starts in an odd state."""

PROVED_EVERY = 60
"""One game in so many is also played by TextWorld as it is, to prove that remembering changes nothing."""

BUILTIN = 30
"""Built-in games compared of each split."""

EXAMPLES = 20
"""Mismatches kept to be looked at."""

ENDLESS = 1 << 30


@dataclass(frozen=True, slots=True)
class Unit:
    """One game in one dialect."""

    dataset: str
    split: str
    number: int
    dialect: str
    changed: bool


@dataclass(frozen=True, slots=True)
class Given:
    """A game given as text."""

    name: str
    text: GameText

    def read(self) -> GameText:
        """Return the text."""
        return self.text


@dataclass(slots=True)
class Result:
    """What came of one unit."""

    unit: Unit
    game: str
    id: str
    """Of the game's content: splits may share games."""
    states: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WALKS, 0))
    """States compared, by kind of walk."""
    won: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WALKS, 0))
    mismatches: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COMPARED, 0))
    proved: int = 0
    """States in which TextWorld as it is was compared with TextWorld that remembers."""
    disproved: int = 0
    examples: list[list[str]] = field(default_factory=list)
    """(quantity, command, theirs, ours) of the first mismatches."""


class Pair:
    """The real engine and this project's environment, playing one game together."""

    def __init__(self, env: ALFWorldEnv, engine: TextWorldEngine, result: Result, text: GameText):
        """Load the game in both."""
        self.env, self.engine, self.result = env, engine, result
        source = Given(result.game, text)
        env.tasks = ListTaskSet("parity", [Task("game", source, "game")], dataset="parity", suite="alfworld")
        self.game = load_game(source)
        self._text = text
        self._loaded = False

    def walk(self, kind: str, rng: np.random.Generator, seen: Counter[tuple[str, str]]) -> None:
        """Walk once, comparing every state."""
        make, limit = WALKS[kind]
        walker = make(Scout(self.game, rng, seen))
        theirs = self._restart()
        ours, info = self.env.reset(options={"task": "game"})
        self._compare(kind, "(start)", theirs, ours, info)
        for _ in range(limit):
            bits = self.env.snapshot().state.bits
            command = walker(bits, self.game.choices(bits).commands)
            if command is None:
                break
            theirs = self.engine.step(command)
            ours, _, terminated, _, info = self.env.step(command)
            self._compare(kind, command, theirs, ours, info)
            if terminated:
                self.result.won[kind] += 1
                break

    def _restart(self) -> str:
        if self._loaded:
            return self.engine.restart()
        self._loaded = True
        return self.engine.start(self._text.domain, self._text.grammar, self._text.problem)

    def _compare(self, kind: str, command: str, theirs: str, ours: str, info: dict[str, Any]) -> None:
        engine = self.engine
        bits = self.env.snapshot().state.bits
        # the environment admits nothing once the game has ended, the real engine does
        commands = self.game.choices(bits).commands if info["won"] else info["admissible_actions"]
        real = (theirs, engine.commands, engine.facts(), engine.won, engine.score)
        native = (ours, commands, self.game.facts(bits), info["won"], info["score"])
        self.result.states[kind] += 1
        for name, one, other in zip(COMPARED, real, native, strict=True):
            if one != other and one is not None:
                self.result.mismatches[name] += 1
                if len(self.result.examples) < EXAMPLES:
                    shown = [str(value)[:500] for value in _difference(one, other)]
                    self.result.examples.append([name, command[:200], *shown])


def _difference(one: object, other: object) -> tuple[object, object]:
    if isinstance(one, set | tuple) and isinstance(other, set | tuple):
        return sorted(set(one) - set(other)), sorted(set(other) - set(one))
    return one, other


class Comparison:
    """Plays units one after the other."""

    def __init__(self, sets: dict[tuple[str, str], Sequence[Task]]):
        """Compare games of these task sets."""
        self._sets = sets
        self._seen: Counter[tuple[str, str]] = Counter()
        dataset, split = next(iter(sets))
        self._env = ALFWorldEnv(split=split, dataset=dataset, max_steps=ENDLESS)
        self._engine = TextWorldEngine()

    def play(self, unit: Unit, *, prove: bool) -> Result:
        """Play every kind of walk in one game."""
        task = self._sets[unit.dataset, unit.split][unit.number]
        seed = int.from_bytes(hashlib.sha256(repr(unit).encode()).digest()[:8], "little")
        rng = np.random.default_rng(seed)
        text = in_dialect(task.content.read(), unit.dialect)
        if unit.changed:
            text = harder(text, rng)
        result = Result(unit, task.source_id, task.id)
        pair = Pair(self._env, self._engine, result, text)
        with hurried():
            for kind in WALKS:
                pair.walk(kind, rng, self._seen)
            if prove:
                remembered = _recite(self._engine, text, seed)
        if prove:
            result.proved = len(remembered)
            result.disproved = sum(
                a != b for a, b in zip(remembered, _recite(self._engine, text, seed), strict=True)
            )
        return result


def _recite(engine: TextWorldEngine, text: GameText, seed: int) -> list[tuple[Any, ...]]:
    """Return everything the real engine tells in a short random walk."""
    rng = np.random.default_rng(seed)
    told = [
        (engine.start(text.domain, text.grammar, text.problem), engine.commands, engine.facts(), engine.won)
    ]
    for _ in range(8):
        commands = engine.commands
        sentence = engine.step(commands[int(rng.integers(len(commands)))])
        told.append((sentence, engine.commands, engine.facts(), engine.won))
    return told


def find_sets() -> dict[tuple[str, str], Sequence[Task]]:
    """Return the task sets there are on this machine."""
    found: dict[tuple[str, str], Sequence[Task]] = {}
    for dataset, split in SPLITS:
        try:
            found[dataset, split] = ALFWorldEnv(split=split, dataset=dataset).tasks
        except MissingDataError as error:
            print(f"left out: {dataset} {split}: {error}")
    return found


def units(sets: dict[tuple[str, str], Sequence[Task]]) -> list[Unit]:
    """Return every published game in both dialects, and some built-in ones in theirs, splits in turn.

    First comes every game in one dialect or the other, then every published one in its other one.
    """
    order = {}
    for name, tasks in sets.items():
        size = len(tasks) if name[0] == "official" else min(len(tasks), BUILTIN)
        order[name] = sorted(range(size), key=lambda n: hashlib.sha256(str(n).encode()).digest())
    found = []
    for turn in range(2):
        for place in range(max(map(len, order.values()))):
            for name, numbers in order.items():
                if place >= len(numbers) or (turn and name[0] == "builtin"):
                    continue
                published = name[0] == "official"
                dialect = "current" if published and (place + turn) % 2 else "game"
                changed = published and (place + 2) % CHANGED_EVERY == 0
                found.append(Unit(*name, numbers[place], dialect, changed))
    return found


def fingerprint() -> str:
    """Return a name for the engine and the walks as they are now: results of others are forgotten."""
    folder = Path(next(iter(agentgym.envs.alfworld.__path__)))
    engine = [folder / "env.py", *sorted((folder / "engine").glob("*.py"))]
    files = [*engine, *sorted(Path(__file__).parent.glob("alfworld*.py"))]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def run(
    chosen: Sequence[Unit], sets: dict[tuple[str, str], Sequence[Task]], done: Path, seconds: float
) -> None:
    """Play the units that have no result in the file ``done``, adding to it."""
    from rich.console import Console
    from rich.progress import track

    have = {result.unit for result in read(done)}
    comparison = Comparison(sets)
    console = Console(stderr=True)
    began = time.monotonic()
    todo = [(k, unit) for k, unit in enumerate(chosen) if unit not in have]
    done.parent.mkdir(parents=True, exist_ok=True)
    for k, unit in track(todo, "comparing", console=console, disable=not console.is_terminal):
        if time.monotonic() - began > seconds:
            break
        result = comparison.play(unit, prove=k % PROVED_EVERY == 0)
        with done.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")


def read(done: Path) -> Iterator[Result]:
    """Read the results of earlier runs; a line that was cut short is dropped."""
    if not done.exists():
        return
    for line in done.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        yield Result(**{**row, "unit": Unit(**row["unit"])})


def summary(results: Iterable[Result]) -> dict[str, Any]:
    """Add up results."""
    rows = list({result.unit: result for result in results}.values())  # two runs may have shared the work
    by: dict[str, Counter[str]] = {
        name: Counter() for name in ("dialect", "split", "walk", "start", "mismatches")
    }
    won: Counter[str] = Counter()
    for row in rows:
        states = sum(row.states.values())
        by["dialect"][row.unit.dialect] += states
        by["split"][f"{row.unit.dataset} {row.unit.split}"] += states
        by["start"]["changed" if row.unit.changed else "as it is"] += states
        by["walk"].update(row.states)
        by["mismatches"].update(row.mismatches)
        won.update(row.won)
    return {
        "states": sum(by["walk"].values()),
        "games": len({row.id for row in rows}),
        "published games": len({row.id for row in rows if row.unit.dataset == "official"}),
        "mismatches": dict(by["mismatches"]),
        "states by dialect": dict(by["dialect"]),
        "states by split": dict(by["split"]),
        "states by walk": dict(by["walk"]),
        "states by start": dict(by["start"]),
        "walks won": dict(won),
        "remembering": {
            "states": sum(row.proved for row in rows),
            "mismatches": sum(row.disproved for row in rows),
        },
        "examples": [example for row in rows for example in row.examples][:EXAMPLES],
        "versions": {name: version(name) for name in ("textworld", "alfworld", "numpy")}
        | {"Python": platform.python_version()},
    }


def markdown(report: dict[str, Any]) -> str:
    """Write the report for people."""
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    lines = [
        "# ALFWorld against TextWorld",
        "",
        f"`make parity`: {report['states']:,} states of {report['games']:,} games, "
        f"{report['published games']:,} of them published ones. {versions}.",
        "",
        *table(("compared in every state", "mismatches"), report["mismatches"].items()),
        "",
        "TextWorld ran with its parsing remembered. Against TextWorld as it is, in "
        f"{report['remembering']['states']:,} states: {report['remembering']['mismatches']} mismatches.",
    ]
    for name in ("dialect", "split", "walk", "start"):
        counts = report[f"states by {name}"].items()
        lines += ["", *table((name, "states"), ((key, f"{count:,}") for key, count in counts))]
    wins = ", ".join(f"{kind} {count:,}" for kind, count in report["walks won"].items())
    lines += [
        "",
        f"Walks that reached the goal: {wins}.",
        "",
        "Dialect: a game's own domain and grammar, or the current ones. Start: as it is, or changed: objects",
        "heated, cooled, cleaned, sliced or recorded elsewhere, receptacles open or in one place, a knife",
        "in hand.",
        "Adversarial walks: three commands in ten are empty, very long, out of date or misspelt.",
        "Score: TextWorld gives none before the first step.",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Compare, write the report, and exit 1 on any mismatch."""
    arguments = parser(__spec__.name, __doc__, Path(__file__).with_suffix(".json"))
    about = "stop after so many games; all in both dialects if not given"
    arguments.add_argument("--games", type=int, help=about)
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="stop after so much time")
    arguments.add_argument("--done", type=Path, help="file of results so far; in the cache if not given")
    options = arguments.parse_args()
    sets = find_sets()
    engine = fingerprint()
    done = options.done or cache_directory() / "parity" / f"alfworld-{engine}.jsonl"
    try:
        run(units(sets)[: options.games], sets, done, options.seconds)
    except KeyboardInterrupt:
        print("stopped; the next run takes up from here")
    report = {"engine": engine, **summary(read(done))}
    publish(options.out, report, markdown(report))
    return int(any(report["mismatches"].values()) or report["remembering"]["mismatches"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
