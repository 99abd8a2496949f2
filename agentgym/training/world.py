"""What a configuration names, opened: environments, model, engine, policies and learner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import torch

from agentgym.algos.table import ALGORITHMS
from agentgym.evaluation.suite import SuiteEnv
from agentgym.evaluation.worlds import open_vector
from agentgym.rollout import RolloutWorker
from agentgym.training.choices import ActionSpeller
from agentgym.training.critic import Critic
from agentgym.training.engines.hf import HfEngine
from agentgym.training.engines.types import Engine
from agentgym.training.evaluate import Evaluation
from agentgym.training.learner import Learner
from agentgym.training.models import LanguageModel
from agentgym.training.open import open_model, usual_prompting
from agentgym.training.prompting import Prompting
from agentgym.training.run import TrainConfig
from agentgym.types import Completion, Policy, Request
from agentgym.vector.core import AgentVectorEnv


@dataclass(slots=True)
class Meter:
    """A policy that passes on what it is asked, and measures."""

    policy: Policy
    seconds: float = 0.0
    steps: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def act(self, requests: Sequence[Request]) -> Sequence[Completion]:
        """Answer requests."""
        began = perf_counter()
        completions = self.policy.act(requests)
        self.seconds += perf_counter() - began
        for completion in completions:
            self.steps += completion.error is None
            self.tokens_in += completion.prompt_tokens
            self.tokens_out += completion.completion_tokens
        return completions


@dataclass(frozen=True, slots=True)
class World:
    """Everything that a training loop works on."""

    prompting: Prompting
    language_model: LanguageModel
    engine: Engine
    speller: ActionSpeller | None
    learner: Learner
    meter: Meter
    worker: RolloutWorker
    evaluation: Evaluation | None

    @classmethod
    def open(cls, config: TrainConfig) -> World:
        """Open what a configuration names.

        Raises:
            UsageError: something does not exist, or does not fit.
            MissingDataError: the environment's data is not on this machine.
        """
        envs = _open_envs(config, config.split, config.rollout.num_envs)
        prompting = config.prompting or usual_prompting(config.model, config.env_id)
        language_model = open_model(config.model, envs, prompting, config.seed)
        algorithm = ALGORITHMS[config.algorithm]
        with torch.random.fork_rng(devices=[]):  # a critic's head draws from torch's global generator
            torch.manual_seed(config.seed)
            critic = None if algorithm.critic is None else Critic(language_model.model, algorithm.critic)
        learner = Learner(
            language_model.model,
            config.loss,
            replace(config.learner, temperature=prompting.temperature),
            critic=critic,
        )
        engine = HfEngine(language_model.model)
        speller = prompting.speller(language_model)
        meter = Meter(prompting.policy(language_model, engine, envs, speller=speller))
        evaluation = None
        if config.evaluation.every:
            plan = config.evaluation
            others = _open_envs(config, plan.split, min(plan.tasks, config.rollout.num_envs))
            cooler = replace(prompting, temperature=plan.temperature)
            policy = cooler.policy(language_model, engine, others, speller=speller)
            worker = RolloutWorker(others, policy, env_id=config.env_id)
            evaluation = Evaluation.of(worker, tasks=plan.tasks, seed=plan.seed)
        worker = RolloutWorker(envs, meter, env_id=config.env_id)
        return cls(prompting, language_model, engine, speller, learner, meter, worker, evaluation)

    def close(self) -> None:
        """Close the environments."""
        self.worker.envs.close()
        if self.evaluation is not None:
            self.evaluation.worker.envs.close()


def _open_envs(config: TrainConfig, split: str, num_envs: int) -> AgentVectorEnv:
    env = SuiteEnv(config.env_id, label=config.env_id, split=split, tasks=1, kwargs=config.env_options)
    return open_vector(env, num_envs)
