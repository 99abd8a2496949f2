"""HTML documents of the shop: the pages with header, forms and outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from xml.etree.ElementTree import Element, SubElement, tostring

from agentgym.core.suite_spec import PLACE, PageFrame, SitePages
from agentgym.envs.webshop.engine.view import REJECTED
from agentgym.envs.webshop.engine.visit import DONE, PER_PAGE, RESULTS, START
from agentgym.envs.webshop.env import WebShopEnv
from agentgym.envs.webshop.site.html import CHOICE, NODE, QUERY, page_element, search_field
from agentgym.envs.webshop.source import splits_with_tasks
from agentgym.errors import UsageError

MAX_DIGITS = 20
"""Largest number of digits in a form's number."""

CLICK = "click["
"""Beginning of the actions that are clicks."""

HINT = (
    "Buy what the instruction asks for: search for its words, open a product by its title, choose the "
    "options that are asked for, and press Buy Now, which ends the task. The more of the instruction your "
    "purchase meets, the higher its score. Each search and each click is a step; a task has {steps} of them."
)

_TYPE_TERMS = "The kind of product counts {type:g} of 1: it multiplies the share of what was asked for."


class ShopSession(Protocol):
    """A person's episode, as pages show it; `agentgym.serving.play_session.PlaySession` is one."""

    @property
    def env(self) -> WebShopEnv:
        """The environment."""

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


def shop_document(session: ShopSession, frame: PageFrame) -> bytes:
    """Return the open page of a person's episode, in its frame."""
    env = session.env
    visit = env.visit
    actions = enumerate(session.info["admissible_actions"])
    choices = {action[len(CLICK) : -1]: i for i, action in actions if action.startswith(CLICK)}
    root, body = _document(f"{visit.page.capitalize()}: WebShop")
    _header(body, session, frame.place)
    middle = SubElement(body, "main")
    if frame.notice:
        SubElement(middle, "p", {"role": "status", "class": "notice"}).text = frame.notice
    if frame.hint and not session.over:
        _hint(middle, frame.place, env.max_steps)
    if session.over:
        _outcome(middle, session, frame.place)
    form = SubElement(middle, "form", {"method": "post", "action": "/act"})
    _hidden(form, frame.place)
    page = page_element(visit.page, env.shown(), choices)
    if visit.page == RESULTS:
        _count_pages(page, visit.number, len(env.world.found(visit.query)))
    form.append(page)
    if not session.info["action_is_valid"]:
        SubElement(form, "p", {"role": "status", "class": "notice", NODE: "notice"}).text = REJECTED
    _footer(body, session, frame)
    return _written(root)


def offer_document(frame: PageFrame, fields: Mapping[str, str]) -> bytes:
    """Return the page that offers another task; ``fields`` name it, as ``/begin`` takes them."""
    root, body = _document("Another task: WebShop")
    middle = SubElement(body, "main")
    SubElement(middle, "h1").text = "Begin another task?"
    named = ", ".join(f"{name} {value}" for name, value in fields.items() if value)
    SubElement(middle, "p").text = f"The address names {named or 'any task'}."
    SubElement(middle, "p").text = "Unless the episode that you are in has ended, it is dropped."
    form = SubElement(middle, "form", {"method": "post", "action": "/begin"})
    _hidden(form, frame.place)
    for name, value in fields.items():
        SubElement(form, "input", {"type": "hidden", "name": name, "value": value})
    SubElement(form, "button", {"type": "submit"}).text = "Begin it"
    SubElement(SubElement(middle, "p"), "a", {"href": "/"}).text = "Go on shopping"
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
    if session.env.visit.page != START:  # the start page has the name in its body
        SubElement(header, "strong", {"class": "name"}).text = "WebShop"
    count = f"Step {len(session.steps)} of {session.env.max_steps}"
    SubElement(header, "span", {"class": "count"}).text = count
    if session.env.visit.page not in (START, DONE) and not session.over:
        form = SubElement(header, "form", {"method": "post", "action": "/act", "role": "search"})
        _hidden(form, place)
        search_field(form, session.env.visit.query)
        SubElement(form, "button", {"type": "submit"}).text = "Search"


def _outcome(parent: Element, session: ShopSession, place: str) -> None:
    """Describe the episode's end; the score is people's alone, agents' pages may hide it."""
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


def _hint(parent: Element, place: str, steps: int) -> None:
    box = SubElement(parent, "section", {"class": "hint", "aria-label": "What to do"})
    SubElement(box, "p").text = HINT.format(steps=steps)
    form = SubElement(box, "form", {"method": "post", "action": "/hint"})
    _hidden(form, place)
    SubElement(form, "button", {"type": "submit"}).text = "Got it"


def _count_pages(page: Element, number: int, found: int) -> None:
    """Describe the page's number and their count; agents' pages show the number of hits alone."""
    last = -(-found // PER_PAGE)
    text = f"page {number} of {last}" if number <= last else f"past the last page, {last}"
    heading = page.find("section[@class='product']")
    assert heading is not None, "a page of results says its number"
    SubElement(heading, "p", {"class": "pages"}).text = text if found else "nothing found"


def _footer(body: Element, session: ShopSession, frame: PageFrame) -> None:
    footer = SubElement(body, "footer")
    folded = SubElement(footer, "details")
    SubElement(folded, "summary").text = f"Task {session.info['task_id']}, split {session.env.tasks.split}"
    form = SubElement(folded, "form", {"method": "post", "action": "/begin"})
    _hidden(form, frame.place)
    label = SubElement(form, "label")
    SubElement(label, "span").text = "Split"
    select = SubElement(label, "select", {"name": "split"})
    for split in frame.splits:
        chosen = {"selected": ""} if split == session.env.tasks.split else {}
        SubElement(select, "option", {"value": split} | chosen).text = split
    label = SubElement(form, "label")
    SubElement(label, "span").text = "Task, by id or source id (empty: any)"
    SubElement(label, "input", {"name": "task", "maxlength": "200", "autocomplete": "off"})
    SubElement(form, "button", {"type": "submit"}).text = "Play this task"


def _hidden(form: Element, place: str) -> None:
    SubElement(form, "input", {"type": "hidden", "name": PLACE, "value": place})


def requested_action(fields: Mapping[str, str], admissible: tuple[str, ...]) -> str:
    """Return the action that a form asks for."""
    if QUERY in fields:
        return f"search[{fields[QUERY].strip()}]"
    choice = fields.get(CHOICE, "")
    written = choice.isascii() and choice.isdigit() and len(choice) <= MAX_DIGITS
    if written and int(choice) < len(admissible):
        action = admissible[int(choice)]
        if action.startswith(CLICK):
            return action
    raise UsageError("the form names no action: go back to the shop and click there")


PAGES = SitePages(
    env_id="agentgym/WebShop-v0",
    title="WebShop",
    style=Path(__file__).with_name("style.css").read_bytes(),
    page=shop_document,
    offer=offer_document,
    splits=lambda env: splits_with_tasks(env.tasks, env.world),
    message=message_document,
    action=requested_action,
)
