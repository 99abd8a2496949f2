"""Candidates: a short list of sensible moves, for tiny models that choose among them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from agentgym.envs.sotopia.actions import NOTHING, SocialAction
from agentgym.envs.sotopia.builtin.moves import ACCEPT, REJECT, exclude, offer, show
from agentgym.envs.sotopia.builtin.partners import LEAVE
from agentgym.envs.sotopia.builtin.terms import Terms, terms_of
from agentgym.envs.sotopia.game import GameState
from agentgym.envs.sotopia.scenarios import Scenario, Side

SIZE = 16
"""Candidates, in any scenario and state."""

QUESTION = SocialAction("speak", "What matters most to you in this?")
INSISTENCE = SocialAction(
    "speak", "I would like us to find an agreement, but I cannot give more than I have."
)


def candidates(scenario: Scenario, side: Side, state: GameState) -> tuple[SocialAction, ...]:
    """Return `SIZE` moves of a side, always in this order, whatever has happened.

    Accept; reject; ask; talk; show each piece of one's evidence; offer each deal, the best for oneself first;
    exclude the worst ones, as many as fill the list; do nothing; leave. The other side's points are not in
    it.

    The list does not depend on the state, so that a place in it keeps its meaning.
    """
    return _candidates(terms_of(scenario), side)


@lru_cache(maxsize=1 << 12)
def _candidates(terms: Terms, side: Side) -> tuple[SocialAction, ...]:
    middle = [action for action, _ in zip(_positions(terms, side), range(SIZE - 6), strict=False)]
    return ACCEPT, REJECT, QUESTION, INSISTENCE, *middle, NOTHING, LEAVE


def _positions(terms: Terms, side: Side) -> Iterator[SocialAction]:
    for number in range(len(terms.evidence[side])):
        yield show(terms, side, number)
    for deal in terms.ranked[side]:
        yield offer(terms, deal)
    for deal in reversed(terms.ranked[side]):
        yield exclude(terms, deal)
