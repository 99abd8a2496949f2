"""The navigation beside each page, without the copies that Sphinx makes of every page's headings for it."""

from __future__ import annotations

from typing import Any


def titles(contents: Any) -> Any:
    """Return a page's table of contents with nothing but its title and the pages below it.

    Args:
        contents: a list of docutils, as ``env.tocs`` has it. It is what ``titles_only`` would make of it.
    """
    from sphinx import addnodes

    kept = contents.copy()
    for item in contents.children:
        if len(item) < 2:
            kept += item.deepcopy()
            continue
        title = item.copy()
        title += item[0].deepcopy()
        if below := list(item.findall(addnodes.toctree)):
            title += item[1].copy()
            title[1] += [tree.deepcopy() for tree in below]
        kept += title
    return kept


def keep_titles(app: Any, builder: Any) -> None:
    """Make the navigation's contents once, for all pages, before they are written."""
    app.titles = {page: titles(contents) for page, contents in app.env.tocs.items()}


def light(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Give the theme a navigation that is resolved over titles alone: the same, in a fraction of the time.

    Its captions get the level that readers of screens need of a heading.
    """
    if "toctree" not in context:
        return
    whole, resolve = app.env.tocs, context["toctree"]

    def navigation(**options: Any) -> Any:
        app.env.tocs = app.titles if options.get("titles_only") else whole
        try:
            return (resolve(**options) or "").replace('role="heading"', 'role="heading" aria-level="2"')
        finally:
            app.env.tocs = whole

    context["toctree"] = navigation
