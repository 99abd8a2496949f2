"""Behaviour cloning: supervised warm start on a teacher's actions.

The teacher is an environment's oracle, or its rule-based agent, which sees no more than the model. `clone` is
a whole run, from a configuration to a model directory with a log beside it.
`agentgym.training.cloning.supervised` has the loss; rounds of DAgger may follow
(`agentgym.training.cloning.dagger`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import reduce
from itertools import chain
from operator import add
from pathlib import Path
from typing import Any

import torch

from agentgym.agents import make_agent
from agentgym.core.hashing import canonical_json
from agentgym.core.types import Completion, Policy, Request
from agentgym.errors import UsageError
from agentgym.history.metrics import SplitOutcomes
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.types import Engine
from agentgym.inference.models.language_model import LanguageModel, copied
from agentgym.inference.policy.open import open_model, vocabulary_texts
from agentgym.inference.policy.prompted import make_policy
from agentgym.inference.policy.saved import SavedAgent, Training, default_prompting, write_agent
from agentgym.io.files import Journal, make_folder, replace_file
from agentgym.prompts.settings import Prompting
from agentgym.prompts.template_sandbox import trusted
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.cloning.config import CloningConfig
from agentgym.training.cloning.dagger import correct
from agentgym.training.cloning.demonstrations import Demonstrations, demonstrate, demonstrator
from agentgym.training.cloning.supervised import EpochMetrics, Fit, open_learner, shown_tasks
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.packing import StepRow
from agentgym.training.machine.resources import Machine
from agentgym.training.track.evaluate import SplitEvaluation
from agentgym.vector.core import AgentVectorEnv

ALGORITHM = "bc"
EPOCHS_FILE = "epochs.jsonl"
SUMMARY_FILE = "cloning.json"
STATE_FILE = "unfinished.pt"
"""File from which an interrupted run resumes; a finished run deletes it."""

_NOTHING = Demonstrations((), 0, 0)
"""Demonstrations of a rank that waits for the first rank's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Result of a model on held-out tasks."""

    agreement: float
    """Share of the teacher's steps at which the model's likeliest answer is the teacher's action. Even a
    perfect player is below 1 where several actions are equally good."""
    steps: int
    """Number of the teacher's steps."""
    play: SplitOutcomes
    """Results of the model's own episodes with greedy sampling."""


class _Examiner:
    """A policy that acts as an expert does, and counts how often another would have done the same."""

    def __init__(self, expert: Policy, pupil: Policy):
        self._expert, self._pupil = expert, pupil
        self.steps = self.agreed = 0

    def act(self, requests: Sequence[Request]) -> Sequence[Completion]:
        expected, answered = self._expert.act(requests), self._pupil.act(requests)
        for one, other in zip(expected, answered, strict=True):
            self.steps += one.error is None
            self.agreed += one.error is None and one.action == other.action
        return expected


def examine(
    envs: AgentVectorEnv,
    language_model: LanguageModel,
    prompting: Prompting,
    *,
    tasks: int,
    seed: int,
    teacher: str = "oracle",
    engine: Engine | None = None,
) -> HeldOut:
    """Compare a model with its teacher on the first tasks of a split, then let it play them greedily.

    ``envs`` in autoreset mode DISABLED; ``tasks``: all where the split has fewer; ``teacher``: one of
    `agentgym.training.cloning.config.TEACHERS`; ``engine`` samples (default: the model itself).
    """
    greedy = replace(prompting, temperature=0.0)
    pupil = make_policy(greedy, language_model, engine or HfEngine(language_model.model), envs)
    expert = envs.oracle() if teacher == "oracle" else make_agent(teacher, envs)
    examiner = _Examiner(expert, pupil)
    SplitEvaluation.of(RolloutWorker(envs, examiner, env_id=""), tasks=tasks, seed=seed).run()
    play = SplitEvaluation.of(RolloutWorker(envs, pupil, env_id=""), tasks=tasks, seed=seed).run()
    return HeldOut(agreement=examiner.agreed / max(examiner.steps, 1), steps=examiner.steps, play=play)


# ---- a whole run --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cloned:
    """Result of a run of behaviour cloning."""

    demonstrations: Demonstrations
    epochs: tuple[EpochMetrics, ...]
    """Metrics of each epoch; those of DAgger's rounds come last."""
    held_out: HeldOut | None
    """Result on held-out tasks; None without any."""


