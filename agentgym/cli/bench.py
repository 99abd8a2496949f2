"""``agentgym bench SUITE``: run a suite or a paper's protocol, or estimate its price."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.agents.screen import printable
from agentgym.cli.bench_agents import add_agents, chosen_agents, words_of_tiny_models
from agentgym.cli.commands import COMMANDS
from agentgym.cli.endpoints import add_endpoint_settings, endpoint_settings, print_calls
from agentgym.cli.parser import Commands, Parser, add_command, add_limits, chosen_limits
from agentgym.cli.terminal import open_console, open_progress_console
from agentgym.cli.verify import report
from agentgym.errors import UsageError
from agentgym.interrupts import Interrupt

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from agentgym.endpoint.prices import PriceTable
    from agentgym.evaluation.log.stored_run import StoredRun
    from agentgym.evaluation.play.bench import BenchRequest
    from agentgym.evaluation.play.estimate import EnvEstimate, RequestTokens


_ASSUMED = """\
Nobody was asked. Prompts are those that random play builds in {sample} tasks of each environment; a token is
four bytes of text, a picture 1,000 tokens. Likely: episodes as long as random ones, answers of {answer}
tokens, forms of judges with {field} tokens a reason. At most: every episode to its step limit, every answer
as long as it may be. Not in it: further attempts, repairs of ratings{probe}."""


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "bench",
        run,
        about=COMMANDS["bench"],
        example="agentgym bench quick --agent random --verify",
    )
    add_what_is_played(parser)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("results"),
        metavar="FOLDER",
        help="output directory (default: results)",
    )
    add_agents(parser)
    parser.add_argument(
        "--baselines",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also play the floor and oracle of the suite or protocol; most suites need them to rank "
        "(default: yes)",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="LABEL",
        help="play only this environment, as a separate suite; repeat for several (default: all)",
    )
    parser.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help="play the first N tasks of each environment, as a separate suite (default: all)",
    )
    parser.add_argument(
        "--estimate",
        action="store_true",
        help="print calls, tokens and price of models behind endpoints, and send no request",
    )
    parser.add_argument(
        "--download",
        action="store_true",
        help="first fetch the missing data of the suite, as `agentgym data download` does",
    )
    add_endpoint_settings(parser)
    parser.add_argument(
        "--no-probe", action="store_true", help="do not test first which parameters the endpoints take"
    )
    parser.add_argument(
        "--num-envs", type=int, default=64, metavar="N", help="episodes played at once (default: 64)"
    )
    _add_outputs(parser)


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--transcripts",
        action=argparse.BooleanOptionalAction,
        help="store prompts and responses in transcripts.jsonl (default: for models only)",
    )
    parser.add_argument(
        "--redact",
        action="append",
        default=[],
        metavar="PATTERN",
        help="regular expression of text to remove from transcripts, besides keys; repeat for several",
    )
    parser.add_argument(
        "--verify",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="verify the runs afterwards, and print their table (default: yes)",
    )
    add_limits(parser)
    parser.add_argument(
        "--leaderboard",
        type=Path,
        metavar="FILE.md",
        help="write the leaderboard of all runs in the output directory afterwards, and FILE.json, FILE.csv "
        "and FILE.tex beside it",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run, then verify and rank; 1 when a run does not verify."""
    from agentgym.evaluation.board.leaderboard import check_page
    from agentgym.evaluation.log.redaction import Redactor
    from agentgym.evaluation.log.stored_run import read_stored_run
    from agentgym.evaluation.log.transcripts import TranscriptRecorder
    from agentgym.evaluation.play.bench import run_request

    console, progress = open_console(), open_progress_console()
    if arguments.protocols:
        return print_protocols(console)
    request, settings = _request(arguments), endpoint_settings(arguments, probe=not arguments.no_probe)
    if arguments.estimate:
        return print_estimate(arguments, request, console)
    if arguments.leaderboard is not None:
        check_page(arguments.leaderboard)
    for line in words_of_tiny_models(request.further, [env.id for env in request.played.env]):
        progress.print(printable(line), style="yellow", markup=False, soft_wrap=True)
    try:
        folders = run_request(
            request,
            TranscriptRecorder(Redactor(arguments.redact), arguments.transcripts),
            num_envs=arguments.num_envs,
            endpoints=settings,
            console=progress,
        )
    except KeyboardInterrupt:
        raise Interrupt(": what has ended is kept, and the same command plays the rest") from None
    for folder in folders:
        print_calls(folder, progress)
        _print_failures(read_stored_run(folder), progress)
        if not arguments.verify:
            console.print(str(folder), markup=False, soft_wrap=True)
    return _rank(arguments, request, folders, console, progress)


