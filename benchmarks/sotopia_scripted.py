"""What agents reach in SOTOPIA's built-in scenarios: ``python -m benchmarks.sotopia_scripted``.

Floor, rules and oracle by kind of interaction, split and partner, over both sides; and how many utterances a
second of one core game, partner and judge come to over whole episodes. No model is asked.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from statistics import mean, quantiles
from time import process_time
from typing import NamedTuple, TypeAlias

from agentgym.core.rng import KeyRng
from agentgym.envs.sotopia.actions import SocialAction
from agentgym.envs.sotopia.builtin.candidates import candidates
from agentgym.envs.sotopia.builtin.judge import rate
from agentgym.envs.sotopia.builtin.optimum import oracle_action
from agentgym.envs.sotopia.builtin.partners import ScriptedPartner
from agentgym.envs.sotopia.builtin.scenarios import HARD, KINDS, scenarios
from agentgym.envs.sotopia.builtin.temperaments import NAMES, Temperament
from agentgym.envs.sotopia.game import GameState, SocialGame
from agentgym.envs.sotopia.rules import OwnTerms, choose, sides
from agentgym.envs.sotopia.scenarios import Scenario, Side
from benchmarks.speed.report import machine

PAGE = Path(__file__).with_suffix(".md")
SPLITS = ("test", HARD)
GAME = SocialGame("round-robin", "acting-agents")
ROUNDS = 9
SIDES: tuple[Side, Side] = (0, 1)

Mover: TypeAlias = Callable[[Scenario, Side, GameState], SocialAction]


class Played(NamedTuple):
    """An episode's outcome."""

    split: str
    kind: str
    partner: Temperament
    agent: str
    goal: int
    utterances: int


def mover(agent: str, partner: Temperament, key: tuple[int, ...]) -> Mover:
    """Return what an agent does; chance is drawn by a key."""
    rng = KeyRng(*key)
    movers: dict[str, Mover] = {
        "words": lambda *_: SocialAction("speak", f"{rng.below(1 << 30)}, is it not?"),
        "random": lambda *where: rng.pick(candidates(*where)),
        "rules": lambda scenario, side, state: choose(
            OwnTerms.read(scenario.goals[side]), *sides(state, side)
        ),
        "oracle": lambda scenario, side, state: oracle_action(scenario, side, partner, state),
    }
    return movers[agent]


AGENTS = ("words", "random", "rules", "oracle")


def talk(scenario: Scenario, side: Side, partner: Temperament, move: Mover) -> GameState:
    """Return a whole conversation."""
    script, state = ScriptedPartner(partner), GAME.initial()
    while not GAME.over(state):
        actor = GAME.to_act(state)[0]
        action = move(scenario, side, state) if actor == side else script.reply(scenario, actor, state)
        state = GAME.apply(state, actor, action)
    return state


def episodes(split: str, count: int) -> Iterator[Played]:
    """Play the first scenarios of a split with every partner, from both sides."""
    for number, side, (place, partner) in product(range(count), SIDES, enumerate(NAMES)):
        scenario = scenarios(split)[number]
        for agent in AGENTS:
            state = talk(scenario, side, partner, mover(agent, partner, (number, side, place)))
            goal = rate(scenario, state)[side].goal
            yield Played(split, scenario.kind, partner, agent, goal, len(state.turns))


def table(played: list[Played], heading: str, value: Callable[[Played], str], rows: list[str]) -> list[str]:
    """Return the mean goals of all agents by a property of episodes, for both splits."""
    columns = list(product(SPLITS, AGENTS))
    lines = [
        f"| {heading} | " + " | ".join(f"{split}: {agent}" for split, agent in columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    for row in rows:
        means = [
            mean(
                one.goal for one in played if (one.split, one.agent) == column and row in ("all", value(one))
            )
            for column in columns
        ]
        lines.append(f"| {row} | " + " | ".join(f"{figure:.2f}" for figure in means) + " |")
    return lines


def speeds(agent: str) -> list[float]:
    """Return utterances a processor-second, by round; a round is 280 episodes, ratings included."""
    found = []
    for _ in range(ROUNDS):
        count, begun = 0, process_time()
        for number, side, partner in product(range(70), SIDES, NAMES[:2]):
            scenario = scenarios("test")[number]
            state = talk(scenario, side, partner, mover(agent, partner, (number, side)))
            rate(scenario, state)
            count += len(state.turns)
        found.append(count / (process_time() - begun))
    return found


def main() -> None:
    """Play, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="scenarios of each split")
    count = parser.parse_args().count
    played = [one for split in SPLITS for one in episodes(split, count)]
    lines = ["# SOTOPIA's built-in scenarios, played by scripts", ""]
    lines += [
        f"`python -m benchmarks.sotopia_scripted`: mean goals, 0 to 10, over the first {count} scenarios "
        "of each split, both sides and all partners. `words` talks and does nothing else, `random` chooses "
        "among the candidates, `rules` is the rule-based agent, `oracle` plays the optimum.",
        "",
    ]
    lines += [*table(played, "kind", lambda one: one.kind, ["all", *KINDS]), ""]
    lines += [*table(played, "partner", lambda one: one.partner, list(NAMES)), ""]
    lines += [f"Utterances a second, on {machine()['cpu']}; median and quartiles of {ROUNDS} rounds:", ""]
    lines += ["| agent | median | quartiles |", "|---|---:|---:|"]
    for agent in ("words", "random"):
        low, middle, high = quantiles(speeds(agent), n=4)
        lines.append(f"| {agent} | {middle:,.0f} | {low:,.0f} to {high:,.0f} |")
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
