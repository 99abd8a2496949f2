"""Rule-based paper collector, with an agent's view: the baseline of reading agents.

It searches for the query and its phrases, then expands, step by step, the new papers shown that share most
words with the query, and stops when there are none.
"""

from __future__ import annotations

import re

from agentgym.core.calls import Call, write_calls
from agentgym.core.policies import RequestPolicy
from agentgym.core.types import Policy, Request
from agentgym.envs.papersearch.candidates import phrases
from agentgym.envs.papersearch.engine.findings import EXPAND, SEARCH, normalised
from agentgym.errors import UnsupportedEnvError
from agentgym.vector.core import AgentVectorEnv

SUITE = "papersearch"

CALLS = 5
"""Largest number of calls in an action."""

_NEW = re.compile(r"^\[([^\n\]]+)\](?: \([0-9.]+\))? new: (.*)\nAbstract: (.*)$", re.MULTILINE)
_WORD = re.compile(r"\w+")


def make_collector(envs: AgentVectorEnv) -> Policy:
    """Make the agent ``rules`` of this suite."""
    env = envs.prototype
    if env.suite != SUITE:
        raise UnsupportedEnvError(
            f"the agent 'collector' plays paper search, not {type(env).__name__}; use the agent 'rules'"
        )
    if env.action_kind != "template":
        raise UnsupportedEnvError("the agent 'collector' writes calls: leave out actions='candidates'")
    return CollectorPolicy()


class CollectorPolicy(RequestPolicy):
    r"""Plays paper search by rule. It remembers nothing: all follows from the request.

    Example:
        >>> page = "[p1] new: Bees\nAbstract: Hives.\n\n[p2] new: Ice of rivers\nAbstract: A river."
        >>> request = Request(episode=0, task_id="t", task_type="", turn=1, observation=page, seed=7,
        ...                   admissible_actions=("search[<query>]", "expand[<paper>]", "stop"),
        ...                   state_hash="0", extra={"goal": "river ice"})
        >>> CollectorPolicy().act([request])[0].action.split()
        ['expand[p2]', 'expand[p1]']
    """

    def _action(self, request: Request) -> str:
        query = request.extra["goal"]
        if request.turn == 0:
            texts = {normalised(text): text for text in reversed((query, *phrases(query)))}
            return write_calls([Call(SEARCH, text) for text in list(reversed(texts.values()))[:CALLS]])
        wanted = set(_WORD.findall(query.lower()))
        shared = [
            (len(wanted.intersection(_WORD.findall(f"{title} {abstract}".lower()))), id)
            for id, title, abstract in _NEW.findall(request.observation)
        ]
        ranked = sorted(shared, key=lambda entry: -entry[0])  # stable: else the best shown come first
        return write_calls([Call(EXPAND, id) for _, id in ranked[:CALLS]]) if ranked else "stop"
