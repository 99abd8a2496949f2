"""inspect_ai 0.3: each suite as a task, ``inspect eval agentgym/webshop --model ... -T split=test``.

The entry point ``agentgym`` of the group ``inspect_ai`` names this module. A sample's environment is a
snapshot in its store, which each tool call restores, steps and replaces, so that epochs, retries and samples
that run at once share only the read-only world. `agentgym.evaluation.imports` reads the logs.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, execute_tools
from inspect_ai.scorer import Score, mean, scorer, stderr
from inspect_ai.solver import solver
from inspect_ai.tool import ToolDef, ToolError, ToolParam, ToolParams
from inspect_ai.util import registry_info, store

from agentgym.core.tools import Tool
from agentgym.core.types import Snapshot
from agentgym.env import AgentEnv
from agentgym.errors import UsageError
from agentgym.evaluation.imports.inspect import LISTED, STORE
from agentgym.prompts.formats.calls import action_of_raw_call
from agentgym.reading import RawCall, UnreadableError
from agentgym.registration import ENVIRONMENTS, open_env

SYSTEM = (
    "You act in an environment through tools. Call one tool at a time: each call is an action, and its "
    "result is what you observe next. Go on until the episode has ended."
)
MAX_UNPLAYED = 3
"""Responses in which no call is played, one after the other, that end a sample."""


def _begin(env: AgentEnv[Any], seed: int) -> Any:
    """Return the solver that resets a sample's environment; epoch k is rollout k - 1."""

    async def solve(state: Any, generate: Any) -> Any:
        game, options = env.spawn(), {"task": str(state.sample_id), "rollout": state.epoch - 1}
        observation, info = game.reset(seed=seed, options=options)
        state.store.set(STORE, {"actions": [], "rewards": [], "snapshot": _saved(game), "over": False})
        state.tools = [_tool(each, env) for each in env.suite_spec.tools]
        state.messages = [
            ChatMessageSystem(content=SYSTEM),
            ChatMessageUser(content=_shown(observation, info)),
        ]
        return state

    return solver(name="agentgym_begin")(lambda: solve)()


def _play() -> Any:
    """Return the solver that lets the model play to the end; ``--solver`` puts another one in its place."""

    async def solve(state: Any, generate: Any) -> Any:
        unplayed = 0
        while unplayed < MAX_UNPLAYED and not (state.completed or state.store.get(STORE)["over"]):
            before = len(state.store.get(STORE)["actions"])
            state = await generate(state, tool_calls="none", parallel_tool_calls=False)
            called = bool(state.output.message.tool_calls)
            results = (await execute_tools(state.messages, state.tools)).messages
            state.messages += results if called else [ChatMessageUser(content="Call one of the tools.")]
            unplayed = 0 if len(state.store.get(STORE)["actions"]) > before else unplayed + 1
        return state

    return solver(name="agentgym_play")(lambda: solve)()


def _tool(tool: Tool, env: AgentEnv[Any]) -> Any:
    async def execute(**kwargs: Any) -> str:
        try:
            action, _ = action_of_raw_call(RawCall(tool.name, kwargs), (tool,))
        except UnreadableError as error:
            raise ToolError(str(error)) from error
        return _step(env, action)

    schema = tool.schema()["function"]["parameters"]
    # inspect_ai refuses parameters without a description
    described = {name: {"description": name, **each} for name, each in schema["properties"].items()}
    properties = {name: ToolParam(**each) for name, each in described.items()}
    parameters = ToolParams(properties=properties, required=schema["required"])
    return ToolDef(execute, tool.name, tool.description, parameters, max_output=0).as_tool()


def _step(env: AgentEnv[Any], action: str) -> str:
    """Play an action in the current sample's environment; return the observation."""
    saved = store().get(STORE)
    if saved["over"]:
        raise ToolError("The episode has ended.")
    game, _ = _restored(env, saved)
    observation, reward, terminated, truncated, info = game.step(action)
    actions, rewards = [*saved["actions"], action], [*saved["rewards"], float(reward)]
    over = terminated or truncated
    store().set(STORE, {"actions": actions, "rewards": rewards, "snapshot": _saved(game), "over": over})
    return _shown(observation, info)


def _measures(env: AgentEnv[Any]) -> Any:
    """Return the scorer: score, success and the suite's measures, counted as boards count them."""

    async def score(state: Any, target: Any) -> Any:
        saved = state.store.get(STORE)
        game, info = _restored(env, saved)
        values = {"score": info["score"] * saved["over"], "success": float(info["won"] and saved["over"])}
        values |= env.suite_spec.counted(game.measures(), aborted=not saved["over"])
        return Score(value=values, answer=(saved["actions"] or [""])[-1])

    return scorer(metrics={"*": [mean(), stderr()]}, name="agentgym")(lambda: score)()


def _saved(game: AgentEnv[Any]) -> str:
    return b64encode(game.snapshot().to_bytes()).decode()


def _restored(env: AgentEnv[Any], saved: Mapping[str, Any]) -> tuple[AgentEnv[Any], dict[str, Any]]:
    game = env.spawn()
    return game, game.restore(Snapshot.from_bytes(b64decode(saved["snapshot"])))[1]


def _shown(observation: str, info: Mapping[str, Any]) -> str:
    return observation + LISTED + ("; ".join(info["admissible_actions"]) or "none. The episode has ended.")


def _register(name: str, env_id: str) -> Callable[..., Any]:
    def make(
        split: Any = None, tasks: int = 100, seed: int = 0, options: dict[str, Any] | None = None
    ) -> Task:
        env = open_env(env_id, split=split, options=options or {})
        if tasks < 1:
            raise UsageError(f"tasks must be at least 1, got {tasks}")
        few = env.tasks[: min(tasks, len(env.tasks))]
        return Task(
            dataset=MemoryDataset([Sample(id=each.id, input=each.source_id or each.id) for each in few]),
            setup=_begin(env, seed),
            solver=_play(),
            scorer=_measures(env),
            metadata={"env": env_id, "split": env.tasks.split, "options": options or {}, "seed": seed},
        )

    made: Callable[..., Any] = task(name=name)(make)
    # inspect_ai adds no package to the name in an editable install, whose files it takes for no package's
    return made if registry_info(made).name != name else task(name=f"agentgym/{name}")(make)


TASKS = {
    name: _register(name, env_id)
    for env_id in ENVIRONMENTS
    if not (name := env_id.removeprefix("agentgym/").removesuffix("-v0").lower()).startswith("visual")
}
"""Tasks by name, for ``inspect eval agentgym/NAME``. Environments that show pictures are left out."""
