"""Chats that grow hold the very tokens that were sampled, whatever a template makes of past answers."""

import numpy as np
import pytest

from agentgym.core.types import Group
from agentgym.inference.engines.types import Generation
from agentgym.inference.models.families import make_family_model
from agentgym.inference.policy.prompted import make_policy
from agentgym.prompts.settings import Prompting
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.training.learner.packing import step_rows
from tests.corridor import CorridorVectorEnv

TURNS = 2_600
"""Of each case at least: 10^4 of all four."""

TEXTS = ("Go right, left or fall.", "I think it is near, so right it is.")
CASES = {
    "qwen2": ("qwen2", {}),
    "qwen3 that thinks": ("qwen3", {}),
    "qwen3 that does not": ("qwen3", {"enable_thinking": False}),
    "llama3": ("llama3", {"date_string": "2 May 2026"}),
}


class Babbling:
    """An engine that says anything: thoughts or none, tokens of any kind, and ends that are cut."""

    version = 0
    context_length = 16_384

    def __init__(self, model):
        self.rng = np.random.default_rng(0)
        self.stops = model.stop_ids
        self.any = [token for token in range(len(model.tokenizer)) if token not in self.stops]
        self.thought = [model.chat.encode(text) for text in ("<think>\n", "\n</think>\n\n")]
        self.actions = [model.chat.encode(f"<action>{name}</action>") for name in ("left", "right", "jump")]
        self.sampled = set()

    def generate(self, requests):
        return [self._say(request) for request in requests]

    def _say(self, request):
        rng, ids = self.rng, []
        words = [int(self.any[n]) for n in rng.integers(len(self.any), size=rng.integers(1, 7))]
        if rng.random() < 0.7:
            ids += [*self.thought[0], *words, *self.thought[1]]
        ids += self.actions[rng.integers(3)] if rng.random() < 0.8 else words
        if rng.random() < 0.8:
            ids.append(int(rng.choice(self.stops)))
        self.sampled.add((request.prompt_ids, tuple(ids)))
        return Generation(tuple(ids), (0.0,) * len(ids), 0, "stop")


@pytest.mark.parametrize("case", CASES)
def test_recorded_tokens_are_the_sampled_ones(case):
    family, options = CASES[case]
    model = make_family_model(family, TEXTS)
    prompting = Prompting(
        wording="terse",
        answer="think-action",
        choice="free",
        context="append",
        budget=16_000,
        max_tokens=64,
        template_options=options,
    )
    envs, engine = CorridorVectorEnv(64, autoreset_mode="Disabled", max_steps=30), Babbling(model)
    policy = make_policy(prompting, model, engine, envs, keep_messages=True)
    worker = RolloutWorker(envs, policy, env_id="test/Corridor-v0")
    chat = prompting.builder(model.chat, envs.prototype.tools).tokenizer
    turns = chats = rewritten = 0
    while turns < TURNS:
        specs = [EpisodeSpec(task.id, chats + n, n) for n, task in enumerate([*envs.tasks] * 9)]
        for trajectory in worker.run(specs):
            group = Group(trajectory.task_id, trajectory.initial_hash, (trajectory,))
            so_far = ()
            for row, step in zip(step_rows([group]), trajectory.steps, strict=True):
                asked, said = tuple(row.prompt_ids), tuple(row.response_ids)
                assert (asked, said) in engine.sampled
                assert asked[: len(so_far)] == so_far
                if so_far:  # nothing of an answer is written again, and its message is ended once
                    glue = asked[len(so_far) :]
                    ended = so_far[-1:] if so_far[-1] == model.tokenizer.eos_token_id else ()
                    assert (*ended, *glue) == tuple(chat.encode_next(step.completion.messages[-1].text, ()))
                so_far = asked + said
            turns += len(trajectory.steps)
            if len(trajectory.steps) > 1:
                last = trajectory.steps[-1].completion
                messages = [message for message in last.messages if message.role != "system"]
                rewritten += tuple(chat.encode_conversation(messages)) != last.prompt_ids
                chats += 1
        engine.sampled.clear()
    assert rewritten > 0.9 * chats  # the control: written again from its texts, a chat has other tokens
