"""Behaviour cloning: a model learns to say what an environment's oracle does, as a warm start.

The loss is the negative log-likelihood of the oracle's answers. Where responses are constrained choices that
is their likelihood among the admissible actions, which is what the policy samples from. `clone` is a whole
run, from a configuration to a model directory with a log beside it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agentgym.errors import UsageError
from agentgym.files import Journal, make_folder, replace_file
from agentgym.hashing import canonical_json
from agentgym.history.metrics import Evaluated
from agentgym.prompts.budget import PromptBuilder
from agentgym.prompts.fitting import FittedPrompt
from agentgym.registration import open_vector
from agentgym.rollout import RolloutWorker
from agentgym.training.engines.choices import ActionSpeller
from agentgym.training.engines.hf import HfEngine
from agentgym.training.evaluate import Evaluation
from agentgym.training.learner.learner import DivergenceError
from agentgym.training.learner.logprobs import check_model, response_log_probs
from agentgym.training.learner.packing import Pack, StepRow, step_rows
from agentgym.training.learner.tree import pack_tree
from agentgym.training.models.models import LanguageModel
from agentgym.training.policy.open import default_prompting, open_model
from agentgym.training.policy.prompting import Prompting
from agentgym.training.policy.saved import SavedAgent, Training, save_agent
from agentgym.types import Completion, Policy, Request
from agentgym.vector.core import AgentVectorEnv

ALGORITHM = "bc"
EPOCHS_FILE = "epochs.jsonl"
SUMMARY_FILE = "cloning.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloningConfig:
    """Everything that decides a run of behaviour cloning.

    Example:
        >>> config = CloningConfig(env_id="agentgym/Sokoban-v0", tasks=1000, learning_rate=3e-3)
        >>> round(config.rate(0, 10), 5), round(config.rate(5, 10), 5)
        (0.003, 0.0015)
    """

    env_id: str
    env_options: Mapping[str, Any] = field(default_factory=dict)
    """Of the environment's constructor, without the split."""
    split: str = "train"
    tasks: int = 500
    """The split's first ones are shown, each played once by the oracle."""
    model: str = "tiny"
    """``tiny``, ``tiny:SIZE`` or the path of a model directory."""
    seed: int = 0
    """Decides random weights, episodes and the order of steps."""
    epochs: int = 5
    batch: int = 64
    """Steps that an update is taken on."""
    learning_rate: float = 1e-3
    """AdamW's at first; it falls to 0 along half a cosine."""
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    token_budget: int = 1024
    """Most tokens in one pass of the model. Changes speed and memory, not what is learned."""
    num_envs: int = 64
    threads: int = 1
    """Of the process, on a CPU; see `agentgym.training.config.TrainConfig.threads`."""
    held_out_split: str = "valid"
    held_out: int = 64
    """The split's first tasks are for evaluation; all where it has fewer. 0: none."""
    prompting: Prompting | None = None
    """None for what suits the model and the environment."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            UsageError: names the setting.
        """
        for name in ("tasks", "epochs", "batch", "token_budget", "num_envs", "threads"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("seed", "held_out", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name} must be at least 0, got {getattr(self, name)}")
        for name in ("learning_rate", "max_grad_norm"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name} must be positive, got {getattr(self, name)}")

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of update ``step`` of ``steps``, counted from 0."""
        return self.learning_rate * (1.0 + math.cos(math.pi * step / steps)) / 2


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """What the oracle did on some tasks, as a model would have said it."""

    rows: tuple[StepRow, ...]
    """The steps of the episodes that it won."""
    episodes: int
    """How many it won."""
    played: int

    @property
    def tokens(self) -> int:
        """Tokens of all answers."""
        return sum(len(row.response_ids) for row in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochMetrics:
    """One epoch; means are over its updates."""

    epoch: int
    """From 1."""
    updates: int
    """Taken up to now."""
    loss: float
    """Negative log-likelihood of an answer, in nats."""
    grad_norm: float
    """Before it was clipped."""
    learning_rate: float
    """Of its last update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """How a model does on tasks it was not shown."""

    agreement: float
    """Share of the oracle's steps at which the model's likeliest answer is the oracle's action. Below 1 also
    for a perfect player where several actions are as good."""
    steps: int
    """Of the oracle."""
    play: Evaluated
    """When the model plays by itself, always taking its likeliest answer."""


class Demonstrator:
    """A policy that acts as another does and writes down how a model would have said so."""

    def __init__(
        self,
        expert: Policy,
        builder: PromptBuilder,
        language_model: LanguageModel,
        speller: ActionSpeller | None,
        build: Callable[[Request], FittedPrompt] | None = None,
    ):
        """Bind the expert, and what writes.

        Args:
            expert: decides.
            builder: writes prompts.
            language_model: whose tokens are written.
            speller: for constrained choices; None for free answers, which are written without a thought.
            build: makes prompts of pictures too (default: the builder's, of words).

        Raises:
            UsageError: answers are free and no token ends one.
        """
        self._expert = expert
        self._builder = builder
        self._build = build or builder.build
        self._chat = language_model.chat
        self._speller = speller
        end = language_model.tokenizer.eos_token_id
        if end is None:
            raise UsageError("the tokenizer has no eos_token, which ends an answer")
        self._end: int = end

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer as the expert does."""
        decided = self._expert.act(requests)
        return [self._written(*pair) for pair in zip(requests, decided, strict=True)]

    def _written(self, request: Request, decided: Completion) -> Completion:
        if decided.error is not None:
            return decided
        prompt = self._build(request).ids
        if self._speller is None:
            text = self._builder.template.answer.write("", [decided.action])
            response = (*self._chat.encode(text), self._end)
        else:
            response = self._speller.response(decided.action, request.admissible_actions)
        return replace(decided, prompt_ids=prompt, response_ids=response)


def demonstrate(
    envs: AgentVectorEnv, language_model: LanguageModel, prompting: Prompting, *, tasks: int, seed: int
) -> Demonstrations:
    """Let the environment's oracle play the first tasks of its split, each once.

    Args:
        envs: in autoreset mode DISABLED.
        language_model: whose tokens the answers are written in.
        prompting: how it is asked.
        tasks: how many; all where the split has fewer.
        seed: of the episodes.

    Raises:
        UsageError: there is no oracle, it wins nothing, or its answers cannot be written.
    """
    speller = prompting.speller(language_model)
    builder = prompting.builder(language_model.chat, envs.prototype.tools)
    prompts = prompting.prompts(builder, language_model)
    writer = Demonstrator(envs.oracle(), builder, language_model, speller, prompts)
    shown = [task.id for task in envs.tasks[:tasks]]
    played = RolloutWorker(envs, writer, env_id="").collect(shown, group_size=1, seed=seed)
    won = [group for group in played if group.trajectories[0].won]
    if not won:
        raise UsageError(
            f"the oracle wins none of {len(played)} tasks, so there is nothing to learn from: "
            "raise max_steps, or choose another split"
        )
    return Demonstrations(tuple(step_rows(won, speller, language_model.pictures)), len(won), len(played))


def fit(
    language_model: LanguageModel, rows: Sequence[StepRow], config: CloningConfig
) -> Iterator[EpochMetrics]:
    """Train a model, in place, on answers.

    Args:
        language_model: what learns.
        rows: prompts and answers.
        config: how.

    Yields:
        Each epoch when it is over.

    Raises:
        UsageError: the model cannot be packed.
        DivergenceError: a loss or a gradient is not a number.
    """
    model = language_model.model
    check_model(model)
    optimizer = torch.optim.AdamW(
        [weight for weight in model.parameters() if weight.requires_grad],
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
    )
    per_epoch = math.ceil(len(rows) / config.batch)
    done = 0
    for epoch in range(1, config.epochs + 1):
        draws = np.random.default_rng(np.random.SeedSequence([config.seed, epoch]))
        losses, norms = [], []
        for chosen in np.array_split(draws.permutation(len(rows)), per_epoch):
            rate = config.rate(done, config.epochs * per_epoch)
            for group in optimizer.param_groups:
                group["lr"] = rate
            packs = pack_tree(
                [rows[row] for row in chosen.tolist()], token_budget=config.token_budget, device=model.device
            )
            loss, norm = _gradient(language_model, packs, len(chosen), config.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss)
            norms.append(norm)
            done += 1
        yield EpochMetrics(
            epoch=epoch,
            updates=done,
            loss=float(np.mean(losses)),
            grad_norm=float(np.mean(norms)),
            learning_rate=rate,
        )


def _gradient(
    language_model: LanguageModel, packs: Sequence[Pack], steps: int, bound: float
) -> tuple[float, float]:
    """Add up an update's gradient; return its loss, and the gradient's norm before it was clipped."""
    total = 0.0
    for pack in packs:
        log_probs, _ = response_log_probs(language_model.model, pack)
        loss = -log_probs.sum() / steps
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
    norm = float(torch.nn.utils.clip_grad_norm_(language_model.model.parameters(), bound))
    if not (math.isfinite(total) and math.isfinite(norm)):
        raise DivergenceError(f"the loss is {total}, its gradient {norm}: lower the learning rate")
    return total, norm


class _Examiner:
    """A policy that acts as an expert does, and counts how often another would have done the same."""

    def __init__(self, expert: Policy, pupil: Policy):
        self._expert, self._pupil = expert, pupil
        self.steps = self.agreed = 0

    def act(self, requests: Sequence[Request]) -> Sequence[Completion]:
        expected, said = self._expert.act(requests), self._pupil.act(requests)
        for one, other in zip(expected, said, strict=True):
            self.steps += one.error is None
            self.agreed += one.error is None and one.action == other.action
        return expected


def examine(
    envs: AgentVectorEnv, language_model: LanguageModel, prompting: Prompting, *, tasks: int, seed: int
) -> HeldOut:
    """Compare a model with the oracle on the first tasks of a split, then let it play them.

    Args:
        envs: in autoreset mode DISABLED.
        language_model: always gives its likeliest answer.
        prompting: how it is asked.
        tasks: how many; all where the split has fewer.
        seed: of the episodes.
    """
    greedy = replace(prompting, temperature=0.0)
    pupil = greedy.policy(language_model, HfEngine(language_model.model), envs)
    examiner = _Examiner(envs.oracle(), pupil)
    Evaluation.of(RolloutWorker(envs, examiner, env_id=""), tasks=tasks, seed=seed).run()
    play = Evaluation.of(RolloutWorker(envs, pupil, env_id=""), tasks=tasks, seed=seed).run()
    return HeldOut(agreement=examiner.agreed / max(examiner.steps, 1), steps=examiner.steps, play=play)


# ---- a whole run --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cloned:
    """What a run of behaviour cloning did."""

    demonstrations: Demonstrations
    epochs: tuple[EpochMetrics, ...]
    held_out: HeldOut | None
    """None where no task is held out."""


def clone(
    config: CloningConfig, folder: Path, *, report: Callable[[EpochMetrics], None] = lambda _: None
) -> Cloned:
    """Clone an environment's oracle into a model, and save it.

    The folder becomes a model directory that training can begin with and suites can bench. Besides
    weights, tokenizer and ``agent.json`` it holds ``epochs.jsonl``, a line per epoch, and ``cloning.json``,
    the configuration and how the model does on held-out tasks.

    Args:
        config: what is to be done.
        folder: made; it must not hold anything yet.
        report: told of each epoch when it is over.

    Raises:
        UsageError: something that the configuration names does not exist or does not fit, or the folder
            is in use.
        MissingDataError: the environment's data is not on this machine.
        DivergenceError: a loss is not a number; the weights from before are saved.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is in use: choose another folder")
    torch.set_num_threads(config.threads)
    with ExitStack() as stack:
        envs = _open(config, config.split, stack)
        others = _open(config, config.held_out_split, stack) if config.held_out else None
        prompting = config.prompting or default_prompting(config.model, config.env_id)
        learned = open_model(config.model, envs, prompting, config.seed)
        shown = demonstrate(envs, learned, prompting, tasks=config.tasks, seed=config.seed)
        make_folder(folder)
        epochs: list[EpochMetrics] = []
        try:
            with Journal(folder / EPOCHS_FILE) as journal:
                for metrics in fit(learned, shown.rows, config):
                    epochs.append(metrics)
                    journal.append(canonical_json(asdict(metrics)))
                    report(metrics)
        finally:  # what was learned before an error stays
            _save(folder, learned, config, prompting, shown, len(epochs))
        held_out = None
        if others is not None:
            held_out = examine(others, learned, prompting, tasks=config.held_out, seed=config.seed)
        cloned = Cloned(shown, tuple(epochs), held_out)
        replace_file(folder / SUMMARY_FILE, _summary(config, prompting, envs, cloned))
        return cloned


def _open(config: CloningConfig, split: str, stack: ExitStack) -> AgentVectorEnv:
    envs = open_vector(config.env_id, config.num_envs, split=split, options=config.env_options)
    stack.callback(envs.close)
    return envs


def _save(
    folder: Path,
    learned: LanguageModel,
    config: CloningConfig,
    prompting: Prompting,
    shown: Demonstrations,
    epochs: int,
) -> None:
    training = Training(
        env_id=config.env_id,
        algorithm=ALGORITHM,
        base_model=config.model,
        seed=config.seed,
        run=folder.resolve().name,
        iterations=epochs,
        episodes=shown.episodes,
        tokens=shown.tokens * epochs,
    )
    save_agent(folder, learned, SavedAgent(prompting, training))


def _summary(config: CloningConfig, prompting: Prompting, envs: AgentVectorEnv, cloned: Cloned) -> str:
    shown, held_out = cloned.demonstrations, cloned.held_out
    table = {
        "config": {**asdict(config), "prompting": prompting.to_json()},
        "tasks": envs.tasks.manifest_sha256,
        "episodes": {"played": shown.played, "won": shown.episodes},
        "steps": len(shown.rows),
        "held_out": None if held_out is None else asdict(held_out),
    }
    return json.dumps(table, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
