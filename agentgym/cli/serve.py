"""``agentgym serve``: environments as web sites for people; environments, search and models for programs."""

from __future__ import annotations

import argparse
from pathlib import Path

from agentgym.cli.commands import COMMANDS
from agentgym.cli.corpus import add_corpus, add_engine, open_named
from agentgym.cli.listening import add_address, add_repeated, read_token, serve_until_interrupted
from agentgym.cli.parser import (
    Commands,
    Parser,
    add_command,
    add_env_options,
    add_groups,
    env_options,
    parse_options,
    seed,
)
from agentgym.cli.serve_gateway import add_gateway
from agentgym.cli.terminal import open_console

RETRIEVAL = "retrieval"
"""Name of the command that serves a search index instead of a suite."""


def add_to(commands: Commands[Parser]) -> None:
    """Declare the commands: ``env``, ``retrieval``, ``gateway``, and one for each suite, named after it."""
    example = "agentgym serve webshop --split test --record recordings"
    group = add_command(commands, "serve", None, about=COMMANDS["serve"], example=example)
    servers = add_groups(group, lambda name: _add_suite(servers, name))
    _add_suite(servers, "webshop")
    _add_env(servers)
    _add_retrieval(servers)
    add_gateway(servers)


def _add_suite(servers: Commands[Parser], suite: str) -> None:
    """Declare the site of a suite; one without pages is refused where it is run."""
    parser = add_command(
        servers,
        suite,
        run,
        about=f"Serve {suite} as a web site for human players.",
        example=f"agentgym serve {suite} --split test --record recordings",
    )
    parser.set_defaults(suite=suite)
    parser.add_argument("--split", default="train", help="split of the tasks (default: train)")
    add_address(parser)
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="write each visitor's episodes there")
    parser.add_argument("--seed", type=seed, default=0, help="random seed (default: 0)")
    add_env_options(parser)


def _add_env(servers: Commands[Parser]) -> None:
    """Declare the environment server."""
    parser = add_command(
        servers,
        "env",
        run_env,
        about="Serve an environment for trainers: OpenEnv's HTTP and WebSocket, and many sessions a message.",
        example="agentgym serve env agentgym/Sokoban-v0 --split train --port 8000",
    )
    parser.add_argument("env", metavar="ID", help="id of the environment; module:id imports a module first")
    parser.add_argument("--split", help="split of the tasks (default: the environment's own)")
    add_env_options(parser)
    add_repeated(
        parser,
        "--limit",
        "sessions (at once), idle (seconds until one ends), body (bytes of a message), rate (messages a "
        "second from an address) or patience (seconds for a request to arrive "
        "completely); repeat for several",
    )
    parser.add_argument(
        "--token", type=Path, metavar="FILE", help="file with the bearer token that clients must send"
    )
    add_address(parser)


def _add_retrieval(servers: Commands[Parser]) -> None:
    """Declare the retrieval server."""
    parser = add_command(
        servers,
        RETRIEVAL,
        run_retrieval,
        about="Serve search over a corpus: POST /retrieve as Search-R1's and verl-agent's servers answer it.",
        example="agentgym serve retrieval multihop-builtin --port 8000",
    )
    add_corpus(parser)
    add_engine(parser)
    parser.add_argument(
        "-k", type=int, default=3, help="passages per query, if a request does not state k (default: 3)"
    )
    parser.add_argument(
        "--quote-titles",
        action="store_true",
        help="send titles in quotation marks in 'contents', as the corpus wiki-18 has them",
    )
    add_repeated(
        parser,
        "--limit",
        "largest body (bytes), queries (of a request), characters (of a query), k or waiting (queries); "
        "repeat for several",
    )
    add_address(parser)


def run_env(arguments: argparse.Namespace) -> int:
    """Serve an environment until Ctrl-C."""
    from agentgym.io.optional import load
    from agentgym.io.records import parse
    from agentgym.serving.env.app import EnvServer
    from agentgym.serving.env.service import EnvService
    from agentgym.serving.env.sessions import EnvLimits

    load("websockets", "serve", "the environment server")
    limits = parse(EnvLimits, parse_options(arguments.limit), "--limit")
    token = read_token(arguments.token)
    options = env_options(arguments)
    service = EnvService.open(arguments.env, limits, split=arguments.split, options=options)
    with EnvServer(
        arguments.host, arguments.port, service, token=token, allowed_hosts=tuple(arguments.allow_host)
    ) as server:
        line = f"{service.env_id} is served at {server.url} (Ctrl-C closes it)"
        serve_until_interrupted(server, line)
    return 0


def run_retrieval(arguments: argparse.Namespace) -> int:
    """Serve search until Ctrl-C."""
    from agentgym.io.records import parse
    from agentgym.retrieval.corpus.wire_formats import RetrievalLimits
    from agentgym.serving.retrieval.app import RetrievalService
    from agentgym.serving.retrieval.server import RetrievalServer

    limits = parse(RetrievalLimits, parse_options(arguments.limit), "--limit")
    _, searcher = open_named(arguments)
    service = RetrievalService(searcher, limits=limits, default_k=arguments.k, quoted=arguments.quote_titles)
    with RetrievalServer(
        arguments.host, arguments.port, service, allowed_hosts=arguments.allow_host
    ) as server:
        count, name = len(searcher.store), searcher.index.manifest.engine
        line = (
            f"{count:,} passages, ranked by {name}, are searched at {server.url}/retrieve (Ctrl-C closes it)"
        )
        serve_until_interrupted(server, line)
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from agentgym.io.files import make_folder
    from agentgym.serving.http_server import SiteServer
    from agentgym.serving.site import EnvSite, pages_of

    pages = pages_of(arguments.suite)
    options = env_options(arguments)
    if arguments.record is not None:
        make_folder(arguments.record)
    console = open_console()

    def say(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    site = EnvSite(
        pages, split=arguments.split, options=options, seed=arguments.seed, record=arguments.record, say=say
    )
    allowed = arguments.allow_host
    with SiteServer(arguments.host, arguments.port, site.answer, allowed_hosts=allowed) as server:
        serve_until_interrupted(server, f"{pages.title} is open at {server.url} (Ctrl-C closes it)")
    return 0
