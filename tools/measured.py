"""Measured numbers of pages: ``python -m tools.measured``, or ``make pages``, fills them in.

``tools/measured.toml`` has the lines of a page that hold measured numbers, as they stand in the page, with
each number as ``{REPORT#KEY FORM}``::

    "{demo_seeds#mean .0%}, the mean of five seeds"

The key is the way through the report's JSON: names and places, separated by ``/``; ``NAME=VALUE&...`` is the
one item of a list that has these values (``A.B=VALUE``: of B within A). Behind it stands the number of
significant digits, and after a ``:`` what the number is divided by; or how Python's `format` is to write it.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
REPORTS = TABLE.pop("reports")
"""Files of the reports' short names."""
PAGES = {name: page["lines"] for name, page in TABLE.items()}
"""Lines with numbers, by page."""
ALL_MEASURED = ("README.md", "docs/sphinx/index.md", "docs/speed.md")
"""Pages all of whose measured numbers stand in such lines."""

PLACE = re.compile(r"\{(?P<report>\w+)#(?P<key>[^#{}]+?) (?P<form>[^\s{}]+)\}")
NUMBER = r"([-+]?\d(?:[\d.,]*\d)?%?)"
MEASURED = re.compile(
    r"\d[\d.,]*\s?(?:x\b|%|steps/s\b|[µumn]?s\b|[kMG]i?B\b|(?:mega|giga)?bytes\b|(?:milli)?seconds\b|minutes\b|hours\b)"
)
"""A number with a unit that somebody has to have measured."""

_QUOTED = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
"""What a page shows or links to, and does not say."""


@cache
def _report(name: str) -> Any:
    return json.loads((ROOT / REPORTS.get(name, name)).read_text(encoding="utf-8"))


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


def _pattern(line: str) -> re.Pattern[str]:
    """Return the pattern of a line: any number in each place, and any blanks between words."""
    texts = [r"\s+".join(map(re.escape, text.split(" "))) for text in PLACE.sub("\0", line).split("\0")]
    return re.compile(NUMBER.join(texts))


def updated(text: str, lines: Sequence[str]) -> str:
    """Return a page with the numbers of its reports.

    Raises:
        LookupError: a line does not stand in the page once.
    """
    for line in lines:
        numbers = [
            written(value(place["report"], place["key"]), place["form"]) for place in PLACE.finditer(line)
        ]
        found = list(_pattern(line).finditer(text))
        if len(found) != 1:
            raise LookupError(f"this line stands {len(found)} times in the page: {line}")
        for group, number in reversed(list(enumerate(numbers, 1))):
            text = text[: found[0].start(group)] + number + text[found[0].end(group) :]
    return text


def unmeasured(text: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield numbers with a unit that are in no line of the table, with what is around them."""
    for line in lines:
        text = _pattern(line).sub("@", text)
    prose = _QUOTED.sub(" ", text)
    for number in MEASURED.finditer(prose):
        yield " ".join(prose[max(0, number.start() - 40) : number.end() + 20].split())


def main() -> None:
    """Fill in every page."""
    for name, lines in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        if (new := updated(text, lines)) != text:
            (ROOT / name).write_text(new, encoding="utf-8")
            sys.stdout.write(f"{name}: numbers changed\n")


if __name__ == "__main__":
    main()
