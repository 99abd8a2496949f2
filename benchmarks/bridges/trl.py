"""Recorded episodes played again through TRL's tools: ``python -m benchmarks.bridges.trl``.

Each suite's tools are found and called as TRL's trainer does it: by inspecting an instance's class, with the
arguments that a model's call would have, over instances that are used again and again. The schemas are those
that transformers makes of the methods.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from transformers.utils.chat_template_utils import get_json_schema

from agentgym.bridges.trl import EnvironmentFactory
from agentgym.core.tools import Tool, call_of
from agentgym.core.types import Trajectory
from agentgym.registration import ENVIRONMENTS, make
from benchmarks.bridges.recorded import Comparison, Reached, compare, record, write_report

EPISODES = 200
ABOUT = """Episodes were recorded in each environment's vector form, half by the random agent and half by the
rules, a call a step. Then each action was called as TRL does it, on one instance that is reset again and
again: a method found on its class, with a call's arguments after JSON. Rewards and hashes are compared bit
for bit, ends as `terminated` and `truncated`. "Else" counts where `get_reward`, a call after the end, the
outcome, or the schema that transformers makes of a method is not what it should be."""


class ToolCaller:
    """Plays by calling the methods of one instance, as they are named in a chat's tool calls."""

    def __init__(self, factory: EnvironmentFactory, tools: Sequence[Tool]):
        """Make the instance, and find its methods where TRL looks for them."""
        self._player, self._tools = factory(), tuple(tools)
        named = inspect.getmembers(type(self._player), predicate=inspect.isfunction)
        found = [
            name for name, _ in named if name not in ("reset", "get_reward") and not name.startswith("_")
        ]
        self.methods: dict[str, Callable[..., Any]] = {name: getattr(self._player, name) for name in found}

    def begin(self, task: str, seed: int) -> str:
        """Reset the instance with a row of a dataset."""
        shown = self._player.reset(prompt=[], task=task, seed=seed)
        assert shown
        return str(self._player.info["state_hash"])

    def play(self, action: str) -> Reached:
        """Make the call that an action is."""
        call = call_of(self._tools, action)
        if call is None:
            raise ValueError(f"the recorded action {action!r} is no call")
        self.methods[call.name](**json.loads(json.dumps(dict(call.arguments))))
        player = self._player
        return Reached(player.rewards[-1], player.terminated, player.truncated, player.info["state_hash"])

    def end(self, trajectory: Trajectory) -> Iterator[str]:
        """Compare the outcome, and call a tool after the end."""
        player, last = self._player, trajectory.steps[-1]
        if player.get_reward() != sum(step.reward for step in trajectory.steps):
            yield f"get_reward() is {player.get_reward()}"
        if (player.info["won"], player.info["score"]) != (trajectory.won, trajectory.score):
            yield f"won {player.info['won']} with the score {player.info['score']}"
        try:
            self.play(last.action)
        except ValueError as error:
            if str(error) != "Game over":
                yield f"a call after the end says {error}"
        else:
            yield "a call after the end was played"


def wrong_schemas(caller: ToolCaller, tools: Sequence[Tool]) -> Iterator[str]:
    """Yield the tools whose method's schema, as transformers makes it, is not the suite's own."""
    for tool in tools:
        own, made = tool.schema()["function"], get_json_schema(caller.methods[tool.name])["function"]
        for name, described in own["parameters"]["properties"].items():
            described.setdefault("description", f"The {name}.")
        if not own["parameters"]["required"]:
            del own["parameters"]["required"]
        if made != {**own, "return": {"type": "string"}}:
            yield tool.name


def play(env_id: str, episodes: int) -> Comparison:
    """Record episodes of an environment, and play them through its tools."""
    factory, tools = EnvironmentFactory(env_id), make(env_id).tools
    found = compare(env_id, record(env_id, episodes, single=True), partial(ToolCaller, factory, tools))
    for name in wrong_schemas(ToolCaller(factory, tools), tools):
        found.differs("other", f"the schema of {name}")
    return found


def main() -> int:
    """Compare every environment, and write the report."""
    found = [play(env_id, EPISODES) for env_id in ENVIRONMENTS]
    title = "Recorded episodes through TRL's tools"
    return write_report("trl", title, ABOUT, found, ("trl", "transformers", "gymnasium"))


if __name__ == "__main__":
    raise SystemExit(main())
