"""``agentgym data demos ENV``: demonstrations for supervised fine-tuning."""

from __future__ import annotations

import argparse
from pathlib import Path

from agentgym.agents.demonstrators import DEMONSTRATORS
from agentgym.agents.demos import DemoConfig, write_demos
from agentgym.cli.parser import Commands, Parser, add_command, add_env_options, env_options, seed
from agentgym.cli.terminal import open_console


def add_to(actions: Commands[Parser]) -> None:
    """Declare the command, in the group ``data``."""
    default = DemoConfig(env_id="")
    parser = add_command(
        actions,
        "demos",
        run,
        about="Write demonstrations as chat messages, as TRL's SFTTrainer reads them.",
        example="agentgym data demos agentgym/ALFWorld-v0 --agent rules --format messages --out demos.jsonl",
    )
    parser.add_argument("env", metavar="ENV", help="an id that `agentgym envs` lists")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="a .jsonl file")
    parser.add_argument(
        "--agent",
        default=default.agent,
        metavar="KIND",
        help=f"agent that plays: {' or '.join(DEMONSTRATORS)} (default: {default.agent})",
    )
    parser.add_argument(
        "--format",
        default=default.format,
        metavar="NAME",
        help=f"messages: the action in the answer's text; tools: a tool call (default: {default.format})",
    )
    parser.add_argument(
        "--split", default=default.split, help=f"split of the tasks; only {default.split} is allowed"
    )
    add_env_options(parser)
    parser.add_argument(
        "--tasks",
        type=int,
        default=default.tasks,
        metavar="N",
        help=f"the first tasks of the split (default: {default.tasks})",
    )
    parser.add_argument("--seed", type=seed, default=default.seed, help="seed of the episodes (default: 0)")
    parser.add_argument("--wording", default="", help="wording of the prompts (default: the environment's)")
    parser.add_argument(
        "--answer",
        default=default.answer,
        metavar="NAME",
        help=f"answer format of messages (default: {default.answer})",
    )
    parser.add_argument(
        "--history",
        type=int,
        default=default.history,
        metavar="K",
        help=f"past turns in a prompt (default: {default.history})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the file and print its summary."""
    options = env_options(arguments)
    config = DemoConfig(
        env_id=arguments.env,
        agent=arguments.agent,
        format=arguments.format,
        split=arguments.split,
        options=options,
        tasks=arguments.tasks,
        seed=arguments.seed,
        wording=arguments.wording,
        answer=arguments.answer,
        history=arguments.history,
    )
    written = write_demos(config, arguments.out)
    privileged = ", by a privileged agent" if DEMONSTRATORS[config.agent] else ""
    open_console().print(
        f"{arguments.out}: {written.samples:,} samples of {written.won:,} won episodes "
        f"of {written.played:,}{privileged}",
        markup=False,
        soft_wrap=True,
    )
    return 0
