"""What runs where a peer is installed: its own entry point plays the episodes on standard input.

    peer_play.py DOOR

Read are triples of an environment's id, the address of its server, and episodes: seed, actions, and the tool
calls that are the same actions. Prints JSON: versions of packages, and for each triple the episodes' opening
words, total reward and rows (text, reward, end, state hash), with null for what the door does not show.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

Episode = dict[str, Any]
Found = dict[str, Any]


def _found(rows: list[list[Any]], opening: str | None = None, total: float | None = None) -> Found:
    return {"rows": rows, "opening": opening, "total": total}


def _row(row: dict[str, Any]) -> list[Any]:
    """Return the row of a result in the server's form."""
    return [row["observation"].get("text"), row["reward"], row["done"], row["metadata"]["state_hash"]]


# ---- OpenEnv ------------------------------------------------------------------------------------


def _of_result(result: Any) -> list[Any]:
    seen = result.observation
    text = seen["text"] if isinstance(seen, dict) else getattr(seen, "text", None)
    metadata = result.metadata if isinstance(seen, dict) else seen.metadata
    return [text, result.reward, result.done, metadata["state_hash"]]


def openenv(env_id: str, url: str, episodes: list[Episode]) -> list[Found]:
    """Play actions with OpenEnv's generic client."""
    from openenv import GenericEnvClient

    found = []
    with GenericEnvClient(base_url=url).sync() as env:
        for episode in episodes:
            begun = env.reset(seed=episode["seed"], snapshot=False)
            rows = [_of_result(begun)]
            rows += [_of_result(env.step({"action": action})) for action in episode["actions"]]
            found.append(_found(rows, begun.observation["instructions"]))
    return found


def openenv_tools(env_id: str, url: str, episodes: list[Episode]) -> list[Found]:
    """Play tool calls with OpenEnv's client of tools."""
    from openenv.core.env_server.mcp_types import CallToolAction
    from openenv.core.mcp_client import MCPToolClient

    async def play() -> list[Found]:
        found = []
        async with MCPToolClient(base_url=url) as env:
            names = {tool.name for tool in await env.list_tools()}
            for episode in episodes:
                begun = await env.reset(seed=episode["seed"], snapshot=False)
                rows = [_of_result(begun)]
                for name, arguments in episode["calls"]:
                    assert name in names, f"{name} is not listed"
                    action = CallToolAction(tool_name=name, arguments=arguments)
                    rows.append(_of_result(await env.step(action)))
                found.append(_found(rows, begun.observation.instructions))
        return found

    return asyncio.run(play())


@contextmanager
def _served(app: Any) -> Iterator[str]:
    """Serve an application from a thread; yields its address."""
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def openenv_class(env_id: str, url: str, episodes: list[Episode]) -> list[Found]:
    """Serve the environment's class by OpenEnv's own server, and play it with its client."""
    from openenv.core.env_server.http_server import create_app

    from agentgym.bridges.openenv import AgentAction, AgentObservation, environment_class

    app = create_app(environment_class(env_id), AgentAction, AgentObservation, max_concurrent_envs=2)
    with _served(app) as own:
        return openenv(env_id, own, episodes)


def nemo_gym(env_id: str, url: str, episodes: list[Episode]) -> list[Found]:
    """Play through NeMo Gym's resources server of OpenEnv environments, a server an episode."""
    from unittest.mock import MagicMock

    from fastapi.testclient import TestClient
    from nemo_gym.server_utils import ServerClient
    from resources_servers.openenv.app import OpenEnvResourcesServer, OpenEnvResourcesServerConfig

    module, found = "agentgym.bridges.openenv", []
    for episode in episodes:
        config = OpenEnvResourcesServerConfig(
            host="127.0.0.1",
            port=1,
            entrypoint="app.py",
            name="openenv",
            env_class=f"{module}.{env_id.partition('/')[2].partition('-')[0]}",
            action_class=f"{module}.AgentAction",
            reset_kwargs={"seed": episode["seed"]},
        )
        server = OpenEnvResourcesServer(config=config, server_client=MagicMock(spec=ServerClient))
        with TestClient(server.setup_webserver()) as client:
            client.post("/seed_session", json={}).raise_for_status()
            rows: list[list[Any]] = [[None] * 4]  # the adapter keeps the first observation to itself
            for action in episode["actions"]:
                row = client.post("/step", json={"action": action}).raise_for_status().json()
                rows.append([row["text"], row["reward"], row["done"], row["metadata"]["state_hash"]])
            asked = {"responses_create_params": {"input": []}, "response": _response()}
            total = client.post("/verify", json=asked).raise_for_status().json()["reward"]
        found.append(_found(rows, total=total))
    return found


def _response() -> dict[str, Any]:
    """Return an empty response in the form of OpenAI's Responses."""
    settings = {"parallel_tool_calls": False, "tool_choice": "auto", "tools": [], "output": []}
    return {"id": "none", "created_at": 0.0, "model": "none", "object": "response"} | settings


# ---- others -------------------------------------------------------------------------------------


