"""``agentgym import LOG``: replay another project's run, and convert it."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.agents.screen import printable
from agentgym.cli.commands import COMMANDS
from agentgym.cli.parser import Commands, Parser, add_command, add_env_options, add_mirror, env_options
from agentgym.cli.terminal import open_console, open_progress_console, say
from agentgym.core.options import check_choice
from agentgym.errors import UsageError

if TYPE_CHECKING:
    from agentgym.evaluation.imports.importing import ImportedRun
    from agentgym.evaluation.suites.suite import Suite, SuiteEnv

MAX_SHOWN = 20
"""Most printed lines of a kind; the report has all of them."""


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    example = (
        "agentgym import log.jsonl --dialect jsonl --env agentgym/Sokoban-v0 --split test --agent theirs"
    )
    parser = add_command(commands, "import", run, about=COMMANDS["import"], example=example)
    parser.add_argument("log", type=Path, nargs="?", metavar="LOG", help="the log")
    parser.add_argument(
        "--source",
        metavar="NAME",
        help="fetch a public log instead; docs/imports.md lists them",
    )
    add_mirror(parser)
    parser.add_argument(
        "--dialect",
        metavar="DIALECT",
        help="how the log is written: react (notebooks and transcripts of ReAct and Reflexion), verl-agent "
        "(a table of steps), inspect (a log of inspect_ai as JSON), chat (messages with tool calls), "
        "conversations (AgentTraj, ETO, AgentInstruct), tales, knowagent, adapt, react-viewer, "
        "self-improvement, or jsonl (the documented form)",
    )
    parser.add_argument(
        "--env",
        metavar="ENV",
        help="environment of the log: an id, or with --suite a label in that suite",
    )
    parser.add_argument("--split", help="split of the tasks (default: the environment's own)")
    add_env_options(parser)
    parser.add_argument(
        "--suite",
        metavar="SUITE",
        help="put the run on this suite's board: the name of a shipped suite, or a file",
    )
    parser.add_argument("--agent", metavar="NAME", help="name of the row (default: the log's name)")
    parser.add_argument(
        "--origin", metavar="TEXT", help="author of the run, as the board shows it (default: the log's name)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("results"),
        metavar="FOLDER",
        help="folder of results (default: results)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Import; 1 where the log and its replay differ."""
    from agentgym.evaluation.imports.dialects import DIALECTS
    from agentgym.evaluation.imports.importing import LogSource, check_environment, import_log

    if arguments.source is not None:
        return _run_source(arguments)
    log = arguments.log
    if log is None or arguments.dialect is None:
        raise UsageError("name a log and its --dialect, or a public log with --source")
    check_choice("dialect", arguments.dialect, DIALECTS)
    if arguments.suite is None and arguments.env is None:
        check_environment(DIALECTS[arguments.dialect].environment(log), None)
    env, suite = _played(arguments)
    name = re.sub("[^A-Za-z0-9._-]+", "-", arguments.agent or log.stem).lstrip("._-") or "imported"
    source = LogSource(log, arguments.dialect, arguments.agent or name, arguments.origin or log.name)
    imported = import_log(source, env, arguments.out, suite=suite, console=open_progress_console())
    _print(imported)
    return int(bool(imported.mismatches))


def _run_source(arguments: argparse.Namespace) -> int:
    """Fetch and import a public log; 1 where it and its replay differ."""
    from agentgym.data.fetching import Fetcher
    from agentgym.evaluation.imports.importing import import_log
    from agentgym.evaluation.imports.sources import PublicLog, fetch_log

    own = ("log", "dialect", "env", "split", "suite", "agent", "origin", "dataset")
    given = next((name for name in own if getattr(arguments, name, None) is not None), None)
    if given is not None or arguments.option:
        raise UsageError(f"--source says everything but --out: leave out {given or 'option'}")
    public = PublicLog.named(arguments.source)
    env, suite = public.played
    fetcher = Fetcher(mirror=arguments.mirror, only_mirror=arguments.only_mirror, say=say)
    path = fetch_log(arguments.source, public, fetcher)
    source = public.source(arguments.source, path)
    imported = import_log(source, env, arguments.out, suite=suite, console=open_progress_console())
    _print(imported)
    say(f"reported: {public.reported}; replayed: {imported.won:,} of {imported.episodes:,} won")
    for line in (public.note, f"licence: {public.licence or 'none stated'}"):
        if line:
            say(line)
    return int(bool(imported.mismatches))


def _played(arguments: argparse.Namespace) -> tuple[SuiteEnv, Suite | None]:
    """Return the played environment, and the suite that the log becomes a run of, if one is named."""
    from agentgym.evaluation.suites import suite_file
    from agentgym.evaluation.suites.suite import SuiteEnv, load_suite, part_of
    from agentgym.registration import class_of

    options = env_options(arguments)
    if arguments.suite is None:
        split = arguments.split or class_of(arguments.env).splits[0]
        label = arguments.env.rpartition("/")[2]
        return SuiteEnv(arguments.env, label, split, tasks=0, metric="score", kwargs=options), None
    if options or arguments.split is not None:
        raise UsageError("--split, --dataset and --option go without --suite, which says what is played")
    suite = load_suite(suite_file(arguments.suite))
    if arguments.env is not None and len(suite.env) > 1:
        suite = part_of(suite, [arguments.env])
    if len(suite.env) > 1:
        labels = ", ".join(env.label for env in suite.env)
        raise UsageError(f"suite {suite.name} has several environments; name the log's with --env: {labels}")
    return suite.env[0], suite


def _print(imported: ImportedRun) -> None:
    console = open_console()

    def say(line: str, style: str = "") -> None:
        console.print(printable(line), style=style, markup=False, highlight=False, soft_wrap=True)

    wrong = Counter[str](mismatch.quantity for mismatch in imported.mismatches)
    plurals = {"success": "successes", "validity": "validities", "state hash": "state hashes"}
    agree = [
        f"{n - wrong[name]:,} of {n:,} {plurals.get(name, f'{name}s')}"
        for name, n in imported.compared.items()
    ]
    counted = f"{imported.episodes:,} episodes, {imported.steps:,} steps"
    say(f"{counted}; these agree: {', '.join(agree) or 'nothing was compared'}")
    for kind, entries in (("differs", imported.mismatches), ("not compared", imported.not_found)):
        for entry in entries[:MAX_SHOWN]:
            say(f"{kind}: {entry}", "yellow")
        if len(entries) > MAX_SHOWN:
            say(f"{kind}: {len(entries) - MAX_SHOWN:,} more, in {imported.report}", "yellow")
    if imported.not_recorded:
        say(f"{imported.not_recorded:,} episodes are no part of the run: the suite asks for others, or fewer")
    if imported.folder is None:
        say(f"no run is written: {imported.missing:,} episodes that the suite asks for are not in the log")
    else:
        ranked = ", which no board ranks" if wrong else ""
        say(f"run{ranked}: {imported.folder}")
    say(f"report: {imported.report}")
