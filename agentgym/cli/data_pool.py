"""``agentgym data pool``: the groups of a data pool, their labels, and which are trained on."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from agentgym.cli.parser import Commands, Parser, Run, add_command, add_groups
from agentgym.cli.terminal import open_console
from agentgym.core.episodes import observed_text
from agentgym.core.types import Trajectory
from agentgym.errors import UsageError
from agentgym.io.untrusted import printable
from agentgym.rollout.pool_tables import POOL_FILE, GroupState, PooledGroup

if TYPE_CHECKING:
    from agentgym.rollout.datapool import DataPool


def add_to(actions: Commands[Parser]) -> None:
    """Declare the commands, in the group ``data``."""
    about = "List, show, label, drop and export the groups of a data pool."
    commands = add_groups(
        add_command(actions, "pool", None, about=about, example="agentgym data pool ls runs/pool")
    )

    def add(name: str, run: Run, about: str, words: str) -> Parser:
        example = f"agentgym data pool {name} runs/pool {words}"
        parser = add_command(commands, name, run, about=about, example=example)
        parser.add_argument("folder", type=Path, metavar="DIR", help="the pool's folder")
        return parser

    ls = add("ls", run_ls, "List the groups, oldest first.", "--label good")
    ls.add_argument("--state", choices=get_args(GroupState), help="only groups in this state")
    ls.add_argument("--label", metavar="LABEL", help="only groups with this label")
    ls.add_argument("--json", action="store_true", help="print JSON")
    show = add("show", run_show, "Show the episodes of a group turn by turn.", "task-3")
    tag = add("tag", run_tag, "Add labels to a group, or keep it out of training.", "task-3 good")
    untag = add("untag", run_tag, "Remove labels from a group, or allow training on it.", "task-3 good")
    for parser in (show, tag, untag):
        parser.add_argument("group", metavar="GROUP", help="name of a group")
    for parser, what in ((tag, "never train on it"), (untag, "train on it")):
        parser.add_argument("labels", nargs="*", metavar="LABEL", help="a label")
        about = f"{what}, whatever its episodes state"
        parser.add_argument("--untrainable", action="store_true", help=about)
        parser.set_defaults(tags=parser is tag)
    drop = add("drop", run_drop, "Exclude groups from training.", "task-3")
    drop.add_argument("groups", nargs="+", metavar="GROUP", help="name of a group")
    release = add("release", run_release, "Release the groups that a dead run has leased.", "gigpo-1a2b3c4d")
    release.add_argument("leased_by", metavar="RUN", help="its name, as `agentgym data pool ls` shows it")
    about = "Write episodes as JSON lines, with late rewards and labels; dropped groups only by name."
    export = add("export", run_export, about, "--out episodes.jsonl")
    export.add_argument("groups", nargs="*", metavar="GROUP", help="name of a group")
    export.add_argument("--out", type=Path, required=True, metavar="FILE", help="a .jsonl file")


@contextmanager
def _opened(folder: Path) -> Iterator[DataPool]:
    """Open an existing pool; commands create none."""
    from agentgym.rollout.datapool import DataPool

    if not (folder / POOL_FILE).is_file():
        raise UsageError(f"{folder} is not a data pool: name a folder that holds {POOL_FILE}")
    with DataPool(folder) as pool:
        yield pool


def run_ls(arguments: argparse.Namespace) -> int:
    """Print a row per group."""
    from rich.table import Table

    with _opened(arguments.folder) as pool:
        found = pool.groups()
    label, state = arguments.label, arguments.state
    found = [
        each for each in found if state in (None, each.state) and (label is None or label in each.labels)
    ]
    if arguments.json:
        text = json.dumps([asdict(each) for each in found], indent=1)
        open_console().print(text, markup=False, soft_wrap=True)
        return 0
    names = ("group", "task", "state", "members", "versions", "score", "labels", "run")
    table = Table(*names, box=None, pad_edge=False)
    for each in found:
        table.add_row(*map(printable, _row(each)))
    open_console().print(table, markup=False)
    return 0


def _row(group: PooledGroup) -> tuple[str, ...]:
    versions = "" if group.oldest is None else f"{group.oldest} to {group.newest}"
    labels = (*group.labels, *([] if group.trainable else ["(untrainable)"]))
    leased = f"{group.run}, update {group.update}" if group.run else ""
    members, score = f"{group.members} of {group.size}", f"{group.score:.3g}"
    return group.name, group.task_id, group.state, members, versions, score, " ".join(labels), leased


def run_show(arguments: argparse.Namespace) -> int:
    """Print the episodes of a group."""
    with _opened(arguments.folder) as pool:
        (group,) = pool.groups(arguments.group)
        episodes = pool.episodes(group.name)
    console = open_console()
    lines = [f"group {group.name}: {group.env_id}, task {group.task_id}, {', '.join(_row(group)[2:4])}"]
    for name, played in episodes:
        lines += ["", *_lines(name, played)]
    for line in lines:
        console.print(printable(line), markup=False, soft_wrap=True)
    return 0


def _lines(name: str, played: Trajectory) -> Iterator[str]:
    """Yield the lines that show an episode."""
    yield f"rollout {played.rollout}, episode {name}: {played.end_reason}, score {played.score:g}"
    for turn, step in enumerate(played.steps):
        answer = step.completion
        versions = " to ".join(map(str, dict.fromkeys((answer.version, *answer.versions[-1:]))))
        tokens = f"{len(answer.prompt_ids):,} + {len(answer.response_ids):,} tokens"
        valid = "valid" if step.valid else "invalid"
        yield f"-- turn {turn}: reward {step.reward:g}, {valid}, version {versions}, {tokens}"
        yield observed_text(step.observation)
        yield f"> {answer.text or answer.action}"


def run_tag(arguments: argparse.Namespace) -> int:
    """Label a group, or the reverse."""
    if not (arguments.labels or arguments.untrainable):
        raise UsageError("say what is to change: give labels, or --untrainable")
    with _opened(arguments.folder) as pool:
        if arguments.untrainable:
            pool.set_trainable(arguments.group, not arguments.tags)
        if arguments.labels:
            (pool.tag if arguments.tags else pool.untag)(arguments.group, *arguments.labels)
    return 0


def run_drop(arguments: argparse.Namespace) -> int:
    """Drop groups."""
    with _opened(arguments.folder) as pool:
        pool.groups(*arguments.groups)  # raises for a missing one, before any is dropped
        for group in arguments.groups:
            pool.drop(group)
    return 0


def run_release(arguments: argparse.Namespace) -> int:
    """Give back the groups of a run."""
    with _opened(arguments.folder) as pool:
        pool.release(arguments.leased_by)
    return 0


def run_export(arguments: argparse.Namespace) -> int:
    """Write episodes to a file."""
    with _opened(arguments.folder) as pool:
        written = pool.export(arguments.out, *arguments.groups)
    open_console().print(
        f"{arguments.out}: {written:,} episodes; read them by agentgym.rollout.stored_episode.read_episodes",
        markup=False,
        soft_wrap=True,
    )
    return 0
