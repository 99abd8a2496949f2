"""Shared parts of serving commands: address, token and shutdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.cli.parser import Parser
from agentgym.cli.terminal import open_console
from agentgym.errors import UsageError
from agentgym.io.untrusted import read_file

if TYPE_CHECKING:
    from agentgym.serving.app_server import AppServer
    from agentgym.serving.http_server import SiteServer


def add_address(parser: Parser) -> None:
    """Declare where a server listens."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=int, default=8000, help="port to listen on, 0 for any free one (default: 8000)"
    )
    about = "answer to this name too, such as a proxy's; repeat for several"
    always = "(localhost and --host are always allowed)"
    add_repeated(parser, "--allow-host", f"{about} {always}", metavar="NAME")


def add_repeated(parser: Parser, name: str, about: str, metavar: str = "KEY=VALUE") -> None:
    """Declare an option that may be given several times."""
    parser.add_argument(name, action="append", default=[], metavar=metavar, help=about)


def read_token(path: Path | None) -> str | None:
    """Return the token in a file, None where no file is named."""
    if path is None:
        return None
    token = read_file(path).decode("ascii", "replace").strip()
    if not token or not token.isprintable():
        raise UsageError(f"{path} holds no token: write one line of letters and digits")
    return token


def serve_until_interrupted(server: AppServer | SiteServer, line: str) -> None:
    """Print the address, and serve until Ctrl-C."""
    console = open_console()
    console.print(line, markup=False, soft_wrap=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        console.print("closed", markup=False, soft_wrap=True)
