"""Importing a log: its actions played here and compared, and the run written as one of this package's.

The run is an ordinary one, which verification and boards replay as they do all others. Its agent is of the
kind ``imported`` and says whose run it was. Where the log says anything else than what comes out here, the
agent says that too, and no board ranks it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.agents.imported import IMPORTED
from agentgym.core.panels import TaskPanel
from agentgym.core.tasks import TaskSet
from agentgym.core.types import Trajectory
from agentgym.env import AgentEnv
from agentgym.errors import UsageError
from agentgym.evaluation.imports.comparison import Agreement, LogMismatch, TaskFinder, compare_episode
from agentgym.evaluation.imports.dialects import DIALECTS, read_log
from agentgym.evaluation.log.recorded_answers import answer_pins
from agentgym.evaluation.log.recordings import write_recorded
from agentgym.evaluation.log.results import RunEnv, record_of
from agentgym.evaluation.suites import NAMES, own_suite_file
from agentgym.evaluation.suites.plan import open_single, planned_episodes
from agentgym.evaluation.suites.suite import MAX_ATTEMPTS, SCALE, Suite, SuiteAgent, SuiteEnv, check_names
from agentgym.evaluation.suites.suite_text import write_suite
from agentgym.io.files import make_folder, replace_file
from agentgym.io.provenance import here_and_now
from agentgym.io.untrusted import read_file

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class LogSource:
    """A log with its metadata."""

    path: Path
    dialect: str
    """Dialect of the log, a key of `agentgym.evaluation.imports.dialects.DIALECTS`."""
    agent: str
    """Name of the agent's row."""
    origin: str
    """Origin of the run: a paper, a repository with its commit."""
    public: str = ""
    """Name of the public log in ``sources.toml``; empty for any other log."""
    panel: str = ""
    """Name of the panel that the log is of, where no suite is; empty for none."""
    panel_sha256: str = ""
    """Digest of that panel, `TaskPanel.digest`."""


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """Result of an import."""

    episodes: int
    """Number of episodes whose tasks are installed: they were played and compared."""
    won: int
    """Number of them that were won here."""
    steps: int
    compared: Mapping[str, int]
    """Number of values compared, by quantity."""
    mismatches: tuple[LogMismatch, ...]
    """Differences between log and replay, in the log's order."""
    not_found: tuple[str, ...]
    """Reasons why the other episodes are not compared, a line each."""
    not_recorded: int
    """Number of episodes outside the run, since the suite has other tasks or fewer attempts."""
    missing: int
    """Number of the suite's episodes that the log lacks; with any, no run is written."""
    folder: Path | None
    """Folder of the run; None where none is written."""
    report: Path
    """File with this result as JSON."""

    def write(self, about: Mapping[str, Any]) -> None:
        """Write the report, with what else is known of the log."""
        table = {**about, **asdict(self), "folder": str(self.folder), "report": str(self.report)}
        make_folder(self.report.parent)
        replace_file(self.report, json.dumps(table, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def import_log(
    source: LogSource, env: SuiteEnv, out: Path, *, suite: Suite | None = None, console: Console | None = None
) -> ImportedRun:
    """Play a log and write the run and the report.

    ``suite`` None makes one of the log's tasks. Otherwise the run is of this suite, with ``env`` alone.
    """
    check_names([("agent", source.agent)])
    sha256 = hashlib.sha256(read_file(source.path, remedy="name a log")).hexdigest()
    check_environment(DIALECTS[source.dialect].environment(source.path), env)
    with closing(open_single(env)) as game:
        if pins := answer_pins(game.query_backends):
            raise UsageError(
                f"{env.id} asks {pins[0].name} outside the package, which no log holds: "
                "import logs of environments that answer by themselves"
            )
        played, not_found, planned = _play(source, game, env, suite, f"import-{sha256[:12]}", console)
        env, panel = planned.env[0], _panel(planned, source, game.tasks)
        keys = [(each.task.id, each.rollout) for each in planned_episodes(planned, env, game.tasks)]
        manifest = game.tasks.manifest_sha256
    by_key = {(each.task_id, each.rollout): each for each, _ in played}
    recorded = [by_key[key] for key in keys if key in by_key]
    wrong = tuple(mismatch for _, found in played for mismatch in found.mismatches)
    options: dict[str, Any] = {"origin": source.origin, "dialect": source.dialect, "log_sha256": sha256}
    options |= {"panel": panel, "public": source.public}
    if wrong:
        options |= {"mismatches": len(wrong), "first_mismatch": str(wrong[0])}
    folder = None
    if len(recorded) == len(keys):
        if planned.name not in NAMES and own_suite_file(out / planned.name, planned.name) is None:
            write_suite(out / "suites", planned)
        player, records = SuiteAgent(source.agent, IMPORTED, options), [record_of(e, env) for e in recorded]
        folder = write_recorded(out, planned, player, [RunEnv.of(env, manifest)], records, here_and_now())
    run = ImportedRun(
        episodes=len(played),
        won=sum(trajectory.won for trajectory, _ in played),
        steps=sum(len(trajectory.steps) for trajectory, _ in played),
        compared=dict(sum((Counter[str](found.compared) for _, found in played), Counter())),
        mismatches=wrong,
        not_found=not_found,
        not_recorded=len(played) - len(recorded),
        missing=len(keys) - len(recorded),
        folder=folder,
        report=out / planned.name / f"{source.agent}-{sha256[:12]}.import.json",
    )
    run.write({**options, "environment": env.spec})
    return run


def check_environment(stated: Mapping[str, Any], env: SuiteEnv | None) -> None:
    """Refuse a log of another environment, or of an unnamed one; the UsageError names the flags."""
    if not stated and env is None:
        raise UsageError("say what the log was played in: --env ENV, or --suite SUITE --env LABEL")
    split, options = stated.get("split"), stated.get("options")
    same = env is not None and (stated.get("env"), split, options) == (env.id, env.split, dict(env.kwargs))
    if stated and not same:
        pairs = options.items() if isinstance(options, dict) else ()
        flags = [f"--option '{key}={json.dumps(value)}'" for key, value in pairs]
        raise UsageError(" ".join(["the log was played in --env", stated["env"], f"--split {split}", *flags]))


def _panel(suite: Suite, source: LogSource, tasks: TaskSet) -> str:
    """Return, in words, the panel of a run: which tasks, and whether they are all that it is of."""
    env = suite.env[0]
    if isinstance(env.tasks, int):
        panel = TaskPanel.first(tasks, env.tasks)
    else:
        panel = TaskPanel(suite.name, tuple(map(tasks.find, env.tasks)))
    of = f"sha256 {panel.digest[:12]}"
    if len(panel.tasks) == len(tasks):
        return f"the whole panel {tasks.split} of {len(tasks):,} tasks, {of}"
    if isinstance(env.tasks, int) or panel.digest == source.panel_sha256:
        return f"the whole panel {panel.name} of {len(panel.tasks):,} tasks, {of}"
    return f"a part of {tasks.split}, {len(panel.tasks):,} of {len(tasks):,} tasks, {of}"


def _play(
    source: LogSource,
    game: AgentEnv[Any],
    env: SuiteEnv,
    suite: Suite | None,
    name: str,
    console: Console | None,
) -> tuple[Sequence[tuple[Trajectory, Agreement]], tuple[str, ...], Suite]:
    """Play the episodes with available tasks; return also why others are left out, and the suite."""
    from rich.progress import track

    dialect = DIALECTS[source.dialect]
    finder = TaskFinder(game, dialect, console)
    found, not_found = [], []
    for episode in read_log(source.path, source.dialect, game.suite_spec.tools):
        try:
            tasks = finder.find(episode)
        except UsageError as error:
            not_found.append(str(error))
            continue
        task = tasks[0]
        if len(tasks) > 1:  # the one with most agreeing values
            tried = [compare_episode(episode, game, env, dialect, task=one)[1] for one in tasks]
            task = min(tried, key=lambda one: len(one.mismatches)).task
        found.append((episode, task))
    if not found:
        raise UsageError(not_found[0] if not_found else f"{source.path} holds no episode")
    times = Counter(task for _, task in found)
    if suite is None:
        attempts = min(MAX_ATTEMPTS, *times.values())
        if source.panel:
            ordered = TaskPanel(source.panel, tuple(task for task in game.tasks if task.id in times))
            times = Counter({task.id: times[task.id] for task in ordered.tasks})
            name = source.panel if ordered.digest == source.panel_sha256 else name
        suite = Suite(name, "1", 0, attempts, env=(replace(env, tasks=tuple(times)),), agent=SCALE)
    env = suite.env[0]
    seeds = {(each.task.id, each.rollout): each.seed for each in planned_episodes(suite, env, game.tasks)}
    times.clear()
    played = []
    title = f"playing {source.agent}"
    for episode, task in track(found, title, console=console, disable=console is None, show_speed=False):
        rollout = times[task]
        times[task] += 1
        seed = seeds.get((task, rollout), 0)
        played.append(compare_episode(episode, game, env, dialect, task=task, seed=seed, rollout=rollout))
    return played, tuple(not_found), suite
