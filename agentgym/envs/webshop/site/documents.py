"""HTML documents of the shop: the pages with header, forms and outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from xml.etree.ElementTree import Element, SubElement, tostring

from agentgym.envs.webshop.engine.session import DONE, START
from agentgym.envs.webshop.engine.view import REJECTED
from agentgym.envs.webshop.env import WebShopEnv
from agentgym.envs.webshop.site.html import CHOICE, NODE, QUERY, page_element, search_field
from agentgym.errors import UsageError
from agentgym.suites import PLACE, SitePages

MOST_DIGITS = 20
"""Of a number in a form."""

CLICK = "click["
"""What the actions that clicks are begin with."""

_TYPE_TERMS = "The kind of product counts {type:g} of 1: it multiplies the share of what was asked for."


class ShopSession(Protocol):
    """What the pages show of a person's episode; `agentgym.serving.session.PlaySession` is one."""

    @property
    def env(self) -> WebShopEnv:
        """What is played."""

    @property
    def info(self) -> Mapping[str, Any]:
        """The last info."""

    @property
    def steps(self) -> Sequence[Any]:
        """The episode's steps so far."""

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""

    @property
    def recorded(self) -> bool:
        """Whether the episode is in a recording."""

    @property
    def twice(self) -> bool:
        """Whether the task has been recorded before."""


def shop_document(session: ShopSession, place: str, splits: Iterable[str], notice: str = "") -> bytes:
    """Return the page that is open.

    Args:
        session: whose.
        place: names it, so that clicks on pages left long ago are known.
        splits: that can be chosen.
        notice: is shown first.
    """
    env = session.env
    visit = env.visit
    actions = enumerate(session.info["admissible_actions"])
    choices = {action[len(CLICK) : -1]: i for i, action in actions if action.startswith(CLICK)}
    root, body = _document(f"{visit.page.capitalize()}: WebShop")
    _header(body, session, place)
    middle = SubElement(body, "main")
    if notice:
        SubElement(middle, "p", {"role": "status", "class": "notice"}).text = notice
    if session.over:
        _outcome(middle, session, place)
    form = SubElement(middle, "form", {"method": "post", "action": "/act"})
    _hidden(form, place)
    form.append(page_element(visit.page, env.shown(), choices))
    if not session.info["action_is_valid"]:
        SubElement(form, "p", {"role": "status", "class": "notice", NODE: "notice"}).text = REJECTED
    _footer(body, session, place, splits)
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


def _header(body: Element, session: ShopSession, place: str) -> None:
    header = SubElement(body, "header")
    if session.env.visit.page != START:  # which says so itself
        SubElement(header, "strong", {"class": "name"}).text = "WebShop"
    count = f"Step {len(session.steps)} of {session.env.max_steps}"
    SubElement(header, "span", {"class": "count"}).text = count
    if session.env.visit.page not in (START, DONE) and not session.over:
        form = SubElement(header, "form", {"method": "post", "action": "/act", "role": "search"})
        _hidden(form, place)
        search_field(form, session.env.visit.query)
        SubElement(form, "button", {"type": "submit"}).text = "Search"


def _outcome(parent: Element, session: ShopSession, place: str) -> None:
    """Say how the episode ended; the score is people's alone, agents' pages may keep it."""
    box = SubElement(parent, "section", {"class": "outcome", "aria-label": "How it ended"})
    env, steps = session.env, len(session.steps)
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
    if session.recorded:
        SubElement(box, "p").text = "This episode has been recorded. Thank you!"
    elif session.twice:
        SubElement(box, "p").text = "Not recorded: you have played this task before."
    form = SubElement(box, "form", {"method": "post", "action": "/next"})
    _hidden(form, place)
    SubElement(form, "button", {"type": "submit", "class": "buy"}).text = "Next task"


def _footer(body: Element, session: ShopSession, place: str, splits: Iterable[str]) -> None:
    footer = SubElement(body, "footer")
    folded = SubElement(footer, "details")
    SubElement(folded, "summary").text = f"Task {session.info['task_id']}, split {session.env.tasks.split}"
    form = SubElement(folded, "form", {"method": "get", "action": "/"})
    label = SubElement(form, "label")
    SubElement(label, "span").text = "Split"
    select = SubElement(label, "select", {"name": "split"})
    for split in splits:
        chosen = {"selected": ""} if split == session.env.tasks.split else {}
        SubElement(select, "option", {"value": split} | chosen).text = split
    label = SubElement(form, "label")
    SubElement(label, "span").text = "Task, by id or source id (empty: any)"
    SubElement(label, "input", {"name": "task", "autocomplete": "off"})
    SubElement(form, "button", {"type": "submit"}).text = "Play this task"


def _hidden(form: Element, place: str) -> None:
    SubElement(form, "input", {"type": "hidden", "name": PLACE, "value": place})


def requested_action(fields: Mapping[str, str], admissible: tuple[str, ...]) -> str:
    """Return the action that a form asks for.

    Raises:
        UsageError: it asks for none.
    """
    if QUERY in fields:
        return f"search[{fields[QUERY].strip()}]"
    choice = fields.get(CHOICE, "")
    written = choice.isascii() and choice.isdigit() and len(choice) <= MOST_DIGITS
    if written and int(choice) < len(admissible):
        action = admissible[int(choice)]
        if action.startswith(CLICK):
            return action
    raise UsageError("that form asks for nothing: go back to the shop and click there")


PAGES = SitePages(
    env_id="agentgym/WebShop-v0",
    title="WebShop",
    style=Path(__file__).with_name("style.css").read_bytes(),
    page=shop_document,
    message=message_document,
    action=requested_action,
)
