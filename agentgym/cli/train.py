"""``agentgym train ALGORITHM``: train a model."""

from __future__ import annotations

from agentgym.cli.parser import Commands, Parser, add_command, add_groups
from agentgym.cli.train_bc import add_bc
from agentgym.cli.training import add_algorithms

ABOUT = "Train a model: by reinforcement learning, or from what an oracle does."


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command and those within it."""
    parser = add_command(
        commands,
        "train",
        None,
        about=ABOUT,
        example="agentgym train gigpo --env agentgym/Sokoban-v0 --model tiny --seed 0",
    )
    groups = add_groups(parser)
    add_algorithms(groups)
    add_bc(groups)
