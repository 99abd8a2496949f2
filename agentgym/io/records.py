"""Strict reading of TOML and JSON tables into frozen dataclasses, by their annotations."""

from __future__ import annotations

import types
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from agentgym.errors import UsageError, nearest
from agentgym.io.untrusted import read_toml_table

RecordT = TypeVar("RecordT")

_NAMES = {str: "a string", int: "an integer", float: "a number", bool: "true or false", type(None): "null"}


def read_toml(record: type[RecordT], path: Path) -> RecordT:
    """Read a TOML file into a dataclass."""
    return parse(record, read_toml_table(path), str(path))


def parse(record: type[RecordT], table: Any, where: str) -> RecordT:
    """Make a dataclass from a table; unknown, missing and mistyped keys are errors.

    Fields may be str, int, float, bool, None, literals, mappings with string keys, tuples, unions and further
    dataclasses. Errors name the key in ``where``, and the nearest known one.
    """
    if not isinstance(table, dict):
        raise UsageError(f"{where}: expected a table, got {table!r:.60}")
    hints = _hints(record)  # type: ignore[arg-type]  # mypy: classes are hashable
    for key in table:
        if key not in hints:
            raise UsageError(f"{where}: unknown key {key!r}{nearest(key, hints)}; known: {', '.join(hints)}")
    values = {}
    for field in fields(record):  # type: ignore[arg-type]
        if field.name in table:
            values[field.name] = _convert(hints[field.name], table[field.name], f"{where}: {field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise UsageError(f"{where}: key {field.name!r} is missing")
    try:
        return record(**values)
    except UsageError:
        raise
    except ValueError as error:  # a record's own check raises it
        raise UsageError(f"{where}: {error}") from error


@cache
def _hints(record: Hashable) -> dict[str, Any]:
    return get_type_hints(record)


def _convert(kind: Any, value: Any, where: str) -> Any:
    if kind is Any or type(value) is kind:  # most values are of a plain type
        return value
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        if value not in args:
            known = ", ".join(repr(arg) for arg in args)
            raise UsageError(f"{where}: {value!r}{nearest(value, map(str, args))} must be one of {known}")
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        kinds = [arg for arg in args if arg is not type(None)]
        tuples = [arg for arg in kinds if get_origin(arg) is tuple and isinstance(value, list | tuple)]
        words = [arg for arg in kinds if get_origin(arg) is Literal and value in get_args(arg)]
        return _convert((tuples or words or kinds)[0], value, where)
    if origin is tuple:
        return _tuple(args, value, where)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise UsageError(f"{where}: expected a table, got {value!r:.60}")
        return {key: _convert(args[1], member, f"{where}.{key}") for key, member in value.items()}
    if is_dataclass(kind):
        return parse(kind, value, where)  # type: ignore[arg-type]
    # bool is a subclass of int; a whole number is a number
    exact = type(value) is kind or (kind is float and type(value) is int)
    if not exact:
        raise UsageError(f"{where}: expected {_NAMES[kind]}, got {value!r:.60}")
    if kind is not float:
        return value
    try:
        return float(value)
    except OverflowError:
        raise UsageError(f"{where}: expected a number that a float can hold, got {value!r:.60}") from None


def _tuple(args: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise UsageError(f"{where}: expected a list, got {value!r:.60}")
    if args[-1] is Ellipsis:
        return tuple(_convert(args[0], member, where) for member in value)
    if len(value) != len(args):
        raise UsageError(f"{where}: expected a list of {len(args)}, got {value!r:.60}")
    return tuple(_convert(arg, member, where) for arg, member in zip(args, value, strict=True))


LEFT_OUT = "left out"
"""Key in the metadata of a field that is not written where it equals its default."""


def json_schema(record: Any, *, partial: bool = False) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a dataclass's `dataclasses.asdict`.

    Numbers may be null, which encodes infinite ends of intervals.

    ``partial``: whether keys with a default may be missing, as `parse` lets them; no other key is allowed in
    any case.

    Example:
        >>> from dataclasses import make_dataclass
        >>> json_schema(make_dataclass("Pair", [("name", str), ("sizes", tuple[int, ...])]))["properties"]
        {'name': {'type': 'string'}, 'sizes': {'type': 'array', 'items': {'type': 'integer'}}}
    """
    hints = _hints(record)
    properties = {field.name: _schema_of(hints[field.name], partial) for field in fields(record)}
    needed = [
        field.name
        for field in fields(record)
        if not (partial or LEFT_OUT in field.metadata)
        or (field.default is MISSING and field.default_factory is MISSING)
    ]
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


_TYPES: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    float: {"type": ["number", "null"]},
    type(None): {"type": "null"},
}


def _schema_of(kind: Any, partial: bool) -> dict[str, Any]:
    origin, args = get_origin(kind), get_args(kind)
    if kind in _TYPES:
        return _TYPES[kind]
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema_of(arg, partial) for arg in args]}
    if origin is tuple:
        if args[-1] is Ellipsis:
            return {"type": "array", "items": _schema_of(args[0], partial)}
        members = [_schema_of(arg, partial) for arg in args]
        return {"type": "array", "prefixItems": members, "minItems": len(args), "maxItems": len(args)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema_of(args[1], partial)}
    return json_schema(kind, partial=partial) if is_dataclass(kind) else {}
