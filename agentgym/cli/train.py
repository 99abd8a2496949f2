"""``agentgym train ALGORITHM`` or ``--recipe NAME``: train a model; one command line for every algorithm."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.algos.algorithm import Algorithm
from agentgym.algos.table import ALGORITHMS, find_algorithm
from agentgym.cli.commands import COMMANDS
from agentgym.cli.parser import Commands, Parser, add_allow, add_command, add_groups, parse_options, seed
from agentgym.cli.terminal import open_console, open_progress_console
from agentgym.cli.train_bc import add_bc, default_folder
from agentgym.errors import UsageError
from agentgym.history.run import check_new
from agentgym.io.optional import only_trusted
from agentgym.registration import check_env_options

if TYPE_CHECKING:
    from agentgym.recipes import Recipe
    from agentgym.training.config import TrainConfig
    from agentgym.training.run import RunResult

PRESETS = ("tiny", "paper", "plain")
"""Presets of a run: settings for tiny models, the paper's recipe, or the defaults alone."""

TRAINABLE = tuple(name for name, algorithm in ALGORITHMS.items() if algorithm.trainable)
"""Built-in algorithms that the trainer can run without the user's own code."""

LOGS = ("console", "jsonl")
"""Default logs of iterations."""

_FLAGS = {"algorithm": "its name", "env_id": "--env", "model": "--model", "seed": "--seed"}


GIB = 1 << 30

GPU = "a GPU"
"""Name of a device whose memory alone is known."""


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command and those within it."""
    group = add_command(
        commands,
        "train",
        None,
        about=COMMANDS["train"],
        example="agentgym train gigpo --env agentgym/Sokoban-v0 --model tiny --seed 0",
    )
    algorithms = add_groups(group, lambda name: _declare(algorithms, name, find_algorithm(name)))
    for name in TRAINABLE:
        _declare(algorithms, name, ALGORITHMS[name])
    by_recipe = add_command(
        algorithms,
        "recipe",
        run,
        about="Train as a recipe says: agentgym train --recipe NAME; --config FILE and --resume FOLDER, too.",
        example="agentgym train --recipe gigpo/gigpo-alfworld --model models/Qwen2.5-1.5B-Instruct",
    )
    by_recipe.set_defaults(algorithm=None)
    _add_arguments(by_recipe)
    group.implied = ("recipe", ("--recipe", "--config", "--resume"))
    add_bc(algorithms)


def _declare(commands: Commands[Parser], name: str, algorithm: Algorithm) -> None:
    parser = add_command(
        commands,
        name,
        run,
        about=f"Train a model by {algorithm.title} ({algorithm.paper}).",
        example=f"agentgym train {name} --env agentgym/Sokoban-v0 --model tiny --seed 0",
    )
    parser.set_defaults(algorithm=name)
    _add_arguments(parser)


def _add_arguments(parser: Parser) -> None:
    _add_environments(parser)
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="tiny, tiny:SIZE, tiny-qwen3 and the like, a model directory, or a repository of the Hugging "
        "Face hub such as Qwen/Qwen2.5-1.5B-Instruct, also with @REVISION (default: tiny)",
    )
    parser.add_argument(
        "--preset",
        choices=PRESETS,
        help="settings to begin with (default: tiny for tiny models, else the paper's, else plain)",
    )
    parser.add_argument(
        "--table",
        metavar="PAPER",
        help="the paper whose recipe --preset paper takes, such as steppo (default: the preferred one)",
    )
    parser.add_argument(
        "--variant",
        action="append",
        default=[],
        dest="variants",
        metavar="NAME",
        help="a paper's extension or ablation, added to the preset, such as ds of graphgpo",
    )
    parser.add_argument(
        "--iterations", type=int, metavar="N", help="number of iterations (default: the preset's)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="KEY=VALUE",
        help="change a setting, for example rollout.group_size=4 or algorithm_options.gamma=0.9; repeatable",
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="output directory (default: under runs/)")
    parser.add_argument(
        "--log",
        action="append",
        metavar="NAME",
        help="console, jsonl, tensorboard or wandb; repeat for several (default: console and jsonl)",
    )
    _add_run(parser)
    _add_machine(parser)
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--recipe",
        metavar="NAME",
        help="a recipe's algorithm, environment and settings, such as gigpo/gigpo-alfworld, or a TOML file",
    )
    source.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="start from the settings of a run's config.json instead of a preset",
    )
    source.add_argument("--resume", type=Path, metavar="FOLDER", help="resume a run from its last checkpoint")
    add_allow(parser)


def _add_run(parser: Parser) -> None:
    """Add ``--loss``, ``--sampler`` and the seed."""
    parser.add_argument("--seed", type=seed, metavar="N", help="random seed (default: 0)")
    parser.add_argument(
        "--loss",
        metavar="MODULE:FUNCTION",
        help="a loss of your own in place of the clipped surrogate, for example examples.own_loss:cispo",
    )
    parser.add_argument(
        "--sampler",
        metavar="MODULE:FUNCTION",
        help="a function from logits to logits that responses are drawn from, for example "
        "examples.own_sampler:min_p",
    )


def _add_environments(parser: Parser) -> None:
    parser.add_argument("--env", metavar="ID", help="environment id, for example agentgym/Sokoban-v0")
    parser.add_argument(
        "--mix",
        action="append",
        default=[],
        metavar="ID=GROUPS[:ALGORITHM]",
        help="a further environment, with its number of groups in every batch, for example "
        "agentgym/EZPoints-v0=8 or agentgym/EZPoints-v0=8:gigpo; repeatable",
    )

    parser.add_argument(
        "--rollouts",
        type=Path,
        metavar="DIR",
        help="train on the groups of a data pool, which `agentgym data pool ls` lists, instead of playing",
    )


def _add_machine(parser: Parser) -> None:
    """Add the options of the machine: its devices, and ``--force`` for models too large for it."""
    parser.add_argument(
        "--force",
        action="store_true",
        help="train even a model of a billion weights on one CPU thread",
    )
    parser.add_argument(
        "--learner", metavar="DEVICES", help="CUDA devices that learn, such as 0-5, one for each process"
    )
    parser.add_argument(
        "--rollout",
        metavar="DEVICES",
        help="CUDA devices that vllm serve is started on, such as 6,7",
    )
    parser.add_argument(
        "--plan",
        type=int,
        nargs="?",
        const=1,
        metavar="DEVICES",
        help="print the memory that each of this many devices needs (default: 1); loads and trains nothing",
    )
    parser.add_argument(
        "--device-memory",
        type=float,
        metavar="GIB",
        help="memory of the GPU to plan for (default: this machine's)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Train as the arguments say; say how it ended and where the model is.

    Of modules that only the file of a configuration or a recipe names, none is imported that was not allowed.
    """
    own_file = arguments.recipe is not None and arguments.recipe.endswith(".toml")
    if arguments.resume is None and arguments.config is None and not own_file:
        return _train(arguments)
    named = (arguments.algorithm or "", arguments.env or "", arguments.loss or "", arguments.sampler or "")
    with only_trusted(reference for reference in (*named, *arguments.allow) if ":" in reference):
        return _train(arguments)


