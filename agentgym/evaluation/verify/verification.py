"""Verification: play every recorded action again and compare everything that follows from it.

Seeds, task ids and manifests are recomputed from the suite; what the run says about them is only
compared. Agents that play the same again from the request alone, such as ``random``, ``oracle`` and
``rules``, do so here, and nothing else can pass for them. Of all others the actions are replayed, in single
environments, while runs are played in vector ones, so a replay also checks one against the other. What a
replay shows is that the score belongs to the actions; it does not show which agent chose them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.agents import AGENTS, make_agent
from agentgym.core.hashing import canonical_json
from agentgym.errors import (
    MissingDataError,
    MissingPackageError,
    UnsupportedEnvError,
    UntrustedReferenceError,
    UsageError,
)
from agentgym.evaluation.log.recorded_answers import (
    ANSWERS_FILE,
    AnswerCheck,
    RecordedAnswers,
    ReplayedAnswers,
    answer_pins,
    merged,
)
from agentgym.evaluation.log.replay import ReplayEnv, open_worlds, replayed
from agentgym.evaluation.log.results import (
    EPISODES_FILE,
    RETRIED,
    RUN_FILE,
    EpisodeKey,
    EvalLog,
    EvalSample,
    Excluded,
)
from agentgym.evaluation.log.runfiles import file_sha256, read_bytes
from agentgym.evaluation.log.stored_run import MalformedRunError, StoredRun
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE, check_transcript, parse_transcripts
from agentgym.evaluation.play.bench import open_suite_task, play
from agentgym.evaluation.suites.agent_metadata import (
    complete,
    options_as_played,
)
from agentgym.evaluation.suites.plan import open_single
from agentgym.evaluation.suites.suite import Suite, SuiteAgent, load_suite
from agentgym.evaluation.verify.archives import open_run
from agentgym.evaluation.verify.code_digest import code_sha256, suite_code_sha256
from agentgym.evaluation.verify.model_check import ModelCheck, ModelSample, check_checkable, check_model
from agentgym.evaluation.verify.stated import check_agent, check_stated, repeatable
from agentgym.evaluation.verify.verdicts import (
    VERDICT_SCHEMA,
    Badge,
    Mismatch,
    Role,
    Verdict,
    save_verdict,
)
from agentgym.io.optional import load_reference, only_trusted
from agentgym.io.provenance import here_and_now
from agentgym.vector.core import AgentVectorEnv

if TYPE_CHECKING:
    from rich.console import Console

SAMPLE = 16
"""Of the episodes of an agent that plays again, every so manieth is replayed in a single environment too."""


def verify_run(
    folder: Path,
    *,
    suite: Path | None = None,
    rerun: bool | None = None,
    model: ModelSample | None = None,
    allow: Collection[str] = (),
    console: Console | None = None,
) -> Verdict:
    """Verify a run, write ``verify.json`` into its folder, and keep the verdict in the cache.

    Args:
        folder: the run's folder; or a packed run or an archive, which are unpacked into the cache.
        suite: the suite file to verify against; None for the shipped suite of the
            run's name, else ``suites/NAME.toml`` in a folder above.
        rerun: whether the agent plays again, which succeeds for deterministic agents only; None for those
            that are `agentgym.agents.table.AgentEntry.repeatable`.
        model: the weights with which responses are recomputed, and how many; None to leave it.
        allow: references ``module:name`` in the run or its suite that may be imported.
        console: where progress is shown; None for nowhere.

    Returns:
        The verdict, with all problems found.

    Raises:
        UsageError: there is no run in the folder, or no suite to verify it against.
        MissingDataError: the data of an environment is not on this machine.
        UntrustedReferenceError: the run names code that is not installed and not allowed.
    """
    known = None if suite is None else load_suite(suite)
    suites = {} if known is None or suite is None else {known.name: suite}
    try:
        run = open_run(folder, suites, allow=allow, console=console)
    except MalformedRunError as error:
        return _unreadable(folder, str(error))
    run = run if known is None else run.against(known)
    verdict = verify(run, rerun=rerun, model=model, allow=allow, console=console)
    save_verdict(run, verdict)
    return verdict


def verify(
    run: StoredRun,
    *,
    rerun: bool | None = None,
    model: ModelSample | None = None,
    allow: Collection[str] = (),
    console: Console | None = None,
) -> Verdict:
    """Verify a run, and write nothing; arguments as `verify_run`."""
    with only_trusted(allow):
        return _verify(run, rerun, model, console)


def _verify(
    run: StoredRun, rerun: bool | None, model: ModelSample | None, console: Console | None
) -> Verdict:
    log, suite, episodes = run.log, run.suite, run.lines.samples
    if model is not None:
        check_checkable(run, model.directory)
    role = _role(log.agent, suite)
    anew = rerun is True
    if rerun is None:
        rerun = repeatable(log.agent) or role != "agent"
    title = f"verifying {log.agent.display_name}"
    with ExitStack() as stack:
        answers, problems = _checked_answers(run)
        problems += check_stated(run)
        if problems:  # nothing that its suite names is opened
            return _verdict(run, problems)
        worlds = open_worlds(run, answers, stack)
        problems += _check_request(log, worlds)
        missing = _missing(log, suite)
        problems += (gap for gap in missing if isinstance(gap, Mismatch))
        unsupported = _check_unsupported(log, suite)
        problems += (gap for gap in unsupported if isinstance(gap, Mismatch))
        played = {found.env.label for found in log.played}
        worlds = {label: world for label, world in worlds.items() if label in played}
        problems += _check_transcripts(run)
        problems += _check_keys(episodes, worlds)
        again = rerun and not problems
        sample = [e for i, e in enumerate(episodes) if i % SAMPLE == 0 or e.end_reason in RETRIED]
        problems += _replay_all(sample if again and not log.asks else episodes, worlds, title, console)
        if again and not problems:
            problems += _rerun(run, None if anew else answers)
        answer_check, wrong = _check_answers(worlds) if log.asks and not problems else (None, [])
        problems += wrong
    checked = None
    if model is not None and not problems:
        checked = check_model(run, model)
        problems += (Mismatch("model", model.directory.name, problem) for problem in checked.problems)
    return _verdict(
        run,
        problems,
        badge=_badge(bool(problems), rerun, checked),
        role=role if again and not problems else "agent",
        unsupported=tuple(gap for gap in unsupported if isinstance(gap, Excluded)),
        missing=tuple(gap for gap in missing if isinstance(gap, Excluded)),
        model=checked,
        answers=answer_check,
    )


def _verdict(run: StoredRun, problems: Sequence[Mismatch], **found: Any) -> Verdict:
    log, suite, episodes = run.log, run.suite, run.lines.samples
    blank = {"badge": "claimed", "role": "agent", "unsupported": (), "missing": ()}
    return Verdict(
        schema=VERDICT_SCHEMA,
        ok=not problems,
        problems=tuple(problems),
        episodes=len(episodes),
        steps=sum(episode.length for episode in episodes),
        suite_sha256=suite.sha256,
        run_sha256=run.run_sha256,
        episodes_sha256=run.lines.sha256,
        code_sha256=suite_code_sha256(suite, log.agent.kind),
        provenance=here_and_now(),
        **{**blank, **found},
    )


def _badge(refused: bool, rerun: bool, checked: ModelCheck | None) -> Badge:
    if refused:
        return "claimed"
    if rerun:
        return "re-run"
    return "replayed" if checked is None else "model-checked"


def _unreadable(folder: Path, problem: str) -> Verdict:
    return Verdict(
        schema=VERDICT_SCHEMA,
        ok=False,
        badge="claimed",
        role="agent",
        problems=(Mismatch("run", RUN_FILE, problem),),
        episodes=0,
        steps=0,
        suite_sha256="",
        unsupported=(),
        missing=(),
        run_sha256=file_sha256(folder / RUN_FILE),
        episodes_sha256=file_sha256(folder / EPISODES_FILE),
        code_sha256=code_sha256(),
        provenance=here_and_now(),
    )


# --- the agent --------------------------------------------------------------------------------------


def _role(agent: SuiteAgent, suite: Suite) -> Role:
    """Return the role that an agent's whole identity gives it, which it has to play again for."""
    floor, oracle = suite.anchors
    roles: dict[str, Role] = {floor: "floor", oracle: "oracle"}
    for listed in suite.agent:
        if listed.name in roles and listed.name == agent.name and not list(check_agent(agent, suite)):
            return roles[listed.name]
    return "agent"


