"""Canonical bytes of plain values and back, with their types: the format of snapshots.

One value has one encoding and one encoding one value; reading runs no code and takes memory in proportion to
what is read. A value is a tag and what the tag says:

================= =====================================================================
tag               value
================= =====================================================================
``n`` ``t`` ``f`` None, True, False
``i``             length (4 bytes), then the shortest two's complement, big-endian
``d``             8 bytes, IEEE 754, big-endian; no NaN
``s`` ``b``       length, then UTF-8 (lone surrogates as they are) or bytes
``l``             number of members, then each
================= =====================================================================
"""

from __future__ import annotations

import struct
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

MAX_DEPTH = 32
"""Deepest nesting of tuples within tuples."""

_LENGTH = struct.Struct(">I")
_FLOAT = struct.Struct(">d")
_MARKS = {None: b"n", True: b"t", False: b"f"}


def encode(value: Any) -> bytes:
    """Return the bytes of a plain value: None, bool, int, float, str, bytes, or a tuple of such.

    A frozen dataclass counts as the tuple of its fields; `typed` makes it again.

    `ValueError` where the value holds anything else, or is too deep.

    Example:
        >>> decode(encode(("a", (1, None))))
        ('a', (1, None))
    """
    pieces: list[bytes] = []
    _write(value, MAX_DEPTH, pieces)
    return b"".join(pieces)


def _write(value: Any, room: int, pieces: list[bytes]) -> None:
    if value is None or value is True or value is False:
        pieces.append(_MARKS[value])
    elif isinstance(value, int):
        raw = value.to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)
        pieces += (b"i", _LENGTH.pack(len(raw)), raw)
    elif isinstance(value, float):
        if value != value:
            raise ValueError("NaN has no canonical bytes")
        pieces += (b"d", _FLOAT.pack(value))
    elif isinstance(value, str):
        raw = value.encode("utf-8", "surrogatepass")
        pieces += (b"s", _LENGTH.pack(len(raw)), raw)
    elif isinstance(value, bytes):
        pieces += (b"b", _LENGTH.pack(len(value)), value)
    elif isinstance(value, tuple) or (is_dataclass(value) and not isinstance(value, type)):
        if not room:
            raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
        members = value if isinstance(value, tuple) else [getattr(value, f.name) for f in fields(value)]
        pieces += (b"l", _LENGTH.pack(len(members)))
        for member in members:
            _write(member, room - 1, pieces)
    else:
        raise ValueError(f"a {type(value).__name__} is no plain value")


def decode(data: bytes) -> Any:
    """Return the value of `encode`'s bytes; `ValueError` for any others."""
    value, end = _read(data, 0, MAX_DEPTH)
    if end != len(data):
        raise ValueError("there is more than one value")
    return value


def _read(data: bytes, at: int, room: int) -> tuple[Any, int]:
    tag, at = data[at : at + 1], at + 1
    if tag in _ATOMS:
        return _ATOMS[tag], at
    if tag == b"d":
        raw, at = _take(data, at, _FLOAT.size)
        (number,) = _FLOAT.unpack(raw)
        if number != number:
            raise ValueError("NaN has no canonical bytes")
        return number, at
    if tag not in (b"i", b"s", b"b", b"l"):
        raise ValueError(f"no value begins with {tag!r}")
    raw, at = _take(data, at, _LENGTH.size)
    (length,) = _LENGTH.unpack(raw)
    if tag == b"l":
        return _read_tuple(data, at, length, room)
    raw, at = _take(data, at, length)
    if tag == b"b":
        return raw, at
    if tag == b"s":
        return raw.decode("utf-8", "surrogatepass"), at
    number = int.from_bytes(raw, "big", signed=True)
    if length != (number + (number < 0)).bit_length() // 8 + 1:
        raise ValueError("a number is longer than it need be")
    return number, at


_ATOMS = {mark: value for value, mark in _MARKS.items()}


def _read_tuple(data: bytes, at: int, length: int, room: int) -> tuple[tuple[Any, ...], int]:
    if not room:
        raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
    if length > len(data) - at:
        raise ValueError("it is cut short")
    members = []
    for _ in range(length):
        member, at = _read(data, at, room - 1)
        members.append(member)
    return tuple(members), at


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    raw = data[at : at + size]
    if len(raw) != size:
        raise ValueError("it is cut short")
    return raw, at + size


# ---- types -------------------------------------------------------------------------------------------


def typed(kind: Any, value: Any, where: str = "state") -> Any:
    """Return a plain value as a type: with tuples as the named tuples and dataclasses that it declares.

    Types are None, bool, int, float, str, bytes, a literal, a tuple, a named tuple or a dataclass of such, or
    unions of them; Any for any value. A value of the type already stays as it is. `ValueError` names the
    place.

    Example:
        >>> from typing import NamedTuple
        >>> Position = NamedTuple("Position", [("row", int), ("column", int)])
        >>> typed(tuple[Position, ...], ((1, 2),))
        (Position(row=1, column=2),)
    """
    if kind is Any:
        return value
    if kind in _PLAIN:
        if type(value) is not kind:
            raise ValueError(f"{where} is a {kind.__name__}, got {value!r:.60}")
        return value
    if kind is None or kind is type(None):
        if value is not None:
            raise ValueError(f"{where} is None, got {value!r:.60}")
        return None
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        if type(value) not in map(type, args) or value not in args:
            raise ValueError(f"{where} is one of {', '.join(map(repr, args))}, got {value!r:.60}")
        return value
    if origin in (Union, types.UnionType):
        return _typed_union(args, value, where)
    if origin is tuple:
        members = _members(value, where)
        if args[-1:] == (Ellipsis,):
            return tuple([typed(args[0], member, f"a member of {where}") for member in members])
        return tuple(_zipped(args, [f"member {i} of {where}" for i in range(len(args))], members, where))
    hints = _fields(kind)
    if is_dataclass(kind) and isinstance(value, kind):  # type: ignore[arg-type]  # from _fields
        value = tuple(getattr(value, name) for name in hints)
    members = _members(value, where)
    return kind(*_zipped(tuple(hints.values()), [f"{where}.{name}" for name in hints], members, where))


_PLAIN = (bool, int, float, str, bytes)


def _typed_union(args: tuple[Any, ...], value: Any, where: str) -> Any:
    for kind in args:
        try:
            return typed(kind, value, where)
        except ValueError:
            continue
    raise ValueError(f"{where} is none of the types it may be, got {value!r:.60}")


def _zipped(kinds: tuple[Any, ...], names: list[str], members: tuple[Any, ...], where: str) -> list[Any]:
    if len(members) != len(kinds):
        raise ValueError(f"{where} has {len(kinds)} members, got {len(members)}")
    return [typed(kind, member, name) for kind, name, member in zip(kinds, names, members, strict=True)]


def _members(value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise ValueError(f"{where} is a tuple, got {value!r:.60}")
    return value


@cache
def _fields(kind: type) -> Mapping[str, Any]:
    """Return the declared fields of a named tuple or dataclass."""
    names = [f.name for f in fields(kind)] if is_dataclass(kind) else list(kind._fields)  # type: ignore[attr-defined]
    hints = get_type_hints(kind)
    return {name: hints[name] for name in names}
