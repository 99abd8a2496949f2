"""A visit to the shop: the open page, and the transitions between pages.

The rules follow WebShop (``web_agent_site/envs/web_agent_text_env.py``); pages and what can be clicked on
them are in `agentgym.envs.webshop.engine.pages`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

START: Final = "start"
RESULTS: Final = "results"
ITEM: Final = "item"
DONE: Final = "done"

SUB_PAGES: Final = ("description", "features", "reviews", "attributes")
"""Pages that an item page leads to; each is named as its button."""

BUY: Final = "buy now"
BACK: Final = "back to search"
NEXT: Final = "next >"
PREVIOUS: Final = "< prev"
SEARCH: Final = "search"
"""The search bar's button; it does nothing without a query."""

PER_PAGE: Final = 10
"""Products of a page of results."""


class Visit(NamedTuple):
    """State of a visit, which decides its future.

    Example:
        >>> Visit().page, Visit().options
        ('start', ())
    """

    page: str = START
    """`START`, `RESULTS`, `ITEM`, one of `SUB_PAGES`, or `DONE`."""
    query: str = ""
    """The search that led here."""
    number: int = 0
    """Number of the page of results, from 1; 0 before a search."""
    asin: str = ""
    """The product that is open or bought."""
    options: tuple[tuple[str, str], ...] = ()
    """Options that are chosen, name and value, by name."""
    visited: tuple[str, ...] = ()
    """Products opened since the start page, sorted."""
    score: float = 0.0
    """Score of the purchase; 0 before it."""


class Click(NamedTuple):
    """Kind of a clickable text on its page."""

    asin: str = ""
    """The product it opens; empty where it opens none."""
    option: str = ""
    """The option it is a value of; empty where it is none."""


def parse(action: str) -> tuple[str, str] | None:
    r"""Split an action into its name and its argument, which is taken in lower case.

    As the original's ``(.+)\[(.+)\]`` finds them: within the first line, the argument goes from the last
    ``[`` that has one to the last ``]``. Searching for the two takes linear time, which the pattern does not.

    Example:
        >>> parse("search[Red Shoes]"), parse("click[a[b]"), parse("buy")
        (('search', 'red shoes'), ('click[a', 'b'), None)
    """
    line, _, _ = action.partition("\n")
    close = line.rfind("]")
    opening = line.rfind("[", 1, max(close - 1, 0))
    return None if opening < 0 else (line[:opening], line[opening + 1 : close].lower())


def searched(visit: Visit, query: str, number: int = 1) -> Visit:
    """Return the visit at a page of results: what was open and chosen is left behind."""
    return Visit(RESULTS, query, number, visited=visit.visited)


def clicked(visit: Visit, text: str, click: Click, buy: Callable[[Visit], float]) -> Visit:
    """Return the visit after a click.

    ``text``: in lower case, and not `SEARCH`; ``click``: its kind on the open page; ``buy`` scores the
    purchase.
    """
    if text == BUY:
        return visit._replace(page=DONE, score=buy(visit))
    if text == BACK:
        return Visit()
    if visit.page == RESULTS and text in (NEXT, PREVIOUS):
        return searched(visit, visit.query, visit.number + (1 if text == NEXT else -1))
    if text == PREVIOUS:
        return searched(visit, visit.query, visit.number) if visit.page == ITEM else visit._replace(page=ITEM)
    if text in SUB_PAGES:
        return visit._replace(page=text)
    if click.asin:
        visited = tuple(sorted({*visit.visited, click.asin}))
        return visit._replace(page=ITEM, asin=click.asin, visited=visited)
    return visit._replace(options=tuple(sorted({**dict(visit.options), click.option: text}.items())))
