"""State hashes by bisimulation: ``python -m benchmarks.parity.state_hash``.

States of random walks are grouped by hash. Two that hash equal must show the same, admit the same actions,
and lead to the same answers, rewards and hashes by each of them. Two that hash otherwise, and answer alike
for one step, are played on side by side until something differs: where nothing ever does, the hash is too
fine.

ALFWorld is walked on the bits of its states, which hold what no observation tells; other suites by snapshots.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from operator import xor
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from agentgym.core.types import Snapshot
from agentgym.env import AgentEnv
from agentgym.envs.alfworld.engine.planes import indexes
from agentgym.envs.alfworld.engine.scene import Scene
from agentgym.envs.alfworld.env import ALFWorldEnv
from agentgym.envs.alfworld.source import load_scene
from agentgym.registration import open_env
from benchmarks.harness.report import parser, publish, table_text

OUT = Path("benchmarks/parity/state_hash.json")
STATES = 400
"""States of a published game in a dialect: 140 games in two dialects have 112,000."""

PAIRS = 20
"""Pairs of different hashes that are played on, in a task."""

BITS_BUDGET, SNAPSHOT_BUDGET = 3_000, 100
"""Pairs of states that playing on looks at before it gives up, by view."""

WALK = 60
"""Steps of a walk."""

FLIPPED = 60
"""Atoms turned over in a state, of those that the hash covers and of those that it leaves out."""

WORDS = 4
"""Words that stand for free words of an action."""

Moves: TypeAlias = Mapping[str, tuple[tuple[Hashable, Hashable], Any]]
"""By action: the answer, which is the observation and all else that is told; and the state after it."""


DIFFERENCES = ("shown", "outcome", "hash after", "observation")


class View(Protocol):
    """A task's states, as this audit looks at them."""

    start: Any
    budget: int

    def identity(self, state: Any) -> Hashable:
        """Return what the hash covers."""

    def shown(self, state: Any) -> Hashable:
        """Return actions, score and what else is told of a state, whatever led there."""

    def moves(self, state: Any) -> Moves:
        """Return what every action does."""


class BitsView:
    """A game of ALFWorld on the bits of its states."""

    budget = BITS_BUDGET

    def __init__(self, scene: Scene):
        """Begin where the game does."""
        self.scene, self.game, self.start = scene, scene.game, scene.game.initial

    def identity(self, state: int) -> Hashable:
        """Return what the hash covers."""
        return self.scene.identity(state)

    def shown(self, state: int) -> Hashable:
        """Return what is told of a state, whatever led there."""
        commands = () if self.scene.standing(state).won else self.game.choices(state).commands
        return commands, self.scene.standing(state), self.scene.hands(state)

    def moves(self, state: int) -> Moves:
        """Return what every action does."""
        if self.scene.standing(state).won:
            return {}
        found = {}
        for command, operation in self.game.operations(state).items():
            after = self.game.apply(state, operation)
            found[command] = ((self.game.feedback(operation, after), None), after)
        return found

    def with_records_of(self, state: int, other: int) -> int:
        """Return a state with the records of another: which atoms were ever deleted."""
        truth = (1 << self.game.planes.width) - 1
        return state & truth | other & ~truth


class SnapshotView:
    """A task of any suite by snapshots; chance is fixed, and the step limit far."""

    budget = SNAPSHOT_BUDGET

    def __init__(self, env: AgentEnv[Any], task: str, actions: int):
        """Begin a task; the first ``actions`` of a state's actions are played."""
        self.env, self._actions = env, actions
        observation, _ = env.reset(seed=0, options={"task": task})
        self._words = re.findall(r"[A-Za-z]{5,}", str(observation))[:WORDS]
        self.start = env.snapshot()

    def _stand(self, state: Snapshot) -> None:
        self.env.restore(state)

    def identity(self, state: Snapshot) -> Hashable:
        """Return what the hash covers."""
        self._stand(state)
        return self.env.state_hash()

    def shown(self, state: Snapshot) -> Hashable:
        """Return what is told of a state, whatever led there."""
        self._stand(state)
        return self._told(self.env._info())

    def _told(self, info: Mapping[str, Any]) -> Hashable:
        hidden = {"turn", "state_hash", "action_is_valid", *self.env.past_keys}
        return repr({key: value for key, value in info.items() if key not in hidden})

    def moves(self, state: Snapshot) -> Moves:
        """Return what every action does."""
        if state.terminated:
            return {}
        found = {}
        self._stand(state)
        for action in list(self._playable()):
            self._stand(state)
            observation, reward, terminated, _, info = self.env.step(action)
            after = self.env.snapshot()
            after = replace(after, turn=self.start.turn, rng=self.start.rng, truncated=False)
            found[action] = ((repr(observation), (reward, terminated, self._told(info))), after)
        return found

    def _playable(self) -> Iterator[str]:
        """Yield actions; in place of free words several from the first observation."""
        for action in self.env.admissible_actions()[: self._actions]:
            if self.env.action_kind == "template":
                yield from (re.sub(r"<[^<>]*>", word, action) for word in self._words)
            else:
                yield action


