"""The agents that ``agentgym bench`` plays beside a suite's own: models of files and of endpoints."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.agents.table import AGENTS, ENTRY_POINTS
from agentgym.cli.parser import Parser, parse_options
from agentgym.errors import UsageError, nearest
from agentgym.io.optional import plugins

if TYPE_CHECKING:
    from agentgym.evaluation.suites.suite import SuiteAgent

SCAFFOLDS = ("prompting", "react", "reflexion")
"""Kinds of agents that ask a model behind an endpoint."""

_OWN_FLAGS = {
    "path": "--model",
    "engine": "--engine",
    "model": "--model",
    "endpoint": "--endpoint",
    "key_env": "--key-env",
    "wording": "--wording",
    "answer": "--answer",
    "rerank": "--rerank",
    "candidates": "--candidates",
}


_SHARED = ("wording", "answer", "history", "budget", "temperature", "max_tokens")
"""Settings of an evaluation protocol that agents behind endpoints can follow."""


def add_agents(parser: Parser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--agent",
        action="append",
        metavar="NAME",
        help="who plays: agents of the suite or of --model, or your own agent, as module:function or by its "
        "entry point; with --endpoint prompting, react or reflexion; repeat for several (default: all of the "
        "suite and of --model; with --endpoint react)",
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME",
        help="a model that plays too: a directory or OWNER/NAME of the Hugging Face hub, with :NAME to "
        "name its row; with --endpoint, the server's name of the model; repeat for several",
    )
    parser.add_argument(
        "--endpoint", metavar="URL", help="address of the server of --model, such as http://localhost:8000/v1"
    )
    parser.add_argument(
        "--key-env", metavar="VAR", help="environment variable of the endpoint's key (default: no key)"
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "hf", "vllm"),
        help="engine that samples from --model: transformers (hf) or vLLM, in bfloat16 on a GPU; auto "
        "is vLLM for half a billion weights or more, if it is installed and there is a GPU, else "
        "hf (default: auto)",
    )
    parser.add_argument(
        "--wording",
        metavar="W",
        help="wording of the prompts for --model (default: as in its agent.json, or generic without "
        "one; with --endpoint the suite's)",
    )
    parser.add_argument(
        "--answer",
        metavar="A",
        help="answer format of --model (default: as in its agent.json, or think-action without one)",
    )
    parser.add_argument(
        "--rerank",
        metavar="MODEL",
        help="a saved reward model, such as the reward_model folder of a checkpoint: it chooses among "
        "several responses of --model at each step",
    )
    parser.add_argument(
        "--candidates", type=int, metavar="K", help="responses per step for --rerank (default: 4)"
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="further option of --model's or your own agents, such as temperature=0.7; repeat for several",
    )


def chosen_agents(
    arguments: argparse.Namespace, settings: Mapping[str, Any], known: Collection[str]
) -> tuple[list[SuiteAgent], list[str] | None]:
    """Return the agents that the flags add, and the names of those that play, None for all.

    ``settings``: a protocol's settings of a model; empty without one. Flags go before it, and so does a
    directory's ``agent.json`` with the model's training settings, but for the temperature.
    ``known``: names of the suite's own agents.
    """
    installed = plugins(ENTRY_POINTS) if arguments.agent else {}
    others = [name for name in arguments.agent or () if name not in (*known, *SCAFFOLDS)]
    own = {n: _row_name(n) for n in others if ":" in n or n in installed or n in AGENTS}
    further, names = _models(arguments, settings, known, own)
    if own:
        from agentgym.evaluation.suites.suite import SuiteAgent

        options = {} if arguments.model else parse_options(arguments.option, {})
        further = [*further, *(SuiteAgent(row, kind, options=options) for kind, row in own.items())]
    return further, names and [own.get(name, name) for name in names]


def _models(
    arguments: argparse.Namespace, settings: Mapping[str, Any], known: Collection[str], own: Collection[str]
) -> tuple[list[SuiteAgent], list[str] | None]:
    """Return the models that the flags add, and the names of those that play, None for all.

    ``own``: references of agents that are no models.
    """
    for name in arguments.agent or ():
        if name in SCAFFOLDS and arguments.endpoint is None and name not in known:
            raise UsageError(
                f"--agent {name} asks a model behind an endpoint: add --endpoint URL and --model NAME"
            )
    _check(arguments, own)
    options = parse_options(arguments.option, _OWN_FLAGS)
    options |= {
        name: value
        for name in ("wording", "answer", "rerank", "candidates")
        if (value := getattr(arguments, name)) is not None
    }
    if arguments.endpoint is None:
        engine, several = arguments.engine or "auto", len(arguments.model) > 1
        if engine == "vllm" and several:
            raise UsageError("vLLM fills a GPU with one model: name one with --model, or set --engine hf")
        engine = "hf" if several else engine
        return [_of_directory(text, engine, options, settings) for text in arguments.model], arguments.agent
    options = {**{name: settings[name] for name in _SHARED if name in settings}, **options}
    options |= {"endpoint": arguments.endpoint}
    options |= {"key_env": arguments.key_env} if arguments.key_env else {}
    usual = "prompting" if settings else "react"
    kinds = [usual] if arguments.agent is None else [n for n in arguments.agent if n in SCAFFOLDS]
    if not kinds:
        meant = "".join(dict.fromkeys(nearest(name, SCAFFOLDS) for name in arguments.agent))
        raise UsageError(f"--endpoint plays nothing: name {' or '.join(SCAFFOLDS)} with --agent too{meant}")
    further = [_of_endpoint(kind, model, options) for model in arguments.model for kind in kinds]
    if arguments.agent is None:
        return further, None
    others = [name for name in arguments.agent if name not in SCAFFOLDS]
    return further, [*others, *(agent.name for agent in further)]


def _check(arguments: argparse.Namespace, own: Collection[str]) -> None:
    if arguments.endpoint is not None and not arguments.model:
        raise UsageError("--endpoint needs --model NAME: what the server calls the model")
    if arguments.endpoint is not None and arguments.rerank is not None:
        raise UsageError("--rerank reads the tokens of a model directory: leave out --endpoint")
    if arguments.endpoint is not None and arguments.engine is not None:
        raise UsageError("--engine samples from a model directory: leave out --endpoint")
    if arguments.candidates is not None and arguments.rerank is None:
        raise UsageError("--candidates are chosen among by a reward model: name its folder with --rerank")
    if arguments.endpoint is None and arguments.key_env is not None:
        raise UsageError("--key-env is the key of an endpoint: name its URL with --endpoint")
    if not arguments.model:
        for name in ("wording", "answer", "option", "rerank", "engine"):
            if getattr(arguments, name) and not (own and name == "option"):
                raise UsageError(f"--{name} is of a model: name one with --model")


def _row_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-")


def _of_endpoint(kind: str, model: str, options: dict[str, Any]) -> SuiteAgent:
    from agentgym.evaluation.suites.suite import SuiteAgent

    return SuiteAgent(
        f"{kind}-{_row_name(model.rpartition('/')[2])}", kind, options={**options, "model": model}
    )


def _of_directory(text: str, engine: str, options: dict[str, Any], settings: Mapping[str, Any]) -> SuiteAgent:
    from agentgym.evaluation.suites.suite import SuiteAgent
    from agentgym.inference.policy.saved import read_agent
    from agentgym.io.hub import model_directory, repository_of

    path, colon, name = text.rpartition(":")
    if not colon or Path(text).is_dir():
        path, name = text, ""
    if "://" in text:
        raise UsageError(f"--model {text} is a URL: give it to --endpoint, and the model's name to --model")
    directory = model_directory(path)
    saved = read_agent(directory)
    names = settings if saved is None else ("temperature",)
    options = {**{name: settings[name] for name in names if name in settings}, **options}
    if saved is None and "template_file" not in options:
        options = {"wording": "generic", "answer": "think-action", **options}
    own = Path(repository_of(path) or path).resolve().name if saved is None else saved.training.run
    if "rerank" in options:
        own = f"{own}-reranked"
    options = {"path": path, **_sampler(directory, engine, options), **options}
    return SuiteAgent(name or own, "model", options=options)


def words_of_tiny_models(agents: Sequence[SuiteAgent], env_ids: Collection[str]) -> Iterator[str]:
    """Yield a line for each model that knows the words of one environment, where others are played."""
    models = [agent for agent in agents if agent.kind == "model"]
    if not models:
        return  # the imports below need torch
    from agentgym.inference.policy.saved import read_agent
    from agentgym.io.hub import model_directory

    for agent in models:
        saved = read_agent(model_directory(agent.options["path"]))
        if saved and saved.training.base_model.startswith("tiny") and set(env_ids) - {saved.training.env_id}:
            yield (
                f"{agent.name} was trained from random weights on {saved.training.env_id} and knows its "
                "words only: other columns are low whatever it learned (--env LABEL plays one)"
            )


def _sampler(directory: Path, engine: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return what a model is sampled by, where that is not the agent's default: hf in float32."""
    import torch

    from agentgym.inference.models.lora import FOLDER

    gpu = torch.cuda.is_available() and not str(options.get("device", "")).startswith("cpu")
    if engine == "auto" and gpu and "rerank" not in options:
        from agentgym.training.machine.memory import ModelSize
        from agentgym.training.machine.resources import Machine, auto_engine

        engine = auto_engine(Machine.here(), ModelSize.read(directory))
    chosen = {"engine": "vllm"} if engine == "vllm" else {}
    rounds = gpu and not (directory / FOLDER).is_dir()  # an adapter that was added would be rounded away
    return {**chosen, "dtype": "bfloat16"} if rounds else chosen
