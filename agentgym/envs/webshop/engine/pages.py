"""Page models of the shop, from which text and web pages are rendered.

Nodes and clickables, their order and their texts are those of WebShop (the templates of
``web_agent_site``), with every blank that its text observations show.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol, TypeAlias

from agentgym.envs.webshop.data.products import ListedProduct, Product
from agentgym.envs.webshop.engine.visit import (
    BACK,
    BUY,
    DONE,
    ITEM,
    NEXT,
    PER_PAGE,
    PREVIOUS,
    RESULTS,
    SEARCH,
    START,
    SUB_PAGES,
    Click,
    Visit,
)

NodeKind: TypeAlias = Literal[
    "text", "brand", "label", "instruction", "button", "link", "title", "price", "option-name", "option",
    "fact", "bullet", "advert",
]  # fmt: skip


class Node(NamedTuple):
    """One piece of text on a page."""

    kind: NodeKind
    """``button``, ``link`` and ``option`` can be clicked."""
    text: str
    """Text in the original's page, blanks around it included; empty for an instruction."""
    marked: bool = False
    """A link that was opened, or an option that is chosen."""


class Page(NamedTuple):
    """A page, top to bottom."""

    nodes: tuple[Node, ...]
    clicks: dict[str, Click]
    """Clickable texts in lower case, in the order of the original."""


class ResultPage(Protocol):
    """Source of a page's products."""

    def item(self, asin: str) -> Product:
        """Return the product of a name."""

    def listing(self, index: int) -> ListedProduct:
        """Return the entry of the product of a position."""

    def found(self, query: str) -> Sequence[int]:
        """Return the positions of what a search finds, best first."""


MAX_CACHED_CARDS = 4_096
"""Products that are ready for pages of results."""

ShownAsChosen: TypeAlias = Callable[[Visit], Callable[[str, str], bool]]
"""Function of a visit that returns a test: whether its page shows an option's name and value as chosen."""


def is_chosen(visit: Visit) -> Callable[[str, str], bool]:
    """Return the predicate of chosen values."""
    return lambda name, value: (name, value) in visit.options


def seems_chosen(visit: Visit) -> Callable[[str, str], bool]:
    """Return the predicate of values that the original shows as chosen.

    It looks for the value, quoted, in the page's address. Values with a quote, a backslash or a character
    outside ASCII are never found there; values that equal another option's, a chosen option's name or a
    quoted word of the query are.
    """
    address = f"{visit.query.replace(' ', '+')}/{visit.number}/{json.dumps(dict(visit.options))}"
    return lambda name, value: f'"{value}"' in address


class _Card(NamedTuple):
    """A product on a page of results."""

    fresh: Node
    opened: Node
    title: Node
    price: Node
    text: str
    click: Click


