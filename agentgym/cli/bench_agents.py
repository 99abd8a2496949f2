"""The agents that ``agentgym bench`` plays beside a suite's own: models of files and of endpoints."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.cli.parser import Parser, parse_options
from agentgym.errors import UsageError, nearest

if TYPE_CHECKING:
    from agentgym.evaluation.suites.suite import SuiteAgent

SCAFFOLDS = ("prompting", "react", "reflexion")
"""Kinds of agents that ask a model behind an endpoint."""

_OWN_FLAGS = {
    "path": "--model",
    "model": "--model",
    "endpoint": "--endpoint",
    "key_env": "--key-env",
    "wording": "--wording",
    "answer": "--answer",
    "rerank": "--rerank",
    "candidates": "--candidates",
}


_SHARED = ("wording", "answer", "history", "budget", "temperature", "max_tokens")
"""How a protocol asks, as far as agents behind endpoints can be asked so."""


def add_agents(parser: Parser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--agent",
        action="append",
        metavar="NAME",
        help="who plays: agents of the suite or of --model; with --endpoint prompting, react or "
        "reflexion; repeat for several (default: all of the suite and of --model; with --endpoint react)",
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME",
        help="a model to play too: a directory, as FOLDER or FOLDER:NAME, or with --endpoint what the server "
        "calls it; repeat for several",
    )
    parser.add_argument(
        "--endpoint", metavar="URL", help="where --model is served, such as http://localhost:8000/v1"
    )
    parser.add_argument(
        "--key-env", metavar="VAR", help="environment variable of the endpoint's key (default: no key)"
    )
    parser.add_argument(
        "--wording",
        metavar="W",
        help="of prompts for --model (default: as its agent.json says, generic for a directory without one; "
        "the suite's with --endpoint)",
    )
    parser.add_argument(
        "--answer",
        metavar="A",
        help="how --model is to answer (default: likewise, think-action for a directory without agent.json)",
    )
    parser.add_argument(
        "--rerank",
        metavar="FOLDER",
        help="a saved reward model, the reward_model folder of a checkpoint: of several responses of --model "
        "at each step, play the one it rewards most",
    )
    parser.add_argument(
        "--candidates", type=int, metavar="K", help="responses a step for --rerank (default: 4)"
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="further option of --model's agents, such as temperature=0.7; repeat for several",
    )


def chosen_agents(
    arguments: argparse.Namespace, asked: Mapping[str, Any]
) -> tuple[list[SuiteAgent], list[str] | None]:
    """Return the agents that the flags add, and the names of those that play, None for all.

    ``asked``: a protocol's settings of a model; empty without one. Flags go before it, and so does a
    directory's ``agent.json`` with the model's training settings, but for the temperature.
    """
    _check(arguments)
    options = parse_options(arguments.option, _OWN_FLAGS)
    options |= {
        name: value
        for name in ("wording", "answer", "rerank", "candidates")
        if (value := getattr(arguments, name)) is not None
    }
    if arguments.endpoint is None:
        return [_of_directory(text, options, asked) for text in arguments.model], arguments.agent
    options = {**{name: asked[name] for name in _SHARED if name in asked}, **options}
    options |= {"endpoint": arguments.endpoint}
    options |= {"key_env": arguments.key_env} if arguments.key_env else {}
    usual = "prompting" if asked else "react"
    kinds = [usual] if arguments.agent is None else [n for n in arguments.agent if n in SCAFFOLDS]
    if not kinds:
        meant = "".join(dict.fromkeys(nearest(name, SCAFFOLDS) for name in arguments.agent))
        raise UsageError(f"--endpoint plays nothing: name {' or '.join(SCAFFOLDS)} with --agent too{meant}")
    further = [_of_endpoint(kind, model, options) for model in arguments.model for kind in kinds]
    if arguments.agent is None:
        return further, None
    others = [name for name in arguments.agent if name not in SCAFFOLDS]
    return further, [*others, *(agent.name for agent in further)]


def _check(arguments: argparse.Namespace) -> None:
    if arguments.endpoint is not None and not arguments.model:
        raise UsageError("--endpoint needs --model NAME: what the server calls the model")
    if arguments.endpoint is not None and arguments.rerank is not None:
        raise UsageError("--rerank reads the tokens of a model directory: leave out --endpoint")
    if arguments.candidates is not None and arguments.rerank is None:
        raise UsageError("--candidates are chosen among by a reward model: name its folder with --rerank")
    if arguments.endpoint is None and arguments.key_env is not None:
        raise UsageError("--key-env is the key of an endpoint: name its URL with --endpoint")
    if not arguments.model:
        for name in ("wording", "answer", "option", "rerank"):
            if getattr(arguments, name):
                raise UsageError(f"--{name} is of a model: name one with --model")


def check_scaffold(arguments: argparse.Namespace, known: list[str]) -> None:
    """Refuse a scaffold without an endpoint, unless the suite has an agent of that name."""
    for name in arguments.agent or ():
        if name in SCAFFOLDS and arguments.endpoint is None and name not in known:
            raise UsageError(
                f"--agent {name} asks a model behind an endpoint: add --endpoint URL and --model NAME"
            )


def _of_endpoint(kind: str, model: str, options: dict[str, Any]) -> SuiteAgent:
    from agentgym.evaluation.suites.suite import SuiteAgent

    name = re.sub(r"[^A-Za-z0-9._-]+", "-", model.rpartition("/")[2]).strip("-")
    return SuiteAgent(f"{kind}-{name}", kind, options={**options, "model": model})


def _of_directory(text: str, options: dict[str, Any], asked: Mapping[str, Any]) -> SuiteAgent:
    from agentgym.evaluation.suites.suite import SuiteAgent
    from agentgym.training.policy.saved import read_agent

    path, colon, name = text.rpartition(":")
    if not colon or Path(text).is_dir():
        path, name = text, ""
    if "://" in text:
        raise UsageError(f"--model {text} is a URL: give it to --endpoint, and the model's name to --model")
    saved = read_agent(Path(path))
    told = asked if saved is None else {name: asked[name] for name in ("temperature",) if name in asked}
    options = {**told, **options}
    if saved is None and "template_file" not in options:
        options = {"wording": "generic", "answer": "think-action", **options}
    own = Path(path).resolve().name if saved is None else saved.training.run
    if "rerank" in options:
        own = f"{own}-reranked"
    return SuiteAgent(name or own, "model", options={"path": path, **options})
