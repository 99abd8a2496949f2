"""Generated blocks of pages, found by the lines that they begin with: no marks stand in a page's source."""

from __future__ import annotations

import re


def table_block(head: str) -> re.Pattern[str]:
    """Return the pattern of a table.

    Args:
        head: the beginning of its first line.
    """
    return re.compile(rf"^{re.escape(head)}.*\n(?:\|.*\n)*", re.MULTILINE)


def section_block(heading: str) -> re.Pattern[str]:
    """Return the pattern of a section of level 2, up to the next one or the page's end."""
    return re.compile(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def replaced(text: str, block: re.Pattern[str], new: str) -> str:
    """Return a page with its one block replaced; `LookupError` where there is not one."""
    result, number = block.subn(lambda _: new, text)
    if number != 1:
        raise LookupError(f"{number} places of the page begin like a generated block: {block.pattern[:60]}")
    return result
