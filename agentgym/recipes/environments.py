"""Environments by the short names that the command line takes."""

from __future__ import annotations

from agentgym.core.options import check_choice
from agentgym.registration import ENVIRONMENTS


def short_name(env_id: str) -> str:
    """Return an id without its namespace and version.

    Example:
        >>> short_name("agentgym/WebShop-v0")
        'WebShop'
    """
    return env_id.rpartition("/")[2].rpartition("-v")[0]


def full_name(name: str) -> str:
    """Return the full id of a short name or an id, in any case of letters.

    Example:
        >>> full_name("webshop")
        'agentgym/WebShop-v0'
    """
    known = {spelled.lower(): env_id for env_id in ENVIRONMENTS for spelled in (env_id, short_name(env_id))}
    if name.lower() not in known:
        check_choice("environment", name, [short_name(env_id) for env_id in ENVIRONMENTS])
    return known[name.lower()]
