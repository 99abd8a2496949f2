"""GiGPO from nothing, in one file: a language model with random weights learns EZPoints in half a minute.

Collect, advantage, loss, update, log, from top to bottom. Three things come from agentgym: the environment,
the `RolloutWorker` that plays it, and the algorithm. The model is a plain `transformers` one, the optimiser
plain PyTorch; `agentgym.training`, which does the same for real models, is not used.

What it is not: there is no reference model, hence no divergence penalty; and there is one update per batch,
so all ratios of GiGPO's clipped loss are 1. An action of EZPoints is one word, so a response is one token,
drawn among the admissible actions.

    python examples/minimal_gigpo.py
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from agentgym import Completion, Group, Request
from agentgym.algos.batch import StepBatch
from agentgym.algos.loss import TokenLayout, policy_loss
from agentgym.algos.table import ALGORITHMS
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker

ENV_ID = "agentgym/EZPoints-v0"
TASKS = 32
"""Tasks per iteration."""
GROUP_SIZE = 8
"""Episodes of each task: GiGPO compares them."""
LEARNING_RATE = 2e-3
WORD = re.compile(r"\d+|[A-Z]|[a-z]+|[^\w\s]")
"""A number, a capital, a word, or a mark: the card ``7S`` is two words."""


class WordTokenizer:
    """Gives each word a number, the first time that it is seen."""

    def __init__(self) -> None:
        """Begin with no words."""
        self.ids: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        """Return the numbers of a text's words."""
        return [self.ids.setdefault(word, len(self.ids)) for word in WORD.findall(text)]


class ModelPolicy:
    """A language model as an agent: it reads the observation and answers with one token, its action."""

    def __init__(self, vocab_size: int, seed: int):
        """Make a model with random weights."""
        torch.manual_seed(seed)
        self.tokenizer = WordTokenizer()
        self.model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=vocab_size,
                hidden_size=64,
                intermediate_size=192,
                num_hidden_layers=2,
                num_attention_heads=4,
                max_position_embeddings=64,
                initializer_range=0.1,
            )
        )

    def log_probs(self, prompts: Sequence[Sequence[int]], choices: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return (n, vocabulary) log-probabilities of the next token, given that it is one of its choices."""
        last = torch.tensor([len(prompt) - 1 for prompt in prompts])
        # padding is on the right, where a causal model does not see it
        padded = torch.zeros(len(prompts), int(last.max()) + 1, dtype=torch.long)
        allowed = torch.full((len(prompts), self.model.config.vocab_size), -torch.inf)
        for row, (prompt, tokens) in enumerate(zip(prompts, choices, strict=True)):
            padded[row, : len(prompt)] = torch.tensor(prompt)
            allowed[row, tokens] = 0.0
        logits = self.model(padded).logits[torch.arange(len(prompts)), last]
        return torch.log_softmax(logits + allowed, dim=-1)

    @torch.no_grad()
    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Draw an action for each request; keep what was read, said, and how probable it was."""
        prompts = [self.tokenizer.encode(request.observation) for request in requests]
        choices = [self.choices(request.admissible_actions) for request in requests]
        log_probs = self.log_probs(prompts, choices)
        drawn = torch.multinomial(log_probs.exp(), 1).flatten().tolist()
        answers = zip(requests, prompts, choices, drawn, log_probs.tolist(), strict=True)
        return [
            Completion(
                action=request.admissible_actions[tokens.index(token)],
                prompt_ids=tuple(prompt),
                response_ids=(token,),
                logprobs=(row[token],),
            )
            for request, prompt, tokens, token, row in answers
        ]

    def choices(self, actions: Sequence[str]) -> list[int]:
        """Return each action's token."""
        return [token for action in actions for token in self.tokenizer.encode(action)]


def update(policy: ModelPolicy, optimizer: torch.optim.Optimizer, groups: Sequence[Group]) -> float:
    """Take one step of GiGPO on some groups of episodes; return the loss."""
    gigpo = ALGORITHMS["gigpo"]
    steps = [step for group in groups for episode in group.trajectories for step in episode.steps]
    advantages = torch.from_numpy(gigpo.advantage(StepBatch.from_groups(groups))).float()  # (n,) of steps
    log_probs = policy.log_probs(
        [step.completion.prompt_ids for step in steps],
        [policy.choices(step.admissible_actions) for step in steps],
    )
    chosen = torch.tensor([step.completion.response_ids[0] for step in steps])
    new = log_probs[torch.arange(len(steps)), chosen]
    old = torch.tensor([step.completion.logprobs[0] for step in steps])
    layout = TokenLayout.packed(torch.ones(len(steps), dtype=torch.long))  # one response token per step
    loss = policy_loss(new, old, advantages, layout, gigpo.objective).loss
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def train(iterations: int, seed: int = 0) -> list[float]:
    """Train; return the share of episodes won in each iteration."""
    envs = open_vector(ENV_ID, num_envs=TASKS * GROUP_SIZE, split="train")
    policy = ModelPolicy(vocab_size=64, seed=seed)
    worker = RolloutWorker(envs, policy, env_id=ENV_ID)
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    rng = np.random.default_rng(seed)
    curve = []
    for iteration in range(1, iterations + 1):
        tasks = rng.choice(envs.tasks.ids, TASKS, replace=False).tolist()
        groups = worker.collect(tasks, group_size=GROUP_SIZE, seed=iteration)
        loss = update(policy, optimizer, groups)
        won = float(np.mean([episode.won for group in groups for episode in group.trajectories]))
        print(f"iteration {iteration:3}  loss {loss:7.4f}  won {won:4.0%}")
        curve.append(won)
    return curve


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Learn EZPoints by GiGPO, from random weights.")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train(arguments.iterations, arguments.seed)
