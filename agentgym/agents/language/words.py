"""The words that scaffolds add to a suite's, read from files with an id and a version."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from agentgym.core.hashing import sha256_json
from agentgym.io.untrusted import loads_toml


@cache
def scaffold_words(name: str) -> Mapping[str, str]:
    """Return the texts of a file by name: ``words`` or ``reflexion``."""
    text = files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return {key: value for key, value in loads_toml(text, name).items() if isinstance(value, str)}


@cache
def words_sha256(*names: str) -> str:
    """Return the sha256 over all texts of files."""
    return sha256_json({name: dict(scaffold_words(name)) for name in names})
