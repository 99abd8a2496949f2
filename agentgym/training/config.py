"""The settings of a whole training run: what its folder records, and what it is repeated from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, TypeAlias

from agentgym.algos.filters import FilterOn
from agentgym.algos.objective import Objective
from agentgym.algos.table import ALGORITHMS, Algorithm
from agentgym.errors import UsageError, nearest
from agentgym.records import parse
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.policy.open import default_prompting
from agentgym.training.policy.prompting import Prompting

Decay: TypeAlias = Literal["constant", "linear", "cosine"]
"""How learning rates fall over a run: not at all, or to 0 along a line or half a cosine."""


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise UsageError(f"{name} must be at least {least}, got {value}")


def _check_kind(name: str, value: object, default: object) -> None:
    """Refuse a value of another kind than the default's; a whole number is a number."""
    kinds: dict[type, tuple[str, tuple[type, ...]]] = {
        bool: ("true or false", (bool,)),
        int: ("a whole number", (int,)),
        float: ("a number", (int, float)),
        str: ("a word", (str,)),
    }
    if type(default) in kinds:
        title, allowed = kinds[type(default)]
        if type(value) not in allowed:
            raise UsageError(f"{name} is {title}, such as {default!r}; got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutConfig:
    """How an iteration's episodes are played."""

    tasks: int = 16
    """Groups that an iteration trains on, one task each."""
    group_size: int = 8
    """Episodes per group."""
    num_envs: int = 128
    """Episodes played side by side."""
    max_staleness: int = 0
    """How many updates old the oldest step of a group may be that is trained on. 0: all episodes of an
    iteration are over before its update. 1 or more: those still running go on with the new weights."""
    overlap: bool = True
    """Whether a thread plays on while weights are updated, where ``max_staleness`` allows it. It is not
    repeatable which weights sample what; without it runs are."""
    attempts: int = 1
    """Rounds played at most until enough groups vary (dynamic sampling); 1 keeps every group."""
    filter_on: FilterOn = "return"
    """What must differ within a group for it to be kept, where there are several attempts."""
    engine: Literal["hf", "vllm"] = "hf"
    """What samples, in the learner's process: `transformers`, or vLLM (extra ``vllm``)."""
    vllm_memory: float = 0.4
    """Share of a GPU's memory that vLLM takes; the learner needs the rest."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("tasks", "group_size", "num_envs", "attempts"):
            _at_least(name, getattr(self, name), 1)
        _at_least("max_staleness", self.max_staleness, 0)
        if not 0 < self.vllm_memory < 1:
            raise UsageError(f"vllm_memory must be between 0 and 1, got {self.vllm_memory}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationConfig:
    """How the policy is evaluated while it learns: always on the same tasks with the same seeds."""

    every: int = 10
    """Iterations between evaluations, besides those before the first and after the last one; 0 for none."""
    split: str = "valid"
    tasks: int = 64
    """The split's first ones, each played once."""
    temperature: float = 0.4
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the numbers."""
        _at_least("every", self.every, 0)
        _at_least("tasks", self.tasks, 1)
        _at_least("seed", self.seed, 0)
        if not 0 <= self.temperature < math.inf:
            raise UsageError(f"temperature must be at least 0, got {self.temperature}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """Everything that decides a run.

    Example:
        >>> config = TrainConfig(algorithm="gigpo", env_id="agentgym/Sokoban-v0", switches={"gamma": 0.9})
        >>> override(config, {"learner.learning_rate": 1e-3}).learner.learning_rate
        0.001
        >>> config_from_json(config_to_json(config)) == config
        True
    """

    algorithm: str
    """A key of `agentgym.algos.table.ALGORITHMS`."""
    env_id: str
    env_options: Mapping[str, Any] = field(default_factory=dict)
    """Of the environment's constructor, without the split."""
    split: str = "train"
    model: str = "tiny"
    """``tiny``, ``tiny:SIZE`` or the path of a model directory."""
    device: str = "cpu"
    """``cpu``, or ``cuda`` for one device per process."""
    threads: int = 1
    """Of a process on a CPU. On a machine that others use too, several wait for each other: an iteration of
    .6 seconds has been seen to take 27."""
    seed: int = 0
    """Decides random weights, the order of tasks, episodes, sampling and mini-batches."""
    iterations: int = 100
    switches: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the algorithm's advantage; its defaults are the paper's."""
    objective: Objective | None = None
    """None for the algorithm's own."""
    rollout: RolloutConfig = RolloutConfig()
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    prompting: Prompting | None = None
    """None for what suits the model and the environment."""
    evaluation: EvaluationConfig = EvaluationConfig()
    warmup: int = 0
    """Iterations over which learning rates rise from 0."""
    decay: Decay = "constant"
    patience: int = 10
    """Iterations in a row without anything to learn from after which a run ends."""
    checkpoint_every: int = 20
    """Iterations from one checkpoint to the next; there is one after the last. 0: that one only."""
    keep: int = 2
    """How many checkpoints stay."""

    def __post_init__(self) -> None:
        """Check names and numbers.

        Raises:
            UsageError: names the setting.
        """
        if self.algorithm not in ALGORITHMS:
            hint = nearest(self.algorithm, ALGORITHMS)
            raise UsageError(
                f"unknown algorithm {self.algorithm!r}{hint}; choose one of {', '.join(ALGORITHMS)}"
            )
        known = list(self._algorithm.defaults)
        for name in self.switches:
            if name not in known:
                hint, listed = nearest(name, known), ", ".join(known)
                raise UsageError(f"{self.algorithm} has no switch {name!r}{hint}; it has {listed}")
            _check_kind(f"switches.{name}", self.switches[name], self._algorithm.defaults[name])
        if "split" in self.env_options:
            raise UsageError("env_options has a split, which would not be played: set split instead")
        if self.device not in ("cpu", "cuda"):
            raise UsageError(f"device must be 'cpu' or 'cuda', got {self.device!r}")
        for name, least in (
            ("threads", 1),
            ("seed", 0),
            ("warmup", 0),
            ("iterations", 1),
            ("patience", 1),
            ("keep", 1),
        ):
            _at_least(name, getattr(self, name), least)
        _at_least("checkpoint_every", self.checkpoint_every, 0)

    @property
    def _algorithm(self) -> Algorithm:
        return ALGORITHMS[self.algorithm]

    @property
    def loss(self) -> Objective:
        """What is minimised."""
        return self._algorithm.objective if self.objective is None else self.objective

    def rate(self, iteration: int) -> float:
        """Return what learning rates are multiplied by in an iteration, counted from 1."""
        done = (iteration - 1) / self.iterations
        falling = {"constant": 1.0, "linear": 1.0 - done, "cosine": (1.0 + math.cos(math.pi * done)) / 2}
        return min(1.0, iteration / (self.warmup + 1)) * falling[self.decay]


def override(config: TrainConfig, changes: Mapping[str, Any]) -> TrainConfig:
    """Return a configuration with some settings changed.

    Args:
        config: left as it is.
        changes: by dotted name, such as ``rollout.group_size`` or ``switches.gamma``. Values are as TOML
            gives them.

    Raises:
        UsageError: no such setting, or not a value of its type.
    """
    table = config_to_json(config)
    for name, value in changes.items():
        *path, last = name.split(".")
        inner: Any = table
        for depth, key in enumerate(path):
            _known(key, inner, name)
            if inner[key] is None and depth == 0:
                inner[key] = _spelled_out(config, key)
            if not isinstance(inner[key], dict):
                raise UsageError(f"setting {name!r}: {key} has no parts; set {'.'.join(path[: depth + 1])}")
            inner = inner[key]
        if path not in (["switches"], ["env_options"]):
            _known(last, inner, name)
        inner[last] = value
    return config_from_json(table)


def _spelled_out(config: TrainConfig, part: str) -> dict[str, Any]:
    """Return a part of a configuration that its None stands for."""
    whole = config.loss if part == "objective" else default_prompting(config.model, config.env_id)
    return asdict(whole)


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


def config_from_json(table: Mapping[str, Any], where: str = "the configuration") -> TrainConfig:
    """Read what `config_to_json` returned.

    Raises:
        UsageError: something in it is unknown, missing or of another type.
    """
    return parse(TrainConfig, dict(table), where)


def resumed(config: TrainConfig, iterations: int | None) -> TrainConfig:
    """Return a configuration that goes on to another iteration.

    Raises:
        UsageError: the learning rates of the iterations behind would have been others.
    """
    if iterations is None or iterations == config.iterations:
        return config
    if config.decay != "constant":
        raise UsageError(
            f"learning rates fall over {config.iterations} iterations, which {iterations} would have changed "
            "from the start: begin a new run from the checkpoint's model"
        )
    return replace(config, iterations=iterations)
