"""Few-shot: demonstrations on train tasks, as chats in an agent's own form."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from agentgym.agents.demonstrators import DEMONSTRATED_SPLIT, DEMONSTRATORS
from agentgym.agents.language.chats import ChatPrompts, Demonstration, TurnCompletion
from agentgym.agents.oracle import make_oracle
from agentgym.agents.rules import make_rules
from agentgym.core.hashing import sha256_json
from agentgym.core.rng import KeyRng
from agentgym.core.types import Completion, Policy, Request
from agentgym.endpoint.chat import ChatMessage
from agentgym.errors import UsageError
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.vector.core import AgentVectorEnv
from agentgym.vector.serial import SerialVectorEnv

_TRIES = 20
"""Tasks played for each demonstration at most."""


@dataclass(frozen=True, slots=True)
class Shots:
    """Demonstrations, and the agent that played them."""

    demonstrator: str
    """An agent's name."""
    privileged: bool
    """Whether it sees what a player does not."""
    demonstrations: tuple[Demonstration, ...]

    @property
    def sha256(self) -> str:
        """64 hex digits over the tasks and all messages, pictures included."""
        return sha256_json(
            [
                [each.task_id, [[m.role, m.text, [i.png.hex() for i in m.images]] for m in each.messages]]
                for each in self.demonstrations
            ]
        )


@dataclass
class _Demonstrator:
    """Plays as an agent, and keeps the chats that a language model would have had."""

    agent: Policy
    prompts: ChatPrompts
    turns: list[tuple[ChatMessage, ...]] = field(default_factory=list)
    """Turns of the episode being played: the messages sent in each, and the answer."""

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        completions: list[Completion] = []
        for request, completion in zip(requests, self.agent.act(requests), strict=True):
            message = self.prompts.turn(request)
            text = self.prompts.written(completion.action)
            turn = TurnCompletion(completion.action, text, error=completion.error, message=message)
            chat = self.prompts.chat(request, message, self.prompts.oldest(request))
            self.turns.append((*chat, self.prompts.answered(turn, len(chat))))
            completions.append(turn)
        return completions


def make_shots(envs: AgentVectorEnv, prompts: ChatPrompts, count: int, seed: int) -> Shots:
    """Record demonstrations on train tasks, by the suite's rules or, without any, by the oracle.

    The tasks are drawn by the seed; those that fail are left out. There is one demonstration more than
    ``count``, since a task is never shown to an agent that plays it. They are played in the same environment,
    with the same options.
    """
    shown = replace(prompts, system="", shots=0, demonstrations=(), history=None)
    if not prompts.scaffold.conversation:
        shown = replace(shown, history=prompts.history)
    with closing(SerialVectorEnv.of_split(envs, DEMONSTRATED_SPLIT)) as train:
        _check_answers(train)
        name = "oracle" if train.prototype.suite_spec.rules is None else "rules"
        agent = make_oracle(train) if name == "oracle" else make_rules(train)
        demonstrator = _Demonstrator(agent, shown)
        worker = RolloutWorker(train, demonstrator, env_id=train.prototype.suite)
        found: list[Demonstration] = []
        tries = _drawn(len(train.tasks), _TRIES * (count + 1), seed)
        for episode, position in enumerate(tries):
            task = train.tasks[position]
            demonstrator.turns.clear()
            (played,) = worker.run([EpisodeSpec(task.id, seed, episode)])
            if played.won:
                turns = demonstrator.turns[-1:] if prompts.scaffold.conversation else demonstrator.turns
                messages = tuple(message for turn in turns for message in turn)
                found.append(Demonstration(task.id, messages))
            if len(found) > count:
                break
    if len(found) < count:
        raise UsageError(
            f"shots = {count}, but the agent {name!r} did only {len(found)} of {len(tries)} train tasks of "
            f"{train.prototype.suite!r}: ask for fewer"
        )
    return Shots(name, DEMONSTRATORS[name], tuple(found))


def _check_answers(train: AgentVectorEnv) -> None:
    """Refuse an environment in which every demonstration would be another, and would have to be paid for."""
    for backend in train.prototype.query_backends.values():
        if backend.kind.standing == "attested":
            raise UsageError(
                f"demonstrations are played anew for every run, and {train.prototype.suite!r} asks "
                f"{backend.kind.name!r}, which cannot be computed here: leave shots out"
            )


def _drawn(tasks: int, most: int, seed: int) -> list[int]:
    """Return the positions of different tasks."""
    rng = KeyRng(seed)
    chosen: dict[int, None] = {}
    while len(chosen) < min(tasks, most):
        chosen[rng.below(tasks)] = None
    return list(chosen)
