"""Running a suite: every agent plays every task of every environment, and finished episodes last."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.agents import make_agent
from agentgym.core.hashing import sha256_json
from agentgym.core.types import Policy, Trajectory
from agentgym.endpoint.session import EndpointSession
from agentgym.errors import MissingDataError, MissingPackageError, UnsupportedEnvError, UsageError
from agentgym.evaluation import suites
from agentgym.evaluation.log.endpoint_runs import (
    EndpointSettings,
    NamedEndpoint,
    RunSessions,
    named_endpoints,
)
from agentgym.evaluation.log.recorded_answers import answer_pins
from agentgym.evaluation.log.redaction import Redactor
from agentgym.evaluation.log.results import (
    EPISODES_FILE,
    RETRIED,
    RUN_FILE,
    EpisodeKey,
    EvalLog,
    EvalSample,
    Excluded,
    closed,
    latest,
    new_run,
    record_of,
    reopened,
)
from agentgym.evaluation.log.runfiles import (
    check_chain,
    check_measures,
    file_sha256,
    read_episodes,
    read_run,
    write_run,
)
from agentgym.evaluation.log.runjournals import AnswersJournal, EpisodeLines, RunJournals
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE, TranscriptJournal, keep_transcripts
from agentgym.evaluation.play.attempts import is_sequential, remind, waves
from agentgym.evaluation.suites.agent_metadata import complete
from agentgym.evaluation.suites.plan import PlannedEpisode, columns, open_slots, planned_episodes
from agentgym.evaluation.suites.suite import (
    Suite,
    SuiteAgent,
    SuiteEnv,
    check_distinct,
    load_suite,
    part_of,
    with_agents,
)
from agentgym.evaluation.suites.suite_text import write_suite
from agentgym.io.files import Journal, make_folder, sole_writer
from agentgym.io.provenance import here_and_now
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.vector.core import AgentVectorEnv

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

DEFAULT_NUM_ENVS = 64
"""Episodes played side by side."""


@dataclass(frozen=True, slots=True)
class SuiteTask:
    """An environment of the suite, opened, with the episodes the suite asks for."""

    env: SuiteEnv
    slots: AgentVectorEnv
    plan: list[PlannedEpisode]


@dataclass(frozen=True, slots=True)
class _Entry:
    """An agent about to run: its record, and the environments that it plays with its policy in each."""

    run: EvalLog
    parts: list[tuple[SuiteTask, Policy]]


def run_bench(
    suite_path: Path,
    out_dir: Path,
    *,
    agents: Iterable[str] | None = None,
    further: Iterable[SuiteAgent] = (),
    envs: Collection[str] = (),
    limit: int | None = None,
    baselines: Collection[str] = (),
    required: Collection[str] = (),
    num_envs: int = DEFAULT_NUM_ENVS,
    transcripts: bool | None = None,
    redact: Iterable[str] = (),
    endpoints: EndpointSettings | None = None,
    console: Console | None = None,
) -> list[Path]:
    """Run a suite, or resume it: only episodes that are missing or failed by error are played.

    Args:
        suite_path: the suite file.
        out_dir: of ``SUITE/AGENT-REQUEST/`` and ``suites/SUITE.toml``, the latter for a suite that neither
            ships nor was read from the ``suites`` of this folder or one above.
        agents: names of agents of the suite or of ``further``; None for all.
        further: agents that the suite's file does not name.
        envs: labels of the environments that are played, as a suite of their own; none for all.
        limit: how many of each environment's tasks, as a suite of its own; None for all.
        baselines: names of agents that are left out, instead of refused, where they play nothing.
        required: labels of environments that are not left out where their data is missing.
        num_envs: episodes played side by side.
        transcripts: whether ``transcripts.jsonl`` is written; None for models only.
        redact: regular expressions of what transcripts must not hold, besides what looks like a key.
        endpoints: how models behind endpoints are asked; None for no cache, no budgets and no prices.
        console: where progress is shown; None for nowhere.

    Returns:
        The folder of each agent's run.

    Raises:
        UsageError: bad suite, agent or option, the disk is full, a key is refused, or a budget is spent.
        MissingDataError: no environment of the suite has its data, or not one of ``required``.
    """
    if num_envs < 1:
        raise UsageError(f"num_envs must be at least 1, got {num_envs}")
    redactor, requested = Redactor(redact), part_of(load_suite(suite_path), envs, limit)
    suite, sessions = with_agents(requested, further), RunSessions(endpoints or EndpointSettings())
    chosen = [complete(agent, suite.env) for agent in suite.select(agents)]
    check_distinct(chosen)
    sessions.check_reachable(_to_be_asked(out_dir / suite.name, chosen, suite.env))
    with ExitStack() as stack:
        stack.enter_context(EndpointSession())  # of all runs: it closes what they open
        suite_tasks, left_out = _open_suite_tasks(suite, num_envs, required, stack)
        entries, absent = _enter_all(suite, chosen, suite_tasks, left_out, baselines)
        _tell(console, (*left_out, *absent), entries)
        _keep_suite(out_dir, suite_path, requested)
        bars = stack.enter_context(_progress(console))
        # those that ask first: a wrong model or key is found before the others have played
        for entry in sorted(entries, key=lambda entry: not named_endpoints(entry.run.agent, suite.env)):
            folder = out_dir / suite.name / entry.run.folder_name
            _run(folder, entry, TranscriptJournal(folder, redactor, wanted=transcripts), sessions, bars)
    return [out_dir / suite.name / entry.run.folder_name for entry in entries]


def _to_be_asked(
    folder: Path, agents: Iterable[SuiteAgent], envs: Sequence[SuiteEnv]
) -> Iterator[NamedEndpoint]:
    """Yield the endpoints of agents that have no run yet in which every episode has a result."""
    for agent in agents:
        named = named_endpoints(agent, envs)
        runs = [path.parent for path in folder.glob(f"{agent.display_name}-*/{RUN_FILE}")] if named else []
        if not any(_is_over(run) for run in runs):
            yield from named


def _is_over(folder: Path) -> bool:
    if read_run(folder).result_id is None:
        return False
    return not any(episode.end_reason in RETRIED for episode in latest(read_episodes(folder)))


def _keep_suite(out_dir: Path, suite_path: Path, requested: Suite) -> None:
    """Write what is played to where verification looks for it, unless it ships, or was read from there."""
    if requested.name in suites.NAMES:
        return
    found = suites.own_suite_file(out_dir / requested.name, requested.name)
    if found is None or not found.samefile(suite_path):
        write_suite(out_dir / "suites", requested)


def _tell(console: Console | None, left_out: Iterable[Excluded], entries: Iterable[_Entry]) -> None:
    """Print what is left out, and why: of the suite, and of each agent's part."""
    gaps = [(gap.label, gap.reason) for gap in left_out]
    for entry in entries:
        name = entry.run.agent.display_name
        gaps += [(f"{name}: {gap.label}", gap.reason) for gap in entry.run.unsupported]
    if console is not None:
        for label, reason in gaps:
            console.print(f"left out: {label}: {reason}", style="yellow", markup=False, soft_wrap=True)


