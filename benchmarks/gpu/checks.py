"""The checks of one GPU: the command of each, and what its report keeps."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

Figures = Mapping[str, float]

SMOLLM2 = Path("runs/models/smollm2")
"""Where `make runs/models/smollm2/config.json` puts the pretrained model."""

METRICS = (
    "seconds/total",
    "seconds/model",
    "seconds/update",
    "seconds/credit",
    "seconds/sync",
    "tokens_per_second",
    "learner_tokens",
    "mfu",
    "peak_memory",
    "logp_diff_mean",
    "logp_diff",
    "grad_norm",
    "staleness",
)
"""Of a run's iterations, where they have them: the mean of all but the first, which allocates."""

SWITCHES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "lora": ("low-rank adapters", {"learner.lora_rank": 8}),
    "offload": ("weights and moments in main memory", {"learner.offload": True}),
    "adamw-in-parts": ("AdamW that is not fused", {"learner.fused": False}),
    "unweighted": ("no importance weights for the engine's gap", {"learner.old_log_probs": "recompute"}),
    "two-steps": ("two mini-batches, and a pass for old log-probabilities", {"learner.minibatches": 2}),
    "bypass": (
        "two mini-batches, weighted by truncated ratios to the engine's log-probabilities, without that pass",
        {"learner.minibatches": 2, "learner.old_log_probs": "bypass"},
    ),
    "rows": ("rows that share nothing, by FlexAttention", {"learner.packing": "rows"}),
    "flash": ("by FlashAttention", {"learner.packing": "rows", "learner.attention": "flash"}),
    "compile": ("layers and head by torch.compile", {"learner.compile": True}),
    "sampler": ("min-p as a sampler of one's own", {"rollout.sampler": "examples.own_sampler:min_p"}),
    "checkpointing": ("gradient checkpointing", {"learner.gradient_checkpointing": True}),
    "float32": ("float32 instead of bfloat16", {"learner.dtype": "float32"}),
    "tf32": ("float32, its products as TensorFloat-32", {"learner.dtype": "float32", "learner.tf32": True}),
}
"""Settings of the learner, each beside `hf-lock-step`, which has none of them, but for `BESIDE`."""

BESIDE: Mapping[str, str] = {"bypass": "two-steps", "flash": "rows", "tf32": "float32"}
"""The check that another one's figures are divided by, where that is not `hf-lock-step`."""

RATIOS = ("seconds/update", "grad_norm", "peak_memory", "logp_diff_mean")
"""Figures that are divided."""

EXPECTED: Mapping[str, str] = {
    "doctor": "each gap below a tenth of a nat",
    "doctor-pretrained": "each gap below a tenth of a nat",
    "hf-lock-step": "four iterations; logp_diff_mean below 0.01",
    "hf-own-pace": "less seconds/model than hf-lock-step",
    "hf-stale": "staleness above 0 and at most 1",
    "hf-overlap": "seconds/total below hf-stale's",
    "lora": "less peak_memory",
    "offload": "less peak_memory, more seconds/update, the same grad_norm",
    "adamw-in-parts": "the same grad_norm",
    "unweighted": "the same logp_diff_mean",
    "two-steps": "half the learner_tokens an update",
    "bypass": "seconds/credit below two-steps'",
    "rows": "more learner_tokens, the same logp_diff_mean",
    "flash": "the same grad_norm within 2 %, less seconds/update",
    "compile": "the same grad_norm within 2 %, less seconds/update with a large model only",
    "sampler": "the same logp_diff_mean: the learner has the engine's distribution",
    "checkpointing": "less peak_memory, about a third more seconds/update",
    "float32": "logp_diff_mean below 1e-4",
    "tf32": "less seconds/update, logp_diff_mean below 1e-2",
    "pictures": "logp_diff_mean below 0.01",
    "critic": "four iterations",
    "reward-model": "four iterations",
    "kill-and-resume": "iterations 1 to 4, each once",
    "alfworld-pretrained": "four iterations; logp_diff_mean below 0.05",
    "vllm": "four iterations; logp_diff_mean below 0.05",
    "vllm-awake": "seconds/update and logp_diff_mean as vllm's",
    "vllm-unseeded": "tokens_per_second of vllm's or more",
    "rates": "more rows, more tokens a second",
}
"""Expected figures, in words, which stand beside those found."""


