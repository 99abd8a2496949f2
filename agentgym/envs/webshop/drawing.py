"""WebShop drawing for people: the open page, as the suite's site shows it, and the goal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from xml.etree.ElementTree import Element as XmlElement

from agentgym.core.markup import Element, element
from agentgym.core.suite_spec import SuiteDrawing
from agentgym.core.types import Step
from agentgym.envs.webshop.engine.goals import NO_LIMIT
from agentgym.envs.webshop.engine.view import REJECTED
from agentgym.envs.webshop.engine.visit import DONE
from agentgym.envs.webshop.env import WebShopEnv, WebShopState
from agentgym.envs.webshop.site.html import NODE, page_element

CLICK: Final = "click["

_TAGS: Final[Mapping[str, str]] = {
    "h1": "h3",
    "button": "span",
    "fieldset": "div",
    "legend": "strong",
    "label": "div",
    "input": "span",
}
"""Elements of the site that do something, and what stands for them in a picture of it."""


def draw_page(env: WebShopEnv, steps: Sequence[Step]) -> Element:
    """Draw the page that is open; after a purchase, its score and the reasons."""
    actions = enumerate(env.admissible_actions())
    choices = {action[len(CLICK) : -1]: n for n, action in actions if action.startswith(CLICK)}
    page = page_element(env.visit.page, env.shown(), choices)
    return element(
        "div",
        _drawn(page),
        _purchase(env) if env.visit.page == DONE else None,
        _wanted(env),
        class_="shop",
    )


def _drawn(part: XmlElement) -> Element:
    """Return an element of the site without what makes it work."""
    classes = part.get("class", "").split()
    if part.tag in ("button", "input"):
        classes.append("button" if part.tag == "button" else "field")
    if kind := part.get(NODE):
        classes.append(f"node-{kind}")
    if part.get("aria-pressed") == "true":
        classes.append("chosen")
    if "disabled" in part.attrib:
        classes.append("off")
    children: list[Element | str] = [part.text] if part.text else []
    for child in part:
        children.append(_drawn(child))
        if child.tail:
            children.append(child.tail)
    if part.tag == "input":
        children.append(part.get("value", ""))
    return element(_TAGS.get(part.tag, part.tag), *children, class_=" ".join(classes) or None)


def _purchase(env: WebShopEnv) -> Element:
    """Describe the goal's requirements that the purchase met."""
    score, goal, bought = env.world.score(env.visit, env.goal), env.goal, env.world.item(env.visit.asin)
    met = {
        "Attributes": f"{score.attributes} of {len(goal.attributes)}",
        "Options": f"{score.options} of {len(goal.options)}",
        "Price": "within the limit" if score.price else "above the limit",
        "Kind of product": f"{score.type:g} of 1",
    }
    return element(
        "section",
        element("h3", f"Score {score.total:.2f}", class_="good" if score.total == 1.0 else "bad"),
        element("p", f"Bought: {bought.title}"),
        element(
            "table",
            *(element("tr", element("th", name), element("td", value)) for name, value in met.items()),
        ),
        class_="card",
    )


def _wanted(env: WebShopEnv) -> Element:
    """Describe the scored goal, which the agent does not see."""
    goal = env.goal
    options = [each if isinstance(each, str) else ": ".join(each) for each in goal.options]
    limit = [] if goal.price_upper == NO_LIMIT else [f"price below ${goal.price_upper:.2f}"]
    terms = [*goal.attributes, *options, *limit]
    return element(
        "details",
        element("summary", "What the purchase is scored by (not shown to the agent)"),
        element("ul", *(element("li", term) for term in terms)),
    )


def side_texts(env: WebShopEnv) -> tuple[str, ...]:
    """Return the advertisements of the page, earlier pages and actions, and the notice of a rejection."""
    state: WebShopState = env.snapshot().state
    adverts = [text.strip() for node, text in env.shown() if node.kind == "advert"]
    return (*adverts, *(text for text in _texts(state.past) if text), REJECTED)


def _texts(value: object) -> list[str]:
    """Return the texts in a nested tuple."""
    if isinstance(value, str):
        return [value]
    return [text for part in value for text in _texts(part)] if isinstance(value, tuple) else []


DRAWING = SuiteDrawing(draw_page, side_texts)