def play(
    suite_task: SuiteTask, kind: str, policy: Policy, episodes: Sequence[PlannedEpisode]
) -> Iterator[EvalSample]:
    """Play episodes in one environment with an agent of a kind; yield the record of each as it ends."""
    for trajectory in _played(suite_task, kind, policy, episodes):
        yield record_of(trajectory, suite_task.env)


def _played(
    suite_task: SuiteTask,
    kind: str,
    policy: Policy,
    episodes: Sequence[PlannedEpisode],
    stepped: Callable[[int], object] | None = None,
) -> Iterator[Trajectory]:
    worker = RolloutWorker(suite_task.slots, policy, env_id=suite_task.env.id, measured=True, stepped=stepped)
    for wave in waves(episodes, sequential=is_sequential(kind, policy)):
        yield from worker.run(EpisodeSpec(e.task.id, e.seed, e.rollout) for e in wave)


def open_suite_task(suite: Suite, env: SuiteEnv, num_envs: int) -> SuiteTask:
    """Open an environment of a suite; errors as `open_slots` and `columns`."""
    columns(env)
    slots = open_slots(env, min(num_envs, env.count * suite.attempts))
    return SuiteTask(env, slots, planned_episodes(suite, env, slots.tasks))


def _open_suite_tasks(
    suite: Suite, num_envs: int, required: Collection[str], stack: ExitStack
) -> tuple[list[SuiteTask], list[Excluded]]:
    suite_tasks, left_out = [], []
    for env in suite.env:
        try:
            suite_task = open_suite_task(suite, env, num_envs)
        except (MissingDataError, MissingPackageError) as error:
            if env.label in required:
                raise
            left_out.append(Excluded(env.label, str(error)))
        else:
            stack.callback(suite_task.slots.close)
            suite_tasks.append(suite_task)
    if not suite_tasks:
        reasons = "; ".join(dict.fromkeys(gap.reason for gap in left_out))
        raise MissingDataError(f"suite {suite.name}: no environment can be played: {reasons}")
    return suite_tasks, left_out


