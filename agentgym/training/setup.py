"""Setup of a run: environments, model, engine, policies and learner, opened from its configuration."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Lock
from time import perf_counter

import numpy as np
import torch

from agentgym.core.futures import mapped
from agentgym.core.types import Completion, Policy, Request
from agentgym.errors import UsageError
from agentgym.inference.engines.choices import ActionSpeller
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.sampling import find_sampler
from agentgym.inference.engines.server import ServerEngine
from agentgym.inference.engines.server_weights import FileSender, NcclSender
from agentgym.inference.engines.stepping import SteppingEngine
from agentgym.inference.engines.types import Engine
from agentgym.inference.engines.vllm_worker import METHOD
from agentgym.inference.models.language_model import LanguageModel, copied
from agentgym.inference.models.reward_model_file import check_tokenizer
from agentgym.inference.policy.open import open_model, vocabulary_texts
from agentgym.inference.policy.policy import AsyncLanguageModelPolicy
from agentgym.inference.policy.prompted import make_policy, make_speller
from agentgym.registration import open_vector, suite_spec
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.collect.mixed_environment import short_name
from agentgym.training.collect.pooled import PooledCollector
from agentgym.training.collect.rollout_journal import RolloutJournal
from agentgym.training.config import ResolvedConfig
from agentgym.training.learner.critic import Critic
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.encoders import ObservationEncoder, open_observation_encoder
from agentgym.training.learner.reward_model import RewardModel
from agentgym.training.learner.update import Learner
from agentgym.training.machine.serving import RolloutServer, start_server
from agentgym.training.track.evaluate import Evaluation, SplitEvaluation
from agentgym.vector.core import AgentVectorEnv
from agentgym.version import __version__

_MIX = 3
"""Purpose of a random stream derived from the seed, beside those of the loop and the order of tasks."""


@dataclass(slots=True)
class Meter:
    """A policy that passes on requests, measures and, with a journal, writes down and recalls."""

    policy: Policy
    journal: RolloutJournal | None = None
    seconds: float = 0.0
    """Seconds with at least one open request."""
    steps: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    recalled: int = 0
    """Completions recalled from the journal instead of sampled."""

    def act(self, requests: Sequence[Request]) -> Sequence[Completion]:
        """Answer requests."""
        known = [self._recall(request) for request in requests]
        unanswered = [request for request, answer in zip(requests, known, strict=True) if answer is None]
        began = perf_counter()
        completions = self.policy.act(unanswered) if unanswered else ()
        self.seconds += perf_counter() - began
        for completion in completions:
            self.count(completion)
        if self.journal is not None:
            self.journal.append(unanswered, completions)
        sampled = iter(completions)
        return [next(sampled) if answer is None else answer for answer in known]

    def _recall(self, request: Request) -> Completion | None:
        """Return the journal's completion, counted where it is not yet."""
        found = None if self.journal is None else self.journal.recall(request)
        if found is None:
            return None
        completion, counted = found
        self.recalled += 1
        if not counted:
            self.count(completion)
        return completion

    def count(self, completion: Completion) -> None:
        """Take note of an answer."""
        self.steps += completion.error is None
        self.tokens_in += completion.prompt_tokens
        self.tokens_out += completion.completion_tokens


@dataclass(slots=True)
class AsyncMeter(Meter):
    """Meter of a policy that answers each request alone."""

    policy: AsyncLanguageModelPolicy
    _lock: Lock = field(default_factory=Lock)
    _requests: int = 0
    """Number of open requests."""
    _counted: float = 0.0
    """Time up to which ``seconds`` is complete."""

    def submit(self, request: Request) -> Future[Completion]:
        """Return the completion to come."""
        known = self._recall(request)
        if known is not None:
            done: Future[Completion] = Future()
            done.set_result(known)
            return done
        with self._lock:
            self._pass_time()
            self._requests += 1
        future = self.policy.submit(request)
        future.add_done_callback(self._done)
        journal = self.journal
        if journal is None:
            return future

        def recorded(completion: Completion) -> Completion:
            journal.append([request], [completion])
            return completion

        return mapped(future, recorded)

    def _done(self, future: Future[Completion]) -> None:
        with self._lock:
            self._pass_time()
            self._requests -= 1
            if not future.cancelled() and future.exception() is None:
                self.count(future.result())

    def _pass_time(self) -> None:
        now = perf_counter()
        self.seconds += now - self._counted if self._requests else 0.0
        self._counted = now


