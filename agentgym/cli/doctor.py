"""``agentgym doctor``: check the installation, or what training does here, as a report to be sent in."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.agents.screen import printable
from agentgym.cli.commands import COMMANDS
from agentgym.cli.installation import check_installation
from agentgym.cli.parser import Commands, Parser, add_command
from agentgym.cli.terminal import open_console
from agentgym.errors import UsageError
from agentgym.io.files import replace_file, writing
from agentgym.io.optional import load
from agentgym.io.untrusted import read_text

if TYPE_CHECKING:
    from agentgym.prompts.chat_template import ChatTemplate
    from agentgym.training.doctor import CheckResult

TINY = {"cpu": "tiny:0.1m", "cuda": "tiny:5m"}
"""Models that the check trains by default."""

_SHOWN = ("tokens_per_second", "logp_diff_mean", "peak_memory", "planned_memory", "log_prob_gap_mean", "mfu")


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    parser = add_command(
        commands, "doctor", run, about=COMMANDS["doctor"], example="agentgym doctor --cpu --out report.json"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--gpu",
        nargs="?",
        const="",
        metavar="MODEL",
        help="check the GPU, with a model directory if one is named",
    )
    where.add_argument(
        "--cpu", nargs="?", const="", metavar="MODEL", help="check the CPU; seconds, with the tiny model"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the report as JSON")
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a model directory, OWNER/NAME of the hub or chat template: checks whether its calls of "
        "each suite's tools are read back",
    )


def run(arguments: argparse.Namespace) -> int:
    """Examine the machine; print a line a check and write the report; 1 where one fails."""
    if arguments.model is not None:
        if (arguments.cpu, arguments.gpu, arguments.out) != (None, None, None):
            raise UsageError("a model alone is checked for tool calls: name it after --cpu or --gpu instead")
        return _show_calls(arguments.model)
    if (arguments.cpu, arguments.gpu) == (None, None):
        if arguments.out is not None:
            raise UsageError("--out writes the report on training: add --cpu or --gpu")
        return check_installation(open_console())
    from agentgym.training.doctor import examine

    device = "cpu" if arguments.gpu is None else "cuda"
    model = (arguments.cpu if device == "cpu" else arguments.gpu) or TINY[device]
    size = 2 if device == "cpu" else 8
    console = open_console()

    def show(check: CheckResult) -> None:
        figures = "  ".join(f"{name} {check.numbers[name]:.4g}" for name in _SHOWN if name in check.numbers)
        state = "ok  " if check.ok else "FAIL"
        console.print(
            f"{state} {check.name} ({check.seconds:.1f} s)  {check.error or figures}",
            markup=False,
            soft_wrap=True,
        )

    report = examine(model, device=device, tasks=size, group_size=size, report=show)
    if arguments.out is not None:
        with writing(arguments.out):
            replace_file(arguments.out, json.dumps(report.to_json(), indent=2) + "\n")
        console.print(f"report: {arguments.out}", markup=False, soft_wrap=True)
    return 0 if report.ok else 1


def _show_calls(model: str) -> int:
    """Print, for each suite's tools, whether calls written by the chat template can be parsed."""
    from agentgym.prompts.chat_template import ChatSetup
    from agentgym.prompts.tool_trip import INSTEAD, round_trip
    from agentgym.registration import ENVIRONMENTS, suite_spec

    template = _chat_template(model)
    console, read = open_console(), True
    for env_id in ENVIRONMENTS:
        tools = suite_spec(env_id).tools
        setup = ChatSetup(tools=tuple(tool.schema() for tool in tools))
        if not tools or not setup.taken_by(template).tools:
            line = (
                "ok   in the prompt: the chat template has no place for tools" if tools else "ok   no tools"
            )
        else:
            trip = round_trip(template, tools)
            read = read and not trip.problem
            line = (
                f"ok   {trip.convention}: {trip.tried} of {trip.tried} calls of {len(tools)} tools read back"
            )
            if trip.problem:
                line = f"FAIL {trip.problem}; {INSTEAD}"
        console.print(printable(f"{line}  ({env_id})"), markup=False, soft_wrap=True)
    return 0 if read else 1


def _chat_template(name: str) -> ChatTemplate:
    """Return a chat template with the special tokens that it may name."""
    from agentgym.io.hub import TOKENIZER_FILES, model_directory
    from agentgym.prompts.chat_template import ChatTemplate

    if name.endswith(".jinja"):
        return ChatTemplate(read_text(Path(name)), {"bos_token": "<s>", "eos_token": "</s>"})
    path = model_directory(name, TOKENIZER_FILES)
    if not path.is_dir():
        raise UsageError(
            f"{path} is neither a model directory nor a chat template: give FOLDER or FILE.jinja"
        )
    transformers = load("transformers", "train", "a model directory")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            path, local_files_only=True, trust_remote_code=False
        )
        return ChatTemplate.of(tokenizer)
    except (OSError, ValueError, KeyError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UsageError(f"cannot read a chat template from {path}: {reason}") from error
