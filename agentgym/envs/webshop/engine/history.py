"""Earlier observations and actions, shown with the observation now."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from agentgym.envs.webshop.engine.text import SEPARATOR


class Past(NamedTuple):
    """Earlier observations and actions, oldest first: as many as are shown again."""

    observations: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """Amount of the past in observations.

    Example:
        >>> history = History(observations=1, actions=1)
        >>> history.joined(history.add(Past(), "first page", "search[a]"), "second page")
        'first page [SEP] search[a] [SEP] second page'
    """

    observations: int = 0
    actions: int = 0

    def __bool__(self) -> bool:
        """Whether anything is shown."""
        return bool(self.observations or self.actions)

    def add(self, past: Past, observation: str, action: str) -> Past:
        """Return the past after an action; what is not shown again is forgotten."""
        observations, actions = (*past.observations, observation), (*past.actions, action)
        return Past(_last(observations, self.observations), _last(actions, self.actions))

    def check(self, past: Past) -> None:
        """Raise a ValueError if more of the past is stored than is shown."""
        if len(past.observations) > self.observations or len(past.actions) > self.actions:
            raise ValueError("it keeps more of the past than is shown here")

    def joined(self, past: Past, observation: str) -> str:
        """Return the past and the observation now, newest last, as the original joins them."""
        shown = [observation]
        for action, earlier in zip_longest(reversed(past.actions), reversed(past.observations)):
            shown += (text for text in (action, earlier) if text is not None)
        return SEPARATOR.join(reversed(shown))


def _last(texts: tuple[str, ...], count: int) -> tuple[str, ...]:
    return texts[max(0, len(texts) - count) :]
