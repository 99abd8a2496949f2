"""TRL's side of `benchmarks.speed.grpo_step`, run by the Python of an environment with TRL in it.

Reads ``work.json`` beside the model; trains one step for every line on its standard input, and answers with
the response tokens it sampled and the processor seconds it took.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

ENDLESS = 1_000_000

datasets: Any = importlib.import_module("datasets")  # not installed where types are checked, as trl
trl: Any = importlib.import_module("trl")
StageTimes: Any = importlib.import_module("stage_times").StageTimes  # beside this script


class Steps(TrainerCallback):
    """Waits for a line before a step, and answers after it."""

    def __init__(self, answer: Any) -> None:
        """Bind the stream that answers go to."""
        self.answer = answer
        self.times = StageTimes()
        self.tokens = 0
        self.began = 0.0

    def reward(self, completions: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        """Count tokens, and pay for different ones."""
        self.tokens += sum(map(len, completion_ids))
        return [len(set(ids)) / len(ids) for ids in completion_ids]

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Wait; without a line the training ends."""
        if not sys.stdin.readline():
            sys.exit(0)
        self.times.seconds.clear()
        self.tokens, self.began = 0, time.process_time()
        return control

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Answer."""
        seconds = time.process_time() - self.began
        found = {"tokens": self.tokens, "seconds": seconds, "stages": self.times.seconds}
        print(json.dumps(found), file=self.answer, flush=True)
        return control

    def watch(self, trainer: Any) -> None:
        """Watch what a step consists of."""

        def of_pass(*_: Any, input_ids: Any = None, **__: Any) -> str:
            if "sampling" in self.times.open:
                return "prompt reading" if input_ids.shape[1] > 1 else "decoding"
            return "forward" if torch.is_grad_enabled() else "old log-probabilities"

        self.times.watch(trainer.model, "generate", "sampling")
        self.times.watch(trainer.model, "forward", of_pass)
        self.times.watch(trainer, "_compute_loss", "forward")
        self.times.watch(trainer.accelerator, "backward", "backward")
        self.times.watch(trainer.accelerator, "clip_grad_norm_", "optimizer")
        self.times.watch(torch.optim.AdamW, "step", "optimizer")


def main() -> None:
    """Train, a step for a line."""
    answer, sys.stdout = sys.stdout, sys.stderr  # the trainer prints
    folder = Path(sys.argv[1])
    work = json.loads((folder / "work.json").read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    steps = Steps(answer)
    config = trl.GRPOConfig(
        output_dir=str(folder / "trl"),
        per_device_train_batch_size=len(work["prompts"]) * work["members"],
        num_generations=work["members"],
        max_completion_length=work["tokens"],
        max_steps=ENDLESS,
        learning_rate=1e-6,
        lr_scheduler_type="constant",
        beta=0.0,
        temperature=1.0,
        generation_kwargs={"min_new_tokens": work["tokens"]},
        gradient_checkpointing=False,
        use_cpu=True,
        bf16=False,
        report_to="none",
        logging_steps=ENDLESS,
        save_strategy="no",
        shuffle_dataset=False,
        disable_tqdm=True,
    )
    trainer = trl.GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
        reward_funcs=steps.reward,
        args=config,
        train_dataset=datasets.Dataset.from_dict({"prompt": work["prompts"]}),
        processing_class=AutoTokenizer.from_pretrained(folder),
        callbacks=[steps],
    )
    steps.watch(trainer)
    names = ("trl", "torch", "transformers")
    print(json.dumps({name: importlib.metadata.version(name) for name in names}), file=answer, flush=True)
    trainer.train()


if __name__ == "__main__":
    main()