def _rerun(run: StoredRun, answers: RecordedAnswers | None) -> Iterator[Mismatch]:
    """Let the agent play everything again, with the recorded answers, or asking anew."""
    agent, suite = run.log.agent, run.suite
    complete(agent, suite.env)  # refuses other weights in the same place
    recorded = {episode.key: episode for episode in run.results}
    played = {found.env.label for found in run.log.played}
    for env in (env for env in suite.env if env.label in played):
        suite_task = open_suite_task(suite, env, num_envs=64)
        with ExitStack() as stack:
            stack.callback(suite_task.slots.close)
            if answers is not None and answer_pins(suite_task.slots.prototype.query_backends):
                suite_task.slots.answer_from(ReplayedAnswers(answers, env.label))
            policy = make_agent(agent.kind, suite_task.slots, **options_as_played(agent))
            for again in play(suite_task, agent.kind, policy, suite_task.plan):
                sample = recorded[again.key]
                differing = _differing(again.measured_as(sample), sample)
                if differing:
                    yield Mismatch("re-run", again.id, f"the agent plays otherwise: {', '.join(differing)}")


# --- the request ------------------------------------------------------------------------------------


def _check_request(run: EvalLog, worlds: Mapping[str, ReplayEnv]) -> Iterator[Mismatch]:
    """Compare the run's tasks, and the parts that answered, with those found here."""
    for env in run.envs:
        label, game = env.env.label, worlds[env.env.label].game
        if env.manifest_sha256 != game.tasks.manifest_sha256:
            yield Mismatch("manifest", label, "the split's tasks are not those recomputed from the suite")
        elif env.answers != (pins := answer_pins(game.query_backends)):
            here = ", ".join(pin.kind for pin in pins) or "nothing outside the package"
            yield Mismatch("environment", label, f"answered by another part: here it is {here}")


