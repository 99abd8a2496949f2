"""Submissions: the runs below a folder, each verified on this machine before anything is made of it."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.core.hashing import sha256_json
from agentgym.core.suite_spec import REGRET_MEASURES, Measure
from agentgym.errors import MissingDataError, MissingPackageError, UntrustedReferenceError, UsageError
from agentgym.evaluation.log.endpoint_runs import named_endpoints
from agentgym.evaluation.log.judge_spread import JudgeSpread, read_spread
from agentgym.evaluation.log.results import EPISODES_FILE, RUN_FILE, EvalLog, EvalSample
from agentgym.evaluation.log.runfiles import read_bytes
from agentgym.evaluation.log.stored_run import StoredRun
from agentgym.evaluation.log.unreadable import MAX_SHARE, UnreadableShare, unreadable_answers
from agentgym.evaluation.suites.plan import columns
from agentgym.evaluation.suites.suite import Suite, load_suite
from agentgym.evaluation.verify.archives import ARCHIVE_SUFFIX, open_run, origin_of
from agentgym.evaluation.verify.box import Limits, boxed
from agentgym.evaluation.verify.packed import SUFFIX
from agentgym.evaluation.verify.verdicts import Verdict
from agentgym.evaluation.verify.verification import Verification
from agentgym.io.optional import load_reference, only_trusted
from agentgym.registration import suite_spec

if TYPE_CHECKING:
    from rich.console import Console

REGRET_READER = "agentgym.credit.regret:with_regret_measures"
"""Function that adds `REGRET_MEASURES` to the results of a run, which it replays."""

FAILED = "failed"
"""First word of the reason why a run is not ranked, where an error of this package ended its verification."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A run that was verified here."""

    run: EvalLog
    episodes: list[EvalSample]
    """Last attempt of every episode, which is the one that counts."""
    verdict: Verdict
    """Verdict on the run, a good one."""
    families: Mapping[str, str]
    """Suite of environments (`agentgym.core.suite_spec.SuiteSpec.name`) of each environment, by label."""
    columns: Mapping[str, tuple[Measure, ...]] = field(default_factory=dict)
    """Measures in the tables, by label, as the suite file here chooses them."""
    spread: JudgeSpread | None = None
    """Spread of the judge's ratings as the submitter measured it; None where it was not measured."""
    origin: str = ""
    """Origin of the run: only runs of one origin are training seeds of one row."""
    scale: str = ""
    """sha256 of the fields in the suite file here that play ignores: floor, oracle, columns."""
    unreadable: tuple[UnreadableShare, ...] = ()
    """Shares of unreadable answers to its environments, each within `MAX_SHARE`."""


@dataclass(frozen=True, slots=True)
class Unranked:
    """A run that is on no line of a table, and why."""

    name: str
    """Name of the agent from the run, or of the file where it cannot be read."""
    run: str
    """Request id from the run; empty where it cannot be read."""
    suite: str
    """Name of the suite from the run; empty where it cannot be read."""
    reason: str
    """Reason, by its first word: ``refused`` for an error of the run, ``claimed`` where it cannot be verified
    here, ``partial`` where it is incomplete, ``unreadable`` where too many answers of a partner or judge are,
    `FAILED` for an error of the verifier."""


@dataclass(frozen=True, slots=True)
class Examined:
    """A run below a folder, and what came of it."""

    path: Path
    """Path of its folder, or of the packed file."""
    found: Submission | Unranked
    run: StoredRun | None = None
    """Run; None where it cannot be read."""
    verdict: Verdict | None = None
    """Verdict; None where the run could not be verified here."""


def verify_below(
    results: Path,
    *,
    suites: Mapping[str, Path] | None = None,
    allow: Collection[str] = (),
    limits: Limits | None = None,
    console: Console | None = None,
) -> Iterator[Submission | Unranked]:
    """Verify every run below a folder, or take this machine's own verdict from the cache.

    Args:
        results: a folder with runs, packed ones and archives too, anywhere below it.
        suites: suite files by the suite's name; other names are looked up as `suite_file_of_run` does.
        allow: references ``module:name`` in runs and suites that may be imported, and folders that they may
            read.
        limits: of the verification of each run, a process of its own; None for those of `Limits`.
        console: where progress is shown; None for nowhere.

    Yields:
        What counts of each run, or why it is not ranked, in the order of their paths.

    Raises:
        UsageError: there is no run.
    """
    for examined in examine_below(results, suites=suites, allow=allow, limits=limits, console=console):
        yield examined.found


