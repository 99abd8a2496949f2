"""Measured numbers of pages: ``python -m tools.measured``, or ``make pages``, fills them in.

A number stands between a mark that names its report and key, and ``<!-- / -->``::

    <!-- benchmarks/studies/site.json#files 3 -->1,990<!-- / -->

The key is the way through the JSON: names and places, separated by ``/``; ``NAME=VALUE&...`` is the one item
of a list that has these values (``A.B=VALUE``: of B within A). Behind it stands the number of significant
digits, and after a ``:`` what the number is divided by; or how Python's `format` is to write it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ALL_MARKED = tuple(ROOT / name for name in ("README.md", "docs/sphinx/index.md", "docs/speed.md"))
"""Whose measured numbers all stand in marks."""
PAGES = (*ALL_MARKED, ROOT / "docs" / "what_moves_a_number.md")

MARK = re.compile(
    r"<!-- (?P<file>[\w./-]+\.json)#(?P<key>[^#\n]+?) (?P<form>\S+) -->(?P<text>[^<\n]*)<!-- / -->"
)
MEASURED = re.compile(
    r"\d[\d.,]*\s?(?:x\b|%|steps/s\b|[µumn]?s\b|[kMG]i?B\b|(?:mega|giga)?bytes\b|(?:milli)?seconds\b|minutes\b|hours\b)"
)
"""A number with a unit that somebody has to have measured."""

_QUOTED = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->", re.MULTILINE | re.DOTALL)
"""What a page shows or links to, and does not say."""


@cache
def _report(name: str) -> Any:
    return json.loads((ROOT / name).read_text(encoding="utf-8"))


def value(file: str, key: str) -> float | str:
    """Return what a report says under a key; `LookupError` where it says nothing."""
    found = _report(file)
    for part in key.split("/"):
        if isinstance(found, list) and "=" in part:
            wanted = dict(pair.split("=", 1) for pair in part.split("&"))
            items = [
                item for item in found if all(_within(item, name) == each for name, each in wanted.items())
            ]
            if len(items) != 1:
                raise LookupError(f"{file}#{key}: {len(items)} items have {part}")
            (found,) = items
        else:
            try:
                found = found[int(part) if isinstance(found, list) else part]
            except (LookupError, ValueError, TypeError) as error:
                raise LookupError(f"{file}#{key}: nothing is named {part!r}") from error
    if not isinstance(found, int | float | str):
        raise LookupError(f"{file}#{key} names no number")
    return found


def _within(item: Any, name: str) -> str:
    """Return a value of an item, or of what it holds under the names before the dots."""
    for part in name.split("."):
        item = item.get(part, {})
    return str(item)


def written(number: float | str, form: str) -> str:
    """Write a number.

    Example:
        >>> written(254071808, "3:1048576"), written(0.0523, ".1%"), written(157234.2, "3")
        ('242', '5.2%', '157,000')
    """
    if isinstance(number, str):
        return number
    digits, _, divisor = form.partition(":")
    if not digits.isdigit():
        return format(number, form)
    number = float(f"{number / float(divisor or 1):.{int(digits)}g}")
    whole = len(str(int(abs(number)))) if abs(number) >= 1 else 0
    after = 0 if whole >= int(digits) else int(digits) - whole if whole else int(digits)
    return f"{number:,.{after}f}"


def updated(text: str) -> str:
    """Return a page with the numbers of its reports."""

    def filled(mark: re.Match[str]) -> str:
        number = written(value(mark["file"], mark["key"]), mark["form"])
        return f"<!-- {mark['file']}#{mark['key']} {mark['form']} -->{number}<!-- / -->"

    return MARK.sub(filled, text)


def unmarked(text: str) -> Iterator[str]:
    """Yield numbers with a unit that stand in no mark, with what is around them."""
    said = _QUOTED.sub(" ", MARK.sub("@", text))
    for number in MEASURED.finditer(said):
        yield " ".join(said[max(0, number.start() - 40) : number.end() + 20].split())


def main() -> None:
    """Fill in every page."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if (new := updated(text)) != text:
            page.write_text(new, encoding="utf-8")
            sys.stdout.write(f"{page.relative_to(ROOT)}: numbers changed\n")


if __name__ == "__main__":
    main()
