"""Settings of a training run, as its folder records them, and presets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

from agentgym.algos.algorithm import Algorithm
from agentgym.algos.filters import ACCURACY, FilterOn
from agentgym.algos.objective import Objective
from agentgym.algos.options import advantage_options, bind_options
from agentgym.algos.table import find_algorithm, trainable
from agentgym.core.arrays import Floats
from agentgym.core.options import (
    Bounds,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    check_fields,
    check_options,
)
from agentgym.errors import UsageError, nearest
from agentgym.io.records import parse
from agentgym.prompts.settings import Prompting, with_words_of
from agentgym.registration import suite_spec
from agentgym.training.curriculum import CurriculumConfig
from agentgym.training.learner.config import LearnerConfig, RewardModelConfig
from agentgym.training.mixed_environment import MixedEnvironment, check_mix
from agentgym.training.policy.open import default_prompting

Decay: TypeAlias = Literal["constant", "linear", "cosine"]
"""How learning rates fall over a run: not at all, or to 0 along a line or half a cosine."""


EngineName: TypeAlias = Literal["auto", "hf", "vllm", "server"]

Device: TypeAlias = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutConfig:
    """Rollout settings of an iteration."""

    tasks: PositiveInt = 16
    """Groups that an iteration trains on, one task each."""
    group_size: PositiveInt = 8
    """Episodes per group."""
    num_envs: NonNegativeInt = 0
    """Episodes played side by side; 0 chooses: 128 on a CPU, all of an iteration's on a GPU. No more than
    ``(max_staleness + 1) * tasks * group_size`` are played at a time."""
    max_staleness: NonNegativeInt = 0
    """How many updates old the oldest step of a group may be that is trained on. 0: all episodes of an
    iteration are over before its update. 1 or more: those still running continue with the new weights."""
    overlap: bool = True
    """Whether a thread plays on while weights are updated, where ``max_staleness`` allows it. It is not
    repeatable which weights sample what; without it runs are."""
    cuda_stream: bool = False
    """Whether the thread that plays on has a CUDA stream of its own, so that one GPU samples while it learns.
    It has never run on a GPU."""
    asynchronous: bool = False
    """Whether each episode goes on as soon as its own response is there, instead of all turn by turn. Where
    responses differ in length this takes fewer decoding steps, of fewer rows; the tokens are the same, the
    log-probabilities to rounding. Off, since on a CPU it is slower and on a GPU it has not been measured."""
    updates_in_flight: bool = False
    """Whether new weights come in the middle of responses, which say of each token what drew it, instead of
    once all that are being drawn are over. Needs ``asynchronous``, ``overlap`` and ``max_staleness``."""
    attempts: PositiveInt = 1
    """Rounds played at most until enough groups vary (dynamic sampling); 1 keeps every group."""
    filter_on: FilterOn = "return"
    """What must differ within a group for it to be kept, where there are several attempts."""
    accuracy: tuple[float, float] = ACCURACY
    """Least and greatest share of successes of a group that is kept, where ``filter_on`` is "accuracy"."""
    pool: str = ""
    """Folder of a data pool (`agentgym.rollout.datapool`) whose groups are trained on instead of playing:
    ``tasks`` of them an update, whatever their sizes, with no token older than ``max_staleness`` updates."""
    pool_patience: NonNegativeFloat = 600.0
    """Seconds after its last episode for which an incomplete group of the pool holds up those after it."""
    engine: EngineName = "auto"
    """What samples, in the learner's process: `transformers` ("hf"), or vLLM (extra ``vllm``). "auto" is vLLM
    where it is installed beside a GPU and the model is not small; else "hf".
    "server": the ``vllm serve`` processes of ``servers``, wherever they run."""
    servers: tuple[str, ...] = ()
    """Their addresses, ``http://host:port``; each has as many devices as it was started with."""
    devices: str = ""
    """CUDA devices of this machine that the run starts ``vllm serve`` on, such as ``6,7``: as many engines as
    fit, each on ``vllm_options.tensor_parallel_size`` of them."""
    weight_transfer: Literal["files", "nccl"] = "files"
    """How servers get weights: by files in ``weights_folder``, or by vLLM's own broadcast, which needs vLLM
    beside the learner, too, and servers that were started with ``--weight-transfer-config`` for it."""
    weights_folder: str = ""
    """A folder that learner and servers have under one path; empty for one of this machine's temporary."""
    vllm_memory: Annotated[float, Bounds(0, 1, open_below=True, open_above=True)] = 0.4
    """Share of a device's memory that vLLM takes, on a CPU of the main memory; the learner needs the rest."""

    vllm_options: Mapping[str, Any] = field(default_factory=dict)
    """More arguments of ``vllm.LLM`` by name, such as ``max_num_seqs``, but for those that follow from other
    settings."""
    vllm_seeds: bool = True
    """Whether each request of vLLM draws by a seed of its own, a row at a time on a GPU. Without, all rows of
    a step are drawn at once, and what is sampled depends on what else is: a seed no longer decides a run."""
    vllm_sleep: Literal[0, 1, 2] = 0
    """What vLLM gives back during updates: 0 nothing, 1 its cache, its weights waiting in main memory, 2
    both."""

    @property
    def plays_ahead(self) -> bool:
        """Whether episodes are played while weights are updated."""
        return self.max_staleness > 0 and self.overlap and not self.pool

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_fields(self)
        if self.engine != "server" and (self.servers or self.devices or self.weight_transfer == "nccl"):
            raise UsageError("rollout.servers, devices and weight_transfer=nccl need rollout.engine=server")
        if not 0 <= self.accuracy[0] <= self.accuracy[1] <= 1:
            raise UsageError(f"accuracy must be two shares in ascending order, got {list(self.accuracy)}")
        if self.asynchronous and self.max_staleness > 0 and not self.overlap:
            raise UsageError(
                "asynchronous episodes go on during updates: set overlap, or max_staleness to 0, or leave "
                "out asynchronous"
            )
        if self.updates_in_flight and not (self.asynchronous and self.overlap and self.max_staleness > 0):
            raise UsageError(
                "updates_in_flight changes weights under episodes that go on by themselves: set "
                "asynchronous, overlap and a max_staleness of at least 1, too"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationConfig:
    """Evaluation of the policy during training: always on the same tasks with the same seeds."""

    every: NonNegativeInt = 10
    """Iterations between evaluations, besides those before the first and after the last one; 0 for none."""
    split: str | tuple[str, ...] = "valid"
    """One, or several side by side; the first is the one that plain numbers of an evaluation are of."""
    tasks: PositiveInt = 64
    """Each split's first ones, each played once."""
    temperature: NonNegativeFloat = 0.4
    seed: NonNegativeInt = 0
    keep_best: str = ""
    """The measure of evaluations whose best checkpoint is kept beside the newest ones: ``success`` or
    ``score`` of the first split, ``splits/NAME/success``, ``types/NAME/success`` and so on; "" for none."""
    early_stopping: NonNegativeInt = 0
    """Evaluations in a row that are not better by ``keep_best`` after which a run ends; 0 for any number."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
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
    """As `agentgym.algos.table.find_algorithm` takes it: a built-in name, an entry point's, or
    ``module:attribute``."""
    env_id: str
    env_options: Mapping[str, Any] = field(default_factory=dict)
    """Of the environment's constructor, without the split."""
    split: str = "train"
    model: str = "tiny"
    """``tiny``, ``tiny-FAMILY``, either with ``:SIZE``; the path of a model directory; or ``OWNER/NAME`` of
    the Hugging Face hub, with ``@REVISION`` or without."""
    device: Device = "auto"
    """``cpu``, or ``cuda`` for one device per process; ``auto`` is the latter where there is one."""
    devices: str = ""
    """CUDA devices of this machine that learn, such as ``0-5``, one for each process, where
    ``rollout.devices`` sample; empty for as many as there are processes."""
    threads: PositiveInt = 1
    """Of a process on a CPU; on a GPU under ``learner.offload`` as many as its cores at least. On a machine
    that others use too, several wait for each other: an iteration of .6 seconds has been seen to take 27."""
    seed: NonNegativeInt = 0
    """Decides random weights, the order of tasks, episodes, sampling and mini-batches."""
    iterations: PositiveInt = 100
    algorithm_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the algorithm's advantage and of its stages, those of `agentgym.algos.compat.Compat` among
    them, by name; the defaults are the paper's."""
    objective: Objective | None = None
    """None for the algorithm's own."""
    encoder: str = ""
    """What embeds observations for ``algorithm_options.match = "embedding"``: ``policy`` (its own hidden
    state), or as `agentgym.retrieval.encoders.open_encoder` takes it."""
    rollout: RolloutConfig = RolloutConfig()
    curriculum: CurriculumConfig | None = None
    """None for tasks of all difficulties from the start."""
    mix: tuple[MixedEnvironment, ...] = ()
    """Further environments that are played and trained on in the same iterations."""
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    reward_model: RewardModelConfig | None = None
    """Of algorithms that train one beside the policy; None for its defaults there."""
    prompting: Prompting | None = None
    """None for what suits the model and the environment."""
    evaluation: EvaluationConfig = EvaluationConfig()
    warmup: NonNegativeInt = 0
    """Iterations over which learning rates rise from 0."""
    decay: Decay = "constant"
    patience: PositiveInt = 10
    """Iterations in a row without anything to learn from after which a run ends."""
    checkpoint_every: NonNegativeInt = 20
    """Iterations from one checkpoint to the next; there is one after the last. 0: that one only."""
    keep: PositiveInt = 2
    """How many checkpoints stay."""
    keep_rollouts: NonNegativeInt = 0
    """Iterations from one whose rollouts are kept under ``rollouts`` to the next; 0 keeps none."""

    def __post_init__(self) -> None:
        """Check names and numbers.

        Raises:
            UsageError: names the setting, or the algorithm that cannot be trained.
        """
        check_fields(self)
        spec = trainable(self.algorithm)
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
                "choose an algorithm of whole episodes, not spo3, and leave out mix and curriculum.by"
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
        return find_algorithm(self.algorithm)

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
        return self.reward_model or RewardModelConfig(outcome="won" if self.spec.binary else "return")

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
        if path not in _TABLES:
            _known(last, inner, name)
        inner[last] = value
    if table["prompting"] is not None:
        given = [name.removeprefix("prompting.") for name in changes]
        table["prompting"] = with_words_of(given, table["prompting"])
    return config_from_json(table)


_TABLES = (
    ["algorithm_options"],
    ["env_options"],
    ["prompting", "template_options"],
    ["rollout", "vllm_options"],
)
"""Parts whose settings may have any name."""


def _spelled_out(config: TrainConfig, part: str) -> dict[str, Any]:
    """Return a part of a configuration that its None stands for."""
    if part == "curriculum":  # None is for no stages: its settings are those of none, until the first is set
        return {entry.name: entry.default for entry in fields(CurriculumConfig)}
    if part == "reward_model":
        return asdict(config.reward_settings)
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
    """Read what `config_to_json` returned."""
    return parse(TrainConfig, dict(table), where)


def resumed(config: TrainConfig, iterations: int | None) -> TrainConfig:
    """Return the configuration of a resumed run, with another number of iterations where one is given.

    `UsageError` where the learning rates of past iterations would have been others.
    """
    if iterations is None or iterations == config.iterations:
        return config
    if config.decay != "constant":
        raise UsageError(
            f"learning rates fall over {config.iterations} iterations, which {iterations} would have changed "
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
    """What an algorithm needs on every environment; overrides the others."""
    tiny: bool = False
    """Whether the suite's own settings for tiny models are added,
    `agentgym.core.suite_spec.SuiteSpec.tiny`."""

    def config(self, algorithm: str, env_id: str, **changes: Any) -> TrainConfig:
        """Return the configuration of a run; ``changes`` are fields of it, such as ``model`` and ``seed``."""
        plain = TrainConfig(algorithm=algorithm, env_id=env_id, **changes)
        own = suite_spec(env_id).tiny if self.tiny else {}
        settings = {**self.settings, **own, **self.by_algorithm.get(algorithm, {})}
        if not plain.spec.reward_model:
            settings = {key: value for key, value in settings.items() if not key.startswith("reward_model.")}
        return override(plain, settings)


PLAIN = Preset()
"""Nothing but defaults."""

TINY = Preset(
    {
        "iterations": 100,
        "learner.learning_rate": 2e-3,
        # without it random weights stop exploring before they have won often enough to learn from it
        "learner.entropy_coefficient": 0.03,
        # of PRIME: random weights hardly win two episodes of ten
        "rollout.accuracy": [0.01, 0.99],
        "learner.critic_learning_rate": 3e-3,
        "reward_model.learning_rate": 3e-3,
        "learner.minibatches": 4,
        "objective.kl_coefficient": 0.0,
        "decay": "linear",
        "evaluation.every": 10,
    },
    by_algorithm={
        # its iterations are short, and its score tells apart only states that earlier trees of a task passed;
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
"""For `agentgym.training.models.tiny` models on a laptop: fast steps, no reference, the smallest boards."""