def examine_below(
    results: Path,
    *,
    suites: Mapping[str, Path] | None = None,
    allow: Collection[str] = (),
    limits: Limits | None = None,
    console: Console | None = None,
) -> Iterator[Examined]:
    """Verify every run below a folder, or take this machine's own verdict from the cache.

    Packed runs and archives count too; runs come in the order of their paths. Arguments and errors as
    `verify_below`.
    """
    paths = sorted(_runs_below(results))
    if all(closed for _, closed in paths):
        raise UsageError(f"no run below {results}; run `agentgym bench SUITE` first")
    for path, closed in paths:
        if closed:
            yield _shown(Examined(path, Unranked(path.name, "", "", f"refused: {closed}")))
            continue
        yield _shown(_judged(path, suites or {}, allow, limits, console))


def _runs_below(results: Path) -> Iterator[tuple[Path, str]]:
    """Yield the place of everything that is called as a run is, and of every folder with why it is closed."""
    folders = [str(results)]
    while folders:  # no recursion: a stranger's folders may be nested to any depth
        try:
            with os.scandir(folder := folders.pop()) as found:
                entries = list(found)
        except OSError as error:
            yield Path(folder), f"cannot open {folder}: {error.strerror}"
            continue
        for entry in entries:
            if entry.name == RUN_FILE:
                yield Path(folder), ""
            if entry.name.endswith((SUFFIX, ARCHIVE_SUFFIX)):
                yield Path(entry.path), ""
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)


def _shown(examined: Examined) -> Examined:
    """Escape undecodable bytes of file names, so that a page can show them."""
    found = examined.found
    if isinstance(found, Submission):
        return examined
    name, reason = (text.encode(errors="backslashreplace").decode() for text in (found.name, found.reason))
    return replace(examined, found=replace(found, name=name, reason=reason))


def _judged(
    path: Path,
    suites: Mapping[str, Path],
    allow: Collection[str],
    limits: Limits | None,
    console: Console | None,
) -> Examined:
    """Examine a run in a box: whatever its files do, it is one line, and the other runs are examined too."""
    try:
        box: Any = {**run_places(path, suites), "allow": allow, "limits": limits, "console": console}
        return boxed(_examined, path, suites, **box)
    except UsageError as error:
        return Examined(path, Unranked(path.name, "", "", f"refused: {error}"))


def run_places(path: Path, suites: Mapping[str, Path]) -> dict[str, Any]:
    """Return the paths that `boxed` may open to verify a run: it, suites, and paths in the user's suites."""
    above = [os.path.join(folder, "suites") for folder in Path(os.path.realpath(path)).parents]
    named = [
        Path(value)
        for file in suites.values()
        for env in load_suite(file).env
        for value in env.kwargs.values()
        if isinstance(value, str) and os.path.isabs(value)
    ]
    beside = [Path(folder) for folder in above if os.path.isdir(folder) and not os.path.islink(folder)]
    return {"writes": [path], "files": beside, "trusted": [*suites.values(), *named]}


def _examined(
    path: Path, suites: Mapping[str, Path], *, allow: Collection[str], console: Console | None
) -> Examined:
    """Examine a run, in the box."""
    try:
        with only_trusted(allow):
            return _examine(path, suites, allow, console)
    except OSError as error:
        reason = f"refused: cannot read {error.filename or path}: {error.strerror}"
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  # `--strict` and `make fuzz` stop at it
        reason = f"{FAILED}: {type(error).__name__}: {error}; report it, with the run"
    return Examined(path, Unranked(path.name, "", "", reason))


