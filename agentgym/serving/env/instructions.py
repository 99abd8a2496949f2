"""Episodes in the words of the suite, for clients that know nothing of the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.core.types import Request
from agentgym.env import AgentEnv
from agentgym.prompts.rendering import render_opening, render_present
from agentgym.prompts.template import load_template

MCP_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
"""Versions of the Model Context Protocol that the server speaks, the newest first."""


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
    template = load_template(env.suite_spec.prompt.wording, "bare")
    fields = template.fields(request, history=0)
    return render_present(template, fields) if info["turn"] else render_opening(template, fields)
