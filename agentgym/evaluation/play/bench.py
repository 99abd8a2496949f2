"""Running a suite: every agent plays every task of every environment, and finished episodes last."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.agents import make_agent
from agentgym.core.types import Policy, Trajectory
from agentgym.endpoint.session import EndpointSession
from agentgym.errors import MissingDataError, MissingPackageError, UnsupportedEnvError, UsageError
from agentgym.evaluation import suites
from agentgym.evaluation.log.bench_run import BenchRun
from agentgym.evaluation.log.endpoint_runs import (
    EndpointSettings,
    NamedEndpoint,
    RunSessions,
    named_endpoints,
)
from agentgym.evaluation.log.recorded_answers import answer_pins
from agentgym.evaluation.log.redaction import Redactor
from agentgym.evaluation.log.results import (
    RETRIED,
    RUN_FILE,
    EvalLog,
    EvalSample,
    Excluded,
    RunEnv,
    new_run,
    record_of,
)
from agentgym.evaluation.log.stored_run import StoredRun, read_stored_run
from agentgym.evaluation.log.transcripts import TranscriptRecorder
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
from agentgym.io.files import make_folder, sole_writer
from agentgym.io.provenance import Provenance, here_and_now
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.vector.core import AgentVectorEnv

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

DEFAULT_NUM_ENVS = 64
"""Number of episodes played side by side."""


@dataclass(frozen=True, kw_only=True)
class BenchRequest:
    """What is benchmarked: a suite, or a part of one, and its players; fields as `run_bench` takes them."""

    suite_path: Path
    listed: Suite
    """The suite of that file."""
    out_dir: Path
    agents: Sequence[str] | None = None
    further: Sequence[SuiteAgent] = ()
    envs: Collection[str] = ()
    limit: int | None = None
    baselines: Collection[str] = ()
    required: Collection[str] = ()

    @cached_property
    def played(self) -> Suite:
        """The part of it that is played."""
        return part_of(self.listed, self.envs, self.limit)

    @cached_property
    def suite(self) -> Suite:
        """What is played, with the further agents."""
        return with_agents(self.played, self.further)

    @property
    def players(self) -> tuple[SuiteAgent, ...]:
        """The agents that play, as the suite has them."""
        return self.suite.select(self.agents)

    @property
    def results(self) -> Path:
        """The folder of the runs."""
        return self.out_dir / self.suite.name

    @property
    def stored_suite(self) -> Path:
        """The file of what is played; one of its own for a part of a suite."""
        if self.played == self.listed:
            return self.suite_path
        return self.out_dir / "suites" / f"{self.played.name}.toml"

    def to_be_asked(self, agents: Iterable[SuiteAgent]) -> Iterator[NamedEndpoint]:
        """Yield the endpoints of agents that have no run yet in which every episode has a result."""
        for agent in agents:
            named = named_endpoints(agent, self.suite.env)
            runs = list(self.results.glob(f"{agent.display_name}-*/{RUN_FILE}")) if named else []
            if not any(_is_over(read_stored_run(run.parent)) for run in runs):
                yield from named

    def keep_suite(self) -> None:
        """Write what is played where verification looks for it, unless it ships, or was read from there."""
        if self.played.name in suites.NAMES:
            return
        found = suites.own_suite_file(self.results, self.played.name)
        if found is None or not found.samefile(self.suite_path):
            write_suite(self.out_dir / "suites", self.played)


@dataclass(frozen=True, slots=True)
class SuiteTask:
    """An environment of the suite, opened, with the episodes the suite asks for."""

    env: SuiteEnv
    slots: AgentVectorEnv
    plan: list[PlannedEpisode]

    @property
    def found(self) -> RunEnv:
        """What a run records of it."""
        pins = answer_pins(self.slots.prototype.query_backends)
        return RunEnv.of(self.env, self.slots.tasks.manifest_sha256, pins)


@dataclass(frozen=True, slots=True)
class _Entry:
    """An agent about to run: its record, and the environments that it plays with its policy in each."""

    run: EvalLog
    parts: list[tuple[SuiteTask, Policy]]


@dataclass(frozen=True, slots=True)
class _OpenedSuite:
    """A suite's environments, those that are here opened."""

    suite: Suite
    provenance: Provenance
    tasks: list[SuiteTask] = field(default_factory=list)
    left_out: list[Excluded] = field(default_factory=list)

    def entry(self, agent: SuiteAgent) -> _Entry:
        """Return an agent with its environments; UnsupportedEnvError where it plays none."""
        # policies first: an agent that cannot be made leaves no folder behind
        parts, unsupported = [], []
        for suite_task in self.tasks:
            try:
                policy = make_agent(agent.kind, suite_task.slots, **agent.options)
            except UnsupportedEnvError as error:
                unsupported.append(Excluded(suite_task.env.label, str(error)))
            else:
                parts.append((suite_task, policy))
        if not parts:
            reasons = "; ".join(dict.fromkeys(gap.reason for gap in unsupported))
            plays = f"agent {agent.name!r} plays nothing of suite {self.suite.name}"
            raise UnsupportedEnvError(f"{plays}; name others with --agent: {reasons}")
        found, left_out = [task.found for task in self.tasks], (*self.left_out, *unsupported)
        schemas = {task.env.label: task.slots.prototype.state_schema for task in self.tasks}
        return _Entry(new_run(self.suite, agent, found, left_out, (self.provenance,), schemas), parts)


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
    request = BenchRequest(
        suite_path=suite_path,
        listed=load_suite(suite_path),
        out_dir=out_dir,
        agents=None if agents is None else tuple(agents),
        further=tuple(further),
        envs=envs,
        limit=limit,
        baselines=baselines,
        required=required,
    )
    recorder = TranscriptRecorder(Redactor(redact), transcripts)
    return run_request(request, recorder, num_envs=num_envs, endpoints=endpoints, console=console)