def _request(arguments: argparse.Namespace) -> BenchRequest:
    """Return what the flags ask for, with the suite's floor and oracle unless they are not wanted."""
    from agentgym.evaluation.play.bench import BenchRequest
    from agentgym.evaluation.suites.suite import load_suite

    path, settings, required = chosen_suite(arguments)
    suite = load_suite(path)
    if arguments.download:
        from agentgym.cli.download import download_for

        download_for(suite, arguments.env)
    further, names = chosen_agents(arguments, settings, [agent.name for agent in suite.agent])
    scale = tuple(agent.name for agent in suite.agent if agent.name in suite.anchors)
    baselines: tuple[str, ...] = ()
    if arguments.baselines and names is not None:
        names, baselines = [*scale, *names], tuple(name for name in scale if name not in names)
    elif arguments.baselines and not suite.floor:  # ranked without them
        baselines = scale
    elif not arguments.baselines and names is None:
        names = [agent.name for agent in (*suite.agent, *further) if agent.name not in scale]
        if not names:
            raise UsageError(f"--no-baselines leaves no agent of suite {suite.name}: add one to play")
    return BenchRequest(
        suite_path=path,
        listed=suite,
        out_dir=arguments.out,
        agents=names,
        further=further,
        envs=arguments.env,
        limit=arguments.limit,
        baselines=baselines,
        required=required,
    )


def _rank(
    arguments: argparse.Namespace,
    request: BenchRequest,
    folders: Sequence[Path],
    console: Console,
    progress: Console,
) -> int:
    """Verify the runs of a suite, and print their table or write the leaderboard of all; the exit code."""
    from agentgym.cli.leaderboard import build, print_boards
    from agentgym.evaluation.board.boards import make_boards
    from agentgym.evaluation.verify.submissions import examine_below

    suites, sound, found = {request.played.name: request.stored_suite}, True, []
    box: Any = {"allow": request.played.references, "limits": chosen_limits(arguments)}
    if arguments.verify:
        for run in examine_below(request.results, suites=suites, console=progress, **box):
            found.append(run.found)
            if run.path in folders:
                sound &= run.verdict is not None and report(run.path, run.verdict, console)
    if arguments.leaderboard is not None:
        build(arguments.out, arguments.leaderboard, console, suites=suites, **box)
    elif arguments.verify:
        print_boards(*make_boards(found), console)
    return 0 if sound else 1


def _print_failures(run: StoredRun, console: Console) -> None:
    """Print the number of episodes without a result, and of each model the share of unreadable replies."""
    from agentgym.evaluation.log.results import RETRIED
    from agentgym.evaluation.log.unreadable import unreadable_answers, unreadable_responses

    ends = Counter(episode.end_reason for episode in run.results)
    failed = {end: ends[end] for end in RETRIED if ends[end]}
    lines = [str(each) for each in (*unreadable_responses(run), *unreadable_answers(run))]
    if failed:
        kinds = ", ".join(f"{count:,} {end}" for end, count in failed.items())
        line = f"{sum(failed.values()):,} of {ends.total():,} episodes ended in an error "
        lines.insert(0, f"{line}({kinds}) and count 0: the same command plays them again")
    for line in lines:
        shown = printable(f"{run.folder.name}: {line}")
        console.print(shown, style="yellow", markup=False, highlight=False, soft_wrap=True)


