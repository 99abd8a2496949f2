"""The dialect ``inspect``: logs of inspect_ai in its JSON form, version 2.

Read are logs of `agentgym.bridges.inspect_ai`, by their tool calls and the rewards in the sample's store, and
those that earlier versions exported, by the actions and rewards in the sample's metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym.core.tools import Tool
from agentgym.errors import UsageError
from agentgym.evaluation.imports.logs import LoggedEpisode, parse_episode
from agentgym.io.untrusted import loads_json, read_text
from agentgym.prompts.formats.calls import action_of_raw_call
from agentgym.reading import RawCall, UnreadableError

LOG_VERSION = 2
"""Version of inspect_ai's log format that can be read."""

STORE = "agentgym"
"""Key of a sample's store that holds its episode, and name of the scorer."""

LISTED = "\n\nPossible actions: "
"""Heading of the actions at the end of an observation that a tool returns."""


def read(path: Path, tools: Sequence[Tool]) -> Sequence[LoggedEpisode]:
    """Read a log with calls of the suite's tools; UsageError for another file."""
    samples = enumerate(_log(path)["samples"], start=1)
    return tuple(_episode(sample, f"{path}: sample {number}", tools) for number, sample in samples)


def environment(path: Path) -> Mapping[str, Any]:
    """Return the environment that a log names; errors as `read`."""
    described = _log(path).get("eval")
    metadata = described.get("metadata") if isinstance(described, dict) else None
    return metadata if isinstance(metadata, dict) and isinstance(metadata.get("env"), str) else {}


def agrees(theirs: str, ours: str) -> bool:
    """Compare observations, without the actions that a tool's result lists."""
    return theirs.partition(LISTED)[0] == ours


def _log(path: Path) -> Mapping[str, Any]:
    if path.suffix == ".eval":
        raise UsageError(
            f"{path} is a log in inspect_ai's packed form: "
            "write it as JSON with `inspect log convert LOG --to json --output-dir FOLDER`"
        )
    log = loads_json(read_text(path, remedy="name a JSON file"), str(path))
    if isinstance(log, dict) and log.get("version") == LOG_VERSION and isinstance(log.get("samples"), list):
        return log
    raise UsageError(f"{path} is not a log of inspect_ai, version {LOG_VERSION}, with samples")


def _episode(sample: Any, where: str, tools: Sequence[Tool]) -> LoggedEpisode:
    try:
        metadata, scores, first = sample["metadata"], sample["scores"], None
        if "actions" in metadata:
            rewards, score = metadata["rewards"], scores["score"]["value"]
            steps = [{"action": action} for action in metadata["actions"]]
        else:
            rewards, score = sample["store"][STORE]["rewards"], scores[STORE]["value"]["score"]
            first = next(message_text(each) for each in sample["messages"] if each["role"] == "user")
            steps = list(_calls(sample["messages"], tools))
        if len(rewards) != len(steps):
            raise UsageError(f"{where}: {len(steps)} actions and {len(rewards)} rewards")
        for step, reward in zip(steps, rewards, strict=True):
            step["reward"] = reward
        task = str(sample["id"]).rpartition("/")[2]
    except UnreadableError as error:
        raise UsageError(f"{where}: {error}; is it of the environment that was named?") from error
    except (AttributeError, IndexError, KeyError, StopIteration, TypeError) as error:
        raise UsageError(
            f"{where} is not as this package writes it: {type(error).__name__} {error}"
        ) from error
    return parse_episode({"task": task, "observation": first, "steps": steps, "score": score}, where)


def _calls(messages: Sequence[Mapping[str, Any]], tools: Sequence[Tool]) -> Iterator[dict[str, Any]]:
    """Yield the calls that were played, with their results."""
    results = {each["tool_call_id"]: each for each in messages if each["role"] == "tool"}
    calls = (
        call for each in messages if each["role"] == "assistant" for call in each.get("tool_calls") or ()
    )
    for call in calls:
        if results[call["id"]].get("error") is None:
            action, _ = action_of_raw_call(RawCall(call["function"], call["arguments"]), tuple(tools))
            yield {"action": action, "observation": message_text(results[call["id"]])}


def message_text(message: Mapping[str, Any]) -> str:
    """Return a message's text, which may be in parts."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text")
