"""The training loop: collect episodes, score them, minimise a loss, hand the weights over, log.

One loop for every algorithm. What differs between them is data, the advantage and the objective
(`agentgym.algos.table`), and the three stages (`agentgym.training.stages`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from agentgym.algos.batch import StepBatch
from agentgym.algos.filters import SAME, varied
from agentgym.algos.matching import step_group_sizes
from agentgym.core.hashing import content_id
from agentgym.core.stopwatch import Stopwatch, measured, stage
from agentgym.history.metrics import Evaluated, IterationMetrics
from agentgym.history.rollouts import drop_rollouts, write_rollouts
from agentgym.history.trend import Trend
from agentgym.inference.models.reward_model_file import REWARD_MODEL
from agentgym.inference.policy.saved import SavedAgent, Training, write_agent
from agentgym.training.collect.pooled import StoppedWaiting
from agentgym.training.collect.rollout_batch import Collected, Diagnostics
from agentgym.training.collect.rollout_journal import FOLDER as JOURNAL
from agentgym.training.collect.rollout_journal import RolloutJournal
from agentgym.training.config import config_to_json
from agentgym.training.learner.encoders import with_embeddings
from agentgym.training.learner.packing import sampled_log_probs, stale_tokens, step_rows
from agentgym.training.learner.update import DivergenceError, UpdateMetrics
from agentgym.training.machine.resources import Machine
from agentgym.training.setup import TrainingSetup
from agentgym.training.stages import RolloutBatch, Scorer, Scores, stages_of
from agentgym.training.stages.kept_rollouts import kept_episodes
from agentgym.training.stages.mix import MixedCollector, MixedScorer
from agentgym.training.track.best import BestEvaluation
from agentgym.training.track.checkpoint import (
    FOLDER,
    SHARDS,
    checkpoint_name,
    last_checkpoint,
    load_checkpoint,
    save_checkpoint,
    taking_over,
)
from agentgym.training.track.iteration_stats import (
    StageClock,
    describe_update,
    entropy_by_phase,
    mean,
    peak_memory,
    response_lengths,
    utilisation,
)
from agentgym.training.track.spending import RunSpending

if TYPE_CHECKING:
    from agentgym.history.log import Log

End: TypeAlias = Literal["finished", "solved", "no signal", "stopped early", "interrupted"]
"""Reason why a run ended: all iterations or batches are done; every episode is won; no group has a signal;
evaluations no longer improve; or the caller interrupted it."""

_NO_UPDATE = UpdateMetrics(
    loss=0.0,
    kl=0.0,
    ref_kl=None,
    clip_fraction=0.0,
    entropy=0.0,
    grad_norm=0.0,
    logp_diff=0.0,
    value_loss=None,
    critic_grad_norm=None,
    explained_variance=None,
    tokens=0,
)
"""Metrics of an iteration without an update."""

_UPDATE = 2
"""Purpose of a random stream derived from the seed, beside those of `agentgym.training.collect.pool`."""


@dataclass(slots=True)
class _Totals:
    """Counted up over a run, checkpoints included."""

    iteration: int = 0
    episodes: int = 0
    env_steps: int = 0
    tokens: int = 0
    """Number of sampled tokens."""
    idle: int = 0
    """Iterations in a row without a learning signal."""
    over: bool = False
    """Whether the collector has finished."""


@dataclass(frozen=True, slots=True)
class _Played:
    """Result and cost of an iteration's rollouts."""

    collected: Collected
    """Groups to train on and episodes to report; the other fields count all rollouts."""
    episodes: int
    steps: int
    tokens_in: int
    tokens_out: int
    recalled: int
    """Steps recalled from the journal instead of sampled."""
    model_seconds: float
    """Seconds in the policy, including a thread that plays during updates."""
    waited_seconds: float
    """Seconds of these in which the update waited for episodes."""