def add_what_is_played(parser: Parser) -> None:
    """Declare the flags: a suite, or a protocol."""
    parser.add_argument(
        "suite", nargs="?", metavar="SUITE", help="the name of a shipped suite, such as quick, or a TOML file"
    )
    parser.add_argument(
        "--protocol",
        metavar="NAME",
        help="in place of a suite, a paper's evaluation of --model: its games, prompts and temperature, then "
        "all games of its splits (a name or a TOML file)",
    )
    parser.add_argument("--protocols", action="store_true", help="list the protocols of the papers")


def chosen_suite(arguments: argparse.Namespace) -> tuple[Path, Mapping[str, Any], tuple[str, ...]]:
    """Return the suite's file, a protocol's model settings, and the required environments.

    A protocol's suite is written to ``suites`` in the output directory.
    """
    from agentgym.evaluation.suites import suite_file
    from agentgym.evaluation.suites.suite_text import write_suite
    from agentgym.recipes.evaluation_protocols import load_protocol

    if (arguments.suite is None) == (arguments.protocol is None):
        raise UsageError("name a suite, such as quick, or a protocol with --protocol (see --protocols)")
    if arguments.protocol is None:
        return suite_file(arguments.suite), {}, ()
    protocol = load_protocol(arguments.protocol)
    if not arguments.model:
        raise UsageError(f"--protocol {protocol.name} evaluates a model: name one with --model DIRECTORY")
    suite = protocol.suite
    folder = arguments.out / "suites"
    write_suite(folder, suite)
    return folder / f"{suite.name}.toml", protocol.model.options, tuple(env.label for env in protocol.env)


def print_protocols(console: Console) -> int:
    """Print a row for each protocol."""
    from rich.table import Table

    from agentgym.recipes.evaluation_protocols import load_protocol, protocol_names

    table = Table()
    for head in ("Protocol", "Games", "Attempts", "Temperature", "Checkpoint", "Source"):
        table.add_column(head, overflow="fold")
    for name in protocol_names():
        protocol = load_protocol(name)
        games = ", ".join(f"{env.label} ({env.count:,})" for env in protocol.suite.env)
        heat, attempts = f"{protocol.model.temperature:g}", str(protocol.attempts)
        table.add_row(name, games, attempts, heat, protocol.checkpoint, protocol.source)
    console.print(table)
    return 0


def print_estimate(arguments: argparse.Namespace, request: BenchRequest, console: Console) -> int:
    """Print the cost estimate of what is requested; return the exit code."""
    from agentgym.endpoint.prices import PriceTable
    from agentgym.endpoint.probe import PROBE_REQUESTS
    from agentgym.evaluation.play.estimate import ANSWER_TOKENS, FIELD_TOKENS, SAMPLE, estimate_suite

    if arguments.leaderboard is not None:
        raise UsageError("--estimate plays nothing: leave out --leaderboard")
    prices = PriceTable() if arguments.prices is None else PriceTable.read(arguments.prices)
    found = estimate_suite(request.played, request.players)
    if not found.parts and not found.left_out:
        raise UsageError(
            f"nothing in suite {request.played.name} asks an endpoint: name one with --endpoint and --model"
        )
    console.print(_table(found.parts, prices))
    for gap in found.left_out:
        remark = printable(f"left out: {gap.label}: {gap.reason}")
        console.print(remark, style="yellow", markup=False, soft_wrap=True)
    probe = f", and {PROBE_REQUESTS} short requests that probe each model first (--no-probe: none)"
    assumed = _ASSUMED.format(
        sample=SAMPLE, answer=ANSWER_TOKENS, field=FIELD_TOKENS, probe="" if arguments.no_probe else probe
    )
    console.print(assumed, markup=False, soft_wrap=True)
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


def _counts(likely: RequestTokens, most: RequestTokens) -> list[str]:
    names = ("calls", "prompt_tokens", "completion_tokens")
    return [f"{getattr(likely, name):,} / {getattr(most, name):,}" for name in names]


def _sum(dollars: Sequence[float | None]) -> float | None:
    """Return a sum; None where a part has no price."""
    known = [each for each in dollars if each is not None]
    return sum(known) if known and len(known) == len(dollars) else None


def _price(likely: float | None, most: float | None) -> str:
    return "no price" if likely is None or most is None else f"{likely:,.2f} / {most:,.2f}"
