"""Saved policies: a model's directory and the prompting in its ``agent.json``."""

from pathlib import Path

from agentgym.inference.models.language_model import LanguageModel, save_model
from agentgym.inference.policy.saved import SavedAgent, write_agent


def save_agent(directory: Path, language_model: LanguageModel, agent: SavedAgent) -> None:
    """Save a policy whole, as checkpoints are."""
    save_model(directory, language_model)
    write_agent(directory, agent)
