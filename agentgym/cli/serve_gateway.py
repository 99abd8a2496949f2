"""``agentgym serve gateway``: a model for agents of others, whose sessions become training data."""

from __future__ import annotations

import argparse
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.cli.listening import add_address, add_repeated, read_token, serve_until_interrupted
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
    from agentgym.inference.engines.types import Engine
    from agentgym.inference.models.language_model import LanguageModel


def add_gateway(servers: Commands[Parser]) -> None:
    """Declare the gateway."""
    parser = add_command(
        servers,
        "gateway",
        run_gateway,
        about="Serve a model to other agent programs, by OpenAI's or Anthropic's API; sessions become "
        "training data.",
        example="agentgym serve gateway models/qwen --env agentgym/WebShop-v0 --pool pool --group-size 8",
    )
    model_help = "model directory, OWNER/NAME of the hub, or tiny: an untrained model made for --env"
    parser.add_argument("model", metavar="MODEL", help=model_help)
    parser.add_argument("--engine", choices=("hf", "vllm"), default="hf", help="default: hf")
    about = "address of a vllm serve process, with the engine vllm; repeat for several"
    add_repeated(parser, "--server", about, metavar="URL")
    add_repeated(parser, "--engine-option", "more flags of vllm serve")
    dtypes = ("float32", "bfloat16")
    parser.add_argument("--dtype", choices=dtypes, default=dtypes[0], help="default: float32")
    parser.add_argument("--device", help="device of the engine hf (default: a GPU if there is one)")
    add_repeated(parser, "--template-option", "option of the chat template")
    for name, metavar, about in (
        ("--follow", "RUN", "sample with the newest checkpoint of this training run"),
        ("--record", "FILE", "record what the engine generates"),
        ("--replay", "FILE", "answer from such a recording, without weights"),
        ("--pool", "DIR", "data pool that takes completed sessions"),
        ("--journal", "DIR", "folder of open sessions (default: sessions in --pool, or a temporary one)"),
        ("--token", "FILE", "file with the API key that clients must send"),
    ):
        parser.add_argument(name, type=Path, metavar=metavar, help=about)
    env_help = "environment that the sessions play; module:id imports a module"
    parser.add_argument("--env", metavar="ID", help=env_help)
    parser.add_argument("--split", help="split of its tasks (default: the environment's own)")
    add_env_options(parser)
    parser.add_argument("--group-size", type=int, metavar="N", help="episodes of a group that states no size")
    add_repeated(
        parser,
        "--limit",
        "sessions (at once), idle (seconds), body (bytes), tokens (of an answer without a limit) or "
        "patience (seconds for a request to arrive completely); repeat for several",
    )
    add_address(parser)


def run_gateway(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from tempfile import TemporaryDirectory

    from agentgym.io.files import sole_writer
    from agentgym.io.optional import load
    from agentgym.io.records import parse

    load("jinja2", "train", "the gateway")
    from agentgym.prompts.chat_template import ChatSetup
    from agentgym.rollout.datapool import DataPool
    from agentgym.serving.app_server import AppServer
    from agentgym.serving.env.service import EnvService
    from agentgym.serving.env.sessions import EnvLimits
    from agentgym.serving.gateway.app import make_app
    from agentgym.serving.gateway.journal import SessionJournal
    from agentgym.serving.gateway.service import Gateway
    from agentgym.serving.gateway.sessions import GatewayLimits

    limits = parse(GatewayLimits, parse_options(arguments.limit), "--limit")
    token, name = read_token(arguments.token), Path(arguments.model).name
    env, pool, folder = None, None, arguments.journal
    with ExitStack() as stack:
        if arguments.env is not None:
            room, options = EnvLimits(sessions=limits.sessions), env_options(arguments)
            env = EnvService.open(arguments.env, room, split=arguments.split, options=options)
        if arguments.pool is not None:
            pool = stack.enter_context(DataPool(arguments.pool, group_size=arguments.group_size))
            folder = folder or arguments.pool / "sessions"
        journal = SessionJournal(folder or Path(stack.enter_context(TemporaryDirectory())))
        stack.enter_context(sole_writer(journal.folder))
        model, engine = _open_engine(arguments, _directory(arguments, stack), stack)
        chat = model.chat.set_up(ChatSetup(options=parse_options(arguments.template_option)))
        gateway = Gateway(
            chat, engine, model.stop_ids, journal, model=name, limits=limits, env=env, pool=pool
        )
        app = partial(make_app, gateway, token)
        allowed = arguments.allow_host
        server = stack.enter_context(AppServer(arguments.host, arguments.port, app, allowed_hosts=allowed))
        serve_until_interrupted(server, f"{name} is served at {server.url}/sessions (Ctrl-C closes it)")
    return 0


def _directory(arguments: argparse.Namespace, stack: ExitStack) -> str:
    """Return the model's directory; a tiny model is made for its environment, in a temporary one."""
    from tempfile import TemporaryDirectory

    from agentgym.inference.models.language_model import save_model
    from agentgym.inference.models.tiny_names import tiny_size
    from agentgym.inference.policy.open import open_model, vocabulary_texts
    from agentgym.inference.policy.saved import default_prompting
    from agentgym.prompts.settings import Prompting
    from agentgym.registration import open_vector

    spec, texts = arguments.model, list[str]()
    if tiny_size(spec) is None:
        return str(spec)
    prompting = Prompting(wording="terse", answer="bare")
    if arguments.env is not None:
        prompting = default_prompting(spec, arguments.env)
        options = env_options(arguments)
        with closing(open_vector(arguments.env, 8, split=arguments.split, options=options)) as envs:
            texts = vocabulary_texts(spec, [(envs, prompting)])
    folder = stack.enter_context(TemporaryDirectory())
    save_model(folder, open_model(spec, texts, prompting, seed=0))
    line = f"{spec} is an untrained model, for trials; agentgym train takes it by --model {folder}"
    open_console().print(line, markup=False, soft_wrap=True)
    return folder


def _open_engine(
    arguments: argparse.Namespace, directory: str, stack: ExitStack
) -> tuple[LanguageModel, Engine]:
    """Open the model and what samples from it, with the weights of the run that is followed."""
    import torch

    from agentgym.inference.engines.recording import RecordingEngine
    from agentgym.inference.engines.standalone import open_engine
    from agentgym.training.track.follower import CheckpointFollower

    dtype = getattr(torch, arguments.dtype)
    model, engine = open_engine(
        directory,
        arguments.engine,
        servers=arguments.server,
        dtype=dtype,
        device=arguments.device or ("cuda" if torch.cuda.is_available() else "cpu"),
        options=parse_options(arguments.engine_option),
        replay=arguments.replay,
    )
    if arguments.follow is not None:
        say = partial(open_console().print, markup=False, soft_wrap=True)
        follower = CheckpointFollower(arguments.follow, engine, dtype=dtype, say=say)
        stack.callback(follower.close)
        follower.start()
    return model, engine if arguments.record is None else RecordingEngine(engine, arguments.record)