@dataclass(slots=True)
class Audit:
    """What was compared of a suite, and what differed."""

    suite: str
    tasks: int = 0
    states: int = 0
    hashes: int = 0
    hashes_of_schema_1: int = 0
    """Hashes that the states had by state schema 1; 0 for suites that have no other."""
    moves: int = 0
    differences: dict[str, int] = field(default_factory=dict)
    """States that hash equal and differ, by what differs: shown, observation, outcome, hash after."""
    by_records: int = 0
    """Observations that differ by records of deleted atoms alone."""
    pairs: int = 0
    apart: dict[int, int] = field(default_factory=dict)
    """Pairs of different hashes, by the steps after which they differ; the first answers were alike."""
    alike: int = 0
    """Pairs of different hashes that differ in nothing, wherever one goes: the hash is too fine."""
    open: int = 0
    """Pairs that did not differ within the budget."""
    left_open: dict[str, int] = field(default_factory=dict)
    """Predicates in which the last two kinds of pairs differ, in ALFWorld."""
    flips: dict[str, list[int]] = field(default_factory=dict)
    """By predicate of ALFWorld: atoms turned over, and how many of these turns were noticed."""


class Seen(NamedTuple):
    """A state of a walk, with its behaviour of one step."""

    state: Any
    shown: Hashable
    moves: Moves


def audit(view: View, found: Audit, states: int, rng: np.random.Generator) -> list[Seen]:
    """Compare a task's states that hash equal, and play on pairs that do not; return what was seen."""
    seen = [Seen(state, view.shown(state), view.moves(state)) for state in walked(view, states, rng)]
    groups: dict[Hashable, list[Seen]] = defaultdict(list)
    for each in seen:
        groups[view.identity(each.state), not each.moves].append(each)
    found.tasks += 1
    found.states += len(seen)
    found.hashes += len(groups)
    found.moves += sum(len(each.moves) for each in seen)
    for first, *others in groups.values():
        for other in others:
            _compare(view, first, other, found)
    buckets: dict[Hashable, list[Seen]] = defaultdict(list)
    for first, *_ in (group for group in groups.values() if group[0].moves):
        answers = tuple((action, answer) for action, (answer, _) in first.moves.items())
        buckets[first.shown, answers].append(first)
    pairs = (pair for bucket in buckets.values() for pair in pairwise(bucket))
    for one, other in islice(pairs, PAIRS):
        found.pairs += 1
        steps = told_apart(view, one.state, other.state)
        if steps is not None and steps > 0:
            _count(found.apart, steps)
            continue
        found.alike += steps == 0
        found.open += steps is None
        if isinstance(view, BitsView):
            fluents = view.game.planes.fluents
            covered = (int.from_bytes(view.scene.identity(each.state), "little") for each in (one, other))
            turned = xor(*covered)
            for name in sorted({fluents[i][0] for i in indexes(turned)}):
                _count(found.left_open, name)
    return seen


def walked(view: View, wanted: int, rng: np.random.Generator) -> Iterator[Any]:
    """Yield different states of random walks, first words of actions being as likely as each other."""
    known: set[Hashable] = set()
    for _ in range(wanted):  # walks, of which each may stay among states that are known
        state = view.start
        for _ in range(WALK):
            key = state if isinstance(state, int) else repr((state.state, state.terminated))
            if key not in known:
                known.add(key)
                yield state
            if len(known) == wanted:
                return
            moves = view.moves(state)
            if not moves:
                break
            words: dict[str, list[str]] = defaultdict(list)
            for action in moves:
                words[action.partition(" ")[0].partition("[")[0]].append(action)
            chosen = words[sorted(words)[rng.integers(len(words))]]
            state = moves[chosen[rng.integers(len(chosen))]][1]


