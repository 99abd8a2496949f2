"""An agent that asks the person at the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentgym.agents.screen import show_state, show_step
from agentgym.types import Completion, Policy, Request
from agentgym.vector.core import AgentVectorEnv

DIRECTIONS = {"w": "up", "a": "left", "s": "down", "d": "right"}
"""Keys for games whose actions are these words."""


def make_human(envs: AgentVectorEnv) -> Policy:
    """Make the agent ``human``."""
    return HumanPolicy()


class HumanPolicy:
    """Shows each request and reads an action, as `choose` understands it."""

    def __init__(self, read: Callable[[], str] = input):
        """Take the source of lines; it raises EOFError at its end, which ends the episode."""
        from rich.console import Console

        self._read = read
        self._console = Console(highlight=False)

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Ask about each request in turn."""
        return [self._ask(request) for request in requests]

    def _ask(self, request: Request) -> Completion:
        actions = request.admissible_actions
        if request.history:
            show_step(self._console, request.history[-1])
        title = f"task {request.task_id}, turn {request.turn}"
        show_state(
            self._console,
            title,
            request.observation,
            actions,
            request.state_hash,
            numbered=has_numbers(actions),
        )
        try:
            line = self._read()
        except EOFError:
            return Completion("", error="agent_error")
        return Completion(choose(line, actions), text=line)


def has_numbers(actions: Sequence[str]) -> bool:
    """Return whether actions can be chosen by number: not where an action is itself a number."""
    return not any(action.isdigit() for action in actions)


def choose(line: str, actions: Sequence[str]) -> str:
    """Return the action that a typed line means.

    In this order: an admissible action, its number from 1, ``w a s d`` where all actions are
    directions, the beginning of exactly one admissible action. Any other line is taken as it is, for
    the environment to judge.

    Example:
        >>> moves = ("up", "down", "left", "right")
        >>> [choose(line, moves) for line in ("up", "2", "d", "le", "jump")]
        ['up', 'down', 'right', 'left', 'jump']
    """
    line = line.strip()
    if line in actions:
        return line
    if has_numbers(actions) and line.isdecimal() and 1 <= int(line) <= len(actions):
        return actions[int(line) - 1]
    if line in DIRECTIONS and set(actions) <= set(DIRECTIONS.values()):
        return DIRECTIONS[line]
    begun = [action for action in actions if action.lower().startswith(line.lower())] if line else []
    return begun[0] if len(begun) == 1 and "<" not in begun[0] else line