def clone(
    config: CloningConfig,
    folder: Path,
    *,
    report: Callable[[EpochMetrics], None] = lambda _: None,
    resume: bool = False,
    shown: Demonstrations | None = None,
    ranks: Ranks | None = None,
) -> Cloned:
    """Clone a teacher into a model, and save it.

    The folder becomes a model directory that training can begin with and suites can bench. Besides
    weights, tokenizer and ``agent.json`` it holds ``epochs.jsonl``, a line per epoch, and ``cloning.json``,
    the configuration and how the model does on held-out tasks.

    Args:
        config: what is to be done.
        folder: made; it must not hold anything yet.
        report: takes each epoch when it is over, those before a resumption included; on the first rank.
        resume: whether to go on, after its last whole epoch, with a run that was interrupted in the folder;
            the outcome is that of a run that was not.
        shown: what the teacher showed before, in this model's tokens (default: it shows it now).
        ranks: that train together (default: this process alone, on the configuration's device).

    Raises:
        UsageError: something that the configuration names does not exist or does not fit, the folder is in
            use, or there is nothing in it to be resumed.
        MissingDataError: the environment's data is not on this machine.
        DivergenceError: a loss is not a number; the weights from before are saved.
    """
    ranks = ranks or Ranks(device=torch.device(Machine.here(config.device).device))
    if problem := ranks.from_first(_problem(folder, resume=resume)):
        raise UsageError(problem)
    torch.set_num_threads(config.threads)
    with ExitStack() as stack:
        run = _Run(config, folder, stack, shown, ranks)
        run.train(report if ranks.is_first else lambda _: None, resume=resume)
        return run.finish(stack)


def _problem(folder: Path, *, resume: bool) -> str:
    """Return why a folder cannot be trained in; "" where it can."""
    if resume and not (folder / STATE_FILE).is_file():
        return f"{folder} holds no interrupted run: leave out --resume"
    if not resume and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        return f"{folder} is in use: choose another folder, or resume the run in it"
    return ""


