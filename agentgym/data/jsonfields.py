"""JSON objects read field by field; errors name the place of a missing or mistyped one."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from agentgym.errors import UsageError


class Fields:
    """A JSON object with its position; its accessors raise errors that name file, line and field."""

    def __init__(self, value: object, where: str):
        """Take the value; UsageError unless it is an object."""
        if not isinstance(value, dict):
            raise UsageError(f"{where}: expected a JSON object, got {shown(value)}")
        self._fields: dict[str, Any] = value
        self.where = where
        """Names file and line."""

    def fail(self, name: str, problem: str) -> NoReturn:
        """Raise a UsageError about a field."""
        raise UsageError(f"{self.where}: field {name!r}: {problem}")

    def get(self, name: str) -> Any:
        """Return a field that must be there."""
        if name not in self._fields:
            self.fail(name, "is missing")
        return self._fields[name]

    def optional(self, name: str) -> Any:
        """Return a field; None where it is missing."""
        return self._fields.get(name)

    def text(self, name: str) -> str:
        """Return a field that must be a string."""
        value = self.get(name)
        if not isinstance(value, str):
            self.fail(name, f"expected a string, got {shown(value)}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a field that must be a list of strings."""
        value = self.get(name)
        if not isinstance(value, list):
            self.fail(name, f"expected a list of strings, got {shown(value)}")
        for each in value:
            if not isinstance(each, str):
                self.fail(name, f"expected a list of strings, it has {shown(each)}")
        return tuple(value)

    def flag(self, name: str) -> bool:
        """Return a field that must be true or false."""
        value = self.get(name)
        if not isinstance(value, bool):
            self.fail(name, f"expected true or false, got {shown(value)}")
        return value

    def items(self, name: str) -> list[Any]:
        """Return a field that must be a list."""
        value = self.get(name)
        if not isinstance(value, list):
            self.fail(name, f"expected a list, got {shown(value)}")
        return value

    def objects(self, name: str) -> list[Fields]:
        """Return a field that must be a list of objects."""
        return [Fields(each, f"{self.where}: field {name!r}") for each in self.items(name)]


def shown(value: object) -> str:
    """Return a JSON value's form in error messages."""
    return f"{json.dumps(value)[:60]}"
