"""Rule-based bargainer, with its side's view: the baseline of reading agents.

It reads its own goal, the points in it and the conversation. It asks once, shows evidence that speaks to what
it was told, then offers the deals that are worth most to itself, one after the other, and asks for less with
every turn; it accepts what is worth as much as it then asks for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from agentgym.core.policies import RequestPolicy
from agentgym.core.types import Policy, Request
from agentgym.envs.sotopia.actions import NOTHING, SocialAction
from agentgym.envs.sotopia.builtin.terms import Exhibit
from agentgym.envs.sotopia.game import GameState
from agentgym.envs.sotopia.scenarios import Side
from agentgym.errors import UnsupportedEnvError, UsageError
from agentgym.vector.core import AgentVectorEnv

SUITE = "sotopia"

DEMANDS = (100, 100, 85, 70, 55, 40, 25, 10)
"""Percent of its greatest gain that it asks for in its first, second, ... turn; the last holds ever after."""

_POINTS = re.compile(r"What terms are worth to you, in points: (.*?); no agreement = (-?\d+)\.")
_EVIDENCE = re.compile(r"Your evidence: (.*?\))\.")
_PIECE = re.compile(r"([^;(]+) \(about (\w+), weight (\d+)\)")
_PARTICIPANTS = re.compile(r"^Participants: (.+) and (.+)$", re.MULTILINE)
_LINE = re.compile(r"^Turn #\d+: (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class OwnTerms:
    """A side's knowledge of the terms: its own part."""

    gains: dict[str, int]
    """Gain of each deal for the side, beyond no deal."""
    exhibits: tuple[Exhibit, ...] = ()

    @classmethod
    def read(cls, goal: str) -> Self:
        """Read the text of a built-in goal.

        Example:
            >>> goal = "What terms are worth to you, in points: 40 = 0; 45 = 5; no agreement = 1."
            >>> OwnTerms.read(goal).gains
            {'40': -1, '45': 4}
        """
        found = _POINTS.search(goal)
        if found is None:
            raise UsageError(
                f"no points in the goal {goal[:60]!r}: the agent 'rules' plays built-in scenarios alone"
            )
        without = int(found[2])
        points = (entry.rpartition(" = ") for entry in found[1].split("; "))
        shown = _EVIDENCE.search(goal)
        exhibits = (
            ()
            if shown is None
            else tuple(
                Exhibit(name.strip(), about, int(weight)) for name, about, weight in _PIECE.findall(shown[1])
            )
        )
        return cls({name: int(worth) - without for name, _, worth in points}, exhibits)


def choose(own: OwnTerms, mine: Sequence[SocialAction], theirs: Sequence[SocialAction]) -> SocialAction:
    """Return the next action of a side.

    ``mine`` and ``theirs``: the actions so far.
    """
    moves = [action.argument.lower() for action in theirs if action.type == "action"]
    if "accept" in moves or SocialAction("action", "accept") in mine:
        return SocialAction("leave")
    offers = [move.removeprefix("offer ") for move in moves if move.startswith("offer ")]
    standing = offers[-1] if offers else ""  # this agent rejects nothing
    most = max(own.gains.values())
    demand = DEMANDS[min(len(mine), len(DEMANDS) - 1)] * most / 100
    if standing in own.gains and own.gains[standing] >= max(demand, 1):
        return SocialAction("action", "accept")
    if not mine:
        return SocialAction("speak", "What matters most to you in this?")
    exhibit = _exhibit(own, mine, theirs)
    if exhibit is not None:
        return SocialAction("action", f"show {exhibit.name}")
    excluded = {move.removeprefix("exclude ") for move in moves if move.startswith("exclude ")}
    wanted = [name for name, gain in own.gains.items() if gain >= max(demand, 1) and name not in excluded]
    if not wanted:
        wanted = [name for name, gain in own.gains.items() if gain > 0 and name not in excluded]
    if not wanted:
        return SocialAction("leave")
    return SocialAction("action", f"offer {_next(own, wanted, mine)}")


def _next(own: OwnTerms, wanted: Sequence[str], mine: Sequence[SocialAction]) -> str:
    """Return a deal that was not offered yet, the best for itself first; else the one that is worth least."""
    offered = {action.argument.removeprefix("offer ") for action in mine if action.type == "action"}
    ranked = sorted(wanted, key=lambda name: -own.gains[name])
    return next((name for name in ranked if name not in offered), ranked[-1])