def _enter_all(
    suite: Suite,
    agents: Iterable[SuiteAgent],
    suite_tasks: list[SuiteTask],
    left_out: list[Excluded],
    baselines: Collection[str],
) -> tuple[list[_Entry], list[Excluded]]:
    """Return each agent's environments, and the baselines that play nothing."""
    entries, absent = [], []
    for agent in agents:
        try:
            entries.append(_enter(suite, agent, suite_tasks, left_out))
        except UnsupportedEnvError as error:
            if agent.name not in baselines:
                raise
            absent.append(Excluded(agent.name, str(error)))
    return entries, absent


def _enter(suite: Suite, agent: SuiteAgent, suite_tasks: list[SuiteTask], left_out: list[Excluded]) -> _Entry:
    # policies first: an agent that cannot be made leaves no folder behind
    parts, unsupported = [], []
    for suite_task in suite_tasks:
        try:
            policy = make_agent(agent.kind, suite_task.slots, **agent.options)
        except UnsupportedEnvError as error:
            unsupported.append(Excluded(suite_task.env.label, str(error)))
        else:
            parts.append((suite_task, policy))
    if not parts:
        reasons = "; ".join(dict.fromkeys(gap.reason for gap in unsupported))
        raise UnsupportedEnvError(
            f"agent {agent.name!r} plays nothing of suite {suite.name}; name others with --agent: {reasons}"
        )
    found = [
        (
            suite_task.env,
            suite_task.slots.tasks.manifest_sha256,
            answer_pins(suite_task.slots.prototype.query_backends),
        )
        for suite_task in suite_tasks
    ]
    return _Entry(new_run(suite, agent, found, (*left_out, *unsupported), (here_and_now(),)), parts)


def _run(
    folder: Path, entry: _Entry, transcripts: TranscriptJournal, sessions: RunSessions, bars: Progress
) -> None:
    """Bring one agent's run to its end."""
    suite_tasks = [suite_task for suite_task, _ in entry.parts]
    make_folder(folder)
    with sole_writer(folder):
        run = _adopt(folder, entry.run)
        if run.episodes_sha256 is not None and run.episodes_sha256 != file_sha256(folder / EPISODES_FILE):
            raise UsageError(
                f"{folder / EPISODES_FILE} was changed after the run was complete; put it back, or remove "
                "the folder and run again"
            )
        answers = AnswersJournal(folder, run)
        with Journal(folder / EPISODES_FILE):
            pass  # opening it cut off half a line
        lines = EpisodeLines(run.request_id, read_episodes(folder))
        done = _results(folder, run, lines.episodes, suite_tasks)
        if run.result_id is not None and len(done) == sum(len(suite_task.plan) for suite_task in suite_tasks):
            return
        keep_transcripts(folder, (episode.transcript for episode in lines.episodes))
        named = named_endpoints(run.agent, [suite_task.env for suite_task in suite_tasks])
        with sessions.opened(folder, named), closing(answers):
            run = replace(reopened(run), endpoints=sessions.probed(named, run.endpoints))
            write_run(folder, run)
            _play_missing(folder, entry, done, lines, transcripts, answers, bars)
        written = folder / TRANSCRIPTS_FILE
        sha256 = file_sha256(written) if written.exists() else None
        write_run(folder, closed(run, lines.episodes, sha256, answers.sha256))


