"""Description of a served environment for clients that know nothing of it: words, schemas and tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from agentgym.core.tools import Tool
from agentgym.core.types import Request
from agentgym.env import AgentEnv
from agentgym.prompts.rendering import render_opening, render_present
from agentgym.prompts.template import load_template
from agentgym.serving.env.wire import row_schema, write_space
from agentgym.version import __version__

MCP_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
"""Versions of the Model Context Protocol that the server speaks, the newest first."""

INSTRUCTIONS = "instructions"
"""Name of the member of an observation that states rules, task and possible actions."""

_template = cache(load_template)  # it reads files, and takes longer than a step


def instructions_of(env: AgentEnv[Any], row: Mapping[str, Any]) -> str:
    """Return the text of a session's result: rules and task at the start, then what is possible now."""
    info = row["metadata"]
    known = {key: info[key] for key in ("task_id", "task_type", "state_hash")}
    actions, text = tuple(info["admissible_actions"]), row["observation"].get("text", "")
    request = Request(
        episode=0,
        turn=info["turn"],
        observation=text,
        seed=0,
        extra=info,
        admissible_actions=actions,
        **known,
    )
    template = _template(env.suite_spec.prompt.wording, "bare")
    fields = template.fields(request, history=0)
    return render_present(template, fields) if info["turn"] else render_opening(template, fields)


def tool_list(tools: Sequence[Tool], schema: str) -> list[dict[str, Any]]:
    """Return tools as JSON: name, description, and the schema of the arguments by the name ``schema``."""
    functions = [tool.schema()["function"] for tool in tools]
    shown = ("name", "description")
    return [{key: each[key] for key in shown} | {schema: each["parameters"]} for each in functions]


def greeting(env_id: str, version: Any, instructions: str) -> dict[str, Any]:
    """Return the result of the Model Context Protocol's ``initialize``, in the client's version if known."""
    return {
        "protocolVersion": version if version in MCP_VERSIONS else MCP_VERSIONS[0],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": env_id, "version": __version__},
        "instructions": instructions,
    }


def tool_result(text: str, row: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the result of the protocol's ``tools/call``; without a row, the text says what was wrong."""
    content = {"content": [{"type": "text", "text": text}], "isError": row is None}
    return content if row is None else content | {"structuredContent": row}


def description_of(env_id: str, env: AgentEnv[Any]) -> dict[str, Any]:
    """Return an environment's options, tasks and space of observations, for clients in Python."""
    given = {name: value for name, value in env._arguments[1].items() if value is not None}
    return {
        "id": env_id,
        "version": __version__,
        "options": {"split": env.tasks.split} | given,
        "suite": env.suite,
        "tasks": len(env.tasks),
        "manifest_sha256": env.tasks.manifest_sha256,
        "max_steps": env.max_steps,
        "action_kind": env.action_kind,
        "observation_space": write_space(env.observation_space),
    }


def schemas_of(env_id: str, env: AgentEnv[Any], tools: Sequence[Tool]) -> dict[str, Any]:
    """Return the JSON Schemas of actions, observations and states; that of actions lists the tools."""
    text, shown = {"type": "string"}, row_schema(write_space(env.observation_space))
    ends = {"done": {"type": "boolean"}, "reward": {"type": ["number", "null"]}}
    state = {"episode_id": {"type": ["string", "null"]}, "step_count": {"type": "integer", "minimum": 0}}
    name = env_id.rpartition("/")[2].partition("-")[0]
    action = {"action": text | {"description": "an action, or a call of an available tool in its place"}}
    found: dict[str, dict[str, Any]] = {
        kind: {"title": name + kind.title(), "type": "object", "properties": members, "required": needed}
        for kind, members, needed in (
            ("action", action, ["action"]),
            ("observation", shown | ends | {INSTRUCTIONS: text}, [*shown]),
            ("state", state, ["step_count"]),
        )
    }
    found["action"]["available_tools"] = tool_list(tools, "input_schema")
    return found