def _examine(
    path: Path, suites: Mapping[str, Path], allow: Collection[str], console: Console | None
) -> Examined:
    try:
        run = open_run(path, suites, allow=allow, console=console)
        origin = origin_of(path, run.log.record_id)
    except (MissingDataError, MissingPackageError, UntrustedReferenceError) as error:
        return Examined(path, Unranked(path.name, "", "", f"claimed: {error}"))
    except UsageError as error:
        return Examined(path, Unranked(path.name, "", "", f"refused: {error}"))
    log = run.log

    def unranked(reason: str, verdict: Verdict | None = None) -> Examined:
        stated = Unranked(log.agent.display_name, log.request_id, log.suite.name, reason)
        return Examined(path, stated, run, verdict)

    try:
        if log.result_id is None:
            expected = sum(found.env.count for found in log.played) * log.suite.attempts
            file = run.folder / EPISODES_FILE
            lines = read_bytes(file).count(b"\n") if file.exists() else 0
            return unranked(f"partial: {lines} of {expected} episodes")
        verification = Verification(run, allow=allow, console=console)
        verdict = verification.kept.read() or verification.save()
        if not verdict.ok:
            more = len(verdict.problems) - 1
            further = f" (and {more} more)" if more else ""
            return unranked(f"refused: {verdict.problems[0]}{further}", verdict)
        families = {found.env.label: suite_spec(found.env.id).name for found in log.envs}
        shown = {env.label: columns(env) for env in run.suite.env if env.label in families}
        results = run.results
        if set(REGRET_MEASURES) & {column for own in shown.values() for column in own}:
            results = load_reference(REGRET_READER, trusted=True)(run, shown)
        spread = read_spread(run.folder, log.request_id)
        unpinned = _unpinned(log)
        unread = unreadable_answers(run)
    except UsageError as error:
        return unranked(f"claimed: {error}")
    if unpinned:
        return unranked(f"claimed: {unpinned}", verdict)
    if outside := _outside(log, run.results):
        return unranked(f"refused: {outside}", verdict)
    for each in unread:
        if each.share > MAX_SHARE:
            return unranked(f"unreadable: {each}; at most {100 * MAX_SHARE:.0f} % may be", verdict)
    scale = _scale(run.suite)
    found = Submission(log, results, verdict, families, shown, spread, origin, scale, tuple(unread))
    return Examined(path, found, run, verdict)


def not_built(entry: Submission, error: Exception) -> Unranked:
    """Return the line of a run whose board an error of this package stopped."""
    log = entry.run
    reason = f"{FAILED}: its board: {type(error).__name__}: {error}; report it, with the run"
    return Unranked(log.agent.display_name, log.request_id, log.suite.name, reason)


def _outside(run: EvalLog, episodes: Iterable[EvalSample]) -> str:
    """Return which score is outside of the suite's bounds; empty for none."""
    bounds = {each.env.label: each.env.bounds for each in run.envs if each.env.metric == "score"}
    for episode in episodes:
        least, most = bounds.get(episode.env, (-math.inf, math.inf))
        if not least <= episode.score <= most:
            return (
                f"a score of {episode.env} is {episode.score:g}, outside of the bounds [{least:g}, {most:g}] "
                "that its suite states: state those of the environment"
            )
    return ""


def _scale(suite: Suite) -> str:
    """Digest what no run's digest covers, and a suite file that comes with a run may have otherwise."""
    anchors = [asdict(agent) for agent in suite.agent if agent.name in suite.anchors]
    return sha256_json([anchors, [[env.label, env.measures] for env in suite.env]])


def _unpinned(run: EvalLog) -> str:
    """Return the model of the suite that may have been another one; empty for none.

    A suite pins open weights by a revision in the model's name, ``NAME@REVISION``. The server has to have
    said that it serves them.
    """
    served_as = {(each.url, each.model): each.probe.get("answers_as") for each in run.endpoints}
    for spec, _ in named_endpoints(None, [found.env for found in run.played]):
        if "@" in spec.model and served_as.get((spec.url, spec.model)) != spec.model:
            return (
                f"the suite pins {spec.model}, and no server is recorded to have said that it serves that: "
                "serve the model under this name, and run with a probe"
            )
    return ""
