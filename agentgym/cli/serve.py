"""``agentgym serve SUITE``: an environment as a web site, for people."""

from __future__ import annotations

import argparse
from pathlib import Path

from agentgym.cli.parser import Commands, Parser, add_command, parse_options, seed
from agentgym.cli.terminal import open_console

ABOUT = "Serve an environment as a web site that people play in."
FLAGS = {"split": "--split", "dataset": "--dataset"}


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    example = "agentgym serve webshop --split test --record recordings"
    parser = add_command(commands, "serve", run, about=ABOUT, example=example)
    parser.add_argument("suite", metavar="SUITE", help="a suite that has pages: webshop")
    parser.add_argument("--split", default="train", help="split of the tasks (default: train)")
    parser.add_argument("--dataset", help="name or path of the data set (default: builtin)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=int, default=8000, help="port to listen on, 0 for any free one (default: 8000)"
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="answer to this name too, such as a proxy's; repeat for several "
        "(localhost and --host are always allowed)",
    )
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="write each visitor's episodes there")
    parser.add_argument("--seed", type=seed, default=0, help="random seed (default: 0)")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="option of the environment, a TOML value; repeat for several",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from agentgym.files import make_folder
    from agentgym.serving.server import SiteServer
    from agentgym.serving.site import EnvSite, pages_of

    pages = pages_of(arguments.suite)
    options = parse_options(arguments.option, FLAGS)
    if arguments.dataset is not None:
        options["dataset"] = arguments.dataset
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
        say(f"{pages.title} is open at {server.url} (Ctrl-C closes it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("closed")
    return 0