def _compare(view: View, one: Seen, other: Seen, found: Audit) -> None:
    """Count in what two states that hash equal differ."""
    if one.shown != other.shown or one.moves.keys() != other.moves.keys():
        _count(found.differences, "shown")
        return
    for action, (answer, after) in one.moves.items():
        (observation, outcome), ((observation_2, outcome_2), after_2) = answer, other.moves[action]
        _count(found.differences, "outcome", outcome != outcome_2)
        if observation != observation_2:
            again = None
            if isinstance(view, BitsView):
                state = view.with_records_of(one.state, other.state)
                again = view.moves(state)[action][0][0]
            found.by_records += again == observation_2
            _count(found.differences, "observation", again != observation_2)
        _count(found.differences, "hash after", view.identity(after) != view.identity(after_2))


def _count(counts: dict[Any, int], key: Any, by: int = 1) -> None:
    counts[key] = counts.get(key, 0) + by


def told_apart(view: View, one: Any, other: Any) -> int | None:
    """Return after how many steps two states differ: 0 where they never do, None where that is not known."""
    queue, known = deque([(one, other, 0)]), {(view.identity(one), view.identity(other))}
    while queue:
        one, other, steps = queue.popleft()
        moves, moves_2 = view.moves(one), view.moves(other)
        if view.shown(one) != view.shown(other) or moves.keys() != moves_2.keys():
            return max(steps, 1)
        for action, (answer, after) in moves.items():
            answer_2, after_2 = moves_2[action]
            if answer != answer_2:
                return steps + 1
            key = (view.identity(after), view.identity(after_2))
            if key[0] != key[1] and key not in known:
                if len(known) == view.budget:
                    return None
                known.add(key)
                queue.append((after, after_2, steps + 1))
    return 0


def flip(view: BitsView, seen: Iterable[Seen], found: Audit, rng: np.random.Generator) -> None:
    """Turn atoms over in states: no turn of one that the hash leaves out may be noticed in anything."""
    planes = view.game.planes
    place = {planes.truth[fact] for fact in planes.atoms(view.game.program.selector)}
    for state, shown, moves in seen:
        left_out = [i for i in range(planes.width) if not view.scene.identity(1 << i).strip(b"\0")]
        chosen = {*left_out[:FLIPPED], *rng.integers(planes.width, size=FLIPPED).tolist()}
        for i in sorted(chosen):
            if 1 << i in place:
                continue
            turned = state ^ 1 << i
            again = view.moves(turned)
            noticed = view.shown(turned) != shown or again.keys() != moves.keys()
            noticed = noticed or any(again[action][0] != moves[action][0] for action in moves)
            if i in left_out and not noticed:
                after = ((again[action][1], moves[action][1]) for action in moves)
                noticed = any(view.identity(a) != view.identity(b) for a, b in after)
            kind = f"{planes.fluents[i][0]}{' (left out)' * (i in left_out)}"
            counts = found.flips.setdefault(kind, [0, 0])
            counts[0] += 1
            counts[1] += noticed


def audit_alfworld(dataset: str, dialect: Any, tasks: int, states: int) -> Audit:
    """Audit the first games of ``valid_seen`` of a data set in a dialect."""
    name = "built in" if dataset == "builtin" else "published"
    found, rng = Audit(f"ALFWorld, {name}, {dialect}"), np.random.default_rng(0)
    env = ALFWorldEnv(split="valid_seen", dataset=dataset, dialect=dialect)
    for number in range(min(tasks, len(env.tasks))):
        view = BitsView(load_scene(env.tasks[number].content, dialect))
        seen = audit(view, found, states, rng)
        found.hashes_of_schema_1 += len({(view.game.physical(s.state), not s.moves) for s in seen})
        flip(view, [seen[i] for i in rng.integers(len(seen), size=3)], found, rng)
    return found


