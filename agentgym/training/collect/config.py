"""Settings of the rollouts of an iteration: how many, how far ahead, from where, and what samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from agentgym.algos.filters import ACCURACY, FilterOn
from agentgym.core.options import Bounds, NonNegativeFloat, NonNegativeInt, PositiveInt, check_fields
from agentgym.errors import UsageError

EngineName: TypeAlias = Literal["auto", "hf", "vllm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutConfig:
    """Rollout settings of an iteration."""

    tasks: PositiveInt = 16
    """Groups in an iteration, one task each."""
    group_size: PositiveInt = 8
    """Episodes per group."""
    num_envs: NonNegativeInt = 0
    """Number of episodes played side by side; 0 chooses 128 on a CPU, all of an iteration's on a GPU. At most
    ``(max_staleness + 1) * tasks * group_size`` are played at a time."""
    max_staleness: NonNegativeInt = 0
    """Largest age of a group's oldest step, in updates, for the group to be trained on. 0: all episodes of an
    iteration end before its update. 1 or more: those still running continue with the new weights."""
    overlap: bool = True
    """Whether a thread continues to play while weights are updated, where ``max_staleness`` allows it. Runs
    are then not repeatable, since the weights that sample a token depend on timing."""
    asynchronous: bool | None = None
    """Whether each episode continues as soon as its own response is complete, instead of all turn by turn.
    With responses of different lengths this takes fewer decoding steps, with fewer rows; the tokens are the
    same, the log-probabilities up to rounding. None: on a GPU where ``overlap`` and ``max_staleness`` allow
    it (not measured there), and not on a CPU, where it is slower."""
    updates_in_flight: bool = False
    """Whether new weights take effect within responses, which record the version for each token, instead of
    after all responses under way. Needs ``asynchronous``, ``overlap`` and ``max_staleness``."""
    attempts: PositiveInt = 1
    """Most rounds of rollouts until enough groups vary (dynamic sampling); 1 keeps every group."""
    filter_on: FilterOn = "return"
    """Quantity that must differ within a group for dynamic sampling to keep it, with several attempts."""
    accuracy: tuple[float, float] = ACCURACY
    """Least and greatest share of successes of a group to keep, with ``filter_on`` "accuracy"."""
    pool: str = ""
    """Folder of a data pool (`agentgym.rollout.datapool`) whose groups replace rollouts: ``tasks`` of them an
    update, of any size, with no token older than ``max_staleness`` updates."""
    pool_patience: NonNegativeFloat = 600.0
    """Seconds for which an incomplete group of the pool delays those after it, from its last episode on."""
    engine: EngineName = "auto"
    """Sampling engine: `transformers` in the learner's process ("hf"), or vLLM in a process of its own, which
    the run starts on the learner's devices unless ``devices`` or ``servers`` name others. "auto" is vLLM
    where it is installed beside a GPU and the model is not small; else "hf"."""
    sampler: str = ""
    """Function ``module:function`` from logits to logits, such as min-p, that the engine "hf" draws from and
    the learner's log-probabilities are of (`agentgym.inference.engines.sampling`); "" for none."""
    sampler_sha256: str = ""
    """SHA-256 of that function's source, of a resolved configuration."""
    prompt_cache: NonNegativeInt = 0
    """Prompt tokens whose keys and values the engine "hf" keeps from turn to turn, up to each update, so that
    what prompts begin with is read once; the oldest make room. Log-probabilities then differ by rounding, and
    a resumed run's, too. 0 reads every prompt anew; vLLM has its own (``vllm_options``)."""
    servers: tuple[str, ...] = ()
    """Addresses of running ``vllm serve`` processes, ``http://host:port``, each with its own devices."""
    devices: str = ""
    """CUDA devices of this machine for ``vllm serve``, such as ``6,7``: the run starts as many engines as
    fit, each on ``vllm_options.tensor_parallel_size`` of them."""
    weight_transfer: Literal["files", "nccl"] = "files"
    """Transport of weights to vLLM: files in ``weights_folder``, or vLLM's own broadcast, which needs vLLM
    beside the learner, too, devices of its own and ``--weight-transfer-config`` of running servers."""
    weights_folder: str = ""
    """Folder with the same path for learner and servers; empty for a temporary one of this machine, in
    ``/dev/shm`` where the weights fit there twice."""
    vllm_memory: Annotated[float, Bounds(0, 1, open_below=True, open_above=True)] = 0.4
    """Share of the learner's device for vLLM, on a CPU of the main memory; the learner needs the rest."""

    vllm_options: Mapping[str, Any] = field(default_factory=dict)
    """Further flags of ``vllm serve`` by name, such as ``max_num_seqs``, except those that follow from other
    settings."""
    vllm_seeds: bool = True
    """Whether each request of vLLM has a seed of its own, which a GPU samples a row at a time. Without, all
    rows of a step are sampled at once, and the tokens depend on the batch: no seed fixes the run."""
    vllm_sleep: Literal[0, 1, 2] | None = None
    """Level of vLLM's sleep during updates: 0 frees nothing, 1 its cache and moves its weights to main
    memory, 2 both. None: 1 where it shares a GPU with the learner and nothing is played ahead, else 0."""

    @property
    def plays_ahead(self) -> bool:
        """Whether episodes are played while weights are updated."""
        return self.max_staleness > 0 and self.overlap and not self.pool

    @property
    def apart(self) -> bool:
        """Whether the engine has devices of its own."""
        return bool(self.servers or self.devices)

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_fields(self)
        if self.sampler and (self.engine == "vllm" or self.pool):
            raise UsageError(
                "rollout.sampler needs responses drawn by rollout.engine=hf: set that, or leave it out"
            )
        if self.engine != "vllm" and (self.apart or self.weight_transfer == "nccl"):
            raise UsageError("rollout.servers, devices and weight_transfer=nccl need rollout.engine=vllm")
        if self.weight_transfer == "nccl" and not self.apart:
            raise UsageError(
                "NCCL does not join two processes on one device: leave out rollout.weight_transfer=nccl, or "
                "give vLLM devices of its own by rollout.devices or rollout.servers"
            )
        if self.vllm_sleep and (self.apart or self.plays_ahead):
            raise UsageError(
                "rollout.vllm_sleep frees the learner's device between rollouts: leave it out with devices "
                "of vLLM's own and where episodes are played during updates"
            )
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
