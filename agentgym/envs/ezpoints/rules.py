"""Rule-based baseline: it reads the cards and computes.

With ``observation="image"`` it reads the text beside the picture, which names the cards as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentgym.core.episodes import observed_text
from agentgym.core.policies import RequestPolicy
from agentgym.core.types import Policy, Request
from agentgym.envs.ezpoints.cards import TARGET
from agentgym.envs.ezpoints.formula import END
from agentgym.vector.core import AgentVectorEnv

_CARDS = re.compile(r"^Cards: (\w+) of \w+, (\w+) of \w+$", re.MULTILINE)
_FORMULA = re.compile(r"^Formula: (?:\(empty\)|(.*))$", re.MULTILINE)


def make_calculator(envs: AgentVectorEnv) -> Policy:
    """Make the agent ``rules`` of EZPoints."""
    return CalculatorPolicy()


class CalculatorPolicy(RequestPolicy):
    r"""Writes the formula that makes 12. It keeps nothing: all follows from the observation.

    Example:
        >>> text = "Make 12.\nCards: K of hearts, 2 of spades\nFormula: 10"
        >>> request = Request(episode=0, task_id="t", task_type="", turn=1, seed=7, state_hash="0",
        ...                   observation=text, admissible_actions=("2", "+", "*", "="))
        >>> CalculatorPolicy().act([request])[0].action
        '+'
    """

    def _action(self, request: Request) -> str:
        """Return the next token of a formula that begins as the one played; ``=`` where there is none."""
        text = observed_text(request.observation)
        cards, formula = _CARDS.search(text), _FORMULA.search(text)
        if cards is None or formula is None:
            return END
        played = (formula[1] or "").split()
        for tokens in _formulas(*(int(face) if face.isdecimal() else 10 for face in cards.groups())):
            if tokens[: len(played)] == played:
                return tokens[len(played)]
        return END


def _formulas(left: int, right: int) -> Iterator[list[str]]:
    """Yield the formulas of both numbers that come to 12."""
    sign = "+" if left + right == TARGET else "*"
    for first, second in ((left, right), (right, left)):
        yield [str(first), sign, str(second), END]
