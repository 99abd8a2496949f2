"""Single-field changes of JSON records, made from the dataclass that describes them.

Whatever field a record has, now or later, is changed in every way that its type suggests: no list of changes
is written down.
"""

from __future__ import annotations

import copy
import json
import math
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

REMOVED: Final = object()
"""In place of a value: the key is not there."""

TWICE = "@@twice"
"""Ends a key that `bytes_of` writes without it, so that the key is there twice."""

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """Another value in one place of a record."""

    path: Path
    """Keys and indices that lead to the place."""
    name: str
    """What is done there, for reports."""
    value: Any
    """What stands there afterwards, or `REMOVED`."""

    @property
    def field(self) -> str:
        """The place as schemas name it: ``envs[].env.id``."""
        text = "".join("[]" if isinstance(key, int) else f".{key}" for key in self.path)
        return text.removeprefix(".").replace(TWICE, "")

    def applied(self, table: Any) -> Any:
        """Return a changed copy of a record's JSON."""
        if not self.path:
            return self.value
        twin = copy.deepcopy(table)
        place = twin
        for key in self.path[:-1]:
            place = place[key]
        if self.value is REMOVED:
            del place[self.path[-1]]
        else:
            place[self.path[-1]] = self.value
        return twin


def bytes_of(table: Any, *, canonical: bool) -> bytes:
    """Write JSON that may have a key twice, numbers that are none and half characters.

    Args:
        table: the JSON, with keys that end in `TWICE`.
        canonical: as lines of ``episodes.jsonl`` are, else as ``run.json`` is.
    """
    if canonical:
        text = json.dumps(table, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    else:
        text = json.dumps(table, indent=2, ensure_ascii=False) + "\n"
    return text.replace(TWICE, "").encode("utf-8", "backslashreplace")


def changes(
    kind: Any,
    value: Any,
    path: Path = (),
    *,
    others: Sequence[Any] = (),
    contents: Mapping[tuple[Any, str], type] | None = None,
) -> Iterator[Change]:
    """Yield every change of a value that its type suggests.

    Args:
        kind: the annotation; None for free JSON, which goes by the value.
        value: JSON of that type.
        path: where it stands.
        others: JSON of the same type from elsewhere, whose values are put in its place.
        contents: dataclasses that fields of free JSON hold, by class and field.
    """
    contents = contents or {}
    for borrowed in others:
        if not isinstance(borrowed, dict | list) and not _same(borrowed, value):
            yield Change(path, "another's", borrowed)
            break
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        yield from (Change(path, f"to {other}", other) for other in args if other != value)
        yield from _of_text(value, path)
    elif origin in (Union, types.UnionType):
        yield from _of_union(args, value, path, others, contents)
    elif is_dataclass(kind) and isinstance(value, dict):
        yield from _of_record(kind, value, path, others, contents)
    elif origin is tuple and isinstance(value, list):
        yield from _of_list(args, value, path, contents)
    elif isinstance(value, dict):
        yield from _of_table(value, path, others)
    elif isinstance(value, list):
        yield from _of_list((), value, path, contents)
    else:
        yield from _of_leaf(value, path)


def sample(kind: Any) -> Any:
    """Return some JSON of a type."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return args[0]
    if origin in (Union, types.UnionType):
        return sample(next(arg for arg in args if arg is not type(None)))
    if origin is tuple:
        return [] if Ellipsis in args else [sample(arg) for arg in args]
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return {field.name: sample(hints[field.name]) for field in fields(kind)}
    return {str: "x", int: 1, float: 0.5, bool: True}.get(kind, {})


def _of_record(
    kind: Any,
    value: dict[str, Any],
    path: Path,
    others: Sequence[Any],
    contents: Mapping[tuple[Any, str], type],
) -> Iterator[Change]:
    hints = get_type_hints(kind)
    theirs = [other for other in others if isinstance(other, dict)]
    for field in fields(kind):
        name = field.name
        if name not in value:
            if field.default is not MISSING:
                yield Change((*path, name), "put in", sample(hints[name]))
            continue
        place = (*path, name)
        held = contents.get((kind, name), hints[name])
        borrowed = [other[name] for other in theirs if name in other]
        inner = list(changes(held, value[name], place, others=borrowed, contents=contents))
        yield from inner
        yield Change(place, "removed", REMOVED)
        yield Change((*path, name + TWICE), "twice, alike", value[name])
        direct = next((change.value for change in inner if change.path == place), None)
        yield Change((*path, name + TWICE), "twice, then another", direct)
    yield Change((*path, "unknown"), "put in", 1)


def _of_union(
    args: tuple[Any, ...],
    value: Any,
    path: Path,
    others: Sequence[Any],
    contents: Mapping[tuple[Any, str], type],
) -> Iterator[Change]:
    kinds = [arg for arg in args if arg is not type(None)]
    for kind in kinds:
        if value is None or _fits(kind, value) is False:
            yield Change(path, f"to {getattr(kind, '__name__', 'list')}", sample(kind))
    if value is None:
        return
    if len(kinds) < len(args):
        yield Change(path, "to null", None)
    kind = next((kind for kind in kinds if _fits(kind, value)), None)
    yield from changes(kind, value, path, others=others, contents=contents)


def _fits(kind: Any, value: Any) -> bool:
    if get_origin(kind) is tuple:
        return isinstance(value, list)
    if get_origin(kind) is not None:
        return isinstance(value, get_origin(kind))
    return isinstance(value, dict) if is_dataclass(kind) else isinstance(value, kind)


def _of_list(
    args: tuple[Any, ...], value: list[Any], path: Path, contents: Mapping[tuple[Any, str], type]
) -> Iterator[Change]:
    kind = args[0] if args else None
    if not value:
        yield Change(path, "a member put in", [sample(kind)])
        return
    yield Change(path, "the first member dropped", value[1:])
    yield Change(path, "the last member dropped", value[:-1])
    yield Change(path, "emptied", [])
    yield Change(path, "a member twice", [*value, value[-1]])
    if len(value) > 1:
        swapped = [value[1], value[0], *value[2:]]
        if not _same(swapped, value):
            yield Change(path, "members swapped", swapped)
        yield Change(path, "reversed", value[::-1])
    yield Change(path, "to null", None)
    for index in sorted({0, len(value) // 2, len(value) - 1}):
        others = [other for other in value if not _same(other, value[index])]
        of = args[index] if args and Ellipsis not in args else kind
        yield from changes(of, value[index], (*path, index), others=others, contents=contents)


def _of_table(value: dict[str, Any], path: Path, others: Sequence[Any]) -> Iterator[Change]:
    for key, member in value.items():
        borrowed = [other[key] for other in others if isinstance(other, dict) and key in other]
        yield from changes(None, member, (*path, key), others=borrowed)
        yield Change((*path, key), "removed", REMOVED)
        yield Change((*path, f"{key}{TWICE}"), "twice, alike", member)
    yield Change((*path, "unknown"), "put in", 1)
    yield Change(path, "emptied", {})
    yield Change(path, "to null", None)


def _of_leaf(value: Any, path: Path) -> Iterator[Change]:
    if isinstance(value, bool):
        yield Change(path, "flipped", not value)
        yield Change(path, "to a number", int(value))
        yield Change(path, "to null", None)
    elif isinstance(value, str):
        yield from _of_text(value, path)
    elif isinstance(value, int | float):
        yield from _of_number(value, path)
    else:
        yield Change(path, "to text", "x")
        yield Change(path, "to a number", 1)


def _of_text(value: str, path: Path) -> Iterator[Change]:
    texts = {
        "longer": f"{value}x",
        "shorter": value[:-1],
        "emptied": "",
        "a newline": f"{value}\n| x | y |",
        "a space": f"{value} ",
        "another case": value.swapcase(),
        "zeros": "0" * len(value),
        "markup": f"{value}</td><script>x</script>`*_[x](y)",
        "invisible": f"{value}\u200b",
        "half a character": f"{value}\ud800",
        "a device": "/dev/zero",
        "the whole disk": "/",
    }
    yield from (Change(path, name, text) for name, text in texts.items() if text != value)
    yield Change(path, "to null", None)
    yield Change(path, "to a number", 1)


def _of_number(value: float, path: Path) -> Iterator[Change]:
    numbers: dict[str, Any] = {
        "+1": value + 1,
        "-1": value - 1,
        "+2**-40": value + 2.0**-40,
        "the sign": -value,
        "-0.0": -0.0,
        "as float": float(value),
        "as integer": int(value) if math.isfinite(value) else 0,
        "a million": 10**6,
        "huge": 2**70,
        "hugest": 10**400,
        "negative": -(2**40),
        "1e308": 1e308,
        "infinite": math.inf,
        "not a number": math.nan,
    }
    yield from (Change(path, name, number) for name, number in numbers.items() if not _same(number, value))
    yield Change(path, "to text", str(value))
    yield Change(path, "to null", None)
    yield Change(path, "to true", True)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are written alike: 0 and 0.0, and 0.0 and -0.0, are not."""
    return repr(one) == repr(other)
