"""Saved reward models: an ordinary model directory, with ``reward_model.json``, which says how it rewards."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agentgym.errors import UsageError
from agentgym.io.files import replace_file
from agentgym.io.records import parse
from agentgym.io.untrusted import read_json
from agentgym.training.models.models import LanguageModel

REWARD_MODEL = "reward_model"
"""The reward model's directory within a checkpoint."""

REFERENCE = "reference"
"""The directory within that one of the frozen reference, where there is one."""

REWARD_MODEL_FILE = "reward_model.json"
SCHEMA = 1

_MAX_FILE_SIZE = 1 << 16
"""Bytes of the file at most."""

ComparedWith: TypeAlias = Literal["policy", "reference"]
"""Whose log-probabilities the reward model's are compared with: the policy's that acts (iStar), or those of a
frozen reference (PRIME)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardModelFile:
    """What ``reward_model.json`` holds: ``reward = beta (log pi_RM - log pi_compared)`` of a response."""

    compared_with: ComparedWith
    beta: float
    temperature: float
    """That log-probabilities are taken at: that of sampling in training."""
    schema: int = SCHEMA


def write_reward_model(directory: Path, record: RewardModelFile) -> None:
    """Write how the model in a directory rewards.

    Args:
        directory: of the model.
        record: what is written.
    """
    replace_file(directory / REWARD_MODEL_FILE, json.dumps(asdict(record), indent=2) + "\n")


def read_reward_model(directory: Path) -> RewardModelFile:
    """Read how the model in a directory rewards.

    Raises:
        UsageError: there is no reward model, or its file is damaged or of another version.
    """
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
    """Refuse a reward model that does not read what the policy writes.

    Args:
        reward_model: reads.
        policy: writes.
        name: of the reward model.

    Raises:
        UsageError: its tokenizer is another one.
    """
    ours, theirs = (each.tokenizer.get_vocab() for each in (reward_model, policy))
    if ours != theirs:
        raise UsageError(
            f"the reward model {name} has another tokenizer than the policy ({len(ours):,} and "
            f"{len(theirs):,} tokens), whose tokens it has to read: choose one of the policy's family"
        )
