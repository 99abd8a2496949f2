"""How the parity run walks through games, and how it changes them to be harder to agree on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from agentgym.envs.alfworld.engine.game import Game
from agentgym.envs.alfworld.engine.gametext import GameText
from agentgym.envs.alfworld.engine.pddl import Fact, parse_domain, parse_problem
from agentgym.envs.alfworld.planner.planner import Planner

Walker: TypeAlias = Callable[[int, Sequence[str]], str | None]
"""(state, what can be done) -> the next command; None to stop."""

PROVOKING = (
    "heat", "cool", "clean", "slice", "use", "examine", "open", "close", "put", "move", "take",
    "look", "inventory", "help",
)  # fmt: skip
"""First words of commands, each as likely as the others in an adversarial walk; and going somewhere."""


@dataclass(frozen=True, slots=True)
class Scout:
    """What walks need to know of the game they walk in."""

    game: Game
    rng: np.random.Generator
    seen: Counter[tuple[str, str]]
    """How often each action was answered by each form of sentence, over all games."""


def random_walk(scout: Scout) -> Walker:
    """Do anything."""
    return lambda state, commands: _pick(commands, scout.rng)


def covering_walk(scout: Scout) -> Walker:
    """Do what has been answered by a sentence that was rarely seen before."""
    names = sorted((name.strip() for name in scout.game.names.values()), key=len, reverse=True)
    name = re.compile("|".join(map(re.escape, names)))

    def form(state: int, command: str) -> tuple[str, str]:
        operation = scout.game.find(scout.game.choices(state), command)
        assert operation is not None
        sentence = scout.game.feedback(operation, scout.game.apply(state, operation))
        return operation.schema, re.sub(r"(a _, )+", "a _, ", name.sub("_", sentence))

    def walk(state: int, commands: Sequence[str]) -> str:
        forms = {command: form(state, command) for command in commands}
        least = min(scout.seen[found] for found in forms.values())
        command = _pick([c for c, found in forms.items() if scout.seen[found] == least], scout.rng)
        scout.seen[forms[command]] += 1
        return command

    return walk


def expert_walk(scout: Scout) -> Walker:
    """Reach the goal."""
    plan = [operation.command for operation in Planner(scout.game).plan(scout.game.initial) or ()]
    rest = iter(plan)
    return lambda state, commands: next(rest, None)


def adversarial_walk(scout: Scout) -> Walker:
    """Do what is seldom done: everything twice, knives first, shared places, and nonsense."""
    past: list[str] = ["look"]
    places = Counter(fact[2] for fact in scout.game.planes.static if fact[0] == "receptacleatlocation")
    shared = {
        f"go to {scout.game.names[fact[1]]}"
        for fact in scout.game.planes.static
        if fact[0] == "receptacleatlocation" and places[fact[2]] > 1
    }

    def walk(state: int, commands: Sequence[str]) -> str:
        draw = scout.rng.random()
        if draw < 0.3:
            return _nonsense(scout.rng, past, commands)
        knives = [c for c in commands if c.startswith("take") and "knife" in c]
        near = [c for c in commands if c in shared]
        if knives and draw < 0.9:
            command = _pick(knives, scout.rng)
        elif near and draw < 0.4:
            command = _pick(near, scout.rng)
        else:
            kinds = sorted({c.partition(" ")[0] for c in commands} & {*PROVOKING, "go"})
            kind = _pick(kinds, scout.rng)
            command = _pick([c for c in commands if c.partition(" ")[0] == kind], scout.rng)
        past.append(command)
        return command

    return walk


WALKS: dict[str, tuple[Callable[[Scout], Walker], int]] = {
    "random": (random_walk, 12),
    "covering": (covering_walk, 14),
    "expert": (expert_walk, 100),
    "adversarial": (adversarial_walk, 20),
}
"""Kinds of walks and how many steps they take at most."""


def _nonsense(rng: np.random.Generator, past: Sequence[str], commands: Sequence[str]) -> str:
    """Return a command that is no good, was good before, or is good but for how it is written."""
    command = _pick(commands, rng)
    return _pick(
        (
            "",
            "   ",
            "\n",
            f"  {command}\t",
            command.upper(),
            command.replace(" ", "  "),
            command + " 1",
            command[:-1],
            f"{command}\n{command}",
            _pick(past, rng),
            f"go to {'shelf ' * 20_000}1",
            "take mug 99 from shelf 99",
            "go to \N{SNOWMAN} 1",
            "help",
            "put {o} in/on {r}",
        ),
        rng,
    )


def _pick(options: Sequence[str], rng: np.random.Generator) -> str:
    return options[int(rng.integers(len(options)))]


# ---- changed games -----------------------------------------------------------------------------


def harder(text: GameText, rng: np.random.Generator) -> GameText:
    """Return a game that starts in an odd state.

    Some objects have been heated, cooled, cleaned, sliced or switched on, some receptacles are open or
    share a place, some objects are recorded where they are not, and a knife, if there is one, is held.
    """
    problem = parse_problem(text.problem, parse_domain(text.domain))
    facts = sorted(problem.init)
    kinds = dict(problem.objects)
    things = sorted({f[1] for f in facts if f[0] == "pickupable"})
    lamps = sorted({f[1] for f in facts if f[0] == "toggleable"})
    drawers = sorted({f[1] for f in facts if f[0] == "openable"})
    places = sorted(name for name, kind in kinds.items() if kind == "location")
    added: list[Fact] = []
    for predicate in ("ishot", "iscool", "isclean", "issliced"):
        added += [(predicate, thing) for thing in things if rng.random() < 0.2]
    added += [("objectatlocation", thing, _pick(places, rng)) for thing in things if rng.random() < 0.2]
    added += [
        (predicate, lamp) for predicate in ("ison", "istoggled") for lamp in lamps if rng.random() < 0.5
    ]
    added += [("opened", drawer) for drawer in drawers if rng.random() < 0.3]
    moved = _share_places(facts, rng)
    removed = set(moved)
    added += moved.values()
    knives = [f for f in facts if f[0] == "inreceptacle" and f[1].startswith(("knife", "butterknife"))]
    hands = sorted(name for name, kind in kinds.items() if kind == "agent")
    if knives and hands:
        removed.add(knives[0])
        added += [("holds", hands[0], knives[0][1]), ("holdsany", hands[0])]
    return replace(text, problem=_with_init(text.problem, [f for f in facts if f not in removed] + added))


def _share_places(facts: Sequence[Fact], rng: np.random.Generator) -> dict[Fact, Fact]:
    """Return receptacles that move to where another one is."""
    standing = [f for f in facts if f[0] == "receptacleatlocation"]
    moved: dict[Fact, Fact] = {}
    for _ in range(3):
        one, other = (standing[int(rng.integers(len(standing)))] for _ in range(2))
        moved[one] = (one[0], one[1], other[2])
    return moved


def _with_init(problem: str, facts: Sequence[Fact]) -> str:
    """Return a problem with other first facts; its distances and costs stay."""
    at = problem.lower().index("(:init")
    depth, end = 0, at
    for end in range(at, len(problem)):
        depth += {"(": 1, ")": -1}.get(problem[end], 0)
        if depth == 0:
            break
    numbers = re.findall(r"\(=\s*\([^()]*\)\s*[^()\s]+\s*\)", problem[at:end])
    lines = [f"({' '.join(fact)})" for fact in dict.fromkeys(facts)] + numbers
    return f"{problem[:at]}(:init\n{chr(10).join(lines)}\n{problem[end:]}"
