"""Conversations of built-in scenarios, for tests."""

from dataclasses import replace
from functools import cache

from agentgym.envs.sotopia.actions import SocialAction
from agentgym.envs.sotopia.builtin.partners import ScriptedPartner
from agentgym.envs.sotopia.builtin.scenarios import KINDS, scenarios
from agentgym.envs.sotopia.builtin.terms import Exhibit, Terms
from agentgym.envs.sotopia.game import SocialGame
from agentgym.envs.sotopia.scenarios import Character, Scenario

GAME = SocialGame("round-robin", "acting-agents")

SALE = Terms(
    ("40", "45", "50", "55", "60"),
    ((-3, 2, 7, 12, 17), (17, 12, 7, 2, -3)),
    (0, 0),
    secrets=(("quilt", "mossgate"), ("zither",)),
    limits=("43", "57"),
    material=True,
)
"""Side 0 sells, at 43 or more; side 1 buys, at 57 or less. 45, 50 and 55 bring both something."""

REQUEST = Terms(
    ("1", "2", "3"),
    ((2, 4, 6), (-1, -3, -5)),
    (1, 0),
    evidence=((Exhibit("ledger", "cost", 4), Exhibit("letter", "safety", 5)), ()),
    concerns=("", "cost"),
)
"""Side 0 asks side 1 for hours, and can convince it by the ledger alone: of 1, 2 or 3, if that is shown."""


def scenario_of(terms):
    """Return a scenario that is nothing but its terms."""
    ann, bo = (Character(name, name, "Lee", 30, "", "", "") for name in ("Ann", "Bo"))
    return Scenario("0" * 32, "A room.", ("Win.", "Win."), 3, (ann, bo), "test", "", terms)


def act(text):
    """Return an action from a short form: a binding move, or words after ``:``."""
    if text.startswith(":"):
        return SocialAction("speak", text[1:])
    return SocialAction(text) if text in ("none", "leave") else SocialAction("action", text)


def talk(*actions, game=GAME):
    """Return the conversation in which these things are done, in turn."""
    state = game.initial()
    for text in actions:
        state = game.apply(state, game.to_act(state)[0], act(text))
    return state


def play(scenario, side, temperament, move, game=GAME):
    """Return the conversation of a side that moves as ``move(scenario, side, state)`` says with a partner."""
    partner, state = ScriptedPartner(temperament), game.initial()
    while not game.over(state):
        actor = game.to_act(state)[0]
        chosen = move(scenario, side, state) if actor == side else partner.reply(scenario, actor, state)
        state = game.apply(state, actor, chosen)
    return state


@cache
def some(split, each=4):
    """Return the first scenarios of a split, so many of each kind."""
    return [scenarios(split)[number] for number in range(each * len(KINDS))]


def without_other(scenario, side, *, evidence=()):
    """Return a scenario in which everything private of the other side is something else.

    Its evidence is as given: what it may show is known once it is shown.
    """
    terms = scenario.terms

    def swapped(pair, value):
        return (value, pair[1]) if side == 1 else (pair[0], value)

    goal = "Something else."
    return replace(
        scenario,
        goals=swapped(scenario.goals, goal),
        terms=replace(
            terms,
            points=swapped(terms.points, tuple(-7 for _ in terms.deals)),
            without=swapped(terms.without, 99),
            evidence=swapped(terms.evidence, evidence),
            concerns=swapped(terms.concerns, "nothing"),
            secrets=swapped(terms.secrets, ("nothing",)),
            limits=swapped(terms.limits, "0"),
        ),
    )