class Pages:
    """Builds pages.

    A page does not depend on the instruction, which has its place in it as a node of its own.
    """

    def __init__(
        self, products: ResultPage, *, show_attributes: bool, hide_score: bool, chosen: ShownAsChosen
    ):
        """Set what pages show.

        ``show_attributes``: whether a product's attributes have a page; ``hide_score``: on the last page;
        ``chosen``: which option values are shown as chosen.
        """
        self._products = products
        self._tabs = SUB_PAGES if show_attributes else SUB_PAGES[:-1]
        self._buttons = (*(_button(tab.capitalize()) for tab in self._tabs), _button("Buy Now"))
        self._hide_score = hide_score
        self._chosen = chosen
        self._card = lru_cache(MAX_CACHED_CARDS)(self._make_card)

    def page(self, visit: Visit) -> Page:
        """Return the page that is open."""
        if visit.page == START:
            nodes = (
                Node("brand", "WebShop"),
                Node("label", "Instruction: "),
                _INSTRUCTION,
                _button("Search"),
            )
            return Page(nodes, {SEARCH: _NOWHERE})
        if visit.page == RESULTS:
            return self._results(visit)
        if visit.page == ITEM:
            return self._item(visit, self._products.item(visit.asin))
        if visit.page == DONE:
            return Page(tuple(self._thanks(visit)), {})
        facts = _facts(visit.page, self._products.item(visit.asin))
        return Page((*_HEAD, _PREVIOUS, *facts), {BACK: _NOWHERE, PREVIOUS: _NOWHERE})

    def _results(self, visit: Visit) -> Page:
        found = self._products.found(visit.query)
        first = PER_PAGE * (visit.number - 1)
        nodes = [*_HEAD, Node("text", f"Page {visit.number} (Total results: {len(found)})")]
        clicks = {BACK: _NOWHERE}
        if visit.number > 1:
            nodes.append(_PREVIOUS)
            clicks[PREVIOUS] = _NOWHERE
        nodes.append(_NEXT)
        clicks[NEXT] = _NOWHERE
        for index in found[first : first + PER_PAGE]:
            fresh, opened, title, price, text, click = self._card(index)
            nodes += (opened if click.asin in visit.visited else fresh, title, price)
            clicks[text] = click
        return Page(tuple(nodes), clicks)

    def _make_card(self, index: int) -> _Card:
        asin, title, price_tag = self._products.listing(index)
        return _Card(
            Node("link", asin),
            Node("link", asin, True),
            Node("title", title),
            Node("price", price_tag),
            asin.lower(),
            Click(asin=asin),
        )

    def _item(self, visit: Visit, item: Product) -> Page:
        nodes = [*_HEAD, _PREVIOUS]
        clicks = dict.fromkeys((BACK, PREVIOUS, *self._tabs, BUY), _NOWHERE)
        chosen = self._chosen(visit)
        for name, values in item.options:
            nodes.append(Node("option-name", name))
            nodes += [Node("option", value, chosen(name, value)) for value in values]
            clicks.update(dict.fromkeys(values, Click(option=name)))
        nodes += (
            Node("title", item.title),
            Node("price", f"Price: {item.price_tag}"),
            Node("text", "Rating: N.A."),
            *self._buttons,
        )
        return Page(tuple(nodes), clicks)

    def _thanks(self, visit: Visit) -> Iterator[Node]:
        """Yield the last page as the original's text observations have it, with what people do not see."""
        yield from _THANKS
        yield from _pair("asin", visit.asin)
        yield from _pair("options", _escaped(json.dumps(dict(visit.options), sort_keys=True)))
        yield from _UNTOLD
        if not self._hide_score:
            yield Node("label", "Reward")
            yield from _pair("Your score (min 0.0, max 1.0)", str(visit.score))
            yield from _pair("Reward Details ", "None")


def _button(text: str) -> Node:
    return Node("button", text)


def _pair(label: str, value: str) -> Iterator[Node]:
    yield Node("label", label)
    if value:
        yield Node("fact", value)


def _facts(page: str, item: Product) -> Iterator[Node]:
    """Yield the lines of a product's sub-page; reviews are not published."""
    if page == "description":
        yield Node("fact", item.description)
    elif page == "features":
        yield from (Node("bullet", f" {bullet}") for bullet in item.bullets)
    elif page == "attributes":
        yield from (Node("bullet", f" {attribute}") for attribute in item.attributes)
        yield from (Node("fact", text) for text in (item.category, item.query, item.product_category))


def _escaped(text: str) -> str:
    """Write JSON as the original's page does: with nothing that has a meaning in HTML."""
    for character in "<>&'":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


_NOWHERE = Click()
_INSTRUCTION = Node("instruction", "")
_PREVIOUS = _button("< Prev")
_NEXT = _button("Next >")
_HEAD = (Node("label", "Instruction:"), _INSTRUCTION, _button("Back to Search"))
_THANKS = (
    Node("brand", "Thank you for shopping with us!"),
    *_pair("Your code: ", "None"),
    Node("label", " (Paste it in your MTurk interface.)"),
    Node("label", "Purchased"),
)
_UNTOLD = (
    *(node for label in ("attrs", "category", "query", "product category") for node in _pair(label, "None")),
    *(
        Node("label", label)
        for label in ("Target", "asin", "options", "attrs", "price upper", "instuction text", "category")
    ),
    Node("label", "product category"),
    Node("label", "query"),
    *_pair("Goal ", "None"),
)
