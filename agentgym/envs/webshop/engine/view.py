"""Observations and admissible actions of each page, made once and shared by episodes."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from agentgym.core.rng import KeyRng
from agentgym.envs.webshop.engine.noise import Noise
from agentgym.envs.webshop.engine.pages import Page, Pages, is_chosen, seems_chosen
from agentgym.envs.webshop.engine.text import RENDERERS, SEPARATOR, Mode
from agentgym.envs.webshop.engine.visit import DONE, ITEM, RESULTS, SEARCH, START, Click, Visit
from agentgym.envs.webshop.engine.world import ShopWorld

WebShopParity: TypeAlias = Literal["upstream"]
"""Code whose pages are shown exactly, quirks included."""

SEARCH_TEMPLATE = "search[<query>]"

REJECTED = "That action is not possible here."
"""Line added to an observation after a rejected action; the original adds nothing."""

MAX_CACHED_VIEWS = 4_096
"""Pages whose text is kept: some ten megabytes at most."""

_PLACE = "\ue000instruction\ue000"
"""Placeholder of the instruction in cached pages."""


class Shown(NamedTuple):
    """A page as it is shown, but for the instruction."""

    before: str
    """The text up to the instruction."""
    after: str
    """The text from it on; empty on a page without instruction."""
    clicks: dict[str, Click]
    """Clickable texts, without the search bar's button."""
    actions: tuple[str, ...]
    """Accepted actions, queries as a template."""


class ShopView:
    """Shows pages in one of the ways there are.

    It makes each page's text from the parts of a visit that the page depends on, and keeps it.
    """

    def __init__(
        self,
        world: ShopWorld,
        mode: Mode,
        parity: WebShopParity | None,
        hide_score: bool | None,
        show_attributes: bool,
    ):
        """Set what is shown.

        ``parity`` ``"upstream"`` shows as chosen what the original shows as chosen, and nothing where an
        action was rejected. ``hide_score`` None hides the score on the last page, but for ``parity``.
        ``show_attributes``: whether a product's attributes have a page.
        """
        upstream = parity is not None
        self._pages = Pages(
            world,
            show_attributes=show_attributes,
            hide_score=not upstream if hide_score is None else hide_score,
            chosen=seems_chosen if upstream else is_chosen,
        )
        self._render = RENDERERS[mode]
        self._rich = mode == "text_rich"
        self._upstream = upstream
        self._cached_page = lru_cache(MAX_CACHED_VIEWS)(self._make)

    def page(self, visit: Visit) -> Page:
        """Return the model of the page that is open."""
        return self._pages.page(visit)

    def shown(self, visit: Visit) -> Shown:
        """Return the page that is open, as it is shown."""
        return self._cached_page(self._relevant(visit))

    def text(self, shown: Shown, instruction: str) -> str:
        """Return the observation of a page."""
        before, after, _, _ = shown
        return f"{before}{instruction if self._rich else instruction.strip()}{after}" if after else before

    def noisy(self, visit: Visit, instruction: str, noise: Noise, draws: KeyRng) -> str:
        """Return the observation, perhaps with advertisements."""
        return self._render(noise.spread(self._pages.page(visit).nodes, draws), instruction)

    def rejected(self, text: str) -> str:
        """Return the observation of a rejected action, with a notice in views that have one."""
        if self._upstream:
            return text
        return f"{text}{REJECTED}\n" if self._rich else f"{text}{SEPARATOR}{REJECTED}"

    def _make(self, visit: Visit) -> Shown:
        page = self._pages.page(visit)
        before, _, after = self._render(page.nodes, _PLACE).partition(_PLACE)
        clicks = page.clicks
        clicks.pop(SEARCH, None)  # the page is new: nobody else holds it
        # an argument of an action has no bracket that opens, and no line break
        listed = [f"click[{text}]" for text in clicks if text and "[" not in text and "\n" not in text]
        return Shown(before, after, clicks, () if visit.page == DONE else (SEARCH_TEMPLATE, *listed))

    def _relevant(self, visit: Visit) -> Visit:
        """Return the visit without what the open page does not depend on."""
        page, query, number, asin, options, visited, score = visit
        if page == START:
            return _START
        if page == RESULTS:
            return Visit(page, query, number, visited=visited if self._rich else ())
        if page == ITEM:
            if not self._rich:
                return Visit(page, asin=asin)
            if self._upstream:
                return Visit(page, query, number, asin, options)
            return Visit(page, asin=asin, options=options)
        if page == DONE:
            return Visit(page, asin=asin, options=options, score=score)
        return Visit(page, asin=asin)


_START = Visit()