class Trainer:
    """Trains one policy.

    Example:
        >>> import agentgym
        >>> from agentgym.training.collect.config import RolloutConfig
        >>> from agentgym.training.config import TrainConfig
        >>> from agentgym.training.machine.resources import resolve
        >>> config = TrainConfig(
        ...     algorithm="grpo", env_id="agentgym/EZPoints-v0", model="tiny:0.1m",
        ...     rollout=RolloutConfig(tasks=2, group_size=2, num_envs=4),
        ... )
        >>> trainer = Trainer(TrainingSetup.open(resolve(config)), Path("runs/demo"))
        >>> metrics = trainer.iterate()
        >>> metrics.iteration, metrics.episodes, metrics.logp_diff < 1e-4
        (1, 4, True)
    """

    def __init__(self, setup: TrainingSetup, folder: Path, *, scorer: Scorer | None = None):
        """Bind what a run consists of.

        Args:
            setup: opened from its configuration.
            folder: exists; checkpoints and kept rollouts go there.
            scorer: of rollouts (default: the algorithm's).

        Raises:
            UsageError: the trainer lacks what the algorithm needs.
        """
        self.config = setup.config
        self.setup = setup = setup.in_folder(folder)
        self.folder = folder
        stages = stages_of(setup.config.algorithm)
        self.collector = MixedCollector.open(setup) if setup.mixed else stages.collector(setup)
        own = MixedScorer.open if setup.mixed else stages.scorer
        self.scorer = scorer or own(setup)
        self.minimiser = stages.minimiser(setup)
        settings = config_to_json(setup.config)
        # a resumed run may have other iterations and servers
        settings |= {"iterations": 1, "rollout": settings["rollout"] | {"servers": []}}
        self.journal = RolloutJournal(
            folder / JOURNAL,
            content_id((settings, setup.inputs())),
            staleness=setup.config.rollout.max_staleness,
            ranks=setup.ranks,
        )
        for meter in setup.meters:
            meter.journal = self.journal
        self._totals = _Totals()
        self._metered = self._reading()
        """Reading of the meters at the end of the last iteration; a thread may play on after it."""
        self.checkpoint: Path | None = None
        """The last one written, or resumed from."""
        self._lost = 0
        """Groups not trained on, up to the last iteration."""
        self._peak_flops = Machine.here(setup.ranks.device.type).peak_flops
        self.trend = Trend()
        """Trend of the share of episodes won."""
        self.best = BestEvaluation()
        """Best evaluation by the measure of ``keep_best``."""

    def run(self, log: Log | None = None, stop: Callable[[], bool] = lambda: False) -> End:
        """Train to the end.

        Args:
            log: takes every iteration.
            stop: asked after each iteration whether to end early.

        Raises:
            DivergenceError: a loss is not a number. The weights before that step are saved.
        """
        if self.setup.pooled is not None:
            self.setup.pooled.stop = stop
        try:
            return self._run(log, stop)
        finally:
            self.close()

    def close(self) -> None:
        """End the rollouts that are being played ahead."""
        self.collector.close()
        self.journal.close()

    def iterate(self) -> IterationMetrics:
        """Collect, score, minimise and sync once."""
        with measured() as watch:
            return self._iterate(StageClock(), watch)

    def _iterate(self, clock: StageClock, watch: Stopwatch) -> IterationMetrics:
        setup, totals = self.setup, self._totals
        before = self._evaluate() if totals.iteration == 0 else None
        clock.lap("evaluate")
        played = self._collect()
        clock.lap("env")
        version = setup.engine.version
        rate = self.config.rate(totals.iteration + 1)
        update, scores = _NO_UPDATE, None
        rollouts = self._rollouts(played.collected)
        if played.collected.groups:
            setup.rest_engine()
            with stage("advantage"), self._saved_if_diverged():
                scores = self.scorer.score(rollouts)
            batch = self.minimiser.prepare(rollouts, scores)
            clock.lap("credit")
            stream = np.random.SeedSequence([self.config.seed, _UPDATE, totals.iteration + 1])
            seed = int(stream.generate_state(1)[0])
            with stage("actor"), self._saved_if_diverged():
                update = self.minimiser.minimise(rollouts, batch, seed=seed, rate=rate)
            clock.lap("update")
            setup.engine.sync(setup.learner.weights(), version + 1)
            clock.lap("sync")
        self._count(played, rollouts.steps)
        if scores is not None:
            self._keep(played.collected, rollouts, scores, version)
        before_now, (self._lost, pending) = self._lost, self.collector.over_ranks()
        evaluation = self._evaluate() if self._evaluates() else None
        clock.lap("evaluate")
        return IterationMetrics(
            **_describe(played, rollouts.steps, version, {} if scores is None else scores.diagnostics),
            **describe_update(update),
            **response_lengths(
                played.collected.groups, setup.language_model.stop_ids if setup.speller is None else None
            ),
            iteration=totals.iteration,
            version=setup.engine.version,
            episodes=totals.episodes,
            env_steps=totals.env_steps,
            learning_rate=self.config.learner.learning_rate * rate,
            **self._use_of_devices(update.tokens, clock),
            dropped=self._lost - before_now,
            pending=pending,
            seconds=clock.seconds(model=played.waited_seconds, stages=watch.seconds),
            evaluation_before=before,
            evaluation=evaluation,
        )

    def _run(self, log: Log | None, stop: Callable[[], bool]) -> End:
        config, totals = self.config, self._totals
        if self.setup.ranks.is_first:
            drop_rollouts(self.folder, after=totals.iteration)
        self.journal.resume(totals.iteration, self.setup.engine.version)
        spending = RunSpending(
            self.folder, self.setup.ranks, episodes=totals.episodes, env_steps=totals.env_steps
        )
        end: End = "stopped early" if self._stops_early() else "finished"  # the end before the resumption
        while end == "finished" and totals.iteration < config.iterations and not totals.over:
            try:
                metrics = self.iterate()
            except StoppedWaiting:
                end = "interrupted"
                if self.checkpoint is None or self.checkpoint.name != checkpoint_name(totals.iteration):
                    self.save()
                break
            spending.add(metrics)
            self.trend.follow(metrics)
            better = self._is_best(metrics)
            if totals.idle >= config.patience:
                end = "solved" if metrics.success == 1.0 else "no signal"
            elif self._stops_early():
                end = "stopped early"
            elif self.setup.ranks.from_first(stop()):
                end = "interrupted"
            last = end != "finished" or totals.iteration == config.iterations or totals.over
            if log is not None:
                log.write(metrics)  # the checkpoint follows, so that a resumed run lacks no line
            due = config.checkpoint_every and totals.iteration % config.checkpoint_every == 0
            if last or better or due:
                self.save()
        spending.write()
        return end

    # ---- one stage each -----------------------------------------------------------------------

    def _collect(self) -> _Played:
        began = self._reading()["seconds"]
        collected = self.collector.collect(self.setup.engine.version)
        waited = self._reading()["seconds"] - began
        before, self._metered = self._metered, self._reading()
        self.journal.begin(self._totals.iteration + 2)
        own = {name: number - before[name] for name, number in self._metered.items()}
        model_seconds = own.pop("seconds")
        total = {name: int(number) for name, number in self.setup.ranks.sum(own).items()}
        return _Played(collected, **total, model_seconds=model_seconds, waited_seconds=waited)

    def _reading(self) -> dict[str, float]:
        names = ("steps", "tokens_in", "tokens_out", "recalled", "seconds")
        read = {name: sum(getattr(meter, name) for meter in self.setup.meters) for name in names}
        return {"episodes": self.collector.episodes, **read}

    def _rollouts(self, collected: Collected) -> RolloutBatch:
        groups = collected.groups
        steps = StepBatch.from_groups(groups).with_columns(**collected.columns)
        steps = with_embeddings(steps, self.setup.encoder)
        setup = self.setup
        rows = step_rows(groups, setup.speller, setup.language_model.pictures)
        stale = stale_tokens(groups, setup.engine.version)
        iteration, log_probs = self._totals.iteration + 1, sampled_log_probs(groups)
        return RolloutBatch(steps, rows, log_probs, stale, iteration, collected.parts)

    def _use_of_devices(self, tokens: int, clock: StageClock) -> dict[str, Any]:
        """Return the device metrics of an update of this many tokens."""
        setup, low = self.setup, self.setup.learner.config.dtype == "bfloat16"
        mfu = utilisation(
            setup.learner.parameters,
            tokens,
            clock.lapped("update"),
            peak_flops=self._peak_flops if low else None,
            ranks=setup.ranks.size,
        )
        return {"mfu": mfu, "peak_memory": peak_memory(setup.ranks)}

    @contextmanager
    def _saved_if_diverged(self) -> Iterator[None]:
        """Save the weights before a step that is not taken, and add the path to the error."""
        iteration = self._totals.iteration + 1
        try:
            yield
        except DivergenceError as error:
            saved = self.save(f"before-divergence-{iteration:06d}", keep=None)
            raise DivergenceError(
                f"iteration {iteration}: {error}; the last good weights: {saved}"
            ) from error

    def _count(self, played: _Played, steps: StepBatch) -> None:
        totals = self._totals
        totals.iteration += 1
        totals.episodes += played.episodes
        totals.env_steps += played.steps
        totals.tokens += played.tokens_out
        totals.over = played.collected.over
        totals.idle = 0 if self._signal(steps) else totals.idle + 1

    def _keep(self, collected: Collected, rollouts: RolloutBatch, scores: Scores, version: int) -> None:
        """Write an iteration's rollouts, where its turn has come."""
        every, iteration = self.config.keep_rollouts, self._totals.iteration
        if every and iteration % every == 0 and self.setup.ranks.is_first:
            episodes = kept_episodes(collected, rollouts, scores, iteration=iteration, version=version)
            write_rollouts(self.folder, iteration, episodes)

    def _signal(self, steps: StepBatch) -> bool:
        """Return whether outcomes differ where the algorithm compares them: in groups, or over the batch."""
        alone = (
            self.config.rollout.group_size == 1 and self.config.algorithm_options.get("singleton") == "raw"
        )
        if self.config.spec.baseline == "group" and not alone:
            return bool(varied(steps).any())
        return len(steps) > 0 and float(np.ptp(steps.outcome)) > SAME

    def _evaluates(self) -> bool:
        every, iteration = self.config.evaluation.every, self._totals.iteration
        last = iteration == self.config.iterations or self._totals.over
        return every > 0 and (last or iteration % every == 0)

    def _evaluate(self) -> Evaluated | None:
        return None if self.setup.evaluation is None else self.setup.evaluation.run()

    def _is_best(self, metrics: IterationMetrics) -> bool:
        """Take an iteration's evaluation, if it has one; return whether it is the best so far."""
        measure = self.config.evaluation.keep_best
        if not measure or metrics.evaluation is None:
            return False
        return self.best.add(metrics.iteration, metrics.number(f"evaluation/{measure}"))

    def _stops_early(self) -> bool:
        """Return whether as many evaluations as are waited for were no better than the best."""
        return 0 < self.config.evaluation.early_stopping <= self.best.since

    @property
    def best_checkpoint(self) -> Path | None:
        """Checkpoint of the best evaluation; None without one."""
        return self.folder / FOLDER / self.best.checkpoint if self.best.checkpoint else None

    @property
    def iteration(self) -> int:
        """Iterations done."""
        return self._totals.iteration

    # ---- checkpoints --------------------------------------------------------------------------

    def save(self, name: str | None = None, *, keep: int | None = -1) -> Path:
        """Write a checkpoint of the run as it is; return its folder.

        Args:
            name: by default the number of the iteration.
            keep: as `save_checkpoint`; by default the configuration's.
        """
        state = {
            "version": self.setup.engine.version,
            "totals": asdict(self._totals),
            "lost": self._lost,
            "trend": asdict(self.trend),
            "best": asdict(self.best),
            "pool": self.collector.state_dict(),
            "scorer": self.scorer.state_dict(),
            "minimiser": self.minimiser.state_dict(),
        }
        self.checkpoint = save_checkpoint(
            self.folder,
            name or checkpoint_name(self._totals.iteration),
            state,
            self._save_policy,
            keep=self.config.keep if keep == -1 else keep,
            best=self.best.checkpoint,
            ranks=self.setup.ranks,
            save_shards=self.setup.learner.save_state,
        )
        if keep is not None:
            self.journal.saved(self._totals.iteration, again=not self.config.rollout.overlap)
        return self.checkpoint

    def restore(self) -> int:
        """Resume from the folder's last checkpoint; return its iteration.

        Raises:
            UsageError: the checkpoint is missing, damaged, or of another algorithm, model or version.
        """
        setup = self.setup
        first = setup.ranks.is_first
        self.checkpoint = setup.ranks.from_first(last_checkpoint(self.folder) if first else self.folder)
        state = setup.ranks.from_first(load_checkpoint(self.checkpoint) if first else {})
        setup.learner.load_state(self.checkpoint / SHARDS)
        setup.engine.sync(setup.learner.weights(), state["version"])
        with taking_over(self.checkpoint):
            self._totals = _Totals(**state["totals"])
            self.collector.load_state_dict(state["pool"])
            self.scorer.load_state_dict(state.get("scorer", {}))
            self.minimiser.load_state_dict(state.get("minimiser", {}))
            self.trend = Trend(**state.get("trend", {}))
            self.best = BestEvaluation(**state.get("best", {}))
        self._metered = self._reading()
        self._lost = state.get("lost", 0)
        return self._totals.iteration

    def _save_policy(self, folder: Path) -> None:
        config, totals, setup = self.config, self._totals, self.setup
        made = setup.language_model
        if setup.reward_model is not None:
            setup.reward_model.save(folder.parent / REWARD_MODEL, made.tokenizer)
        setup.learner.save_model(folder, made.tokenizer, made.pictures)
        if setup.ranks.is_first:
            training = Training(
                env_id=config.env_id,
                algorithm=config.algorithm,
                base_model=config.model,
                seed=config.seed,
                run=self.folder.resolve().name,
                iterations=totals.iteration,
                episodes=totals.episodes,
                tokens=totals.tokens,
                checkpoint=self.best.rule(config.evaluation.keep_best, totals.iteration),
            )
            write_agent(folder, SavedAgent(config.prompting, training))


def _describe(played: _Played, steps: StepBatch, version: int, diagnostics: Diagnostics) -> dict[str, Any]:
    """Return the metrics of an iteration's episodes."""
    ends, groups = played.collected.episode_ends, played.collected.groups
    members = [member for group in groups for member in group.trajectories]
    ages = [version - step.completion.version for member in members for step in member.steps]
    recalled = {"journal": {"recalled": float(played.recalled)}} if played.recalled else {}
    recalled |= entropy_by_phase(groups)
    return {
        "success": mean([end.won for end in ends]),
        "score": mean([end.score for end in ends]),
        "mean_return": mean([end.episode_return for end in ends]),
        "steps_per_episode": mean([end.steps for end in ends]),
        "valid_fraction": mean(steps.valid),
        "usable_fraction": len(np.unique(steps.group[varied(steps)])) / max(len(groups), 1),
        "step_groups": step_group_sizes(steps),
        "diagnostics": {**played.collected.diagnostics, **diagnostics, **recalled},
        "tokens_in": played.tokens_in,
        "tokens_out": played.tokens_out,
        "tokens_per_second": played.tokens_out / max(played.model_seconds, 1e-9),
        "staleness": mean(ages),
    }
