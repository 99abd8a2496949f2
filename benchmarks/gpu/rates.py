"""Rates of the `hf` engine on a device: ``python -m benchmarks.gpu.rates --model DIR --out FILE``.

Tokens a second of reading prompts (prefill) and of decoding, by rows: what a simulated rollout needs.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import torch

from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.types import GenerationRequest, Sampling
from agentgym.io.files import make_folder, replace_file
from agentgym.training.config import TrainConfig, override
from agentgym.training.machine.resources import resolve
from agentgym.training.setup import TrainingSetup

PROMPT, RESPONSE = 512, 64
"""Tokens."""
ROWS = {"cuda": (1, 16, 64, 128, 256), "cpu": (1, 4)}
REPEATS = 3


def measure(engine: HfEngine, vocabulary: int, rows: int, device: str) -> tuple[float, float]:
    """Return tokens a second read, and drawn, with so many rows; the fastest of some repetitions."""
    prompt, response = PROMPT, RESPONSE
    if device == "cpu":
        prompt, response = 64, 8
    sampling = Sampling(max_tokens=response)
    requests = [
        GenerationRequest(
            tuple((7 * row + 13 * place) % vocabulary for place in range(prompt)), None, sampling, row
        )
        for row in range(rows)
    ]
    one = [replace(request, sampling=replace(sampling, max_tokens=1)) for request in requests]

    def seconds(asked: list[GenerationRequest]) -> float:
        found = []
        for _ in range(REPEATS + 1):
            began = perf_counter()
            engine.generate(asked)
            if device == "cuda":
                torch.cuda.synchronize()
            found.append(perf_counter() - began)
        return min(found[1:])  # the first allocates

    read = seconds(one)
    drawn = max(seconds(requests) - read, 1e-9)
    return rows * prompt / read, rows * (response - 1) / drawn


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    config = TrainConfig(
        algorithm="grpo", env_id="agentgym/EZPoints-v0", model=options.model, device=options.device
    )
    setup = TrainingSetup.open(resolve(override(config, {"rollout.engine": "hf", "evaluation.every": 0})))
    try:
        model = setup.language_model.model
        engine = HfEngine(model)
        vocabulary = model.config.get_text_config().vocab_size
        found = {}
        for rows in ROWS[options.device]:
            found[f"prefill, {rows} rows"], found[f"decode, {rows} rows"] = measure(
                engine, vocabulary, rows, options.device
            )
    finally:
        setup.close()
    make_folder(options.out.parent)
    replace_file(options.out, json.dumps({"model": options.model, "rates": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
