"""Markdown layout: tables, and submitters' texts with all Markdown escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


class Marked(str):
    """A cell with Markdown of this package's own; every other cell is text."""


def table(head: Sequence[str], lines: Iterable[Sequence[str]], left: int) -> str:
    """Lay out a Markdown table whose first ``left`` columns are aligned left, the others right.

    Cells are shown as they are, whatever a submitter wrote in them, unless they are `Marked`.
    """
    rows = [[escape(cell) for cell in line] for line in (head, *lines)]
    widths = [max(3, *(len(row[i]) for row in rows)) for i in range(len(head))]
    rule = [f":{'-' * (w - 1)}" if i < left else f"{'-' * (w - 1)}:" for i, w in enumerate(widths)]

    def pad(row: Sequence[str]) -> str:
        cells = (
            c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        )
        return f"| {' | '.join(cells)} |\n"

    return "".join(pad(row) for row in [rows[0], rule, *rows[1:]])


def escape(cell: str) -> str:
    """Keep a cell in its place, whatever an agent is called or an option holds."""
    text = text_cell(cell) if not isinstance(cell, Marked) else _without_html(one_line(cell))
    return text.replace("|", "\\|")


_MARKUP = re.compile(r"[\\`*\[\]!~#]")


def text_cell(text: str) -> str:
    """Return a submitter's text with all Markdown escaped."""
    return _without_html(_MARKUP.sub(r"\\\g<0>", one_line(text)))


def _without_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def code_cell(text: str) -> str:
    """Return a submitter's text for a place between backticks."""
    return one_line(text).replace("`", "'")


def one_line(text: str) -> str:
    """Return a text without line breaks, control characters and runs of spaces."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split(" ")).strip()
