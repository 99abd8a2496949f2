"""Interactions about opinions and knowledge: persuasion, secret keeping."""

from __future__ import annotations

from itertools import product

from agentgym.core.rng import KeyRng
from agentgym.envs.sotopia.builtin.drafts import ScenarioDraft, by_role
from agentgym.envs.sotopia.builtin.phrases import CONCERNS
from agentgym.envs.sotopia.builtin.terms import Exhibit, Terms

_CAUSES = (
    "the night shelter", "the new footbridge", "the village library", "the search dogs",
    "the repair of the organ", "the school's greenhouse", "the flood barrier", "the open-air cinema",
)  # fmt: skip

_PIECES = (
    "ledger", "survey", "photograph", "letter", "diary", "blueprint", "petition", "newspaper", "contract",
    "forecast", "sample", "recording",
)  # fmt: skip

PIECES = 4
"""Number of a persuader's pieces of evidence."""

_FAVOURS = (
    "a lift to the airport", "a week of dog walking", "two concert tickets", "a jar of honey",
    "help with moving", "a borrowed trailer", "a home-cooked dinner", "a repaired bicycle",
    "a day of babysitting", "a good word at work",
)  # fmt: skip

_HINTS = ("small hint", "big hint")


def persuasion(rng: KeyRng, names: tuple[str, str]) -> ScenarioDraft:
    """Draft a request for help, with private evidence and private grounds of conviction."""
    persuader = rng.below(2)
    cause, concern = rng.pick(_CAUSES), rng.pick(CONCERNS)
    step = rng.pick((2, 5, 10))
    hours = tuple(step * i for i in range(1, 7))
    strain = rng.between(1, 3)
    goodwill = rng.between(-4, 9)
    reward, least = rng.between(2, 4), rng.between(0, 9)
    helps = 1 + rng.below(2)
    evidence: list[Exhibit] = []
    while len(evidence) < PIECES:
        name, about = rng.pick(_PIECES), rng.pick(CONCERNS)
        if name in [one.name for one in evidence] or (about == concern) != (len(evidence) < helps):
            continue
        evidence.append(Exhibit(name, about, rng.between(2, 7)))
    evidence.sort(key=lambda one: one.name)
    persuader_goal = (
        f"Get {names[1 - persuader]} to give {cause} as many hours as you can. Find out what would convince "
        f"{names[1 - persuader]}: evidence that does not speak to it only annoys."
    )
    gives = (
        f"Give {cause} no more hours than you find right. You are ready to be convinced, but only by what "
        "matters to you."
    )
    return ScenarioDraft(
        f"{names[persuader]} asks {names[1 - persuader]} to work for {cause}. Terms are hours of work.",
        by_role(persuader, persuader_goal, gives),
        Terms(
            tuple(map(str, hours)),
            by_role(
                persuader,
                tuple(reward * (i + 1) for i in range(len(hours))),
                tuple(goodwill - strain * i for i in range(len(hours))),
            ),
            by_role(persuader, least, 0),
            evidence=by_role(persuader, tuple(evidence), ()),
            concerns=by_role(persuader, "", concern),
        ),
    )


def secret_keeping(rng: KeyRng, names: tuple[str, str]) -> ScenarioDraft:
    """Draft a trade of hints for favours: the one who has a secret must not utter it."""
    keeper = rng.below(2)
    favours: list[str] = []
    while len(favours) < 5:
        favour = rng.pick(_FAVOURS)
        if favour not in favours:
            favours.append(favour)
    risk, news = rng.between(1, 6), rng.between(2, 8)
    more = (rng.between(2, 7), rng.between(2, 7))  # a big hint adds these to risk and news
    use = {favour: rng.between(1, 14) for favour in favours}
    trouble = {favour: rng.between(1, 10) for favour in favours}
    deals = list(product((0, 1), favours))
    keeps = (
        f"{names[1 - keeper]} is after your secret. Never utter it: if any word that gives it away is "
        "uttered, all is lost. A hint that you agree upon will be given later and in writing; get a favour "
        "for it that is worth it, and hint as little as you can."
    )
    pries = (
        f"Learn what {names[keeper]} keeps secret: if {names[keeper]} utters it, you have won. Else get a "
        "hint, the bigger the better, for a favour that is not too much trouble to you."
    )
    return ScenarioDraft(
        f"{names[keeper]} keeps something secret, and {names[1 - keeper]} has noticed. They may agree on a "
        "hint in return for a favour.",
        by_role(keeper, keeps, pries),
        Terms(
            tuple(f"{_HINTS[size]} for {favour}" for size, favour in deals),
            by_role(
                keeper,
                tuple(use[favour] - risk - more[0] * size for size, favour in deals),
                tuple(news + more[1] * size - trouble[favour] for size, favour in deals),
            ),
            (0, 0),
            keeper=keeper,
        ),
    )
