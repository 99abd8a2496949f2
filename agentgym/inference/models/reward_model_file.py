"""Saved reward models: an ordinary model directory, with ``reward_model.json``, which says how it rewards."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agentgym.errors import UsageError
from agentgym.inference.models.language_model import LanguageModel
from agentgym.io.files import replace_file
from agentgym.io.records import parse
from agentgym.io.untrusted import read_json

REWARD_MODEL = "reward_model"
"""Name of the reward model's directory within a checkpoint."""

REFERENCE = "reference"
"""Name of the frozen reference's directory within that one, where there is one."""

REWARD_MODEL_FILE = "reward_model.json"
SCHEMA = 1

_MAX_FILE_SIZE = 1 << 16
"""Largest size of the file, in bytes."""

ComparedWith: TypeAlias = Literal["policy", "reference"]
"""Model whose log-probabilities the reward model's are compared with: the acting policy (iStar), or a frozen
reference (PRIME)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardModelFile:
    """Content of ``reward_model.json``: ``reward = beta (log pi_RM - log pi_compared)`` of a response."""

    compared_with: ComparedWith
    beta: float
    temperature: float
    """Temperature of the log-probabilities: that of sampling in training."""
    schema: int = SCHEMA


def write_reward_model(directory: Path, record: RewardModelFile) -> None:
    """Write how the model in a directory rewards."""
    replace_file(directory / REWARD_MODEL_FILE, json.dumps(asdict(record), indent=2) + "\n")


def read_reward_model(directory: Path) -> RewardModelFile:
    """Read how the model in a directory rewards."""
    path = directory / REWARD_MODEL_FILE
    if not path.is_file():
        raise UsageError(
            f"{directory} holds no {REWARD_MODEL_FILE}: name the {REWARD_MODEL} folder in a checkpoint of "
            "istar or prime"
        )
    table: Any = read_json(path, largest=_MAX_FILE_SIZE)
    if isinstance(table, dict) and table.get("schema") != SCHEMA:
        raise UsageError(f"{path}: schema {table.get('schema')!r} is not {SCHEMA}; save the model anew")
    record = parse(RewardModelFile, table, str(path))
    for name in ("beta", "temperature"):
        if getattr(record, name) <= 0:
            raise UsageError(f"{path}: {name} must be positive, got {getattr(record, name)}")
    return record


def check_tokenizer(reward_model: LanguageModel, policy: LanguageModel, name: str) -> None:
    """Refuse a reward model whose tokenizer is not the policy's."""
    ours, theirs = (each.tokenizer.get_vocab() for each in (reward_model, policy))
    if ours != theirs:
        raise UsageError(
            f"the reward model {name} has another tokenizer than the policy ({len(ours):,} and "
            f"{len(theirs):,} tokens), whose tokens it has to read: choose one of the policy's family"
        )
