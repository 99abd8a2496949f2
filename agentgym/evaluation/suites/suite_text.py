"""Suites as text: the TOML that `agentgym.evaluation.suites.suite.load_suite` reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from agentgym.core.hashing import canonical_json
from agentgym.evaluation.suites.suite import Suite
from agentgym.io.files import make_folder, replace_file


def write_suite(folder: Path, suite: Suite) -> None:
    """Write a suite's file into a folder, where `agentgym.evaluation.suites.suite_file_of_run` looks."""
    make_folder(folder)
    replace_file(folder / f"{suite.name}.toml", suite_text(suite))


def suite_text(suite: Suite) -> str:
    """Return a suite as TOML, without the defaults of environments and agents."""
    tables: list[tuple[str, Mapping[str, Any]]] = [("", suite.header)]
    tables += [("[[env]]", _given_fields(env)) for env in suite.env]
    tables += [("[[agent]]", _given_fields(agent)) for agent in suite.agent]
    return "\n".join(f"{line}\n" for title, table in tables for line in _toml_table(title, table))


def _given_fields(record: Any) -> dict[str, Any]:
    """Return the fields of a record that are not at their default, records in it likewise."""
    table = {}
    for field in fields(record):
        value = getattr(record, field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if value != default:
            table[field.name] = _given_fields(value) if hasattr(value, "__dataclass_fields__") else value
    return table


def _toml_table(title: str, table: Mapping[str, Any]) -> Iterator[str]:
    if title:
        yield f"\n{title}"
    for key, value in table.items():
        yield f"{toml_value(key)} = {toml_value(value)}"


def toml_value(value: Any) -> str:
    """Write a value; JSON's strings, numbers and truth values are TOML's, but for one character."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_value(key)} = {toml_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return canonical_json(value).replace("\x7f", "\\u007f")