def mcp(env_id: str, url: str, episodes: list[Episode]) -> list[Found]:
    """Play tool calls with the SDK of the Model Context Protocol, a session an episode."""
    import mcp as sdk

    newer = hasattr(sdk, "Client")  # since its version 2

    async def calls(client: Any, episode: Episode) -> list[list[Any]]:
        names = {tool.name for tool in (await client.list_tools()).tools}
        rows: list[list[Any]] = [[None] * 4]  # `initialize` answers with words
        for name, arguments in episode["calls"]:
            assert name in names, f"{name} is not listed"
            result = await client.call_tool(name, arguments)
            rows.append(_row(result.structured_content if newer else result.structuredContent))
        return rows

    async def play(episode: Episode) -> Found:
        address = f"{url}/mcp?seed={episode['seed']}"
        if newer:
            async with sdk.Client(address) as client:
                return _found(await calls(client, episode), client.instructions)
        from mcp.client.streamable_http import streamable_http_client

        async with streamable_http_client(address) as streams, sdk.ClientSession(*streams[:2]) as session:
            begun = await session.initialize()
            return _found(await calls(session, episode), begun.instructions)

    return [asyncio.run(play(episode)) for episode in episodes]


def gem(env_id: str, url: str, episodes: list[Episode]) -> list[Found]:
    """Play what gem makes, in one of its wrappers."""
    import gem as peer
    from gem.wrappers.wrapper_factory import WRAPPER_FACTORY

    peer.register(env_id, "agentgym.bridges.gem:make_gem_env", name=env_id)
    env, found = WRAPPER_FACTORY["episode_tracking"](peer.make(env_id)), []
    for episode in episodes:
        seen, info = env.reset(seed=episode["seed"])
        rows = [[seen, None, False, info["state_hash"]]]
        for action in episode["actions"]:
            seen, reward, terminated, truncated, info = env.step(action)
            rows.append([seen, reward, terminated or truncated, info["state_hash"]])
        found.append(_found(rows, total=info["cumulative_rewards"]))
    return found


def gymnasium(env_id: str, url: str, episodes: list[Episode]) -> list[Found]:
    """Play in a process of Gymnasium's asynchronous vector environment."""
    import gymnasium as peer

    env, found = peer.make_vec(f"agentgym:{env_id}", num_envs=1, vectorization_mode="async"), []
    for episode in episodes:
        seen, info = env.reset(seed=episode["seed"])
        rows: list[list[Any]] = [[str(seen[0]), None, False, str(info["state_hash"][0])]]
        for action in episode["actions"]:
            seen, reward, terminated, truncated, info = env.step([action])
            end = bool(terminated[0] or truncated[0])
            rows.append([str(seen[0]), float(reward[0]), end, str(info["state_hash"][0])])
        found.append(_found(rows))
    env.close()
    return found


def inspect_ai(env_id: str, url: str, episodes: list[Episode]) -> list[Found]:
    """Play by `eval` of inspect_ai, whose mock model makes the recorded calls."""
    import tiktoken
    from inspect_ai import eval as evaluate
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    from agentgym.evaluation.imports.inspect import LISTED, STORE
    from agentgym.registration import open_env

    tiktoken.get_encoding = lambda name: SimpleNamespace(encode=lambda text, **_: text.split())
    env, found = open_env(env_id), []
    for episode in episodes:
        outputs = [ModelOutput.for_tool_call("mockllm/model", *call) for call in episode["calls"]]
        for output in outputs:
            output.usage = ModelUsage()
        chosen = {"split": env.tasks.split, "tasks": len(env.tasks), "seed": episode["seed"]}
        with TemporaryDirectory() as folder:
            (log,) = evaluate(
                f"agentgym/{env_id.partition('/')[2].partition('-')[0].lower()}",
                model=get_model("mockllm/model", custom_outputs=outputs),
                task_args=chosen,
                sample_id=env.reset(seed=episode["seed"])[1]["task_id"],
                log_dir=folder,
                display="none",
            )
            (sample,) = log.samples  # read from the folder
        texts = [each.text.partition(LISTED)[0] for each in sample.messages if each.role in ("user", "tool")]
        rewards, over = sample.store[STORE]["rewards"], sample.store[STORE]["over"]
        ends = [False] * len(rewards) + [over]
        paid = zip(texts, [None, *rewards], ends, strict=True)
        found.append(_found([[*row, None] for row in paid], total=sum(rewards)))
    return found


DOORS: dict[str, tuple[Callable[[str, str, list[Episode]], list[Found]], tuple[str, ...]]] = {
    "openenv": (openenv, ("openenv",)),
    "openenv-tools": (openenv_tools, ("openenv",)),
    "openenv-class": (openenv_class, ("openenv",)),
    "nemo-gym": (nemo_gym, ("nemo-gym", "openenv")),
    "mcp": (mcp, ("mcp",)),
    "gem": (gem, ("gem-llm",)),
    "gymnasium": (gymnasium, ("gymnasium",)),
    "inspect": (inspect_ai, ("inspect-ai",)),
}
"""Function and packages of each door."""


def main() -> None:
    """Do what the command line asks."""
    play, packages = DOORS[sys.argv[1]]
    found = [play(*each) for each in json.load(sys.stdin)]
    print(json.dumps({"versions": {name: version(name) for name in packages}, "found": found}))


if __name__ == "__main__":
    main()
