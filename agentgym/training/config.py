"""Settings of a training run, as its folder records them, and presets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agentgym.algos.algorithm import Algorithm
from agentgym.algos.objective import Objective
from agentgym.algos.options import advantage_options, bind_options
from agentgym.algos.table import find_algorithm, trainable
from agentgym.core.arrays import Floats
from agentgym.core.options import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    check_fields,
    check_options,
)
from agentgym.errors import UsageError, nearest
from agentgym.history.run import CONFIG_FILE, MADE_WITH
from agentgym.inference.policy.saved import default_prompting
from agentgym.io.records import parse
from agentgym.io.untrusted import loads_json, read_file
from agentgym.prompts.settings import Prompting, with_words_of
from agentgym.registration import suite_spec
from agentgym.training.collect.config import RolloutConfig
from agentgym.training.collect.curriculum import CurriculumConfig
from agentgym.training.collect.mixed_environment import MixedEnvironment, check_mix
from agentgym.training.learner.config import LearnerConfig, RewardModelConfig

Decay: TypeAlias = Literal["constant", "linear", "cosine"]
"""Decay of learning rates over a run: none, or to 0 along a line or half a cosine."""


Device: TypeAlias = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationConfig:
    """Evaluation of the policy during training: always on the same tasks with the same seeds."""

    every: NonNegativeInt = 10
    """Iterations between evaluations, besides those before the first and after the last one; 0 for none."""
    split: str | tuple[str, ...] = "valid"
    """Split, or several evaluated side by side; the first one gives the plain numbers of an evaluation."""
    tasks: PositiveInt = 64
    """Number of tasks of each split, its first ones, each played once."""
    temperature: NonNegativeFloat = 0.4
    seed: NonNegativeInt = 0
    keep_best: str = ""
    """Measure of evaluations whose best checkpoint is kept beside the newest ones: ``success`` or ``score``
    of the first split, ``splits/NAME/success``, ``types/NAME/success`` and so on; "" for none."""
    early_stopping: NonNegativeInt = 0
    """Evaluations in a row without improvement of ``keep_best`` after which a run ends; 0 for no limit."""

    def __post_init__(self) -> None:
        """Check numbers and names."""
        check_fields(self)
        if not self.splits or len(set(self.splits)) < len(self.splits):
            raise UsageError(f"evaluation.split is one split or several, each once, got {self.split!r}")
        if self.keep_best and not self.every:
            raise UsageError("evaluation.keep_best needs evaluations: set evaluation.every")
        if self.early_stopping and not self.keep_best:
            raise UsageError(
                "evaluation.early_stopping goes by a measure: set evaluation.keep_best, too, such as success"
            )

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits."""
        return (self.split,) if isinstance(self.split, str) else self.split