def _missing(run: EvalLog, suite: Suite) -> list[Mismatch | Excluded]:
    """Check the data that a run left out as missing: that counts only where it is missing here too."""
    found: list[Mismatch | Excluded] = []
    left_out = {gap.label for gap in run.missing}
    for env in suite.env:
        if env.label not in left_out:
            continue
        try:
            open_single(env).close()
        except (MissingDataError, MissingPackageError) as error:
            found.append(Excluded(env.label, str(error)))
        else:
            found.append(Mismatch("environment", env.label, "left out, though its data are here"))
    return found


def _check_unsupported(run: EvalLog, suite: Suite) -> list[Mismatch | Excluded]:
    """Ask for each environment that the run left out whether agents of its kind do not play it."""
    found: list[Mismatch | Excluded] = []
    left_out = {gap.label for gap in run.unsupported}
    for env in suite.env:
        if env.label not in left_out:
            continue
        suite_task = open_suite_task(suite, env, num_envs=1)
        with ExitStack() as stack:
            stack.callback(suite_task.slots.close)
            try:
                _refuse_unplayable(run.agent, suite_task.slots)
            except UnsupportedEnvError as error:
                found.append(Excluded(env.label, str(error)))
            except UntrustedReferenceError:
                raise
            except UsageError as error:
                problem = f"left out, and the agent cannot be made: {error}"
                found.append(Mismatch("environment", env.label, problem))
            else:
                found.append(Mismatch("environment", env.label, "left out, though the agent plays it"))
    return found


def _refuse_unplayable(agent: SuiteAgent, slots: AgentVectorEnv) -> None:
    """Raise an `UnsupportedEnvError` where an agent does not play an environment.

    Agents whose options name files or servers are not made to find that out: a stranger chose these.
    """
    entry = AGENTS.get(agent.kind)
    if entry is None or entry.repeatable:
        make_agent(agent.kind, slots, **agent.options)
    elif entry.unplayable:
        load_reference(entry.unplayable)(slots.prototype, agent.sampling)


# --- the files --------------------------------------------------------------------------------------