def _exhibit(own: OwnTerms, mine: Sequence[SocialAction], theirs: Sequence[SocialAction]) -> Exhibit | None:
    """Return evidence to show: what speaks to a concern that the other named, the weightiest first."""
    shown = {action.argument.removeprefix("show ") for action in mine if action.type == "action"}
    speech = " ".join(action.argument.lower() for action in theirs if action.type == "speak")
    relevant = [one for one in own.exhibits if one.name not in shown and one.about in speech]
    return max(relevant, key=lambda one: one.weight, default=None)


def sides(state: GameState, side: Side) -> tuple[list[SocialAction], list[SocialAction]]:
    """Return the actions of a side, and of the other, in their turns."""
    mine = [turn.actions[side] for turn in state.turns if side in turn.acting]
    return mine, [turn.actions[1 - side] for turn in state.turns if 1 - side in turn.acting]


def make_bargainer(envs: AgentVectorEnv) -> Policy:
    """Make the agent ``rules`` of this suite."""
    if envs.prototype.suite != SUITE:
        raise UnsupportedEnvError(
            f"the agent 'bargainer' plays SOTOPIA, not {type(envs.prototype).__name__}; use the agent 'rules'"
        )
    if envs.tasks[0].content.scenario.terms is None:
        raise UnsupportedEnvError("the agent 'rules' plays built-in scenarios alone, whose goals have points")
    return BargainerPolicy()


class BargainerPolicy(RequestPolicy):
    r"""Bargains by rule. It remembers nothing: all follows from the request's observation.

    Where actions are enumerated, what it would do and is not listed becomes doing nothing.

    Example:
        >>> page = (
        ...     "Participants: Ann Lee and Bo Lee\n"
        ...     "Ann Lee's goal: What terms are worth to you, in points: 40 = 0; 45 = 5; no agreement = 0.\n"
        ...     "Bo Lee's goal: Unknown\n"
        ...     "Turn #0: Ann Lee said: \"Hello?\"\n"
        ...     "Turn #1: Bo Lee [action] offer 45"
        ... )
        >>> request = Request(episode=0, task_id="t", task_type="", turn=1, observation=page, seed=7,
        ...                   admissible_actions=("action[<move>]",), state_hash="0")
        >>> BargainerPolicy().act([request])[0].action
        'action[accept]'
    """

    def _action(self, request: Request) -> str:
        own, mine, theirs = read_page(request.observation, request.extra.get("side"))
        action = choose(own, mine, theirs).written
        listed = request.admissible_actions
        return action if action in listed or any("<" in one for one in listed) else NOTHING.written


def read_page(page: str, side: Side | None = None) -> tuple[OwnTerms, list[SocialAction], list[SocialAction]]:
    """Read a side's page: its terms, its actions, and the other's actions.

    The page is as `agentgym.envs.sotopia.views` writes it; ``side`` None is the one whose goal it holds.
    """
    people = _PARTICIPANTS.search(page)
    if people is None:
        raise UsageError(
            "the page names no participants: the agent 'rules' reads the observations of Sotopia-v0"
        )
    goals = [_goal(page, name) for name in people.groups()]
    if side is None:
        side = 1 if goals[0] == "Unknown" else 0
    done: dict[str, list[SocialAction]] = {name: [] for name in people.groups()}
    for line in _LINE.findall(page):
        for name in done:
            if line.startswith(f"{name} "):
                done[name].append(_read_line(line.removeprefix(f"{name} ")))
    return OwnTerms.read(goals[side]), done[people[1 + side]], done[people[2 - side]]


def _goal(page: str, name: str) -> str:
    found = re.search(rf"^{re.escape(name)}'s goal: (.*)$", page, re.MULTILINE)
    return "Unknown" if found is None else found[1]


def _read_line(line: str) -> SocialAction:
    """Return the action that a line of the conversation tells."""
    if line.startswith("said: "):
        try:
            return SocialAction("speak", str(json.loads(line.removeprefix("said: "))))
        except ValueError:
            return SocialAction("speak", line.removeprefix("said: "))
    if line.startswith("[action] "):
        return SocialAction("action", line.removeprefix("[action] "))
    if line.startswith("[non-verbal communication] "):
        return SocialAction("non-verbal communication", line.removeprefix("[non-verbal communication] "))
    return SocialAction("leave") if line == "left the conversation" else NOTHING
