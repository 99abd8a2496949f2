"""The policy that buys the best there is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, Protocol

from agentgym.core.policies import SnapshotPolicy
from agentgym.core.tasks import Task
from agentgym.core.types import Request, Snapshot
from agentgym.envs.webshop.data.products import Product
from agentgym.envs.webshop.engine.goals import Goal
from agentgym.envs.webshop.engine.purchases import Purchase, purchases
from agentgym.envs.webshop.engine.visit import (
    BUY,
    ITEM,
    NEXT,
    PER_PAGE,
    PREVIOUS,
    RESULTS,
    SUB_PAGES,
    Visit,
)
from agentgym.envs.webshop.engine.world import ShopWorld

MAX_CACHED_PLANS = 16_384
"""Goals whose plan is kept."""

TRIED = 100
"""Purchases that are tried for one that search leads to."""

_UNSAYABLE = str.maketrans("[]\r\n", "    ")


class ShoppingPlan(NamedTuple):
    """A purchase, and how to come by it."""

    purchase: Purchase
    query: str
    """Query in lower case."""
    page: int
    """Number of the page of results, from 1."""


class WebShopOracle(SnapshotPolicy):
    """Buys the product of the highest score, on the shortest known way from the present page.

    It looks at the goal through the request's snapshot, and plans with the environment's own search:
    the purchase is the best that search leads to, the query that which shows it on the earliest page.
    """

    def __init__(self, world: ShopWorld):
        """Take the world that is played in."""
        self._world = world
        self._plan = lru_cache(MAX_CACHED_PLANS)(self._make_plan)

    def plan(self, goal: Goal) -> ShoppingPlan | None:
        """Return the best purchase that search leads to; None if it leads to none."""
        return self._plan(goal)

    def _choose(self, request: Request, snapshot: Snapshot) -> str:
        goal: Goal = snapshot.task.content
        visit: Visit = snapshot.state.visit
        plan = self._plan(goal)
        if plan is None:
            return f"search[{_sayable(goal.text)}]"
        text = self._click(plan, visit)
        return f"search[{plan.query}]" if text is None else f"click[{text}]"

    def _click(self, plan: ShoppingPlan, visit: Visit) -> str | None:
        """Return the click on the open page; None to search instead."""
        if visit.asin == plan.purchase.asin and visit.page == ITEM:
            chosen = dict(visit.options)
            left = (value for name, value in plan.purchase.options if chosen.get(name) != value)
            return next(left, BUY)
        if visit.asin == plan.purchase.asin and visit.page in SUB_PAGES:
            return PREVIOUS
        if visit.page != RESULTS:
            return None
        if self._page(visit.query, plan.purchase.asin) == visit.number:
            return plan.purchase.asin.lower()
        if visit.query != plan.query or visit.number > 2 * plan.page:
            return None  # searching anew takes fewer steps than going back
        return NEXT if visit.number < plan.page else PREVIOUS

    def _make_plan(self, goal: Goal) -> ShoppingPlan | None:
        for purchase in islice(purchases(self._world, goal), TRIED):
            best: ShoppingPlan | None = None
            for query in _queries(self._world.item(purchase.asin), goal):
                page = self._page(query, purchase.asin)
                if page is not None and (best is None or page < best.page):
                    best = ShoppingPlan(purchase, query, page)
                if page == 1:
                    break
            if best is not None:
                return best
        return None

    def _page(self, query: str, asin: str) -> int | None:
        """Return the page of results on which a product is; None if it is on none."""
        place = self._world.catalogue.index_of(asin)
        found = self._world.found(query)
        return None if place not in found else 1 + found.index(place) // PER_PAGE


class _Shop(Protocol):
    """The part of an environment that the oracle reads; environments import this module."""

    world: ShopWorld

    @property
    def task(self) -> Task: ...


def oracle_texts(env: _Shop) -> Iterator[str]:
    """Yield what the oracle may search for in the task being played, whether or not it was ever shown."""
    goal: Goal = env.task.content
    for purchase in islice(purchases(env.world, goal), TRIED):
        yield from _queries(env.world.item(purchase.asin), goal)


def _queries(product: Product, goal: Goal) -> Iterator[str]:
    """Yield queries that may find a product, simple ones first."""
    yield _sayable(product.title)
    yield _sayable(" ".join((product.title, *goal.attributes)))
    yield _sayable(" ".join((product.query, *goal.attributes)))
    yield _sayable(product.indexed_text)


def _sayable(query: str) -> str:
    """Return a query in the shop's form, without characters that no action can hold."""
    return query.translate(_UNSAYABLE).lower().strip()