@dataclass(frozen=True)
class Check:
    """A command, and what is read from the folder that it leaves."""

    name: str
    what: str
    command: tuple[str, ...]
    figures: Callable[[Path], Figures]
    missing: str = ""
    """Why it cannot run here; empty where it can."""
    killed_after: int = 0
    """Lines of ``metrics.jsonl`` after which the process is killed and resumed; 0 for never."""

    @property
    def expected(self) -> str:
        """Expected figures in words; empty for a check outside of `EXPECTED`."""
        return EXPECTED.get(self.name, "")


def checks(device: str, model: str, out: Path) -> list[Check]:
    """Return the list for a device: "cuda", or "cpu" for the dry run with small models.

    ``model``: directory of a pretrained model, or empty; ``out``: parent of the checks' folders.
    """
    small = device == "cpu"
    size, vision = ("tiny:0.1m", "tiny-vl:0.1m") if small else ("tiny:5m", "tiny-vl:0.8m")
    pretrained = model or (str(SMOLLM2) if SMOLLM2.exists() else "")
    wanting = (
        ""
        if pretrained
        else "no pretrained model: set MODEL, or `make runs/models/smollm2/config.json` first"
    )
    no_vllm = "" if find_spec("vllm") else "vllm is not installed"
    train = partial(training, device=device, out=out, size=4 if small else 16)
    vllm: dict[str, Any] = {"rollout.engine": "vllm", "rollout.asynchronous": True}
    awake, unseeded = vllm | {"rollout.vllm_sleep": 0}, vllm | {"rollout.vllm_seeds": False}
    lock_step, own_pace = {"rollout.asynchronous": False}, {"rollout.asynchronous": True}
    short = {"env_options.max_steps": 3 if small else 20, "prompting.max_tokens": 8 if small else 64}
    given = pretrained or size
    found = [
        doctor("doctor", "each learner path, bfloat16 against float32", device, "", out),
        doctor("doctor-pretrained", "the same with a pretrained model", device, pretrained, out, wanting),
        train("hf-lock-step", "hf engine, all episodes in step", model=size, settings=lock_step),
        train("hf-own-pace", "hf engine, each episode at its own pace", model=size, settings=own_pace),
        train("hf-stale", "hf engine, groups one update old", model=size, staleness=1),
        train("hf-overlap", "hf engine, sampling beside the update", model=size, staleness=1, overlap=True),
        *switches(train, size, small),
        train("pictures", "a vision-language model", model=vision, env="agentgym/VisualSokoban-v0"),
        train("critic", "PPO with a critic of tokens", model=size, algorithm="ppo"),
        train("reward-model", "iStar with a reward model", model=size, algorithm="istar"),
        train("kill-and-resume", "killed after an iteration, resumed to its end", model=size, killed_after=1),
        train(
            "alfworld-pretrained",
            "ALFWorld with a pretrained model",
            model=pretrained,
            missing=wanting,
            env="agentgym/ALFWorld-v0",
            settings=short,
        ),
        train(
            "vllm", "vLLM beside the learner, asleep in updates", model=given, missing=no_vllm, settings=vllm
        ),
        train("vllm-awake", "vLLM that keeps its memory", model=given, missing=no_vllm, settings=awake),
        train(
            "vllm-unseeded", "vLLM that draws a step at once", model=given, missing=no_vllm, settings=unseeded
        ),
        rates("rates", "prefill and decoding, tokens a second by rows", device, given, out),
    ]
    return found


def switches(train: Callable[..., Check], model: str, small: bool) -> list[Check]:
    """Return a run with each of `SWITCHES`; ``small``: on a CPU."""
    flash = "FlashAttention needs a GPU" if small else ""
    return [
        train(name, what, model=model, settings=settings, missing=flash if name == "flash" else "")
        for name, (what, settings) in SWITCHES.items()
    ]


def doctor(name: str, what: str, device: str, model: str, out: Path, missing: str = "") -> Check:
    """Return the check of `agentgym doctor`."""
    kind = "--gpu" if device == "cuda" else "--cpu"
    report = out / name / "doctor.json"
    given = (kind, model) if model else (kind,)
    command = (sys.executable, "-m", "agentgym", "doctor", *given, "--out", str(report))
    return Check(name, what, command, lambda folder: _doctor_figures(folder / "doctor.json"), missing)