SUITES: tuple[tuple[str, dict[str, Any], int, int], ...] = (
    ("agentgym/Sokoban-v0", {"dim_room": (6, 6), "num_boxes": 1}, 100, 20),
    ("agentgym/EZPoints-v0", {}, 300, 20),
    ("agentgym/WebShop-v0", {"observation": "text"}, 150, 30),
    ("agentgym/WebShop-v0", {"observation": "text_rich"}, 150, 30),
    ("agentgym/HotpotQA-v0", {}, 60, 12),
    ("agentgym/PaperSearch-v0", {}, 60, 12),
    ("agentgym/Sotopia-v0", {}, 60, 12),
)
"""Id, options, states of a task, and how many of a state's actions are played."""


def audit_suite(env_id: str, options: dict[str, Any], states: int, actions: int, tasks: int = 5) -> Audit:
    """Audit tasks of a suite by snapshots."""
    name = env_id.rpartition("/")[2].rpartition("-v")[0]
    mode = options.get("observation")
    found, rng = Audit(f"{name}, {mode}" if mode else name), np.random.default_rng(0)
    env = open_env(env_id, options={"max_steps": 1_000, **options})
    for number in range(tasks):
        audit(SnapshotView(env, env.tasks[number].id, actions), found, states, rng)
    return found


def page(audits: Iterable[Audit]) -> str:
    """Return the report for people."""
    rows, pairs, flips = [], [], []
    for each in audits:
        old = f"{each.hashes_of_schema_1:,}" if each.hashes_of_schema_1 else "-"
        equal = [f"{each.differences.get(name, 0):,}" for name in DIFFERENCES]
        counts = [f"{n:,}" for n in (each.tasks, each.states, each.moves, each.hashes)]
        rows.append([each.suite, *counts, old, *equal, f"{each.by_records:,}"])
        steps = ", ".join(f"{n:,} after {k}" for k, n in sorted(each.apart.items())) or "-"
        names = ", ".join(f"{name} {n}" for name, n in sorted(each.left_open.items())) or "-"
        pairs.append([each.suite, f"{each.pairs:,}", steps, f"{each.alike:,}", f"{each.open:,}", names])
        flips += [[each.suite, kind, f"{n:,}", f"{seen:,}"] for kind, (n, seen) in sorted(each.flips.items())]
    head = ["suite", "tasks", "states", "moves", "hashes", "by schema 1", *DIFFERENCES]
    apart = ["suite", "pairs", "told apart (steps)", "alike", "open", "atoms in which the last two differ"]
    return f"""# State hashes by bisimulation

`python -m benchmarks.parity.state_hash`. Different states of random walks, grouped by hash. Of two that
hash equal, *shown* counts those that differ in actions, score or info, *outcome* the actions whose reward,
end or info differs, *hash after* those after which hashes differ, *observation* those answered in other
words. *Records* are answers of ALFWorld that differ because its grammar reads which atoms were ever deleted,
and for no other reason: that is history, which the hash leaves out on purpose, as it leaves out the order in
which HotpotQA and PaperSearch list what was found.

{table_text([*head, "records"], rows)}
Pairs of states that hash otherwise, though all their answers of one step are alike, played on side by side.
*Alike*: nothing differs wherever one goes, so the hash is too fine. *Open*: nothing differed among the first
{BITS_BUDGET:,} pairs of states ({SNAPSHOT_BUDGET} of other suites).

{table_text(apart, pairs)}
Atoms of ALFWorld turned over in states of the walks, and how often anything showed it within one step.

{table_text(["suite", "atoms of", "turned over", "noticed"], flips)}"""


def main() -> None:
    """Audit everything, and write the report."""
    made = parser("benchmarks.parity.state_hash", __doc__, OUT)
    made.add_argument("--games", type=int, default=140, help="of each source of ALFWorld (default: 140)")
    made.add_argument("--states", type=int, default=STATES, help=f"of a game (default: {STATES})")
    given = made.parse_args()
    sources = (("official", "game"), ("official", "current"), ("builtin", "game"))
    audits = [audit_alfworld(*source, given.games, given.states) for source in sources]
    audits += [audit_suite(*suite) for suite in SUITES]
    publish(given.out, audits, page(audits))


if __name__ == "__main__":
    main()