@dataclass(frozen=True, slots=True)
class TrainingSetup:
    """Everything that a training loop works on."""

    config: ResolvedConfig
    language_model: LanguageModel
    """Language model whose weights are trained."""
    engine: Engine
    speller: ActionSpeller | None
    learner: Learner
    meter: Meter
    worker: RolloutWorker
    evaluation: Evaluation | None
    ranks: Ranks
    encoder: ObservationEncoder | None = None
    """Encoder of observations, where states are matched by embedding."""
    reward_model: RewardModel | None = None
    """Reward model that is trained beside the policy."""
    mixed: tuple[TrainingSetup, ...] = ()
    """Setups of further environments, which share all but configuration, meter and worker."""
    pooled: PooledCollector | None = None
    """Collector of a data pool, where the run trains on one instead of playing."""

    @property
    def meters(self) -> tuple[Meter, ...]:
        """Meters of all environments."""
        return (self.meter, *(each.meter for each in self.mixed))

    @classmethod
    def open(
        cls, config: ResolvedConfig, ranks: Ranks | None = None, *, devices: str = "", log: Path | None = None
    ) -> TrainingSetup:
        """Open a configuration's model, environment and parts; by default for this process alone.

        ``devices`` and ``log``: of a server that is started, as `start_server` takes them.
        """
        ranks = ranks or Ranks(device=torch.device(config.device))
        envs = _open_envs(config, config.split, 1 if config.rollout.pool else config.rollout.num_envs)
        prompting = config.prompting
        mixed = [
            (each, _open_envs(each, each.split, each.rollout.num_envs)) for each in _mixed_configs(config)
        ]
        plays = [(envs, prompting), *((others, each.prompting) for each, others in mixed)]
        texts = vocabulary_texts(config.model, plays)
        language_model = open_model(
            config.model, texts, prompting, config.seed, device=str(ranks.device), empty=True
        )
        engine = _engine(config, language_model, ranks, devices, log)
        reward_model = _reward_model(config, language_model, envs, ranks)
        learner = _learner(config, language_model, ranks)
        if isinstance(engine, ServerEngine):  # the servers may have started with other weights
            engine.sync(learner.weights(), engine.version)
        speller = make_speller(prompting, language_model)
        policies = partial(
            make_policy,
            language_model=language_model,
            engine=engine,
            speller=speller,
            asynchronous=bool(config.rollout.asynchronous),
        )
        evaluation = None
        if config.evaluation.every:
            evaluation = _evaluation([config, *(each for each, _ in mixed)], policies, ranks)
        meter, worker = _worker(config, envs, policies)
        encoder = open_observation_encoder(config.encoder, learner, language_model, config.device)
        parts = engine, speller, learner, meter, worker, evaluation, ranks, encoder, reward_model
        setup = cls(config, language_model, *parts)
        further = []
        for each, own in mixed:
            meter, worker = _worker(each, own, policies)
            further.append(replace(setup, config=each, meter=meter, worker=worker, evaluation=None))
        return replace(setup, mixed=tuple(further))

    def inputs(self) -> dict[str, str | None]:
        """Return what results follow from beside the configuration: digests, by what they are of."""
        weights = self.language_model.weights
        return {
            "version of agentgym": __version__,
            "tasks": self.worker.envs.tasks.manifest_sha256,
            **{
                f"tasks of {each.config.env_id}": each.worker.envs.tasks.manifest_sha256
                for each in self.mixed
            },
            "template": self.config.prompting.template.sha256,
            "weights": None if weights is None else weights.digest(),
        }

    def in_folder(self, folder: Path) -> TrainingSetup:
        """Return the setup of a run in a folder: with its groups of a data pool, where it trains on one."""
        if not self.config.rollout.pool:
            return self
        vocabulary = self.language_model.model.config.get_text_config().vocab_size
        pooled = PooledCollector(
            self.config.rollout,
            folder,
            self.ranks,
            env_id=self.config.env_id,
            vocabulary=vocabulary,
            count=self.meter.count,
        )
        return replace(self, pooled=pooled)

    def rest_engine(self) -> None:
        """Let an engine that sleeps during updates do so; its next sync wakes it."""
        if isinstance(self.engine, ServerEngine):
            self.engine.rest()

    def close(self) -> None:
        """Close the environments, and end a server that was started."""
        if isinstance(self.engine, ServerEngine):
            self.engine.close()
        for each in (self, *self.mixed):
            each.worker.envs.close()
        if self.evaluation is not None:
            self.evaluation.close()


