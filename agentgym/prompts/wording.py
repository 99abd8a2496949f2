"""Wordings: a suite's part of prompts, as sections read from a TOML file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from agentgym.core.options import check_choice
from agentgym.errors import UsageError, nearest
from agentgym.io.untrusted import loads_toml, open_regular
from agentgym.prompts.sections import SECTIONS, check_text

_KEYS = {
    "id": str,
    "version": int,
    "extends": str,
    "separator": str,
    "example_thought": str,
    "example_actions": list,
    "sections": dict,
    "fields": str,
}
_INHERITED = ("separator", "example_thought", "example_actions")


@dataclass(frozen=True, slots=True)
class Wording:
    """Wording of a suite, for any answer format."""

    id: str
    versions: tuple[int, ...]
    """Versions of the files it is made of, the most general first."""
    separator: str
    """Separator between possible actions."""
    example_thought: str
    example_actions: list[str]
    """Actions of the example of an answer, which has a thought too."""
    sections: Mapping[str, str]
    """Texts by name."""
    fields: str = ""
    """``module:function`` that builds the slots from a request, as `PromptFields.of` does where it is empty.
    Only built-in wordings name one; a file of one's own has that of the wording it extends."""

    def to_json(self) -> dict[str, Any]:
        """Return what pins the words; without ``fields`` where there is none."""
        return {key: value for key, value in asdict(self).items() if key != "fields" or value}


def read_wording(name: str) -> Wording:
    """Read a wording, with what it extends filled in.

    Args:
        name: a built-in wording, or the path of a file that ends in ``.toml``.

    Raises:
        UsageError: there is none, or it is no good; the message names the key, section or slot.
    """
    own = name.endswith(".toml")
    where = f"the template file {name}" if own else f"the wording {name!r}"
    text = read_file(Path(name), where) if own else read_built_in("wordings", name, "wording")
    table = parse_table(text, _KEYS, where)
    check_complete(table, ("id", "version"), where)
    if own and "fields" in table:
        raise UsageError(f"{where} names fields, which are code: extend a built-in wording that has them")
    sections = table.pop("sections", {})
    check_keys(sections, dict.fromkeys(SECTIONS, str), f"{where}: sections")
    for key, section in sections.items():
        check_text(section, SECTIONS[key], f"{where}: section {key!r}")
    versions: tuple[int, ...] = (table.pop("version"),)
    if "extends" in table:
        extended = table.pop("extends")
        check_choice("wording", extended, names_of("wordings"), where=f"{where} extends an ")
        base = read_wording(extended)
        versions = base.versions + versions
        sections = {**base.sections, **sections}
        for key in _INHERITED:
            table.setdefault(key, getattr(base, key))
        table.setdefault("fields", base.fields)
    check_complete(table, _INHERITED, where)
    check_complete(sections, (key for key, section in SECTIONS.items() if not section.optional), where)
    if not all(isinstance(action, str) for action in table["example_actions"]):
        raise UsageError(f"{where}: example_actions are strings: put them in quotes")
    return Wording(versions=versions, sections=sections, **table)


def names_of(kind: str) -> tuple[str, ...]:
    """Return the names of the built-in files of a kind, ``wordings`` or ``answers``, sorted."""
    return tuple(sorted(_built_in(kind)))


def read_built_in(kind: str, name: str, called: str) -> str:
    """Return the text of a built-in file.

    Raises:
        UsageError: there is none of this name.
    """
    known = _built_in(kind)
    check_choice(called, name, sorted(known))
    return known[name].read_text(encoding="utf-8")


@cache
def _built_in(kind: str) -> dict[str, Traversable]:
    """Return the built-in files by name; a suite keeps wordings of its own in its folder's ``prompts``."""
    package = files("agentgym")
    folders = [package.joinpath("prompts", kind)]
    if kind == "wordings":
        suites = package.joinpath("envs").iterdir()
        folders += [suite.joinpath("prompts") for suite in suites if suite.joinpath("prompts").is_dir()]
    return {
        entry.name.removesuffix(".toml"): entry
        for folder in folders
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    }


def parse_table(text: str, keys: Mapping[str, type], where: str) -> dict[str, Any]:
    """Parse a file and check its keys.

    Raises:
        UsageError: not TOML, an unknown key, or a value of another type.
    """
    table = loads_toml(text, where)
    check_keys(table, keys, where)
    return table


def check_keys(table: Mapping[str, Any], keys: Mapping[str, type], where: str) -> None:
    """Refuse unknown keys and values of another type, bool for int included."""
    for key, value in table.items():
        if key not in keys:
            raise UsageError(
                f"{where} has an unknown key {key!r}{nearest(key, keys)}; it takes {', '.join(keys)}"
            )
        if type(value) is not keys[key]:
            raise UsageError(f"{where}: {key} is of type {keys[key].__name__}, got {value!r:.40}")


def check_complete(table: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
    """Refuse a table without one of ``keys``."""
    for key in keys:
        if key not in table:
            raise UsageError(f"{where} lacks {key!r}: add it")


def read_file(path: Path, where: str) -> str:
    """Return the text of a file of one's own.

    Raises:
        UsageError: it cannot be read, or is no UTF-8.
    """
    try:
        with open_regular(path) as file:
            return file.read().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise UsageError(f"cannot read {where}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{where} is not UTF-8 text (byte {error.start})") from error