def run_request(
    request: BenchRequest,
    transcripts: TranscriptRecorder,
    *,
    num_envs: int = DEFAULT_NUM_ENVS,
    endpoints: EndpointSettings | None = None,
    console: Console | None = None,
) -> list[Path]:
    """Run what is requested, or resume it; as `run_bench`."""
    if num_envs < 1:
        raise UsageError(f"num_envs must be at least 1, got {num_envs}")
    suite, sessions = request.suite, RunSessions(endpoints or EndpointSettings())
    chosen = [complete(agent, suite.env) for agent in request.players]
    check_distinct(chosen)
    sessions.check_reachable(request.to_be_asked(chosen))
    with ExitStack() as stack:
        stack.enter_context(EndpointSession())  # all runs share it: it closes what they open
        opened, entries, absent = _opened(request, num_envs, stack), [], []
        for agent in chosen:
            try:
                entries.append(opened.entry(agent))
            except UnsupportedEnvError as error:
                if agent.name not in request.baselines:
                    raise
                absent.append(Excluded(agent.name, str(error)))
        _tell(console, (*opened.left_out, *absent), entries)
        request.keep_suite()
        bars = stack.enter_context(_progress(console))
        # agents with endpoints first, so that a wrong model or key shows before the others have played
        for entry in sorted(entries, key=lambda entry: not named_endpoints(entry.run.agent, suite.env)):
            _run(request.results / entry.run.folder_name, entry, transcripts, sessions, bars)
    return [request.results / entry.run.folder_name for entry in entries]


def _is_over(run: StoredRun) -> bool:
    return run.log.result_id is not None and not any(e.end_reason in RETRIED for e in run.results)


def _tell(console: Console | None, left_out: Iterable[Excluded], entries: Iterable[_Entry]) -> None:
    """Print the environments that are left out of the suite and of each agent's part, with the reasons."""
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


def _opened(request: BenchRequest, num_envs: int, stack: ExitStack) -> _OpenedSuite:
    """Open the environments whose data is here, on the given stack."""
    opened = _OpenedSuite(request.suite, here_and_now())
    for env in request.suite.env:
        try:
            suite_task = open_suite_task(request.suite, env, num_envs)
        except (MissingDataError, MissingPackageError) as error:
            if env.label in request.required:
                raise
            opened.left_out.append(Excluded(env.label, str(error)))
        else:
            stack.callback(suite_task.slots.close)
            opened.tasks.append(suite_task)
    if not opened.tasks:
        reasons = "; ".join(dict.fromkeys(gap.reason for gap in opened.left_out))
        raise MissingDataError(f"suite {request.suite.name}: no environment can be played: {reasons}")
    return opened


def _run(
    folder: Path, entry: _Entry, transcripts: TranscriptRecorder, sessions: RunSessions, bars: Progress
) -> None:
    """Bring one agent's run to its end: play the episodes that have no result yet."""
    plan = [episode for suite_task, _ in entry.parts for episode in suite_task.plan]
    make_folder(folder)
    with sole_writer(folder):
        run = BenchRun(folder, entry.run, plan, transcripts)
        if run.complete:
            return
        with run.playing(sessions):
            for suite_task, policy in entry.parts:
                run.record_answers(suite_task.env.label, suite_task.slots)
                missing = run.missing(suite_task.plan)
                remind(policy, suite_task.env, missing, run)
                _play_missing(run, suite_task, policy, missing, bars)


def _play_missing(
    run: BenchRun, suite_task: SuiteTask, policy: Policy, missing: Sequence[PlannedEpisode], bars: Progress
) -> None:
    agent = run.log.agent
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
        won += run.add(trajectory, suite_task.env).won
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