class _WithSpec:
    """Room for the record of an algorithm that was found once; no setting, so no field."""

    __slots__ = ("_spec",)
    _spec: Algorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig(_WithSpec):
    """Everything that decides a run.

    Example:
        >>> options = {"gamma": 0.9}
        >>> config = TrainConfig(algorithm="gigpo", env_id="agentgym/Sokoban-v0", algorithm_options=options)
        >>> override(config, {"learner.learning_rate": 1e-3}).learner.learning_rate
        0.001
        >>> config_from_json(config_to_json(config)) == config
        True
    """

    algorithm: str
    """Algorithm, as `agentgym.algos.table.find_algorithm` takes it: a built-in name, an entry point's, or
    ``module:attribute``."""
    env_id: str
    env_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the environment's constructor, without the split."""
    split: str = "train"
    model: str = "tiny"
    """Initial model: ``tiny``, ``tiny-FAMILY``, either with ``:SIZE``; the path of a model directory; or
    ``OWNER/NAME`` of the Hugging Face hub, with ``@REVISION`` or without."""
    device: Device = "auto"
    """Device of the learner: ``cpu``, or ``cuda``, one per process; ``auto`` is ``cuda`` where possible."""
    devices: str = ""
    """CUDA devices of this machine for learning, such as ``0-5``, one for each process, where
    ``rollout.devices`` sample; empty for one per process."""
    threads: PositiveInt = 1
    """Threads of a process on a CPU; on a GPU with ``learner.offload`` at least as many as its cores. On a
    busy machine several threads wait for each other: an iteration of 0.6 seconds has taken 27."""
    seed: NonNegativeInt = 0
    """Seed of random weights, the order of tasks, episodes, sampling and mini-batches."""
    iterations: PositiveInt = 100
    algorithm_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the algorithm's advantage and of its stages by name, including those of
    `agentgym.algos.compat.Compat`; the defaults are the paper's."""
    objective: Objective | None = None
    """Objective of the update; None for the algorithm's own."""
    encoder: str = ""
    """Encoder of observations for ``algorithm_options.match = "embedding"``: ``policy`` (its own hidden
    state), or an argument of `agentgym.retrieval.encoders.open_encoder`."""
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    curriculum: CurriculumConfig | None = None
    """Curriculum of tasks; None for tasks of all difficulties from the start."""
    mix: tuple[MixedEnvironment, ...] = ()
    """Further environments that are played and trained on in the same iterations."""
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    reward_model: RewardModelConfig | None = None
    """Reward model of algorithms that train one beside the policy; None for its defaults there."""
    prompting: Prompting | None = None
    """Form of prompts; None for the default of model and environment."""
    evaluation: EvaluationConfig = EvaluationConfig()
    warmup: NonNegativeInt = 0
    """Iterations over which learning rates rise from 0."""
    decay: Decay = "constant"
    patience: PositiveInt = 10
    """Iterations in a row without a learning signal after which a run ends."""
    checkpoint_every: NonNegativeInt = 20
    """Iterations between checkpoints, besides the one after the last; 0 for that one only."""
    keep: PositiveInt = 2
    """Number of checkpoints to keep."""
    keep_rollouts: NonNegativeInt = 0
    """Iterations between those whose rollouts are stored under ``rollouts``; 0 stores none."""

    def __post_init__(self) -> None:
        """Check names and numbers; the error names the setting, or the algorithm that cannot be trained."""
        check_fields(self)
        spec = trainable(self.algorithm)
        object.__setattr__(self, "_spec", spec)
        check_options(self.algorithm_options, spec.options, f"algorithm_options of {self.algorithm}: ")
        alone = self.rollout.group_size == 1 and self.algorithm_options.get("singleton") != "raw"
        if alone and spec.baseline == "group" and not spec.snapshot:
            raise UsageError(
                f"{self.algorithm} compares a task's episodes, but rollout.group_size is 1: set it to 2 or "
                "more, or choose an algorithm with a critic, such as ppo"
            )
        if self.curriculum and spec.snapshot:
            raise UsageError(
                f"{self.algorithm} returns to earlier states, which no curriculum knows: leave out "
                "curriculum.by, or choose an algorithm of whole episodes"
            )
        if self.rollout.pool and (spec.snapshot or self.mix or self.curriculum):
            raise UsageError(
                "rollout.pool (--rollouts) has whole episodes of one environment, in an order of its own: "
                "choose an algorithm of whole episodes, such as grpo, and leave out mix and curriculum.by"
            )
        if self.reward_model is not None and not spec.reward_model:
            raise UsageError(f"{self.algorithm} trains no reward model: leave out reward_model")
        if (self.algorithm_options.get("match") == "embedding") != bool(self.encoder):
            raise UsageError(
                "states are matched by embeddings where both algorithm_options.match is 'embedding' and "
                "encoder says what embeds observations: 'policy', an encoder such as 'minilm', or a folder"
            )
        if bool(self.devices) != bool(self.rollout.devices):
            raise UsageError("devices are divided: give both --learner and --rollout, such as 0-5 and 6,7")
        if "split" in self.env_options:
            raise UsageError("env_options has a split, which would not be played: set split instead")
        if self.mix:
            check_mix(self.mix, self.env_id, self.algorithm)
            if self.rollout.max_staleness or self.encoder:
                raise UsageError(
                    "mix: environments are played in whole rounds, and their states matched by hash or text: "
                    "leave out rollout.max_staleness and encoder"
                )

    @property
    def spec(self) -> Algorithm:
        """The record of the algorithm."""
        if not hasattr(self, "_spec"):  # another process has sent this copy
            object.__setattr__(self, "_spec", find_algorithm(self.algorithm))
        return self._spec

    @property
    def advantage(self) -> Callable[..., Floats]:
        """The algorithm's advantage with the run's options."""
        own = advantage_options(self.spec.advantage)
        stated = {name: value for name, value in self.algorithm_options.items() if name in own}
        followed = {name: self._setting(path) for name, path in self.spec.follows.items()}
        return bind_options(self.spec.advantage, {**followed, **stated})

    def _setting(self, path: str) -> Any:
        """Return a setting by its dotted name, the prompting by default where none is given."""
        part, _, name = path.partition(".")
        whole = getattr(self, part)
        if whole is None:
            whole = self.loss if part == "objective" else default_prompting(self.model, self.env_id)
        return getattr(whole, name)

    @property
    def trains_reward_model(self) -> bool:
        """Whether a reward model is trained: not where process rewards are the environment's."""
        needed = self.spec.reward_model
        return needed and getattr(self.stage_options, "process", "model") == "model"

    @property
    def reward_settings(self) -> RewardModelConfig:
        """The reward model's; by default it learns from returns, or from wins where outcomes are 0 or 1."""
        return self.reward_model or _reward_settings(self.spec)

    @property
    def stage_options(self) -> Any:
        """The record that the algorithm's stages read, with the run's options."""
        record = self.spec.stage_options
        if record is None:
            return None
        names = {entry.name for entry in fields(record)}
        return replace(
            record, **{name: value for name, value in self.algorithm_options.items() if name in names}
        )

    @property
    def loss(self) -> Objective:
        """The objective that is minimised."""
        return self.spec.objective if self.objective is None else self.objective

    def rate(self, iteration: int) -> float:
        """Return the factor of learning rates in an iteration, counted from 1."""
        done = (iteration - 1) / self.iterations
        falling = {"constant": 1.0, "linear": 1.0 - done, "cosine": (1.0 + math.cos(math.pi * done)) / 2}
        return min(1.0, iteration / (self.warmup + 1)) * falling[self.decay]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedConfig(TrainConfig):
    """Configuration with nothing left to choose, by `agentgym.training.machine.resources.resolve`."""

    objective: Objective
    prompting: Prompting


