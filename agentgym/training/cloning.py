"""A whole run of behaviour cloning: from a configuration to a model directory with a log beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from agentgym.errors import UsageError
from agentgym.files import Journal, make_folder, replace_file
from agentgym.hashing import canonical_json
from agentgym.registration import open_vector
from agentgym.training.bc import (
    CloningConfig,
    Demonstrations,
    EpochMetrics,
    HeldOut,
    demonstrate,
    examine,
    fit,
)
from agentgym.training.models.models import LanguageModel
from agentgym.training.policy.open import default_prompting, open_model
from agentgym.training.policy.prompting import Prompting
from agentgym.training.policy.saved import SavedAgent, Training, save_agent
from agentgym.vector.core import AgentVectorEnv

ALGORITHM = "bc"
EPOCHS_FILE = "epochs.jsonl"
SUMMARY_FILE = "cloning.json"


@dataclass(frozen=True, slots=True)
class Cloned:
    """What a run of behaviour cloning did."""

    demonstrations: Demonstrations
    epochs: tuple[EpochMetrics, ...]
    held_out: HeldOut | None
    """None where no task is held out."""


def clone(
    config: CloningConfig, folder: Path, *, report: Callable[[EpochMetrics], None] = lambda _: None
) -> Cloned:
    """Clone an environment's oracle into a model, and save it.

    The folder becomes a model directory that training can begin with and suites can bench. Besides
    weights, tokenizer and ``agent.json`` it holds ``epochs.jsonl``, a line per epoch, and ``cloning.json``,
    the configuration and how the model does on held-out tasks.

    Args:
        config: what is to be done.
        folder: made; it must not hold anything yet.
        report: told of each epoch when it is over.

    Raises:
        UsageError: something that the configuration names does not exist or does not fit, or the folder
            is in use.
        MissingDataError: the environment's data is not on this machine.
        DivergenceError: a loss is not a number; the weights from before are saved.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is in use: choose another folder")
    torch.set_num_threads(config.threads)
    with ExitStack() as stack:
        envs = _open(config, config.split, stack)
        others = _open(config, config.held_out_split, stack) if config.held_out else None
        prompting = config.prompting or default_prompting(config.model, config.env_id)
        learned = open_model(config.model, envs, prompting, config.seed)
        shown = demonstrate(envs, learned, prompting, tasks=config.tasks, seed=config.seed)
        make_folder(folder)
        epochs: list[EpochMetrics] = []
        try:
            with Journal(folder / EPOCHS_FILE) as journal:
                for metrics in fit(learned, shown.rows, config):
                    epochs.append(metrics)
                    journal.append(canonical_json(asdict(metrics)))
                    report(metrics)
        finally:  # what was learned before an error stays
            _save(folder, learned, config, prompting, shown, len(epochs))
        held_out = None
        if others is not None:
            held_out = examine(others, learned, prompting, tasks=config.held_out, seed=config.seed)
        cloned = Cloned(shown, tuple(epochs), held_out)
        replace_file(folder / SUMMARY_FILE, _summary(config, prompting, envs, cloned))
        return cloned


def _open(config: CloningConfig, split: str, stack: ExitStack) -> AgentVectorEnv:
    envs = open_vector(config.env_id, config.num_envs, split=split, options=config.env_options)
    stack.callback(envs.close)
    return envs


def _save(
    folder: Path,
    learned: LanguageModel,
    config: CloningConfig,
    prompting: Prompting,
    shown: Demonstrations,
    epochs: int,
) -> None:
    training = Training(
        env_id=config.env_id,
        algorithm=ALGORITHM,
        base_model=config.model,
        seed=config.seed,
        run=folder.resolve().name,
        iterations=epochs,
        episodes=shown.episodes,
        tokens=shown.tokens * epochs,
    )
    save_agent(folder, learned, SavedAgent(prompting, training))


def _summary(config: CloningConfig, prompting: Prompting, envs: AgentVectorEnv, cloned: Cloned) -> str:
    shown, held_out = cloned.demonstrations, cloned.held_out
    table = {
        "config": {**asdict(config), "prompting": prompting.to_json()},
        "tasks": envs.tasks.manifest_sha256,
        "episodes": {"played": shown.played, "won": shown.episodes},
        "steps": len(shown.rows),
        "held_out": None if held_out is None else asdict(held_out),
    }
    return json.dumps(table, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
