"""Models that play columns of the suite: clones trained here, one of each kind a seed, and SmolLM2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentgym.cli import main as agentgym
from agentgym.errors import UsageError
from agentgym.training.cloning.clone import STATE_FILE, SUMMARY_FILE, clone
from benchmarks.alfworld_learning import CLONING, TEMPERATURE, untrained_in, words

SUITE = Path(__file__).parents[1] / "suites" / "choices.toml"
SEEDS = range(5)

TEMPERATURES = (0.0, 0.4, 1.0)
PLAYED_AT = "Sokoban, 15 steps"
"""Where clones of Sokoban's oracle are played at each temperature."""

DIALECTS = ("ALFWorld, published seen, game dialect", "ALFWorld, published seen")
"""Where clones of ALFWorld's explorer are played, which were shown the first dialect alone."""
OTHERS = {"move"}
"""Words of commands of the second dialect that the first has not."""
EXPLORER = replace(
    CLONING,
    env_options={"dataset": "official", "show_help": False, "dialect": "game"},
    also=(),
    tasks=1500,
    epochs=3,
    rounds=0,
)
"""As `benchmarks.alfworld_learning` begins; ``tasks`` and ``epochs`` chosen by games of valid_train."""

SMOLLM2 = Path("runs/models/smollm2")
UNTAGGED = ("HotpotQA, untagged ends", "HotpotQA, untagged is the answer", "HotpotQA, untagged is rejected")
FREE_TEXT = (
    "--wording multihop --answer plain --option choice=free --option max_tokens=24 --option temperature=0.0 "
    "--option history=0 --option budget=4096 --option dtype=bfloat16"
)
"""How SmolLM2 is asked."""


def run_agentgym(command: list[str]) -> None:
    """Run a command of ``agentgym``; `UsageError` where it fails."""
    if code := agentgym(command):
        raise UsageError(f"agentgym {command[0]} ended with {code}")


def sokoban_clone(folder: Path, seed: int) -> Path:
    """Clone Sokoban's oracle, unless that was done before; return the model's folder."""
    model = folder / f"clone-seed{seed}"
    options = ["--set", "env_options.num_boxes=1", "--set", "env_options.dim_room=[6,6]"]
    if not (model / "config.json").exists():
        train = ["train", "bc", "--env", "agentgym/Sokoban-v0", "--model", "tiny:0.1m", "--seed", str(seed)]
        run_agentgym([*train, "--tasks", "1000", "--epochs", "3", *options, "--out", str(model)])
    return model


def alfworld_clone(folder: Path, seed: int) -> Path:
    """Clone ALFWorld's explorer in the first of `DIALECTS`; return the model's folder."""
    model = folder / f"alfworld-seed{seed}"
    if not (model / SUMMARY_FILE).exists():
        begin = untrained_in(folder / f"untrained-seed{seed}", seed, set(words()) - OTHERS)
        clone(replace(EXPLORER, model=str(begin), seed=seed), model, resume=(model / STATE_FILE).exists())
    return model


def play(model: Path, columns: Sequence[str], options: str, folder: Path) -> None:
    """Let a model alone play some columns of the suite."""
    labels = [word for column in columns for word in ("--env", column)]
    who = ["--model", str(model), "--agent", model.name, "--no-baselines", *options.split()]
    run_agentgym(["bench", str(SUITE), *labels, *who, "--out", str(folder)])


def play_models(folder: Path) -> None:
    """Train the clones, and play them and SmolLM2."""
    for seed in SEEDS:
        pusher = sokoban_clone(folder, seed)
        for temperature in TEMPERATURES:
            at = folder / f"at-{temperature}"
            play(pusher, [PLAYED_AT], f"--option temperature={temperature}", at)
        explorer = alfworld_clone(folder, seed)
        play(explorer, DIALECTS, f"--option temperature={TEMPERATURE}", folder / "dialects")
    play(SMOLLM2, UNTAGGED, FREE_TEXT, folder / "untagged")