def _checked_answers(run: StoredRun) -> tuple[RecordedAnswers, list[Mismatch]]:
    """Return what the run was answered from outside, none where that is not what its log names."""
    found = run.digests.get(ANSWERS_FILE)
    if run.log.answers_sha256 != found:
        why = "its sha256 is not the one in run.json" if found else "it is missing; get the run whole"
        return RecordedAnswers(), [Mismatch("file", ANSWERS_FILE, why)]
    try:
        return run.answers, []
    except UsageError as error:
        return RecordedAnswers(), [Mismatch("malformed", ANSWERS_FILE, str(error))]


def _check_answers(worlds: Mapping[str, ReplayEnv]) -> tuple[AnswerCheck, list[Mismatch]]:
    """Compute the answers that the replays used again, where the part that gave them is at hand."""
    checks = {label: world.answers.check() for label, world in worlds.items()}
    wrong = [
        Mismatch("answer", label, problem) for label, (_, problems) in checks.items() for problem in problems
    ]
    return merged(check for check, _ in checks.values()), wrong


def _check_transcripts(run: StoredRun) -> Iterator[Mismatch]:
    """Compare transcripts with their episodes; a run may be published without them."""
    if not run.has_transcripts:
        return
    if run.log.transcripts_sha256 != run.digests[TRANSCRIPTS_FILE]:
        yield Mismatch("file", TRANSCRIPTS_FILE, "its sha256 is not the one in run.json")
    named = {episode.transcript: episode for episode in run.lines.samples if episode.transcript}
    for number, outcome in parse_transcripts(read_bytes(run.folder / TRANSCRIPTS_FILE)):
        where = f"{TRANSCRIPTS_FILE} line {number}"
        if isinstance(outcome, str):
            yield Mismatch("malformed", where, outcome)
        elif outcome.sha256 not in named:
            yield Mismatch("transcript", where, "no episode names it")
        else:
            for problem in check_transcript(outcome, named.pop(outcome.sha256)):
                yield Mismatch("transcript", where, problem)
    for episode in named.values():
        yield Mismatch("transcript", episode.id, f"{TRANSCRIPTS_FILE} lacks its transcript")


def _check_keys(episodes: Sequence[EvalSample], worlds: Mapping[str, ReplayEnv]) -> Iterator[Mismatch]:
    """Every episode the suite asks for, with the suite's seed, and nothing else."""
    planned = {key: episode for world in worlds.values() for key, episode in world.plan.items()}
    counts = Counter(episode.key for episode in episodes)
    for key in planned.keys() - counts.keys():
        yield Mismatch("missing", _name(key), "not in the file")
    for key in counts:
        if key not in planned:
            yield Mismatch("unknown", _name(key), "the suite does not ask for it")
    for episode in episodes:
        if episode.key in planned and episode.seed != planned[episode.key].seed:
            yield Mismatch(
                "seed", episode.id, f"seed {episode.seed} is not the suite's {planned[episode.key].seed}"
            )


def _name(key: EpisodeKey) -> str:
    return "/".join(map(str, key))


# --- the replay -------------------------------------------------------------------------------------


def _replay_all(
    episodes: Sequence[EvalSample], worlds: Mapping[str, ReplayEnv], title: str, console: Console | None
) -> Iterator[Mismatch]:
    from rich.progress import track

    for episode in track(episodes, title, console=console, disable=console is None, show_speed=False):
        world = worlds.get(episode.env)
        if world is None or episode.key not in world.plan:
            continue  # reported as unknown
        again = replayed(episode, world, world.plan[episode.key].seed)
        if isinstance(again, str):
            yield Mismatch("replay", episode.id, again)
        elif again.line != episode.line:  # as text: 0.0 equals -0.0, and is not the same
            differing = ", ".join(_differing(again, episode))
            yield Mismatch("replay", episode.id, f"comes out otherwise: {differing}")


def _differing(again: EvalSample, sample: EvalSample) -> list[str]:
    """Name what an equal run would repeat and differs, each measure by itself."""
    ours, theirs = _comparable(again), _comparable(sample)
    return [key for key in {**theirs, **ours} if ours.get(key) != theirs.get(key)]


def _comparable(episode: EvalSample) -> dict[str, str]:
    """Return fields and measures as text: 0.0 equals -0.0, and is not the same."""
    table = episode.repeatable
    measures: dict[str, float] = table.pop("measures", {})
    table |= {f"measure {name!r}": value for name, value in measures.items()}
    return {key: canonical_json(value) for key, value in table.items()}
