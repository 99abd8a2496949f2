"""Interactions about joint plans: collaboration, accommodation."""

from __future__ import annotations

from itertools import product

from agentgym.core.rng import KeyRng
from agentgym.envs.sotopia.builtin.drafts import ScenarioDraft, by_role
from agentgym.envs.sotopia.builtin.terms import Terms

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday")
_HALVES = ("morning", "evening")

_MEETINGS = (
    "rehearse a duet", "repair the roof of the boathouse", "prepare a talk", "take stock of the archive",
    "interview a witness", "plan the street festival", "paint the stairwell", "test a rescue drill",
)  # fmt: skip

_LABOURS = (
    "nine rooms of an old house to clear", "nine beehives to move", "nine chapters of a handbook to write",
    "nine stretches of fence to mend", "nine crates of glass to pack", "nine graves to tend",
)  # fmt: skip

PARTS = 9
"""Number of parts of a shared labour."""

_PLACES = (
    "lake hut", "town inn", "hill farm", "old mill", "river camp", "forest lodge", "harbour flat",
    "spa hotel", "cave hostel", "vine cottage",
)  # fmt: skip

_NEEDS = (
    "You cannot climb stairs", "You must not be near animals", "You need a quiet room to sleep at all",
    "You must be within an hour of a hospital", "You cannot stand damp air",
)  # fmt: skip


def collaboration(rng: KeyRng, names: tuple[str, str]) -> ScenarioDraft:
    """Draft a common task: a date by private calendars, or a labour to divide at private cost."""
    return _date(rng, names) if rng.below(2) == 0 else _labour(rng, names)


def _date(rng: KeyRng, names: tuple[str, str]) -> ScenarioDraft:
    slots = tuple(f"{day} {half}" for day, half in product(_DAYS, _HALVES))
    task = rng.pick(_MEETINGS)
    points = [tuple(_hour(rng, 60) for _ in slots) for _ in names]
    wishes = [
        f"Find a time that suits you to {task} together. Only you know your calendar: where the points are "
        "below nothing, you are busy."
        for _ in names
    ]
    return ScenarioDraft(
        f"{names[0]} and {names[1]} have to {task} together, which takes half a day of next week. Each has a "
        "calendar that the other does not see.",
        (wishes[0], wishes[1]),
        Terms(slots, (points[0], points[1]), (0, 0)),
    )


def _hour(rng: KeyRng, free: int) -> int:
    """Return the value of a time to a person who is free in so many percent of cases."""
    return rng.between(1, 12) if rng.below(100) < free else -rng.between(1, 8)


def _labour(rng: KeyRng, names: tuple[str, str]) -> ScenarioDraft:
    labour = rng.pick(_LABOURS)
    rewards = (rng.between(8, 40), rng.between(8, 40))
    costs = (rng.between(2, 6), rng.between(2, 6))
    wishes = [
        f"See the work done without doing too much of it. It is worth {rewards[side]} to you, and each part "
        f"that you do yourself costs you {costs[side]}."
        for side in (0, 1)
    ]
    shares = range(PARTS + 1)
    return ScenarioDraft(
        f"{names[0]} and {names[1]} have {labour}. Terms say how many of the nine {names[0]} does; "
        f"{names[1]} does the others. How hard the work is for each of them only they know.",
        (wishes[0], wishes[1]),
        Terms(
            tuple(f"{names[0].lower()} does {share}" for share in shares),
            (
                tuple(rewards[0] - costs[0] * share for share in shares),
                tuple(rewards[1] - costs[1] * (PARTS - share) for share in shares),
            ),
            (0, 0),
        ),
    )


def accommodation(rng: KeyRng, names: tuple[str, str]) -> ScenarioDraft:
    """Draft a common trip, with private needs on one side and private wishes on the other."""
    needy = rng.below(2)
    places: list[str] = []
    while len(places) < 5:
        place = rng.pick(_PLACES)
        if place not in places:
            places.append(place)
    fit = {place: rng.below(100) < 55 for place in places}
    liked = {place: rng.between(0, 12) for place in places}
    ease = {place: rng.between(4, 9) for place in places}
    chores = (rng.between(1, 4), rng.between(1, 4))  # the cost of driving, for the needy and for the other
    deals = list(product(places, (0, 1)))
    need = tuple(
        (ease[place] if fit[place] else -ease[place]) - chores[0] * (driver == needy)
        for place, driver in deals
    )
    taste = tuple(liked[place] - chores[1] * (driver != needy) for place, driver in deals)
    alone = rng.between(1, 4)
    wants = (
        f"Get a place where you can stay. {rng.pick(_NEEDS)}, and some of the places are out of the "
        "question; you do not like to talk about it. You would also rather not drive."
    )
    likes = (
        "Get the place that you like best; you have no needs, only preferences, and could also go alone. You "
        "would also rather not drive."
    )
    return ScenarioDraft(
        f"{names[0]} and {names[1]} go away for a week together. They choose between the "
        f"{', the '.join(places)}, and one of them has to drive.",
        by_role(needy, wants, likes),
        Terms(
            tuple(f"{place} with {names[driver].lower()} driving" for place, driver in deals),
            by_role(needy, need, taste),
            by_role(needy, 0, alone),
        ),
    )
