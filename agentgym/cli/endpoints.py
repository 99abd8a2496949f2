"""Flags of commands that ask models behind endpoints: cache, budgets and prices."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.agents.screen import printable
from agentgym.cli.parser import Parser, amount
from agentgym.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym.endpoint.cache import CacheMode
    from agentgym.evaluation.log.endpoint_runs import EndpointSettings

MODES = ("off", "read", "write", "replay-only")


def add_endpoint_settings(parser: Parser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--cache", type=Path, metavar="FILE", help="SQLite file of endpoints' answers (default: none)"
    )
    parser.add_argument(
        "--cache-mode",
        choices=MODES,
        help="write: use the cache, and store new answers; read: use it, and store none; replay-only: "
        "send no request (default: write with --cache, else off)",
    )
    parser.add_argument(
        "--budget-requests",
        type=_count,
        metavar="N",
        help="maximum requests to endpoints (default: no limit)",
    )
    parser.add_argument(
        "--budget-tokens", type=_count, metavar="N", help="maximum tokens, in and out (default: no limit)"
    )
    parser.add_argument(
        "--budget-usd", type=amount, metavar="X", help="maximum US dollars, by --prices (default: no limit)"
    )
    parser.add_argument(
        "--prices", type=Path, metavar="FILE", help="TOML file of prices (default: only tokens are counted)"
    )


def endpoint_settings(arguments: argparse.Namespace, *, probe: bool = True) -> EndpointSettings:
    """Return the flags' endpoint settings; ``probe`` queries the endpoints' capabilities first."""
    from agentgym.endpoint.budget import EndpointBudget
    from agentgym.evaluation.log.endpoint_runs import EndpointSettings

    mode: CacheMode = arguments.cache_mode or ("off" if arguments.cache is None else "write")
    if mode != "off" and arguments.cache is None:
        raise UsageError(f"--cache-mode {mode} needs the cache: name its file with --cache")
    if mode == "off" and arguments.cache is not None:
        raise UsageError("--cache-mode off uses no cache: leave out --cache, or choose another mode")
    if arguments.budget_usd is not None and arguments.prices is None:
        raise UsageError("--budget-usd needs prices: name a file of prices with --prices")
    budget = EndpointBudget(arguments.budget_requests, arguments.budget_tokens, arguments.budget_usd)
    return EndpointSettings(
        cache=arguments.cache, mode=mode, budget=budget, prices=arguments.prices, probe=probe
    )


def print_calls(folder: Path, console: Console) -> None:
    """Print the cost of a run's calls so far, by its ledger; nothing where it made none."""
    from agentgym.endpoint.ledger import read_ledger, total
    from agentgym.evaluation.log.endpoint_runs import CALLS_FILE

    if not (folder / CALLS_FILE).exists():
        return
    calls = total(read_ledger(folder / CALLS_FILE))
    line = f"{folder.name}: {calls.calls:,} calls, "
    if calls.from_cache:
        sent = calls.calls - calls.from_cache
        line += f"{sent:,} of them sent (the others were equal to one under way, or in a cache), "
    line += f"{calls.prompt_tokens:,} tokens in, {calls.completion_tokens:,} out"
    line += "" if calls.cost is None else f", ${calls.cost:,.4f}"
    console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a budget is a whole number of at least 0, got {text!r}")
    return int(text)