class _Run:
    """A run of behaviour cloning: rows, weights, and how far it is."""

    def __init__(
        self,
        config: CloningConfig,
        folder: Path,
        stack: ExitStack,
        shown: Demonstrations | None,
        ranks: Ranks,
    ):
        self.config, self.folder, self.ranks = config, folder, ranks
        self.vector_envs = [
            _open(config, config.split, stack, options) for options in (config.env_options, *config.also)
        ]
        self.prompting = config.prompting or default_prompting(config.model, config.env_id)
        texts = vocabulary_texts(config.model, [(self.vector_envs[0], self.prompting)])
        self.learned = open_model(
            config.model, texts, self.prompting, config.seed, device=str(ranks.device), empty=True
        )
        trusted(self.learned.chat.template.source)  # loading it rendered a first chat
        self.shown = shown or ranks.from_first(self._demonstrated() if ranks.is_first else _NOTHING)
        self.engine = self._engine()
        self.learner = open_learner(self.learned, config, ranks)
        self.corrections: list[StepRow] = []
        self.epochs: list[EpochMetrics] = []
        if ranks.is_first:
            make_folder(folder)

    def _engine(self) -> HfEngine:
        """Return the engine that plays: of the learned weights, or of a copy that is given them."""
        config, model, device = self.config, self.learned.model, self.ranks.device
        learner = LearnerConfig(dtype=config.dtype, lora_rank=config.lora_rank).settled(device.type)
        plays = config.rounds > 0 or config.held_out > 0
        if plays and (self.ranks.size > 1 or learner.dtype != "float32"):
            dtype = getattr(torch, learner.dtype)
            model = copied(model, dtype, self.learned.weights, str(device), learner.adapter)
        return HfEngine(model)

    def _demonstrated(self) -> Demonstrations:
        config = self.config
        played = [
            demonstrate(
                envs, self.learned, self.prompting,
                tasks=shown_tasks(config, envs.tasks.ids), seed=config.seed, teacher=config.teacher,
            )
            for envs in self.vector_envs
        ]  # fmt: skip
        return reduce(add, played)

    def train(self, report: Callable[[EpochMetrics], None], *, resume: bool) -> None:
        """Go through the epochs, and then the rounds."""
        first = self.ranks.is_first
        state = torch.load(self.folder / STATE_FILE, weights_only=True) if resume and first else None
        state = self.ranks.from_first(state)
        if state is not None:
            self._check(state)
            self.corrections = [StepRow(*row) for row in state["corrections"]]
            self.epochs = [EpochMetrics(**metrics) for metrics in state["epochs"]]
        if first:
            (self.folder / EPOCHS_FILE).unlink(missing_ok=True)
        try:
            with Journal(self.folder / EPOCHS_FILE) if first else nullcontext() as journal:
                for metrics in chain(self.epochs.copy(), self._rounds(state)):
                    if journal is not None:
                        journal.append(canonical_json(asdict(metrics)))
                    report(metrics)
        except BaseException:  # saved even after an error, so that the epochs so far are not lost
            if self.ranks.size == 1:  # several ranks may have stopped at different steps
                self._save()
            raise
        self._save()

    def _rounds(self, state: Mapping[str, Any] | None) -> Iterator[EpochMetrics]:
        for number in range(state["round"] if state else 0, self.config.rounds + 1):
            yield from self._round(number, state if state and state["round"] == number else None)

    def _round(self, number: int, state: Mapping[str, Any] | None) -> Iterator[EpochMetrics]:
        """Train on demonstrations, after round 0 on those and on corrections."""
        if number and state is None:
            self.engine.sync(self.learner.weights(), number)
            self.corrections += self.ranks.from_first(self._correct(number) if self.ranks.is_first else [])
        rows = (*self.shown.rows, *self.corrections)
        epochs = 1 if number else self.config.epochs
        fitting = Fit(self.learner, rows, self.config, epochs=epochs, round=number)
        if state is not None:
            fitting.load_state_dict(state["fit"])
        while not fitting.done:
            metrics = fitting.step()
            self.epochs.append(metrics)
            self._keep(number, fitting)
            yield metrics

    def _correct(self, number: int) -> list[StepRow]:
        """Let the model play tasks that it has not seen yet, and the teacher correct it."""
        config = self.config
        rows: list[StepRow] = []
        for envs in self.vector_envs:
            pupil = make_policy(self.prompting, self.learned, self.engine, envs)
            teacher = demonstrator(envs, self.learned, self.prompting, config.teacher)
            tasks = shown_tasks(config, envs.tasks.ids, number)
            if not tasks:
                raise UsageError(
                    f"round {number} of DAgger has no tasks left: lower tasks, round_tasks or rounds"
                )
            rows += correct(envs, pupil, teacher, tasks, seed=config.seed + number).rows
        return rows

    def _keep(self, number: int, fitting: Fit) -> None:
        """Write the file from which an interrupted run resumes."""
        state = {
            "round": number,
            "fit": fitting.state_dict(),  # a collective call, so made on every rank
            "corrections": [(row.prompt_ids, row.response_ids, row.choices) for row in self.corrections],
            "epochs": [asdict(metrics) for metrics in self.epochs],
            "config": _plain(self.config),
        }
        if self.ranks.is_first:
            half = self.folder / f"{STATE_FILE}.new"
            torch.save(state, half)
            half.replace(self.folder / STATE_FILE)

    def _check(self, state: Mapping[str, Any]) -> None:
        if state["config"] != _plain(self.config):
            raise UsageError(f"the run in {self.folder} has other settings: give those, or another folder")

    def _save(self) -> None:
        config, shown = self.config, self.shown
        training = Training(
            env_id=config.env_id,
            algorithm=ALGORITHM,
            base_model=config.model,
            seed=config.seed,
            run=self.folder.resolve().name,
            iterations=len(self.epochs),
            episodes=shown.episodes + config.rounds * config.round_tasks * len(self.vector_envs),
            tokens=shown.tokens * len(self.epochs),
        )
        self.learner.save_model(self.folder, self.learned.tokenizer, self.learned.pictures)
        if self.ranks.is_first:
            write_agent(self.folder, SavedAgent(self.prompting, training))

    def finish(self, stack: ExitStack) -> Cloned:
        """Evaluate the model, write the summary and return it."""
        config, held_out = self.config, None
        if config.held_out:
            self.engine.sync(self.learner.weights(), config.rounds + 1)
        if config.held_out and self.ranks.is_first:
            others = _open(config, config.held_out_split, stack, config.env_options)
            held_out = examine(
                others, self.learned, self.prompting,
                tasks=config.held_out, seed=config.seed, teacher=config.teacher, engine=self.engine,
            )  # fmt: skip
        cloned = Cloned(self.shown, tuple(self.epochs), self.ranks.from_first(held_out))
        if not self.ranks.is_first:
            return cloned
        manifests = [envs.tasks.manifest_sha256 for envs in self.vector_envs]
        replace_file(self.folder / SUMMARY_FILE, _summary(config, self.prompting, manifests, cloned))
        (self.folder / STATE_FILE).unlink()
        return cloned


def _open(config: CloningConfig, split: str, stack: ExitStack, options: Mapping[str, Any]) -> AgentVectorEnv:
    envs = open_vector(config.env_id, config.num_envs, split=split, options=options)
    stack.callback(envs.close)
    return envs


def _plain(config: CloningConfig) -> str:
    prompting = None if config.prompting is None else config.prompting.to_json()
    return canonical_json({**asdict(config), "prompting": prompting})


def _summary(config: CloningConfig, prompting: Prompting, manifests: Sequence[str], cloned: Cloned) -> str:
    shown, held_out = cloned.demonstrations, cloned.held_out
    table = {
        "config": {**asdict(config), "prompting": prompting.to_json()},
        "tasks": manifests[0] if len(manifests) == 1 else list(manifests),
        "episodes": {"played": shown.played, "won": shown.episodes},
        "steps": len(shown.rows),
        "held_out": None if held_out is None else asdict(held_out),
    }
    return json.dumps(table, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