def _mixed_configs(config: ResolvedConfig) -> list[ResolvedConfig]:
    """Return the configurations of a run's further environments, each as if it were the only one.

    Prompts differ in wording and history alone, and each environment has a stream of seeds.
    """
    if config.mix and (config.prompting.pictures != "none" or config.prompting.template_file):
        raise UsageError(
            "mix: prompts are made of each suite's wording, without pictures: leave out "
            "prompting.template_file and prompting.pictures"
        )
    found = []
    tiny = config.prompting.wording == suite_spec(config.env_id).prompt.tiny_wording
    for number, each in enumerate(config.mix, start=1):
        own, seeds = suite_spec(each.env_id).prompt, np.random.SeedSequence([config.seed, _MIX, number])
        words = {"wording": each.wording or (own.tiny_wording if tiny else own.wording)}
        history = {"history": own.tiny_history if tiny else own.history}
        found.append(
            replace(
                config,
                env_id=each.env_id,
                env_options=each.env_options,
                split=each.split,
                algorithm=each.algorithm or config.algorithm,
                algorithm_options=each.algorithm_options if each.algorithm else config.algorithm_options,
                seed=int(seeds.generate_state(1)[0]),
                rollout=replace(config.rollout, tasks=each.tasks),
                prompting=config.prompting.replaced(words | history),
                evaluation=replace(
                    config.evaluation,
                    every=config.evaluation.every if each.evaluation_split else 0,
                    split=each.evaluation_split,
                    keep_best="",
                    early_stopping=0,
                ),
                curriculum=None,
                mix=(),
            )
        )
    return found


def _worker(
    config: ResolvedConfig, envs: AgentVectorEnv, policies: Callable[..., Policy]
) -> tuple[Meter, RolloutWorker]:
    """Return the worker that plays an environment for training, and its meter."""
    policy = policies(config.prompting, envs=envs)
    meter = AsyncMeter(policy) if isinstance(policy, AsyncLanguageModelPolicy) else Meter(policy)
    return meter, RolloutWorker(envs, meter, env_id=config.env_id)


def _evaluation(
    configs: Sequence[ResolvedConfig], policies: Callable[..., Policy], ranks: Ranks
) -> Evaluation:
    """Plan the evaluation of each split of each environment, the run's own first.

    ``policies`` makes a policy of settings and environments.
    """
    splits = {}
    for config in configs:
        plan = config.evaluation
        cooler = replace(config.prompting, temperature=plan.temperature)
        for split in plan.splits if plan.every else ():
            envs = _open_envs(config, split, min(plan.tasks, config.rollout.num_envs))
            worker = RolloutWorker(envs, policies(cooler, envs=envs), env_id=config.env_id)
            name = split if len(configs) == 1 else f"{short_name(config.env_id)}:{split}"
            splits[name] = SplitEvaluation.of(worker, tasks=plan.tasks, seed=plan.seed, ranks=ranks)
    evaluation = Evaluation(splits)
    if configs[0].evaluation.keep_best:
        evaluation.check_measure(configs[0].evaluation.keep_best)
    return evaluation


def _engine(
    config: ResolvedConfig,
    language_model: LanguageModel,
    ranks: Ranks,
    devices: str = "",
    log: Path | None = None,
) -> SteppingEngine:
    """Return the engine: on the learner's own weights where settings and devices allow it."""
    learner, rollout = config.learner, config.rollout
    overlaps = rollout.plays_ahead
    engine: SteppingEngine
    if rollout.prompt_cache and rollout.engine != "hf":
        raise UsageError(
            f"rollout.prompt_cache is of the engine hf, not {rollout.engine}, which has a cache of its own: "
            "leave it out"
        )
    if rollout.engine == "vllm":
        _check_vllm(config)
        server = None
        if devices or not rollout.servers:
            server = start_server(config, language_model, ranks, devices=devices, log=log)
        engine = _vllm(config, language_model, ranks, server)
    else:
        model = language_model.model
        sharded = ranks.size > 1 or learner.offload or learner.dtype != "float32"
        if overlaps or sharded or learner.compile:  # an engine's steps would be compiled, too
            dtype = getattr(torch, learner.dtype)
            model = copied(model, dtype, language_model.weights, str(ranks.device), learner.adapter)
        engine = HfEngine(model, prompt_cache=rollout.prompt_cache, sampler=find_sampler(rollout.sampler))
    if overlaps or rollout.asynchronous:
        engine.start(updates_in_flight=rollout.updates_in_flight)
    return engine


