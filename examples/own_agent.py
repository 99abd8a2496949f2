"""An agent of one's own: in each state it plays what it has tried least there.

Suites and the command line know it as `examples.own_agent:make`:

    agentgym bench examples/own_suite.toml --verify
    agentgym play examples.own_env:examples/NumberLine-v0 --agent examples.own_agent:make
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agentgym import AgentVectorEnv, Completion, Policy, Request, UsageError
from agentgym.core.rng import TurnRng


def make(envs: AgentVectorEnv, *, memory: int = 100) -> Policy:
    """Make the agent, as suites and the command line do.

    Args:
        envs: what it will play.
        memory: number of past steps that it remembers.
    """
    if envs.prototype.action_kind == "template":
        raise UsageError("examples.own_agent plays no actions with free slots: use the agent 'random'")
    return LeastTried(memory)


class LeastTried:
    """Plays an admissible action that it has played least often in this state.

    All it knows is in the request, so its choice does not depend on the other
    episodes of the batch, and a resumed run ends as an uninterrupted one.
    """

    def __init__(self, memory: int):
        """Take the number of past steps that it remembers."""
        self._memory = memory

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer each request."""
        return [Completion(self._choose(request)) for request in requests]

    def _choose(self, request: Request) -> str:
        past = request.history[-self._memory :] if self._memory else ()
        here, actions = request.state_hash, request.admissible_actions
        tried = Counter(step.action for step in past if step.state_hash == here)
        fewest = min(tried[action] for action in actions)
        candidates = [action for action in actions if tried[action] == fewest]
        return candidates[TurnRng(request.seed, request.turn).below(len(candidates))]