def _train(arguments: argparse.Namespace) -> int:
    from agentgym.training.config import read_config

    logs = LOGS if arguments.log is None else arguments.log
    if arguments.device_memory is not None and arguments.plan is None:
        raise UsageError("--device-memory is of devices that are planned for: give --plan as well")
    if arguments.resume is not None:
        _refuse_settings(arguments)
        _refuse_algorithm(read_config(arguments.resume), arguments, "--resume")
        from agentgym.training.run import resume

        outcome = resume(arguments.resume, logs=logs, iterations=arguments.iterations)
    else:
        config = _config(arguments)
        check_env_options(config.env_id, config.env_options, "env_options: ")
        for each in config.mix:
            check_env_options(each.env_id, each.env_options, "mix: env_options: ")
        if arguments.plan is not None:
            return show_plan(config, devices=arguments.plan, device_memory=arguments.device_memory)
        folder = arguments.out or default_folder(config, config.algorithm.replace(":", "."))
        check_new(folder)
        from agentgym.training.run import start  # torch, after the settings were checked

        outcome = start(config, folder, logs=logs, force=arguments.force)
    if outcome.is_first:
        _report(outcome)
    return 0


def _refuse_settings(arguments: argparse.Namespace) -> None:
    names = "env model preset table seed out learner rollout rollouts loss sampler plan mix settings variants"
    given = [name for name in names.split() if getattr(arguments, name) not in (None, [])]
    if given:
        flag = {"settings": "set", "variants": "variant"}.get(given[0], given[0])
        raise UsageError(f"--resume takes the run's own settings: leave out --{flag}")


def _refuse_algorithm(config: TrainConfig, arguments: argparse.Namespace, flag: str) -> None:
    """Refuse another algorithm's run: its objective and options are spelled out in its settings."""
    if arguments.algorithm not in (None, config.algorithm):
        raise UsageError(
            f"{flag} names a run of {config.algorithm}, not of {arguments.algorithm}: train by "
            f"{config.algorithm}, or give the settings by --set"
        )