def _check_vllm(config: ResolvedConfig) -> None:
    """Refuse settings that vLLM cannot follow."""
    rollout, adapted = config.rollout, config.learner.adapter is not None
    if adapted and (rollout.updates_in_flight or rollout.weight_transfer != "files"):
        raise UsageError(
            "an adapter goes to vLLM by a folder, between responses: set weight_transfer=files and leave "
            "out rollout.updates_in_flight"
        )
    if adapted and rollout.vllm_sleep == 2:
        raise UsageError("an adapter's base stays in vLLM: set rollout.vllm_sleep to 1 or 0")
    if rollout.vllm_sleep and config.device == "cpu":
        raise UsageError("vLLM sleeps on GPUs alone: leave out rollout.vllm_sleep on a CPU")
    if rollout.servers and not rollout.devices and config.prompting.pictures != "none":
        raise UsageError(
            "pictures go to a server that the run starts, with flags for them: leave out rollout.servers, or "
            "set prompting.pictures to 'none'"
        )


def _vllm(
    config: ResolvedConfig, language_model: LanguageModel, ranks: Ranks, server: RolloutServer | None
) -> ServerEngine:
    """Connect to a started server, or to those of the configuration, on every rank to all of them."""
    rollout, adapter = config.rollout, config.learner.adapter
    sends = ranks.is_first if server is None else server.sends
    after = METHOD if server is not None and config.device == "cpu" else ""
    files, folder = rollout.weight_transfer == "files" or not sends, rollout.weights_folder
    if folder and server is not None:  # machines may share it
        folder = f"{folder}/machine-{ranks.here[0]}"
    return ServerEngine(
        rollout.servers if server is None else (server.url,),
        language_model.model,
        dtype=getattr(torch, config.learner.dtype),
        context_length=None if server is not None else config.prompting.context_length,
        seeds=rollout.vllm_seeds,
        adapter=adapter,
        sender=FileSender(folder, adapter, after=after) if files else NcclSender(),
        first=sends,
        agree=lambda line: next(filter(None, ranks.gather([line])), ""),
        sleep_level=rollout.vllm_sleep or 0,
        process=None if server is None else server.process,
    )


def _learner(config: ResolvedConfig, language_model: LanguageModel, ranks: Ranks) -> Learner:
    unit = config.spec.critic
    critic = None
    if unit is not None:
        with torch.random.fork_rng(devices=[]):  # the head draws from torch's global generator
            torch.manual_seed(config.seed)
            critic = Critic(language_model.model, unit)
    return Learner(
        language_model.model,
        config.objective,
        config.learner,
        critic=critic,
        ranks=ranks,
        weights=language_model.weights,
        sampler=find_sampler(config.rollout.sampler),
    )


def _reward_model(
    config: ResolvedConfig, language_model: LanguageModel, envs: AgentVectorEnv, ranks: Ranks
) -> RewardModel | None:
    """Open the reward model of a run that trains one: of the policy's base, or one of its own.

    Tokenizer and context must be the policy's, and it must read the prompts' pictures.
    """
    if not config.trains_reward_model:
        return None
    settings, prompting = config.reward_settings, config.prompting
    if settings.model:
        texts = vocabulary_texts(settings.model, [(envs, prompting)])
        device = str(ranks.device)
        other = open_model(settings.model, texts, prompting, config.seed, device=device, empty=True)
        if prompting.pictures != "none" and other.pictures is None:
            raise UsageError(
                f"the reward model {settings.model} reads no pictures, and prompts have some: choose one "
                "that does, or set prompting.pictures to 'none'"
            )
        check_fits(other, language_model, settings.model)
        model, weights = other.model, other.weights
    else:
        model, weights = copy.deepcopy(language_model.model), language_model.weights
    reference = config.spec.scored_by_reference
    return RewardModel(model, settings, config.learner, reference=reference, ranks=ranks, weights=weights)


def check_fits(reward_model: LanguageModel, policy: LanguageModel, name: str) -> None:
    """Refuse a reward model with another tokenizer or a shorter context than the policy."""
    check_tokenizer(reward_model, policy, name)
    sizes = (each.model.config.get_text_config() for each in (reward_model, policy))
    own, needed = (size.max_position_embeddings for size in sizes)
    if own < needed:
        raise UsageError(
            f"the reward model {name} reads {own:,} tokens, the policy {needed:,}: choose one that reads as "
            "many"
        )


def _open_envs(config: ResolvedConfig, split: str, num_envs: int) -> AgentVectorEnv:
    return open_vector(config.env_id, num_envs, split=split, options=config.env_options)
