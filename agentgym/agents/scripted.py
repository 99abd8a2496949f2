r"""An agent that plays the actions of a file.

Two formats, told apart by the file's name:

* ``*.jsonl``: one JSON object a line, ``{"task_id": ID, "actions": [STRING, ...]}``; other keys are
  ignored, so the ``episodes.jsonl`` of a run and what ``agentgym play --record`` writes can be
  played. A line without ``task_id`` is for every task that has no line of its own.
* anything else: text, one action a line, for every task. Empty lines and lines that begin with
  ``#`` are left out; an action that is empty or begins so needs the first format.

An episode whose actions are used up before it is over ends as ``agent_error``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentgym.core.types import Completion, Policy, Request
from agentgym.errors import UsageError
from agentgym.io.untrusted import loads_json, open_regular
from agentgym.vector.core import AgentVectorEnv

ANY_TASK = ""
"""Key of the actions for tasks that have none of their own."""

Script = Mapping[str, Sequence[str]]
"""Actions by task id."""


def make_scripted(envs: AgentVectorEnv, path: str) -> Policy:
    """Make the agent ``scripted`` from a file."""
    return ScriptedPolicy(load_script(Path(path)), source=path)


class ScriptedPolicy:
    """Plays prescribed actions.

    Example:
        >>> ScriptedPolicy({ANY_TASK: ["up", "left"]})  # doctest: +ELLIPSIS
        <...ScriptedPolicy object at ...>
    """

    def __init__(self, script: Script, *, source: str = "the script"):
        """Hold the script.

        ``script``: actions by task id, `ANY_TASK` for the rest; ``source``: its name in messages.
        """
        self._script = script
        self._source = source

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Return each episode's next action."""
        return [self._next(request) for request in requests]

    def _next(self, request: Request) -> Completion:
        actions = self._script.get(request.task_id, self._script.get(ANY_TASK))
        if actions is None:
            raise UsageError(
                f"{self._source} has no actions for task {request.task_id!r}; "
                f"it has {len(self._script)} tasks, for example {next(iter(self._script))!r}"
            )
        if request.turn >= len(actions):
            return Completion("", error="agent_error")
        return Completion(actions[request.turn])


def load_script(path: Path) -> dict[str, list[str]]:
    """Read a script; errors name the line."""
    try:
        with open_regular(path) as file:
            lines = file.read().decode("utf-8-sig").split("\n")
    except OSError as error:
        raise UsageError(f"cannot read the script {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the script {path} is not UTF-8 text (byte {error.start})") from error
    if path.suffix == ".jsonl":
        script = _parse_jsonl(lines, path)
    else:
        plain = (line.removesuffix("\r") for line in lines)
        actions = [line for line in plain if line and not line.startswith("#")]
        script = {ANY_TASK: actions} if actions else {}
    if not script:
        raise UsageError(f"the script {path} has no actions: write one action per line")
    return script


def _parse_jsonl(lines: Sequence[str], path: Path) -> dict[str, list[str]]:
    script: dict[str, list[str]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        task, actions = _parse_line(line, f"{path}:{number}")
        if task in script:
            name = f"task {task!r}" if task else "every task"
            raise UsageError(f"{path}:{number}: actions for {name} come twice: keep one line")
        script[task] = actions
    return script


def _parse_line(line: str, where: str) -> tuple[str, list[str]]:
    record = loads_json(line, where)
    if not isinstance(record, dict) or not isinstance(record.get("actions"), list):
        raise UsageError(f'{where}: expected {{"task_id": ID, "actions": [STRING, ...]}}')
    for action in record["actions"]:
        if not isinstance(action, str):
            raise UsageError(f"{where}: actions are strings, got {json.dumps(action)[:40]}: put it in quotes")
    task = record.get("task_id", ANY_TASK)
    if not isinstance(task, str):
        raise UsageError(f"{where}: task_id is a string, got {json.dumps(task)[:40]}: put it in quotes")
    return task, record["actions"]