def _play_missing(
    folder: Path,
    entry: _Entry,
    done: Collection[EpisodeKey],
    lines: EpisodeLines,
    transcripts: TranscriptJournal,
    answers: AnswersJournal,
    bars: Progress,
) -> None:
    """Play the episodes that have no result yet; each is written as it ends."""
    with closing(transcripts), Journal(folder / EPISODES_FILE) as journal:
        files = RunJournals(lines, journal, transcripts)
        for suite_task, policy in entry.parts:
            answers.keep(suite_task.env.label, suite_task.slots)
            missing = [
                episode
                for episode in suite_task.plan
                if (suite_task.env.label, episode.task.id, episode.rollout) not in done
            ]
            remind(policy, suite_task.env, missing, lines.episodes, folder, answers.book)
            _play_into(files, suite_task, policy, missing, bars, entry.run.agent)


def _adopt(folder: Path, fresh: EvalLog) -> EvalLog:
    """Return the record to resume: the folder's own where it holds this very request."""
    if not (folder / RUN_FILE).exists():
        write_run(folder, fresh)
        return fresh
    stored = read_run(folder)
    if not stored.request_id == sha256_json(stored.request) == fresh.request_id:
        raise UsageError(
            f"{folder} holds the run of another request ({stored.request_id[:12]}, "
            f"not {fresh.request_id[:12]}); remove the folder or choose another --out"
        )
    provenance = stored.provenance
    if not provenance[-1].same_place(fresh.provenance[-1]):
        provenance = (*provenance, *fresh.provenance)
    return replace(stored, provenance=provenance, left_out=fresh.left_out)


def _results(
    folder: Path, run: EvalLog, episodes: Sequence[EvalSample], suite_tasks: list[SuiteTask]
) -> set[EpisodeKey]:
    """Return the keys of the episodes that have a result; those that a machine's fault ended have none."""
    path = folder / EPISODES_FILE
    for problem in (*check_chain(run, episodes), *check_measures(episodes)):
        raise UsageError(f"{path}, {problem}; remove the folder and run again")
    planned = {
        (suite_task.env.label, episode.task.id, episode.rollout)
        for suite_task in suite_tasks
        for episode in suite_task.plan
    }
    if not {episode.key for episode in episodes} <= planned:
        raise UsageError(
            f"{path} holds episodes that request {run.request_id[:12]} does not ask for; "
            "remove the folder and run again"
        )
    return {episode.key for episode in latest(episodes) if episode.end_reason not in RETRIED}


def _play_into(
    files: RunJournals,
    suite_task: SuiteTask,
    policy: Policy,
    missing: Sequence[PlannedEpisode],
    bars: Progress,
    agent: SuiteAgent,
) -> None:
    title = f"{agent.display_name} · {suite_task.env.label}"
    limit, episodes = suite_task.slots.prototype.max_steps, len(suite_task.plan)
    finished, running, steps, won = episodes - len(missing), 0, 0, 0
    bar = bars.add_task(title, total=episodes * limit, note="")

    def show(new_steps: int) -> None:
        """Fill the bar by steps: an episode's share is its step limit, whenever it ends."""
        nonlocal running, steps
        running, steps = running + new_steps, steps + new_steps
        ended = finished - (episodes - len(missing))
        rate = f", {100 * won / ended:.0f} % won" if ended else ""
        note = f"{finished:,}/{episodes:,} episodes, {steps:,} steps{rate}"
        bars.update(bar, completed=finished * limit + running, note=note)

    show(0)
    for trajectory in _played(suite_task, agent.kind, policy, missing, show):
        won += files.add(trajectory, suite_task.env).won
        finished, running = finished + 1, running - len(trajectory.steps)
        show(0)


def _progress(console: Console | None) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
        disable=console is None,
    )
