"""Pages as HTML, for people: the nodes that text observations are made of, in the same order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement

from agentgym.envs.webshop.engine.pages import Node, NodeKind
from agentgym.envs.webshop.engine.visit import BUY, DONE, RESULTS, START, SUB_PAGES

NODE = "data-node"
"""Attribute of the elements that show a node: its value is the node's kind, their text the node's."""

CHOICE = "choice"
"""Form field that says what was clicked: its number among what can be clicked."""

QUERY = "query"
"""Form field of a search."""


class _Group(NamedTuple):
    """An element that holds nodes which belong together."""

    name: str
    tag: str
    anew: bool
    """Whether the node begins another one where one is open."""


_GROUPS: Mapping[NodeKind, _Group] = {
    "brand": _Group("greeting", "section", anew=True),
    "label": _Group("wish", "section", anew=True),
    "text": _Group("product", "section", anew=False),
    "title": _Group("product", "section", anew=False),
    "button": _Group("bar", "div", anew=False),
    "link": _Group("hit", "li", anew=True),
    "option-name": _Group("choice", "fieldset", anew=True),
    "fact": _Group("facts", "div", anew=False),
    "bullet": _Group("bullets", "ul", anew=False),
}
"""Group that a node opens or joins; other nodes stay in the group of the node before."""

_MEMBERS = {"bullets": "li", "nodes": "dd"}
"""Tags of what stands in groups that have their own."""


def page_element(page: str, shown: Iterable[tuple[Node, str]], choices: Mapping[str, int]) -> Element:
    """Return the content of the form that clicks send.

    Texts are set, never parsed, so that any content stays text once the tree is written out. ``shown``: nodes
    with their texts, as `shown_texts` yields them; ``choices``: the number of each clickable text; others
    cannot be clicked.
    """
    root = Element("div", {"class": f"page {page}"})
    if page in SUB_PAGES:  # its nodes do not say which it is
        SubElement(root, "h1").text = page.capitalize()
    group, name, link = root, "", None
    for node, text in shown:
        wanted = _wanted(page, node.kind, name)
        if wanted is not None and (wanted.anew or wanted.name != name):
            group, name = _begin(root, wanted), wanted.name
        if node.kind == "link":
            link = node
        if node.kind in ("button", "link", "option"):
            element = _button(page, group, node, choices)
        elif node.kind == "title" and name == "hit" and link is not None:
            element = _title(group, link, choices)
        else:
            element = SubElement(group, _tag(page, name, node.kind))
        element.set(NODE, node.kind)
        element.text = text
    if page in SUB_PAGES and name == "bar":
        SubElement(root, "p", {"class": "nothing"}).text = f"This product has no {page}."
    return root


def search_field(parent: Element, query: str = "") -> None:
    """Add a search's label and field."""
    label = SubElement(parent, "label")
    SubElement(label, "span").text = "Search for"
    attributes = {"name": QUERY, "type": "search", "value": query, "maxlength": "500", "autocomplete": "off"}
    SubElement(label, "input", attributes | {"required": ""})


def _wanted(page: str, kind: NodeKind, name: str) -> _Group | None:
    if page == DONE and kind != "brand":
        return _Group("nodes", "dl", anew=False)
    if name == "hit" and kind == "title":
        return None
    return _GROUPS.get(kind)


def _begin(root: Element, group: _Group) -> Element:
    parent = root
    if group.name == "hit":
        parent = _child(root, "ol", "hits")
    elif group.name == "nodes":  # agents' text is folded: people read the score above
        parent = _child(root, "details", "as-text")
        SubElement(parent, "summary").text = "The page as agents read it"
    return SubElement(parent, group.tag, {"class": group.name})


def _child(root: Element, tag: str, name: str) -> Element:
    found = root.find(tag)
    return SubElement(root, tag, {"class": name}) if found is None else found


def _tag(page: str, group: str, kind: NodeKind) -> str:
    if group == "nodes" and kind == "label":
        return "dt"
    if group in _MEMBERS:
        return _MEMBERS[group]
    if kind == "option-name":
        return "legend"
    heading = "text" if page == RESULTS else "title"
    return "h1" if kind in ("brand", heading) and group != "hit" else "p"


def _title(group: Element, link: Node, choices: Mapping[str, int]) -> Element:
    """Add a product's title on a page of results: a click on it is one on the product's link."""
    button = _button(RESULTS, group, link, choices)
    button.set("class", "title")
    return button


def _button(page: str, group: Element, node: Node, choices: Mapping[str, int]) -> Element:
    """Add a button; the start page's is that of the search."""
    text = node.text if node.kind == "option" else node.text.lower()
    if page == START:
        search_field(group)
        return SubElement(group, "button", {"type": "submit"})
    attributes = {"type": "submit", "name": CHOICE, "class": "buy" if text == BUY else node.kind}
    if text in choices:
        attributes["value"] = str(choices[text])
    else:
        attributes["disabled"] = ""
    if node.kind == "option":
        attributes["aria-pressed"] = "true" if node.marked else "false"
    elif node.marked:
        attributes["class"] += " visited"
    return SubElement(group, "button", attributes)
