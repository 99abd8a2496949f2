"""Environments that papers train on, by the short names that the command line takes."""

from __future__ import annotations

from agentgym.errors import UsageError, nearest
from agentgym.registration import ENVIRONMENTS

ALFWORLD = "agentgym/ALFWorld-v0"
WEBSHOP = "agentgym/WebShop-v0"
SOKOBAN = "agentgym/Sokoban-v0"
VISUAL_SOKOBAN = "agentgym/VisualSokoban-v0"
EZPOINTS = "agentgym/EZPoints-v0"
HOTPOTQA = "agentgym/HotpotQA-v0"
SEARCHQA = "agentgym/SearchQA-v0"
PAPERSEARCH = "agentgym/PaperSearch-v0"
SOTOPIA = "agentgym/Sotopia-v0"


def short_name(env_id: str) -> str:
    """Return an id without its namespace and version.

    Example:
        >>> short_name("agentgym/WebShop-v0")
        'WebShop'
    """
    return env_id.rpartition("/")[2].rpartition("-v")[0]


def full_name(name: str) -> str:
    """Return the id that a short name or an id stands for, whatever its letters' case.

    Raises:
        UsageError: there is no such environment.

    Example:
        >>> full_name("webshop")
        'agentgym/WebShop-v0'
    """
    known = {spelled.lower(): env_id for env_id in ENVIRONMENTS for spelled in (env_id, short_name(env_id))}
    if name.lower() in known:
        return known[name.lower()]
    shorts = [short_name(env_id) for env_id in ENVIRONMENTS]
    raise UsageError(f"no environment {name!r}{nearest(name, shorts)}: name one of {', '.join(shorts)}")
