"""``agentgym bench SUITE --estimate``: calls, tokens and price of endpoints, without any call."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentgym.agents.screen import printable
from agentgym.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from agentgym.endpoint.prices import PriceTable
    from agentgym.evaluation.play.estimate import AskedTokens, EnvEstimate
    from agentgym.evaluation.suites.suite import Suite, SuiteAgent

_ASSUMED = """\
Nobody was asked. Prompts are those that random play builds in {sample} tasks of each environment; a token is
four bytes of text, a picture 1,000 tokens. Likely: episodes as long as random ones, answers of {answer}
tokens, forms of judges with {field} tokens a reason. At most: every episode to its step limit, every answer
as long as it may be. Further attempts, repairs of ratings and probes are not in it."""


def print_estimate(
    arguments: argparse.Namespace,
    suite: Suite,
    further: Sequence[SuiteAgent],
    names: Sequence[str] | None,
    console: Console,
) -> int:
    """Print the cost estimate of a command; return the exit code.

    ``further``: agents beside the suite's own; ``names``: of those that play, None for all.
    """
    from agentgym.endpoint.prices import PriceTable
    from agentgym.evaluation.play.estimate import ANSWER_TOKENS, FIELD_TOKENS, SAMPLE, estimate_suite
    from agentgym.evaluation.suites.suite import with_agents

    if arguments.leaderboard is not None:
        raise UsageError("--estimate plays nothing: leave out --leaderboard")
    prices = PriceTable() if arguments.prices is None else PriceTable.read(arguments.prices)
    found = estimate_suite(suite, with_agents(suite, further).select(names))
    if not found.parts and not found.left_out:
        raise UsageError(
            f"nothing in suite {suite.name} asks an endpoint: name one with --endpoint and --model"
        )
    console.print(_table(found.parts, prices))
    for gap in found.left_out:
        remark = printable(f"left out: {gap.label}: {gap.reason}")
        console.print(remark, style="yellow", markup=False, soft_wrap=True)
    console.print(
        _ASSUMED.format(sample=SAMPLE, answer=ANSWER_TOKENS, field=FIELD_TOKENS), markup=False, soft_wrap=True
    )
    return 0


def _table(parts: Sequence[EnvEstimate], prices: PriceTable) -> Table:
    from rich.table import Table

    from agentgym.evaluation.play.estimate import total

    table = Table(title="likely / at most", title_justify="left")
    for name in ("Agent", "Environment", "Asked by", "Model"):
        table.add_column(name)
    for name in ("Episodes", "Calls", "Tokens in", "Tokens out", "US$"):
        table.add_column(name, justify="right")
    for part in parts:
        price = _price(part.dollars(part.likely, prices), part.dollars(part.most, prices))
        cells = [part.agent, part.env, part.asked_by.replace(f"{part.env}: ", ""), part.model]
        table.add_row(*map(printable, cells), f"{part.episodes:,}", *_counts(part.likely, part.most), price)
    likely, most = (total(getattr(part, name) for part in parts) for name in ("likely", "most"))
    sums = [
        _sum([part.dollars(getattr(part, name), prices) for part in parts]) for name in ("likely", "most")
    ]
    episodes = f"{sum(part.episodes for part in parts):,}"
    table.add_section()
    table.add_row("all", "", "", "", episodes, *_counts(likely, most), _price(*sums))
    return table


def _counts(likely: AskedTokens, most: AskedTokens) -> list[str]:
    names = ("calls", "prompt_tokens", "completion_tokens")
    return [f"{getattr(likely, name):,} / {getattr(most, name):,}" for name in names]


def _sum(dollars: Sequence[float | None]) -> float | None:
    """Return a sum; None where a part has no price."""
    known = [each for each in dollars if each is not None]
    return sum(known) if known and len(known) == len(dollars) else None


def _price(likely: float | None, most: float | None) -> str:
    return "no price" if likely is None or most is None else f"{likely:,.2f} / {most:,.2f}"
