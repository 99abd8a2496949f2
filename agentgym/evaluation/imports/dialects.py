"""The table of dialects that ``agentgym import`` reads."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym.evaluation.imports import chat, inspect, react, verl_agent
from agentgym.evaluation.imports.logs import LogDialect, read_jsonl, same_text

DIALECTS: Mapping[str, LogDialect] = {
    "react": LogDialect(react.read, react.agrees),
    "verl-agent": LogDialect(verl_agent.read, verl_agent.agrees),
    "inspect": LogDialect(inspect.read, inspect.agrees, inspect.environment),
    "chat": LogDialect(chat.read, chat.agrees),
    "jsonl": LogDialect(read_jsonl, same_text),
}
"""Log dialects by name. A new dialect is a module, and its line here."""
