"""Saved policies: an ordinary model directory, with ``agent.json``, which says how to ask the model."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from agentgym.errors import UsageError
from agentgym.inference.models.tiny_names import VISION, tiny_parts
from agentgym.io.files import replace_file
from agentgym.io.hub import model_directory
from agentgym.io.records import parse
from agentgym.io.untrusted import open_regular, read_json
from agentgym.prompts.settings import Prompting
from agentgym.registration import suite_spec

AGENT_FILE = "agent.json"
SCHEMA = 3
"""Version of the file's format."""

_MAX_FILE_SIZE = 1 << 20
"""Largest size of the file, in bytes."""

_OWN_FILES = {"wording": "wording.toml", "template_file": "template.toml"}
"""Names of the saved copies of a user's own files, by the setting that names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How weights came about."""

    env_id: str
    """Id of the environment."""
    algorithm: str
    base_model: str
    """Initial model, as the user gave it: ``tiny``, ``tiny:SIZE`` or a path."""
    seed: int
    run: str
    """Name of the run's folder."""
    iterations: int
    """Number of updates; in behaviour cloning, of epochs."""
    episodes: int
    """Number of episodes, played or demonstrated."""
    tokens: int
    """Number of answer tokens, sampled or demonstrated."""
    gpu_seconds: float = 0.0
    checkpoint: str = "last"
    """Rule that chose the weights: ``last``, a name fixed beforehand, or ``best by evaluation/MEASURE``, the
    best so far of the evaluations during training."""


@dataclass(frozen=True, slots=True)
class SavedAgent:
    """Content of ``agent.json``."""

    prompting: Prompting
    training: Training

    def to_json(self) -> dict[str, Any]:
        """Return the file's content."""
        return {"schema": SCHEMA, "prompting": self.prompting.to_json(), "training": asdict(self.training)}


@dataclass(frozen=True, slots=True)
class AgentFile:
    """The outermost keys of ``agent.json``; ``prompting`` holds a `Prompting` and a `TemplatePin`."""

    schema: int
    prompting: Mapping[str, Any]
    training: Training


def write_agent(directory: Path, agent: SavedAgent) -> None:
    """Write the prompting of a directory's model into ``agent.json``, beside the texts that are one's own."""
    table = agent.to_json()
    for setting, name in _OWN_FILES.items():
        own, copy = Path(getattr(agent.prompting, setting)), directory / name
        if own.suffix != ".toml":
            continue
        if not (copy.exists() and copy.samefile(own)):
            shutil.copyfile(own, copy)
        table["prompting"][setting] = name
    replace_file(directory / AGENT_FILE, json.dumps(table, indent=2, ensure_ascii=False) + "\n")


def read_agent(directory: Path) -> SavedAgent | None:
    """Read a directory's ``agent.json``; None without one."""
    path = directory / AGENT_FILE
    if not path.is_file():
        if not directory.is_dir():
            raise UsageError(
                f"the model directory {directory} does not exist: give the path of a saved model"
            )
        return None
    table = read_json(path, largest=_MAX_FILE_SIZE)
    if isinstance(table, dict) and table.get("schema") != SCHEMA:
        raise UsageError(f"{path}: schema {table.get('schema')!r} is not {SCHEMA}; save the model anew")
    layout = parse(AgentFile, table, str(path))
    prompting = Prompting.from_json(layout.prompting, where=f"{path}: prompting", folder=directory)
    return SavedAgent(prompting, layout.training)


def weights_sha256(directory: Path) -> str:
    """Return the sha256 of a model's weights, equal to that of ``cat *.safetensors | sha256sum``."""
    paths = sorted(directory.glob("*.safetensors"), key=lambda path: path.name)
    if not paths:
        raise UsageError(f"{directory} holds no *.safetensors: save the model's weights in that format")
    digest = hashlib.sha256()
    for path in paths:
        with open_regular(path) as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def default_prompting(spec: str, env_id: str) -> Prompting:
    """Return the default prompting of a model in an environment: a saved policy's is that of its training."""
    if named := tiny_parts(spec):
        prompting = Prompting.tiny(suite_spec(env_id).prompt)
        return replace(prompting, pictures="alone") if named[0] == VISION else prompting
    saved = read_agent(model_directory(spec))
    return Prompting.default(suite_spec(env_id).prompt) if saved is None else saved.prompting