def _config(arguments: argparse.Namespace) -> TrainConfig:
    from agentgym.recipes import find_variant, recipe_config
    from agentgym.training.config import PLAIN, TINY, override, read_config

    own = {"env_id": arguments.env, "model": arguments.model, "seed": arguments.seed}
    given = {name: value for name, value in own.items() if value is not None}
    recipe = _recipe(arguments)
    algorithm = arguments.algorithm if recipe is None else recipe.algorithm
    changes: dict[str, Any] = {}
    for name in arguments.variants:
        changes |= find_variant(algorithm, name).settings
    changes |= parse_options(arguments.settings, _FLAGS, dotted=True)
    if arguments.loss is not None:
        changes |= {"objective.loss": arguments.loss, "objective.loss_sha256": ""}
    if arguments.sampler is not None:
        changes |= {"rollout.sampler": arguments.sampler, "rollout.sampler_sha256": ""}
    if arguments.mix:
        changes["mix"] = [*changes.get("mix", ()), *map(_mixed, arguments.mix)]
    if arguments.iterations is not None:
        changes["iterations"] = arguments.iterations
    if arguments.learner is not None or arguments.rollout is not None:
        changes |= {"devices": arguments.learner or "", "rollout.devices": arguments.rollout or ""}
        changes["rollout.engine"] = "vllm"
    if arguments.rollouts is not None:
        changes["rollout.pool"] = str(arguments.rollouts.resolve())
    if arguments.config is not None:
        known = read_config(arguments.config)
        _refuse_algorithm(known, arguments, "--config")
        return override(known, {**given, **changes})
    env_id = given.pop("env_id", None) or (recipe.env_id if recipe is not None else "")
    if recipe is not None:
        return recipe_config(recipe, env_id, changes, **given)
    preset = PLAIN if _preset(arguments) == "plain" else TINY
    return preset.config(algorithm, env_id, changes, **given)


def _mixed(text: str) -> dict[str, Any]:
    """Read ID=GROUPS[:ALGORITHM], a further environment."""
    env_id, _, share = text.partition("=")
    groups, _, algorithm = share.partition(":")
    if not env_id or not (groups.isascii() and groups.isdecimal()):
        raise UsageError(
            f"--mix is ID=GROUPS or ID=GROUPS:ALGORITHM, such as agentgym/EZPoints-v0=8, got {text!r}"
        )
    return {"env_id": env_id, "tasks": int(groups), "algorithm": algorithm}


def _preset(arguments: argparse.Namespace) -> str:
    """Return the preset's name: by default tiny for tiny models, else the paper's where there is one."""
    from agentgym.inference.models.tiny_names import tiny_size
    from agentgym.recipes import algorithms_with_recipes

    if arguments.preset is not None or arguments.table is not None:
        return arguments.preset or "paper"
    if tiny_size(arguments.model or "tiny") is not None:
        return "tiny"
    return "paper" if arguments.algorithm in algorithms_with_recipes() else "plain"


def _recipe(arguments: argparse.Namespace) -> Recipe | None:
    """Return the recipe that a run begins with, by name or as the preset of a paper."""
    from agentgym.recipes import find_recipe, recipes_of

    taken = {name: getattr(arguments, name) for name in ("preset", "table")}
    if arguments.config is not None:
        _refuse(taken, "--config has all settings already")
        return None
    if arguments.recipe is not None:
        _refuse({"env": arguments.env, **taken}, "--recipe has an environment and its settings already")
        found = find_recipe(arguments.recipe)
        if arguments.algorithm not in (None, found.algorithm):
            raise UsageError(
                f"{found.name} trains by {found.algorithm}: agentgym train --recipe {found.name}"
            )
        return found
    if arguments.algorithm is None:
        raise UsageError("name a recipe: agentgym train --recipe NAME; `agentgym recipes list` has the names")
    if arguments.env is None:
        raise UsageError("say what is played: --env ID; `agentgym envs` lists the ids")
    if _preset(arguments) != "paper":
        _refuse({"table": arguments.table}, "--table is the paper of --preset paper")
        return None
    recipes = recipes_of(arguments.algorithm)
    chosen = recipes.choose(arguments.env, arguments.table or "")
    papers = recipes.papers(arguments.env)
    if arguments.table is None and len(papers) > 1 and os.environ.get("RANK", "0") == "0":
        line = f"settings of {chosen.name}; {', '.join(papers)} have such a run: --table PAPER chooses"
        open_progress_console().print(line, markup=False, soft_wrap=True)
    return chosen


