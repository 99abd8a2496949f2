"""``agentgym serve gateway``: a model for agents of others, whose sessions become training data."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.cli.listening import add_address, read_token, serve_until_interrupted
from agentgym.cli.parser import (
    Commands,
    Parser,
    add_command,
    add_env_options,
    env_options,
    parse_options,
)
from agentgym.cli.terminal import open_console

if TYPE_CHECKING:
    from agentgym.serving.gateway.sessions import EnvJoin, GatewayLimits
    from agentgym.training.engines.types import Engine
    from agentgym.training.models.models import LanguageModel


def add_gateway(servers: Commands[Parser]) -> None:
    """Declare the gateway."""
    parser = add_command(
        servers,
        "gateway",
        run_gateway,
        about="Serve a model to agents of others as OpenAI and Anthropic do; sessions become training data.",
        example="agentgym serve gateway models/qwen --env agentgym/WebShop-v0 --pool pool --group-size 8",
    )
    parser.add_argument("model", metavar="MODEL", help="model directory, or OWNER/NAME of the hub")
    parser.add_argument("--engine", choices=("hf", "vllm", "server"), default="hf", help="default: hf")
    parser.add_argument(
        "--server", action="append", default=[], metavar="URL", help="of a vllm serve process; repeat"
    )
    parser.add_argument(
        "--engine-option", action="append", default=[], metavar="KEY=VALUE", help="more arguments of vllm.LLM"
    )
    parser.add_argument(
        "--dtype", choices=("float32", "bfloat16"), default="float32", help="default: float32"
    )
    parser.add_argument("--device", help="of the engine hf (default: a GPU where there is one)")
    parser.add_argument(
        "--template-option", action="append", default=[], metavar="KEY=VALUE", help="of the chat template"
    )
    parser.add_argument(
        "--follow", type=Path, metavar="RUN", help="sample with the newest checkpoint of this training run"
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="write down what the engine generates")
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="answer from such a recording, without weights"
    )
    parser.add_argument(
        "--env", metavar="ID", help="environment that the sessions play; module:id imports a module"
    )
    parser.add_argument("--split", help="split of its tasks (default: the environment's own)")
    add_env_options(parser)
    parser.add_argument("--pool", type=Path, metavar="DIR", help="data pool that takes completed sessions")
    parser.add_argument("--group-size", type=int, metavar="N", help="episodes of a group that does not say")
    parser.add_argument(
        "--journal", type=Path, metavar="DIR", help="folder of open sessions (default: sessions in --pool)"
    )
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="sessions (at once), idle (seconds), body (bytes), tokens (of an answer that does not say) or "
        "patience (seconds for a request to come whole); repeat for several",
    )
    parser.add_argument(
        "--token", type=Path, metavar="FILE", help="file with what clients show as their API key"
    )
    add_address(parser)


def run_gateway(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from tempfile import TemporaryDirectory

    from agentgym.io.files import sole_writer
    from agentgym.io.records import parse
    from agentgym.prompts.chat_template import ChatSetup
    from agentgym.rollout.datapool import DataPool
    from agentgym.serving.app_server import AppServer
    from agentgym.serving.gateway.app import make_app
    from agentgym.serving.gateway.gateway import Gateway
    from agentgym.serving.gateway.journal import SessionJournal
    from agentgym.serving.gateway.sessions import GatewayLimits

    limits = parse(GatewayLimits, parse_options(arguments.limit), "--limit")
    token, name = read_token(arguments.token), Path(arguments.model).name
    pool, folder = None, arguments.journal
    with ExitStack() as stack:
        env = _open_env(arguments, limits)
        if arguments.pool is not None:
            pool = stack.enter_context(DataPool(arguments.pool, group_size=arguments.group_size))
            folder = folder or arguments.pool / "sessions"
        journal = SessionJournal(folder or Path(stack.enter_context(TemporaryDirectory())))
        stack.enter_context(sole_writer(journal.folder))
        model, engine = _open_engine(arguments, stack)
        chat = model.chat.set_up(ChatSetup(options=parse_options(arguments.template_option)))
        gateway = Gateway(
            chat, engine, model.stop_ids, journal, model=name, limits=limits, env=env, pool=pool
        )
        app = partial(make_app, gateway, token)
        allowed = arguments.allow_host
        server = stack.enter_context(AppServer(arguments.host, arguments.port, app, allowed_hosts=allowed))
        serve_until_interrupted(server, f"{name} is served at {server.url}/sessions (Ctrl-C closes it)")
    return 0


def _open_env(arguments: argparse.Namespace, limits: GatewayLimits) -> EnvJoin | None:
    """Open the environment that sessions play."""
    from agentgym.serving.env.service import EnvService
    from agentgym.serving.env.sessions import EnvLimits
    from agentgym.serving.gateway.sessions import EnvJoin

    options = env_options(arguments)
    if arguments.env is None:
        return None
    room = EnvLimits(sessions=limits.sessions, idle=limits.idle, body=limits.body)
    return EnvJoin(EnvService.open(arguments.env, room, split=arguments.split, options=options))


def _open_engine(arguments: argparse.Namespace, stack: ExitStack) -> tuple[LanguageModel, Engine]:
    """Open the model and what samples from it, with the weights of the run that is followed."""
    import torch

    from agentgym.training.engines.replay import RecordingEngine
    from agentgym.training.standalone import CheckpointFollower, open_engine

    dtype = getattr(torch, arguments.dtype)
    model, engine = open_engine(
        arguments.model,
        arguments.engine,
        servers=arguments.server,
        dtype=dtype,
        device=arguments.device or ("cuda" if torch.cuda.is_available() else "cpu"),
        options=parse_options(arguments.engine_option),
        replay=arguments.replay,
    )
    if arguments.follow is not None:
        console = open_console()

        def say(line: str) -> None:
            console.print(line, markup=False, soft_wrap=True)

        follower = CheckpointFollower(arguments.follow, engine, dtype=dtype, say=say)
        stack.callback(follower.close)
        follower.start()
    return model, engine if arguments.record is None else RecordingEngine(engine, arguments.record)
