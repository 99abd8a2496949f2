"""The scenarios that models are evaluated on, as digests, so that none of them is trained on.

``evaluation.json`` has, for each of SOTOPIA's 90 environments, its id and two digests: of the words of its
text, and of those of its goals. It holds no text, and serves where the official data is not at hand.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files

from agentgym.core.hashing import content_id
from agentgym.envs.sotopia.data.profiles import EnvironmentProfile
from agentgym.envs.sotopia.markup import strip_tags
from agentgym.errors import UsageError

_WORD = re.compile(r"[^\W_]+")
_DIGITS = 16
"""Hex digits of a digest."""


def digests(environment: EnvironmentProfile) -> tuple[str, str]:
    """Return an environment's identity: a digest of its text's words, and one of its goals', in any order."""
    return _digest([environment.text]), _digest(sorted(environment.goals))


def check_unseen(environment: EnvironmentProfile) -> None:
    """Raise a UsageError if an environment to train on is one that models are evaluated on.

    It is one if it has the id of one, or the words of its text, or those of its two goals.
    """
    text, goals = digests(environment)
    ids, texts, wanted = _evaluated()
    if environment.id in ids or text in texts or goals in wanted:
        raise UsageError(
            f"{environment.where}: {environment.id!r:.60} repeats a scenario that SOTOPIA evaluates on: "
            "take it out of what is trained on"
        )


@cache
def _evaluated() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    table = json.loads(files(__package__).joinpath("evaluation.json").read_text("utf-8"))
    ids, texts, goals = (frozenset(column) for column in zip(*table, strict=True))
    return ids, texts, goals


def _digest(texts: list[str]) -> str:
    return content_id([_WORD.findall(strip_tags(text, None).lower()) for text in texts])[:_DIGITS]
