"""Rule-based shopper, with an agent's view: the baseline of reading agents.

It searches the instruction, opens the first hit, chooses of each option the longest value that the
instruction names, and buys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentgym.core.policies import RequestPolicy
from agentgym.core.types import Policy, Request
from agentgym.errors import UnsupportedEnvError
from agentgym.vector.core import AgentVectorEnv

SUITE = "webshop"

_BUY = "click[buy now]"
_NEXT = "click[next >]"
_BACK = "click[< prev]"

_PIECES = re.compile(r" \[SEP\] |\n")
_MARKED = re.compile(r" *\[(?:clicked )?button\] (.*) \[(?:clicked )?button_\]")
_NOT_SAID = re.compile(r"[\[\]\s]+")
"""Characters that a query cannot have or does not need."""


def make_shopper(envs: AgentVectorEnv) -> Policy:
    """Make the agent ``shopper``."""
    if envs.prototype.suite != SUITE:
        name = type(envs.prototype).__name__
        raise UnsupportedEnvError(f"the agent 'shopper' plays WebShop, not {name}; use the agent 'rules'")
    return ShopperPolicy()


class ShopperPolicy(RequestPolicy):
    """Plays WebShop by rule, in any of its modes. It remembers nothing: all follows from the request.

    Example:
        >>> page = "Back to Search [SEP] < Prev [SEP] color [SEP] red [SEP] dark red [SEP] A Lamp"
        >>> actions = ("search[<query>]", "click[back to search]", "click[< prev]", "click[buy now]",
        ...            "click[red]", "click[dark red]")
        >>> request = Request(episode=0, task_id="t", task_type="", turn=2, observation=page, seed=7,
        ...                   admissible_actions=actions, state_hash="0",
        ...                   extra={"goal": "a dark red lamp"})
        >>> ShopperPolicy().act([request])[0].action
        'click[dark red]'
    """

    def _action(self, request: Request) -> str:
        actions = request.admissible_actions
        if _BUY in actions:
            earlier = {step.action for step in request.history}
            return next(
                (f"click[{value}]" for value in _wanted(request) if f"click[{value}]" not in earlier), _BUY
            )
        if _NEXT in actions:
            hits = actions[actions.index(_NEXT) + 1 :]
            return hits[0] if hits else _query(request, words=max(1, len(request.extra["goal"].split()) // 2))
        return _BACK if _BACK in actions else _query(request)


def _query(request: Request, words: int | None = None) -> str:
    """Search the instruction, or its first words."""
    wanted = _NOT_SAID.sub(" ", request.extra["goal"]).split()
    return f"search[{' '.join(wanted[:words])}]"


def _wanted(request: Request) -> Iterator[str]:
    """Yield, of each option that the page shows, the longest value that the instruction names."""
    goal = request.extra["goal"].lower()
    for values in _options(request):
        named = [value for value in values if re.search(rf"(?<!\w){re.escape(value)}(?!\w)", goal)]
        if named:
            yield max(named, key=len)


def _options(request: Request) -> Iterator[list[str]]:
    """Yield the values of each option: on the page they follow its name, which cannot be clicked."""
    clickable = {action[6:-1] for action in request.admissible_actions}
    values: list[str] = []
    for piece in _PIECES.split(request.observation):
        marked = _MARKED.fullmatch(piece)
        text = marked[1] if marked else piece.strip("'")
        if text in clickable:
            values.append(text)
        elif text.lower() not in clickable and values:
            yield values
            values = []