def _refuse(flags: dict[str, Any], reason: str) -> None:
    for name, value in flags.items():
        if value is not None:
            raise UsageError(f"{reason}: leave out --{name}")


def _report(outcome: RunResult) -> None:
    from agentgym.inference.models.lora import FOLDER

    console = open_console()
    model = None if outcome.checkpoint is None else outcome.checkpoint / "model"
    collapse = outcome.trend.collapse
    messages = {
        "finished": f"finished after {outcome.iterations} iteration{'s' * (outcome.iterations != 1)}"
        + (f", but {collapse}" if collapse else ""),
        "solved": f"every episode has been won for a while: ended after {outcome.iterations} iterations",
        "stopped early": f"stopped early after {outcome.iterations} iterations: none of the last "
        f"{outcome.best.since} evaluations was better than that of iteration {outcome.best.iteration} "
        f"({outcome.best.value:.4g})",
        "interrupted": f"interrupted after {outcome.iterations} iterations; --resume continues the run",
        "no signal": f"ended after {outcome.iterations} iterations: in the last ones the episodes of every "
        f"group earned the same, which leaves nothing to learn from; {outcome.trend.why_alike}",
    }
    console.print(messages[outcome.end], markup=False, soft_wrap=True)
    if outcome.trend.warning and not collapse:
        console.print(f"numerics: {outcome.trend.warning}", markup=False, soft_wrap=True)
    console.print(f"model: {model}", markup=False, soft_wrap=True)
    if model is not None and (model / FOLDER).is_dir():
        line = f"the adapter is added to it in float32; for bfloat16 load the base with {model / FOLDER}"
        console.print(line, markup=False, soft_wrap=True)
    if outcome.best_checkpoint is not None:
        console.print(f"best model: {outcome.best_checkpoint / 'model'}", markup=False, soft_wrap=True)


def show_plan(config: TrainConfig, *, devices: int, device_memory: float | None) -> int:
    """Print each rank's memory, and the settings that follow; return the exit code.

    ``devices``: ranks, one a device; ``device_memory``: GiB of a device (default: this machine's).
    """
    from agentgym.inference.models.tiny_names import tiny_size

    if devices < 1 or (device_memory is not None and device_memory <= 0):
        raise UsageError("--plan plans for at least one device, and --device-memory is above 0")
    if tiny_size(config.model) is not None:
        raise UsageError(f"{config.model} is made for its environment: plan for --model DIRECTORY")
    from agentgym.training.machine.memory import plan_memory
    from agentgym.training.machine.pace import plan_pace
    from agentgym.training.machine.resources import (
        MAX_MEMORY_FRACTION,
        MAX_PARAMETERS,
        Machine,
        described,
        model_size,
        resolve,
    )
    from agentgym.training.machine.serving import parse_devices

    if device_memory is None:
        machine = Machine.here(config.device)
    else:
        here = Machine.here("auto")
        machine = Machine("cuda", GPU, int(device_memory * GIB), has_vllm=here.has_vllm)
    if config.devices:
        devices = len(parse_devices(config.devices))
    machine, size = replace(machine, ranks=devices), model_size(config)
    assert size is not None
    resolved = resolve(config, machine, size)
    plan = plan_memory(size, resolved, ranks=devices, device_memory=machine.memory)
    console = open_console()
    lines = [
        f"{config.model}: {size.parameters / 1e9:.2f} billion parameters, {size.layers} layers",
        *(f"{name:>8}  {value}" for name, value in described(resolved, machine)),
        "",
        *(f"{size / GIB:8.2f} GiB  {when:>8}  {what}" for when, what, size in plan.rows()),
        "",
        f"{plan.start / GIB:8.2f} GiB a rank while the run is opened",
        f"{plan.peak / GIB:8.2f} GiB a rank at most, of {machine.memory / GIB:.1f}",
    ]
    lines += [f"{most / GIB:8.2f} GiB main memory  {what}" for what, most in plan.main.items() if most]
    if plan.cache_tokens:
        held, longest = plan.cache_tokens, resolved.prompting.context_length
        lines.append(f"vLLM's cache: {held:,} tokens, {held // longest:,} episodes of {longest:,} at most")
    lines += ["", *plan_pace(size, resolved, machine), ""]
    fits = plan.peak <= MAX_MEMORY_FRACTION * machine.memory
    if not fits:
        lines.append("This does not fit: use more devices, learner.lora_rank, or learner.offload=true")
    if size.parameters > MAX_PARAMETERS or size.experts:
        lines.append(
            "Above 14B dense, mixtures of experts, HSDP and context parallelism are not built here: use verl "
            "with these environments (docs/bridges.md)"
        )
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return 0 if fits else 1
