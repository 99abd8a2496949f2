"""Random baselines: admissible actions, random strings."""

from __future__ import annotations

import re
from typing import Literal

from agentgym.core.episodes import observed_text
from agentgym.core.policies import RequestPolicy
from agentgym.core.rng import TurnRng
from agentgym.core.types import Observation, Policy, Request
from agentgym.vector.core import AgentVectorEnv

MAX_STRING_LENGTH = 4096
"""Length of the longest string that `RandomStringPolicy` says, in characters."""

_SLOT = re.compile(r"<[^<>]*>")
_WORD = re.compile(r"\w+")
_SURROGATES = range(0xD800, 0xE000)
_CODE_POINTS = 0x110000 - len(_SURROGATES)


def make_random(envs: AgentVectorEnv) -> Policy:
    """Make the agent ``random``."""
    return RandomPolicy(envs.prototype.action_kind)


def make_random_strings(envs: AgentVectorEnv) -> Policy:
    """Make the agent ``random-strings``."""
    return RandomStringPolicy()


class RandomPolicy(RequestPolicy):
    """Uniform over the admissible actions.

    The action is a function of the request's seed and turn, so an episode is the same in any batch.
    Where actions are templates, each slot is filled with one to three words of the observation.
    """

    def __init__(self, action_kind: Literal["enumerated", "template"] = "enumerated"):
        """Take whether angle brackets mark slots."""
        self._templates = action_kind == "template"

    def _action(self, request: Request) -> str:
        draws = TurnRng(request.seed, request.turn)
        actions = request.admissible_actions
        if not actions:  # stuck but not over: every answer is rejected until the step limit
            return ""
        action = actions[draws.below(len(actions))]
        return fill_slots(action, request.observation, draws) if self._templates else action


class RandomStringPolicy(RequestPolicy):
    """Random strings: empty, of any script, very long, or nearly admissible.

    A floor for environments, which must reject each without an exception. Lone surrogates are left
    out, since no model's decoded output contains them.
    """

    def _action(self, request: Request) -> str:
        draws = TurnRng(request.seed, request.turn)
        kind = draws.below(16)
        if kind == 0:
            return ""
        if kind == 1:
            return " \t\n\u00a0\u2028"[: 1 + draws.below(5)]
        if kind < 6:
            return _near_miss(request.admissible_actions, draws)
        text = "".join(_character(draws) for _ in range(1 + draws.below(24)))
        if kind == 15:
            return (text * MAX_STRING_LENGTH)[:MAX_STRING_LENGTH]
        return text


def fill_slots(action: str, observation: Observation, draws: TurnRng) -> str:
    """Return an admissible action with one to three words of the observation in each slot.

    An action without slots stays; where the observation has no word, the slot's own name stands for one.

    Example:
        >>> fill_slots("answer[<text>]", "Rain.", TurnRng(seed=0, turn=0))
        'answer[Rain Rain]'
    """
    words = _WORD.findall(observed_text(observation)) if _SLOT.search(action) else []

    def phrase(slot: re.Match[str]) -> str:
        known = words or [slot[0].strip("<>")]
        return " ".join(known[draws.below(len(known))] for _ in range(1 + draws.below(3)))

    return _SLOT.sub(phrase, action)


def _near_miss(actions: tuple[str, ...], draws: TurnRng) -> str:
    """Return an admissible action changed a little."""
    if not actions:
        return "?"
    action = actions[draws.below(len(actions))]
    other = actions[draws.below(len(actions))]
    changed = (action.upper(), f" {action}", f"{action}\n", action[:-1], action + other, f"{action}\0")
    return changed[draws.below(len(changed))]


def _character(draws: TurnRng) -> str:
    """Draw from ASCII, the basic plane or all of Unicode, each with probability 1/3."""
    code = draws.below((0x80, 0x10000 - len(_SURROGATES), _CODE_POINTS)[draws.below(3)])
    return chr(code if code < _SURROGATES.start else code + len(_SURROGATES))
