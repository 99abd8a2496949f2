"""Forecast of an iteration's seconds from a load and a device's rates: ``--plan``, ``benchmarks.simulate``.

A forecast is a range: the fast and the slow end of each rate. A rate is a committed measurement, or
arithmetic from a data sheet with an assumed utilisation, which is called unmeasured.
"""

from __future__ import annotations

from typing import NamedTuple

from agentgym.registration import class_of, find_spec
from agentgym.training.config import ResolvedConfig
from agentgym.training.machine.memory import BYTES, ModelSize
from agentgym.training.machine.resources import DATA_SHEET, Machine

FORWARD, UPDATE = 2, 6
"""Operations per weight and token of a forward pass, and of both passes (Kaplan et al., 2020, 2.1)."""

ASSUMED = "H100"
"""Device whose data sheet is taken for a GPU without a known name."""

CPU_SAMPLE, CPU_LEARN = (65e9, 30e9), (135e9, 80e9)
"""Operations a second of one CPU thread in float32, in sampling and in updates (benchmarks/plan.md)."""

HF_STEP = (1.6e-3, 2.0e-3)
"""Seconds of a layer in a decoding step of `hf` on a GPU: 97 s for 1,926 steps of 28 layers, on one H100."""

VLLM_STEP, BANDWIDTH_USE, ROW = (3.2e-3, 4.7e-3), (0.8, 0.5), (25e-6, 50e-6)
"""Seconds of a decoding step beside reading the weights, share of the bandwidth for that, seconds a row."""

READ_USE, LEARN_USE, REST = (0.28, 0.125), (0.45, 0.2), (2.0, 10.0)
"""Shares of a GPU's peak in reading prompts and in updates, seconds of an update beside its passes."""


class Rates(NamedTuple):
    """Costs of one end of a forecast, in seconds."""

    step: float
    """Seconds of a decoding step."""
    row: float
    """Seconds that each row adds to a decoding step."""
    token: float
    """Seconds of reading a token."""
    learn: float = 0.0
    """Seconds of a forward and a backward pass, per token."""
    rest: float = 0.0
    """Seconds of an update beside the passes."""

    def decode(self, rows: int, steps: int) -> float:
        """Return the seconds of decoding steps with this many rows."""
        return steps * (self.step + self.row * rows)

    def update(self, tokens: float, passes: float = 0.0) -> float:
        """Return the seconds of an update of so many tokens, after ``passes`` without a gradient."""
        return tokens * self.learn * (1 + FORWARD / UPDATE * passes) + self.rest


def device_rates(size: ModelSize, machine: Machine, *, engine: str, number: int) -> list[Rates]:
    """Return the fast and the slow rates of a model on a device; ``number``: bytes of a number."""
    weights, rates, (peak, bandwidth) = size.parameters, [], DATA_SHEET[machine.part or ASSUMED]
    for end in (0, 1):
        if machine.device == "cpu":
            read = FORWARD * weights / CPU_SAMPLE[end]
            rates.append(Rates(0.0, read, read, UPDATE * weights / CPU_LEARN[end]))
            continue
        step = size.layers * HF_STEP[end]
        if engine != "hf":
            step = VLLM_STEP[end] + number * weights / (bandwidth * BANDWIDTH_USE[end])
        read, learn = FORWARD * weights / (peak * READ_USE[end]), UPDATE * weights / (peak * LEARN_USE[end])
        rates.append(Rates(step, ROW[end], read, learn, REST[end]))
    return rates


def plan_pace(size: ModelSize, config: ResolvedConfig, machine: Machine) -> list[str]:
    """Return the lines of a plan about speed: seconds, tokens a second, and the source of each rate.

    The light load has half of the turns and a third of the tokens that settings allow, the full load all.
    """
    rollout, prompting, learner = config.rollout, config.prompting, config.learner
    episodes, overlaps = -(-rollout.tasks * rollout.group_size // machine.ranks), rollout.plays_ahead
    rows = max(min(rollout.num_envs, episodes), 1)
    chosen = {**find_spec(config.env_id).kwargs, **config.env_options}
    limit = int(chosen.get("max_steps") or class_of(config.env_id).default_max_steps)
    passes = (learner.recomputes + (config.loss.kl_coefficient > 0)) / learner.epochs
    passes += bool(learner.gradient_checkpointing)
    models = 1 + (config.spec.critic is not None) + config.trains_reward_model
    ends = device_rates(size, machine, engine=rollout.engine, number=BYTES[learner.dtype])
    found, loads = [], []
    for turns, part, rate in zip((-(-limit // 2), limit), (3, 1), ends, strict=True):
        prompt, drawn = max(prompting.budget // part, 1), max(prompting.max_tokens // part, 1)
        batches, learned = -(-episodes // rows) * turns, learner.epochs * episodes * turns * (prompt + drawn)
        sampling = batches * (rate.decode(rows, drawn) + rate.token * rows * prompt)
        update = models * rate.update(learned, passes)
        total = max(sampling, update) if overlaps else sampling + update
        found.append((total, sampling, update, episodes * turns * drawn / sampling, learned / update))
        loads.append(f"{turns} turns of {prompt:,} + {drawn:,} tokens")
    shown = [f"{fast:,.0f} to {slow:,.0f}" for fast, slow in zip(*found, strict=True)]
    return [
        f"{shown[0]} s an iteration: sampling {shown[1]}, update {shown[2]}{', overlapped' * overlaps}",
        f"{shown[3]} tokens a second sampled, {shown[4]} learned, by a rank",
        f"load: {episodes:,} episodes of {' to '.join(loads)}, none of them shared or cached",
        *_sources(machine, rollout.engine),
    ]


def _sources(machine: Machine, engine: str) -> list[str]:
    if machine.device == "cpu":
        return ["rates: one CPU thread in float32, measured on ten small runs (benchmarks/plan.md)"]
    peak, bandwidth = DATA_SHEET[machine.part or ASSUMED]
    step = "1.6 to 2 ms a layer, measured once, on an H100 (docs/gpu.md)"
    if engine != "hf":
        step = f"3.2 to 4.7 ms and the weights at 50 to 80 % of {bandwidth / 1e12:.2f} TB/s, unmeasured"
    use = f"prompts at 12.5 to 28 %, updates at 20 to 45 % of {peak / 1e12:.0f} TFLOP/s, unmeasured"
    return [f"rates of {machine.part or 'an ' + ASSUMED + ' (assumed)'}: a decoding step takes {step}", use]