def _doctor_figures(path: Path) -> Figures:
    found: dict[str, float] = {}
    for check in json.loads(path.read_text())["checks"]:
        kept = ("logp_diff_mean", "log_prob_gap_mean", "log_prob_gap_max", "peak_memory", "planned_memory")
        found |= {f"{check['name']}: {key}": check["numbers"][key] for key in kept if key in check["numbers"]}
    return found


def training(
    name: str,
    what: str,
    *,
    device: str,
    out: Path,
    size: int,
    model: str,
    algorithm: str = "grpo",
    env: str = "agentgym/EZPoints-v0",
    staleness: int = 0,
    overlap: bool = False,
    settings: Mapping[str, Any] | None = None,
    missing: str = "",
    killed_after: int = 0,
) -> Check:
    """Return the check of a short run: four iterations of ``size`` tasks in groups of as many, at most 8."""
    changes: dict[str, Any] = {
        "device": device,
        "rollout.tasks": size,
        "rollout.group_size": min(size, 8),
        "rollout.max_staleness": staleness,
        "rollout.overlap": overlap,
        "rollout.asynchronous": False,
        "evaluation.every": 0,
        "iterations": 4,
        "patience": 4,
        "checkpoint_every": 1 if killed_after else 0,
        "prompting.max_tokens": 32,
    } | dict(settings or {})
    given = [
        part
        for key, value in changes.items()
        for part in ("--set", f"{key}={json.dumps(value).strip(chr(34))}")
    ]
    run = out / name / "run"
    command = [sys.executable, "-m", "agentgym", "train", algorithm, "--env", env, "--model", model]
    command += [*given, "--log", "jsonl", "--out", str(run), "--force"]
    return Check(name, what, tuple(command), _run_figures, missing, killed_after)


def _run_figures(folder: Path) -> Figures:
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    rows = [_flat(json.loads(line)) for line in lines]
    later = rows[1:] or rows
    found = {"iterations": float(len(rows))}
    for key in METRICS:
        values = [row[key] for row in later if isinstance(row.get(key), (int, float))]
        if values:
            found[key] = fmean(values)
    return found


def ratios(name: str, results: Mapping[str, Mapping[str, Any]]) -> Figures:
    """Return the `RATIOS` of a switch's figures to those of the check beside it, where both have them."""
    beside = BESIDE.get(name, "hf-lock-step")
    if name not in SWITCHES or beside not in results:
        return {}
    own, other = results[name]["figures"], results[beside]["figures"]
    return {f"{key} / {beside}'s": own[key] / other[key] for key in RATIOS if key in own and other.get(key)}


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    nested = {
        f"{key}/{part}": n
        for key, value in row.items()
        if isinstance(value, dict)
        for part, n in value.items()
    }
    return {**row, **nested}


def rates(name: str, what: str, device: str, model: str, out: Path) -> Check:
    """Return the check that measures an engine's rates."""
    report = out / name / "rates.json"
    command = (
        sys.executable,
        "-m",
        "benchmarks.gpu.rates",
        "--device",
        device,
        "--model",
        model,
        "--out",
        str(report),
    )
    return Check(name, what, command, lambda folder: json.loads((folder / "rates.json").read_text())["rates"])


def resume_after_kill(check: Check, folder: Path, limit: float) -> str:
    """Kill a run once it has some lines of metrics, resume it; return what went wrong, or nothing."""
    run, until = folder / "run", time.monotonic() + limit
    metrics = run / "metrics.jsonl"
    with open(folder / "output.txt", "w") as output:
        process = subprocess.Popen(check.command, stdout=output, stderr=output, start_new_session=True)
        while process.poll() is None and _lines(metrics) < check.killed_after and time.monotonic() < until:
            time.sleep(0.05)
        if process.poll() is not None:
            return f"over before it was killed, with exit {process.returncode}"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        resumed = (sys.executable, "-m", "agentgym", "train", "--resume", str(run))
        done = subprocess.run(resumed, stdout=output, stderr=output, timeout=limit, check=False)
    iterations = [json.loads(line)["iteration"] for line in metrics.read_text().splitlines()]
    if done.returncode or iterations != sorted(set(iterations)):
        return f"resumed with exit {done.returncode}, iterations {iterations}"
    return ""


def _lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0
