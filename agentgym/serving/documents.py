"""Whole HTML documents around the pages of the shop."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, tostring

from agentgym.envs.webshop.env import WebShopEnv
from agentgym.envs.webshop.html import NODE, page_element, search_field
from agentgym.envs.webshop.session import DONE, START
from agentgym.envs.webshop.view import REJECTED
from agentgym.serving.sitting import Sitting

PLACE = "place"
"""Form field that says which page it was sent from."""

CLICK = "click["
"""What the actions that clicks are begin with."""

_TYPE_TERMS = "The kind of product counts {type:g} of 1: it multiplies the share of what was asked for."


def shop_document(sitting: Sitting[WebShopEnv], place: str, splits: Iterable[str], notice: str = "") -> bytes:
    """Return the page that is open.

    Args:
        sitting: whose.
        place: names it, so that clicks on pages left long ago are known.
        splits: that can be chosen.
        notice: is shown first.
    """
    env = sitting.env
    visit = env.visit
    actions = enumerate(sitting.info["admissible_actions"])
    choices = {action[len(CLICK) : -1]: i for i, action in actions if action.startswith(CLICK)}
    root, body = _document(f"{visit.page.capitalize()}: WebShop")
    _header(body, sitting, place)
    middle = SubElement(body, "main")
    if notice:
        SubElement(middle, "p", {"role": "status", "class": "notice"}).text = notice
    if sitting.over:
        _outcome(middle, sitting, place)
    form = SubElement(middle, "form", {"method": "post", "action": "/act"})
    _hidden(form, place)
    form.append(page_element(visit.page, env.shown(), choices))
    if not sitting.info["action_is_valid"]:
        SubElement(form, "p", {"role": "status", "class": "notice", NODE: "notice"}).text = REJECTED
    _footer(body, sitting, place, splits)
    return _written(root)


def message_document(title: str, text: str) -> bytes:
    """Return a page that says something, with a way back."""
    root, body = _document(title)
    middle = SubElement(body, "main")
    SubElement(middle, "h1").text = title
    SubElement(middle, "p").text = text
    SubElement(SubElement(middle, "p"), "a", {"href": "/"}).text = "Go on shopping"
    return _written(root)


def _document(title: str) -> tuple[Element, Element]:
    root = Element("html", {"lang": "en"})
    head = SubElement(root, "head")
    SubElement(head, "meta", {"charset": "utf-8"})
    SubElement(head, "meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"})
    SubElement(head, "title").text = title
    SubElement(head, "link", {"rel": "stylesheet", "href": "/style.css"})
    return root, SubElement(root, "body")


def _written(root: Element) -> bytes:
    # half surrogate pairs, which no encoding has, become question marks
    return b"<!doctype html>\n" + tostring(root, encoding="unicode", method="html").encode(errors="replace")


def _header(body: Element, sitting: Sitting[WebShopEnv], place: str) -> None:
    header = SubElement(body, "header")
    if sitting.env.visit.page != START:  # which says so itself
        SubElement(header, "strong", {"class": "name"}).text = "WebShop"
    count = f"Step {len(sitting.steps)} of {sitting.env.max_steps}"
    SubElement(header, "span", {"class": "count"}).text = count
    if sitting.env.visit.page not in (START, DONE) and not sitting.over:
        form = SubElement(header, "form", {"method": "post", "action": "/act", "role": "search"})
        _hidden(form, place)
        search_field(form, sitting.env.visit.query)
        SubElement(form, "button", {"type": "submit"}).text = "Search"


def _outcome(parent: Element, sitting: Sitting[WebShopEnv], place: str) -> None:
    """Say how the episode ended; the score is people's alone, agents' pages may keep it."""
    box = SubElement(parent, "section", {"class": "outcome", "aria-label": "How it ended"})
    env, steps = sitting.env, len(sitting.steps)
    title, about = SubElement(box, "h2"), SubElement(box, "p")
    if env.visit.page != DONE:
        title.text = "Nothing bought: score 0"
        about.text = f"The {steps} steps of this task are used up."
    else:
        score, goal = env.world.score(env.visit, env.goal), env.goal
        title.text = f"Score {score.total:.2f} of 1.00"
        about.text = "Just what was asked for." if score.total == 1.0 else "Not quite what was asked for."
        terms = SubElement(box, "ul")
        bought = env.world.item(env.visit.asin)
        price = "within the limit" if score.price else "above the limit"
        for text in (
            f"Bought: {bought.title}" + "".join(f"; {name}: {value}" for name, value in env.visit.options),
            f"Attributes met: {score.attributes} of {len(goal.attributes)}",
            f"Options met: {score.options} of {len(goal.options)}",
            f"Price: {price}",
            _TYPE_TERMS.format(type=score.type),
        ):
            SubElement(terms, "li").text = text
    if sitting.recorded:
        SubElement(box, "p").text = "This episode has been recorded. Thank you!"
    elif sitting.twice:
        SubElement(box, "p").text = "Not recorded: you have played this task before."
    form = SubElement(box, "form", {"method": "post", "action": "/next"})
    _hidden(form, place)
    SubElement(form, "button", {"type": "submit", "class": "buy"}).text = "Next task"


def _footer(body: Element, sitting: Sitting[WebShopEnv], place: str, splits: Iterable[str]) -> None:
    footer = SubElement(body, "footer")
    folded = SubElement(footer, "details")
    SubElement(folded, "summary").text = f"Task {sitting.info['task_id']}, split {sitting.env.tasks.split}"
    form = SubElement(folded, "form", {"method": "get", "action": "/"})
    label = SubElement(form, "label")
    SubElement(label, "span").text = "Split"
    select = SubElement(label, "select", {"name": "split"})
    for split in splits:
        chosen = {"selected": ""} if split == sitting.env.tasks.split else {}
        SubElement(select, "option", {"value": split} | chosen).text = split
    label = SubElement(form, "label")
    SubElement(label, "span").text = "Task, by id or source id (empty: any)"
    SubElement(label, "input", {"name": "task", "autocomplete": "off"})
    SubElement(form, "button", {"type": "submit"}).text = "Play this task"


def _hidden(form: Element, place: str) -> None:
    SubElement(form, "input", {"type": "hidden", "name": PLACE, "value": place})
