"""Demonstrations: episodes of an agent as chat messages, a JSON line a turn, for supervised fine-tuning.

Each line is a sample as TRL's ``SFTTrainer`` reads it from ``load_dataset("json", data_files=FILE)``, with
its origin in the columns ``manifest``, ``task_id`` and ``turn``. The prompt is the one that a policy of this
package is asked with: the same template, the same history.

* ``messages``: a user's message, and the assistant's with the action in the template's answer format;
* ``tools``: the assistant calls a tool of the environment; JSON schemas of all are in the column ``tools``.

Only train tasks are played, and only episodes that are won are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agentgym.agents import make_agent
from agentgym.agents.demonstrators import DEMONSTRATED_SPLIT, DEMONSTRATORS
from agentgym.agents.table import AGENTS
from agentgym.core.hashing import canonical_json
from agentgym.core.options import NonNegativeInt, PositiveInt, check_choice, check_fields
from agentgym.core.tools import Tool, call_of, tool_schemas
from agentgym.core.types import Completion, Policy, Request, Trajectory
from agentgym.errors import UsageError
from agentgym.io.files import replace_file
from agentgym.prompts import Template, load_template
from agentgym.prompts.rendering import render
from agentgym.registration import open_vector, suite_spec
from agentgym.rollout.worker import RolloutWorker
from agentgym.vector.core import AgentVectorEnv
from agentgym.version import __version__

DemoFormat: TypeAlias = Literal["messages", "tools"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoConfig:
    """Settings of demonstrations: environment, agent and format."""

    env_id: str
    agent: str = "rules"
    """A key of `DEMONSTRATORS`."""
    format: DemoFormat = "messages"
    split: str = DEMONSTRATED_SPLIT
    options: dict[str, Any] = field(default_factory=dict)
    """Further options of the environment's constructor."""
    tasks: PositiveInt = 100
    """The first tasks of the split; all where it has fewer."""
    seed: int = 0
    """Seed of the episodes."""
    wording: str = ""
    """Wording of the prompts, as `agentgym.prompts.load_template` takes it; empty for the suite's own."""
    answer: str = "plain"
    """Form of actions in the format ``messages``. Thoughts stay empty: these agents have none."""
    history: NonNegativeInt = 2
    """Past turns told, k."""
    num_envs: PositiveInt = 16
    """Episodes played side by side; the samples do not depend on it."""

    def __post_init__(self) -> None:
        """Check the settings that need no environment."""
        check_choice("demonstrator", self.agent, DEMONSTRATORS)
        check_fields(self)
        if self.split != DEMONSTRATED_SPLIT:
            raise UsageError(
                f"demonstrations are of the split {DEMONSTRATED_SPLIT!r}: {self.split!r} is for evaluation, "
                "leave it out"
            )


@dataclass(frozen=True, slots=True)
class DemoManifest:
    """Provenance of samples; the same on every line of a file."""

    env: str
    """Id of the environment."""
    options: str
    """JSON of its constructor's further options."""
    split: str
    split_sha256: str
    """sha256 of the split's manifest."""
    seed: int
    agent: str
    agent_version: int
    """0 for an agent without versions."""
    privileged: bool
    """Whether the agent sees what a player does not: cloned from its actions, a policy learns to guess."""
    template: str
    template_version: str
    template_sha256: str
    history: int
    agentgym: str
    """Version of this package."""


@dataclass(frozen=True, slots=True)
class DemoFile:
    """Summary of a written file of demonstrations."""

    samples: int
    """Lines."""
    won: int
    """Episodes written."""
    played: int
    """Episodes played; those that are not won are left out."""


class _PromptRecorder:
    """Wraps an agent, and records the prompt that a language model would have had."""

    def __init__(self, agent: Policy, template: Template, history: int):
        self._agent, self._template, self._history = agent, template, history
        self.prompts: dict[tuple[str, int], str] = {}
        """By task and turn."""

    def act(self, requests: Sequence[Request]) -> Sequence[Completion]:
        for request in requests:
            fields = self._template.fields(request, history=self._history)
            self.prompts[request.task_id, request.turn] = render(self._template, fields).text
        return self._agent.act(requests)


def write_demos(config: DemoConfig, path: Path) -> DemoFile:
    """Let an agent play train tasks, and write the turns of the episodes that it wins.

    The file at ``path`` is replaced when all is played.
    """
    wording = config.wording or suite_spec(config.env_id).prompt.wording
    answer = config.answer if config.format == "messages" else "bare"
    load_template(wording, answer)  # a mistake shows before the environment opens, which takes long
    slots = min(config.num_envs, config.tasks)
    with closing(open_vector(config.env_id, slots, split=DEMONSTRATED_SPLIT, options=config.options)) as envs:
        tools = envs.prototype.tools
        template = load_template(wording, answer, tools)
        recorder = _PromptRecorder(make_agent(config.agent, envs), template, config.history)
        worker = RolloutWorker(envs, recorder, env_id=config.env_id)
        tasks = [task.id for task in envs.tasks[: config.tasks]]
        groups = worker.collect(tasks, group_size=1, seed=config.seed)
        manifest = asdict(_manifest(config, envs, template))
    won = [episode for group in groups for episode in group.trajectories if episode.won]
    if not won:
        raise UsageError(
            f"the agent {config.agent!r} wins none of {len(tasks)} tasks, so there is nothing to show: "
            "raise max_steps, or choose another agent"
        )
    samples = [
        canonical_json({**sample, "manifest": manifest})
        for episode in won
        for sample in _samples(
            episode, recorder.prompts, template, None if config.format == "messages" else tools
        )
    ]
    replace_file(path, "".join(f"{sample}\n" for sample in samples))
    return DemoFile(len(samples), len(won), len(tasks))


def _manifest(config: DemoConfig, envs: AgentVectorEnv, template: Template) -> DemoManifest:
    return DemoManifest(
        env=config.env_id,
        options=canonical_json(config.options),
        split=config.split,
        split_sha256=envs.tasks.manifest_sha256,
        seed=config.seed,
        agent=config.agent,
        agent_version=AGENTS[config.agent].version,
        privileged=DEMONSTRATORS[config.agent],
        template=template.id,
        template_version=template.version,
        template_sha256=template.sha256,
        history=config.history,
        agentgym=__version__,
    )


def _samples(
    episode: Trajectory,
    prompts: dict[tuple[str, int], str],
    template: Template,
    tools: tuple[Tool, ...] | None,
) -> Iterator[dict[str, Any]]:
    """Yield a sample for each turn of an episode.

    ``prompts``: by task and turn; ``tools``: None for answers as messages.
    """
    for turn, step in enumerate(episode.steps):
        question = {"role": "user", "content": prompts[episode.task_id, turn]}
        origin = {"task_id": episode.task_id, "turn": turn}
        if tools is None:
            answer: dict[str, Any] = {
                "role": "assistant",
                "content": template.answer.write("", [step.action]),
            }
            yield {"messages": [question, answer], **origin}
            continue
        call = call_of(tools, step.action)
        if call is None:
            raise UsageError(
                f"the action {step.action!r:.80} is not a call of the tools "
                f"{', '.join(t.name for t in tools)}: write messages instead"
            )
        function = {"name": call.name, "arguments": dict(call.arguments)}
        called = [{"type": "function", "function": function}]
        answer = {"role": "assistant", "content": "", "tool_calls": called}
        yield {"messages": [question, answer], "tools": tool_schemas(tools), **origin}
