"""Texts of suites' files: a few tasks of some environments, played by the floor, the oracle and others."""

import json
from pathlib import Path
from typing import Any

RANDOM, ORACLE, RULES = ({"name": name, "kind": name} for name in ("random", "oracle", "rules"))


def env_table(env_id: str, tasks: int, *, label: str = "", split: str = "test", **keys: Any) -> str:
    """Return the table of an environment.

    Args:
        env_id: its id.
        tasks: how many are played.
        label: its label; empty for the name within the id.
        split: what they are drawn from.
        keys: further keys, ``kwargs`` and ``measures`` among them.
    """
    label = label or env_id.rpartition("/")[2].partition("-")[0]
    return _table("[[env]]", {"id": env_id, "label": label, "split": split, "tasks": tasks} | keys)


def suite_text(
    name: str, *envs: str, agents: tuple[dict[str, Any], ...] = (RANDOM, ORACLE), **keys: Any
) -> str:
    """Return the text of a suite.

    Args:
        name: its name.
        envs: tables of `env_table`.
        agents: keys of each agent's table.
        keys: further keys of the suite, after its name and version.
    """
    head = _table("", {"name": name, "version": "1"} | keys).lstrip()
    return "\n".join((head, *envs, *(_table("[[agent]]", agent) for agent in agents)))


def write_suite(folder: Path, text: str) -> Path:
    """Write a suite as ``suites/NAME.toml`` below a folder, where verification of its runs finds it."""
    name = text.split('"', 2)[1]
    path = folder / "suites" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _table(head: str, keys: dict[str, Any]) -> str:
    return "".join((f"{head}\n", *(f"{key} = {_value(value)}\n" for key, value in keys.items())))


def _value(value: Any) -> str:
    """Return a value as TOML has it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)
