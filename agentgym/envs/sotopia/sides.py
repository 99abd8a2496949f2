"""Two policies in one conversation: in self-chat, each plays one side."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.core.types import Completion, EpisodeListener, Policy, Request, Trajectory
from agentgym.envs.sotopia.scenarios import Side
from agentgym.errors import UsageError


class SidesPolicy:
    """Plays the first side with one policy and the second with another, in ``mode="self-chat"``.

    What a policy is asked is what it would be asked as a learner: `Request.history` holds the steps of its
    side.

    Example:
        >>> from agentgym.agents.random import RandomPolicy
        >>> from agentgym.envs.sotopia.env import SotopiaVectorEnv
        >>> from agentgym.rollout.worker import RolloutWorker
        >>> envs = SotopiaVectorEnv(2, mode="self-chat", split="test", autoreset_mode="Disabled")
        >>> both = SidesPolicy(RandomPolicy("template"), RandomPolicy("template"))
        >>> worker = RolloutWorker(envs, both, env_id="agentgym/Sotopia-v0")
        >>> len(worker.collect(envs.tasks.ids[:1], group_size=2, seed=0)[0].trajectories)
        2
    """

    def __init__(self, first: Policy, second: Policy):
        """Give each side its policy."""
        self.policies: tuple[Policy, Policy] = (first, second)

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Ask each policy once, about the requests of its side.

        Raises:
            UsageError: a request is of another suite or mode.
        """
        sides = [_side(request) for request in requests]
        completions: list[Completion] = [Completion("")] * len(requests)
        for side, policy in enumerate(self.policies):
            places = [place for place, acting in enumerate(sides) if acting == side]
            if places:
                answers = policy.act([requests[place] for place in places])
                for place, answer in zip(places, answers, strict=True):
                    completions[place] = answer
        return completions

    def ended(self, trajectory: Trajectory) -> None:
        """Pass a finished episode on to the policies that listen."""
        for policy in self.policies:
            if isinstance(policy, EpisodeListener):
                policy.ended(trajectory)


def _side(request: Request) -> Side:
    side = request.extra.get("side")
    if side not in (0, 1):
        raise UsageError("a policy for each side plays agentgym/Sotopia-v0 with mode='self-chat'")
    return 0 if side == 0 else 1