def override(config: TrainConfig, changes: Mapping[str, Any]) -> TrainConfig:
    """Return a copy of a configuration with some settings changed.

    ``changes``: by dotted name, such as ``rollout.group_size`` or ``algorithm_options.gamma``, with values as
    TOML gives them.
    """
    return config_from_json(_changed(config_to_json(config), changes))


def _changed(table: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Change settings in the table of a configuration, and return it; values are checked when it is read."""
    before = dict(table)  # parts that are spelled out follow from the model and the algorithm as they were
    for name, value in changes.items():
        *path, last = name.split(".")
        inner: Any = table
        for depth, key in enumerate(path):
            _known(key, inner, name)
            if inner[key] is None and depth == 0:
                inner[key] = _spelled_out(before, key)
            if not isinstance(inner[key], dict):
                raise UsageError(f"setting {name!r}: {key} has no parts; set {'.'.join(path[: depth + 1])}")
            inner = inner[key]
        if path not in _TABLES:
            _known(last, inner, name)
        inner[last] = value
    if table["prompting"] is not None:
        given = [name.removeprefix("prompting.") for name in changes]
        table["prompting"] = with_words_of(given, table["prompting"])
    return table


_TABLES = (
    ["algorithm_options"],
    ["env_options"],
    ["prompting", "template_options"],
    ["rollout", "vllm_options"],
)
"""Parts whose settings may have any name."""


def _spelled_out(table: Mapping[str, Any], part: str) -> dict[str, Any]:
    """Return the part of a configuration that None is short for."""
    if part == "curriculum":  # no stages: setting one value begins with empty ones
        return {entry.name: entry.default for entry in fields(CurriculumConfig)}
    if part == "prompting":
        return asdict(default_prompting(table["model"], table["env_id"]))
    spec = find_algorithm(table["algorithm"])
    return asdict(spec.objective if part == "objective" else _reward_settings(spec))


def _reward_settings(spec: Algorithm) -> RewardModelConfig:
    return RewardModelConfig(outcome="won" if spec.binary else "return")


def _known(key: str, table: Mapping[str, Any], name: str) -> None:
    if key not in table:
        raise UsageError(f"unknown setting {name!r}{nearest(key, table)}; known here: {', '.join(table)}")


def config_to_json(config: TrainConfig) -> dict[str, Any]:
    """Return a configuration as JSON."""
    table: dict[str, Any] = _plain(config)
    return table


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {entry.name: _plain(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _defaults() -> dict[str, Any]:
    """Return the settings that have defaults, as JSON."""
    return {
        entry.name: _plain(entry.default if entry.default_factory is MISSING else entry.default_factory())
        for entry in fields(TrainConfig)
        if entry.default is not MISSING or entry.default_factory is not MISSING
    }


def config_from_json(table: Mapping[str, Any], where: str = "the configuration") -> TrainConfig:
    """Read what `config_to_json` returned."""
    rollout = table.get("rollout")
    if isinstance(rollout, Mapping) and rollout.get("engine") == "server":
        raise UsageError(
            f"{where}: rollout.engine 'server' is now 'vllm', with rollout.servers as before: set it so"
        )
    return parse(TrainConfig, dict(table), where)


def resumed(config: TrainConfig, iterations: int | None) -> TrainConfig:
    """Return the configuration of a resumed run, with another number of iterations where one is given.

    `UsageError` where the learning rates of past iterations would have been others.
    """
    if iterations is None or iterations == config.iterations:
        return config
    if config.decay != "constant":
        raise UsageError(
            f"learning rates fall over {config.iterations} iterations, and {iterations} would change them "
            "from the start: begin a new run from the checkpoint's model"
        )
    return replace(config, iterations=iterations)


# ---- presets ------------------------------------------------------------------------------------

Settings: TypeAlias = Mapping[str, Any]
"""Settings by the dotted names of `override`."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings that go together: a paper's recipe, or what suits tiny models.

    Example:
        >>> Preset({"iterations": 50}).config("grpo", "agentgym/EZPoints-v0").iterations
        50
    """

    settings: Settings = field(default_factory=dict)
    by_algorithm: Mapping[str, Settings] = field(default_factory=dict)
    """Settings that an algorithm needs on every environment; they override the others."""
    tiny: bool = False
    """Whether the suite's own settings for tiny models are added,
    `agentgym.core.suite_spec.SuiteSpec.tiny`."""

    def config(
        self, algorithm: str, env_id: str, changes: Mapping[str, Any] | None = None, **whole: Any
    ) -> TrainConfig:
        """Return the configuration of a run; ``changes`` are as `override` takes them."""
        spec = find_algorithm(algorithm)
        own = suite_spec(env_id).tiny if self.tiny else {}
        settings = {**self.settings, **own, **self.by_algorithm.get(algorithm, {})}
        if not spec.reward_model:
            settings = {key: value for key, value in settings.items() if not key.startswith("reward_model.")}
        table = _defaults() | _plain({"algorithm": algorithm, "env_id": env_id, **whole})
        return config_from_json(_changed(_changed(table, settings), changes or {}))


PLAIN = Preset()
"""Preset without settings: every default stays."""

TINY = Preset(
    {
        "iterations": 100,
        "learner.learning_rate": 2e-3,
        # random weights otherwise stop exploring before they have won often enough to learn from it
        "learner.entropy_coefficient": 0.03,
        # PRIME's bounds: random weights win hardly two episodes in ten
        "rollout.accuracy": [0.01, 0.99],
        "learner.critic_learning_rate": 3e-3,
        "reward_model.learning_rate": 3e-3,
        "learner.minibatches": 4,
        "objective.kl_coefficient": 0.0,
        "decay": "linear",
        "evaluation.every": 10,
    },
    by_algorithm={
        # its iterations are short, and its score differs only between states that earlier trees visited;
        # the published constants give up every state before random weights have won once
        "spo3": {
            "iterations": 200,
            "patience": 200,
            "learner.entropy_coefficient": 0.1,
            "rollout.group_size": 4,
            "algorithm_options.largest": 4,
            "algorithm_options.repeats": 8,
            "algorithm_options.alpha": 1.0,
            "algorithm_options.xi": 50,
        },
    },
    tiny=True,
)
"""Preset for `agentgym.inference.models.tiny` on a laptop: fast steps, no reference, the smallest boards."""


def read_config(path: Path) -> TrainConfig:
    """Read the configuration of a run's folder, or of a file of the same form."""
    path = path / CONFIG_FILE if path.is_dir() else path
    table = {key: value for key, value in read_config_table(path).items() if key != MADE_WITH}
    return config_from_json(table, str(path))


def read_config_table(path: Path) -> dict[str, Any]:
    """Return the JSON object of a configuration file; UsageError where it holds none."""
    table = loads_json(read_file(path, remedy="name a training run's folder"), str(path))
    if not isinstance(table, dict):
        raise UsageError(f"{path} holds no configuration: name the folder of a training run")
    return table
