"""The table of dialects that ``agentgym import`` reads, and reading by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agentgym.core.tools import Tool
from agentgym.errors import UsageError
from agentgym.evaluation.imports import chat, conversations, inspect, react, traces, verl_agent
from agentgym.evaluation.imports.logs import LogDialect, LoggedEpisode, read_jsonl, same_text

DIALECTS: Mapping[str, LogDialect] = {
    "react": LogDialect(react.read, react.agrees),
    "verl-agent": LogDialect(verl_agent.read, verl_agent.agrees),
    "inspect": LogDialect(inspect.read, inspect.agrees, inspect.environment),
    "chat": LogDialect(chat.read, chat.agrees),
    "conversations": LogDialect(conversations.read_conversations, conversations.agrees),
    "tales": LogDialect(conversations.read_tales, conversations.agrees),
    "knowagent": LogDialect(traces.read_knowagent, react.agrees),
    "adapt": LogDialect(traces.read_adapt, react.agrees),
    "react-viewer": LogDialect(traces.read_react_viewer, same_text),
    "self-improvement": LogDialect(traces.read_self_improvement, same_text),
    "jsonl": LogDialect(read_jsonl, same_text),
}
"""Log dialects by name. A new dialect is a module, and its line here."""


def read_log(path: Path, dialect: str, tools: Sequence[Tool]) -> Sequence[LoggedEpisode]:
    """Read a log; the UsageError about one of another dialect names that."""
    try:
        return DIALECTS[dialect].read(path, tools)
    except UsageError as error:
        others = [name for name in DIALECTS if name != dialect and _can_read(path, name, tools)]
        if not others:
            raise
        raise UsageError(
            f"{path} is not of the dialect {dialect}: use --dialect {' or '.join(others)}"
        ) from error


def _can_read(path: Path, dialect: str, tools: Sequence[Tool]) -> bool:
    try:
        return bool(DIALECTS[dialect].read(path, tools))
    except UsageError:
        return False
