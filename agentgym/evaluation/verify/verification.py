"""Verification: play every recorded action again and compare everything that follows from it.

Seeds, task ids and manifests are recomputed from the suite; what the run says about them is only
compared. Agents that play the same again from the request alone, such as ``random``, ``oracle`` and
``rules``, do so here, and nothing else can pass for them. Of all others the actions are replayed, in single
environments, while runs are played in vector ones, so a replay also checks one against the other. What a
replay shows is that the score belongs to the actions; it does not show which agent chose them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import cached_property
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
from agentgym.evaluation.log.replay import ReplayEnv, open_replay_envs, replayed
from agentgym.evaluation.log.results import (
    EPISODES_FILE,
    RETRIED,
    RUN_FILE,
    VERIFY_FILE,
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
from agentgym.evaluation.suites.suite import SuiteAgent, load_suite
from agentgym.evaluation.verify.archives import open_run
from agentgym.evaluation.verify.code_digest import code_sha256
from agentgym.evaluation.verify.model_check import ModelSample, check_checkable, check_model
from agentgym.evaluation.verify.stated import check_agent, check_stated, repeatable
from agentgym.evaluation.verify.verdicts import (
    VERDICT_SCHEMA,
    Badge,
    Mismatch,
    Role,
    StoredVerdict,
    Verdict,
)
from agentgym.io.files import replace_file
from agentgym.io.optional import load_reference, only_trusted
from agentgym.io.provenance import here_and_now
from agentgym.vector.core import AgentVectorEnv
from agentgym.vector.serial import SerialVectorEnv

if TYPE_CHECKING:
    from rich.console import Console

SAMPLE = 16
"""Stride of the second replay, in a single environment, where the agent plays again: every 16th episode."""


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
    return Verification(run, rerun=rerun, model=model, allow=allow, console=console).save()


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


@dataclass(eq=False)
class Verification:
    """The verification of one run: what the run is compared with, and what is wrong with it.

    Nothing is opened before `verdict` is asked for. Fields are as `verify_run` takes them.
    """

    run: StoredRun
    rerun: bool | None = None
    model: ModelSample | None = None
    allow: Collection[str] = ()
    console: Console | None = None
    problems: list[Mismatch] = field(default_factory=list)
    """Mismatches found so far."""

    def __post_init__(self) -> None:
        """Read the suite; UsageError where there is none."""
        self.log, self.suite = self.run.log, self.run.suite
        self.kept = StoredVerdict(self.run)
        self._replay_envs: dict[str, ReplayEnv] = {}

    @cached_property
    def _role(self) -> Role:
        """The role that the agent's whole identity gives it, which it has to play again for."""
        agent, (floor, oracle) = self.log.agent, self.suite.anchors
        roles: dict[str, Role] = {floor: "floor", oracle: "oracle"}
        named = agent.name in roles and agent.name in {listed.name for listed in self.suite.agent}
        return roles[agent.name] if named and not list(check_agent(agent, self.suite)) else "agent"

    @property
    def _reruns(self) -> bool:
        """Whether the agent plays again."""
        if self.rerun is None:
            return repeatable(self.log.agent) or self._role != "agent"
        return self.rerun

    def save(self) -> Verdict:
        """Return the verdict; keep it in the cache, and for people as ``verify.json`` in the run's folder."""
        replace_file(self.run.folder / VERIFY_FILE, self.verdict.text)
        return self.keep()

    def keep(self) -> Verdict:
        """Return the verdict; keep it in the cache."""
        self.kept.keep(self.verdict)
        return self.verdict

    @cached_property
    def verdict(self) -> Verdict:
        """What is found; nothing is written."""
        with only_trusted(self.allow):
            if self.model is not None:
                check_checkable(self.run, self.model.directory)
            found = self._replayed()
            if self.model is not None and not self.problems:
                found["model"] = check_model(self.run, self.model)
                name = self.model.directory.name
                self.problems += (Mismatch("model", name, each) for each in found["model"].problems)
        sound, lines = not self.problems, self.run.lines
        badge: Badge = "re-run" if self._reruns else "model-checked" if "model" in found else "replayed"
        return Verdict(
            schema=VERDICT_SCHEMA,
            ok=sound,
            badge=badge if sound else "claimed",
            role=self._role if sound and self._reruns else "agent",
            problems=tuple(self.problems),
            episodes=len(lines.samples),
            steps=sum(episode.length for episode in lines.samples),
            suite_sha256=self.suite.sha256,
            run_sha256=self.run.run_sha256,
            episodes_sha256=lines.sha256,
            code_sha256=self.kept.code_sha256,
            provenance=here_and_now(),
            **found,
        )

    def _replayed(self) -> dict[str, Any]:
        """Play the run again where its files are what they state; return what the verdict says of that."""
        answers = self._checked_answers()
        self.problems += check_stated(self.run)
        if self.problems:  # nothing that its suite names is opened
            return {"missing": (), "unsupported": ()}
        with ExitStack() as stack:
            self._replay_envs = open_replay_envs(self.run, answers, stack)
            self._check_request()
            found: dict[str, Any] = {"missing": tuple(self._missing())}
            found["unsupported"] = tuple(self._unsupported())
            self._replay_envs = {env.env.label: self._replay_envs[env.env.label] for env in self.log.played}
            self._check_transcripts()
            self._check_keys()
            reruns = self._reruns and not self.problems
            self.problems += self._replay_all(sampled=reruns and not self.log.asks)
            if reruns and not self.problems:
                self.problems += self._played_again(None if self.rerun else answers)
            if self.log.asks and not self.problems:
                found["answers"] = self._check_answers()
        return found

    def _checked_answers(self) -> RecordedAnswers:
        """Return what the run was answered from outside, none where that is not what its log names."""
        found = self.run.digests.get(ANSWERS_FILE)
        if self.log.answers_sha256 != found:
            why = "its sha256 is not the one in run.json" if found else "it is missing; get the run whole"
            self.problems.append(Mismatch("file", ANSWERS_FILE, why))
            return RecordedAnswers()
        try:
            return self.run.answers
        except UsageError as error:
            self.problems.append(Mismatch("malformed", ANSWERS_FILE, str(error)))
            return RecordedAnswers()

    def _check_request(self) -> None:
        """Compare the run's tasks, and the parts that answered, with those found here."""
        for env in self.log.envs:
            label, game = env.env.label, self._replay_envs[env.env.label].game
            if env.manifest_sha256 != game.tasks.manifest_sha256:
                problem = "the split's tasks are not those recomputed from the suite"
                self.problems.append(Mismatch("manifest", label, problem))
            elif game.state_schema not in (type(game).state_schema, *game.past_schemas):
                problem = f"its states are hashed by a version {game.state_schema} that there is not"
                self.problems.append(Mismatch("environment", label, problem))
            elif env.answers != (pins := answer_pins(game.query_backends)):
                here = ", ".join(pin.kind for pin in pins) or "nothing outside the package"
                problem = f"answered by another part: here it is {here}"
                self.problems.append(Mismatch("environment", label, problem))

    def _missing(self) -> Iterator[Excluded]:
        """Check the data that the run left out as missing: that counts only where it is missing here too."""
        left_out = {gap.label for gap in self.log.missing}
        for env in (env for env in self.suite.env if env.label in left_out):
            try:
                open_single(env).close()
            except (MissingDataError, MissingPackageError) as error:
                yield Excluded(env.label, str(error))
            else:
                problem = "left out, though its data are here"
                self.problems.append(Mismatch("environment", env.label, problem))

    def _unsupported(self) -> Iterator[Excluded]:
        """Ask for each environment that the run left out whether agents of its kind do not play it."""
        left_out = {gap.label for gap in self.log.unsupported}
        for env in (env for env in self.suite.env if env.label in left_out):
            with closing(open_suite_task(self.suite, env, num_envs=1).slots) as slots:
                try:
                    _refuse_unplayable(self.log.agent, slots)
                except UnsupportedEnvError as error:
                    yield Excluded(env.label, str(error))
                    continue
                except UntrustedReferenceError:
                    raise
                except UsageError as error:
                    problem = f"left out, and the agent cannot be made: {error}"
                else:
                    problem = "left out, though the agent plays it"
            self.problems.append(Mismatch("environment", env.label, problem))

    def _check_transcripts(self) -> None:
        """Compare transcripts with their episodes; a run may be published without them."""
        if not self.run.has_transcripts:
            return
        if self.log.transcripts_sha256 != self.run.digests[TRANSCRIPTS_FILE]:
            self.problems.append(Mismatch("file", TRANSCRIPTS_FILE, "its sha256 is not the one in run.json"))
        named = {episode.transcript: episode for episode in self.run.lines.samples if episode.transcript}
        for number, outcome in parse_transcripts(read_bytes(self.run.folder / TRANSCRIPTS_FILE)):
            where = f"{TRANSCRIPTS_FILE} line {number}"
            if isinstance(outcome, str):
                self.problems.append(Mismatch("malformed", where, outcome))
            elif outcome.sha256 not in named:
                self.problems.append(Mismatch("transcript", where, "no episode names it"))
            else:
                found = check_transcript(outcome, named.pop(outcome.sha256))
                self.problems += (Mismatch("transcript", where, problem) for problem in found)
        lacking = f"{TRANSCRIPTS_FILE} lacks its transcript"
        self.problems += (Mismatch("transcript", episode.id, lacking) for episode in named.values())

    def _check_keys(self) -> None:
        """Compare the episodes with all that the suite asks for, and their seeds with the suite's."""
        episodes = self.run.lines.samples
        planned = {
            key: episode
            for replay_env in self._replay_envs.values()
            for key, episode in replay_env.plan.items()
        }
        played = dict.fromkeys(episode.key for episode in episodes)
        for key in planned.keys() - played.keys():
            self.problems.append(Mismatch("missing", "/".join(map(str, key)), "not in the file"))
        for key in (key for key in played if key not in planned):
            where = "/".join(map(str, key))
            self.problems.append(Mismatch("unknown", where, "the suite does not ask for it"))
        for episode in episodes:
            if episode.key in planned and episode.seed != (seed := planned[episode.key].seed):
                problem = f"seed {episode.seed} is not the suite's {seed}"
                self.problems.append(Mismatch("seed", episode.id, problem))

    def _replay_all(self, *, sampled: bool) -> Iterator[Mismatch]:
        """Play the recorded actions in single environments; ``sampled``: of every `SAMPLE`-th episode."""
        from rich.progress import track

        lines, console = self.run.lines, self.console
        episodes = list(zip(lines.samples, lines.line_sha256s, strict=True))
        if sampled:
            chosen = enumerate(episodes)
            episodes = [e for i, e in chosen if i % SAMPLE == 0 or e[0].end_reason in RETRIED]
        title = f"verifying {self.log.agent.display_name}"
        shown = track(episodes, title, console=console, disable=console is None, show_speed=False)
        for episode, line_sha256 in shown:
            replay_env = self._replay_envs.get(episode.env)
            if replay_env is None or episode.key not in replay_env.plan:
                continue  # the caller reports it as unknown
            again = replayed(episode, replay_env, replay_env.plan[episode.key].seed)
            if isinstance(again, str):
                yield Mismatch("replay", episode.id, again)
            elif again.line_sha256 != line_sha256:  # texts are compared: 0.0 equals -0.0, and is not the same
                differing = ", ".join(_differing(again, episode))
                yield Mismatch("replay", episode.id, f"comes out otherwise: {differing}")

    def _played_again(self, answers: RecordedAnswers | None) -> Iterator[Mismatch]:
        """Let the agent play everything again, with the recorded answers, or asking anew."""
        agent = self.log.agent
        complete(agent, self.suite.env)  # refuses other weights in the same place
        recorded = {episode.key: episode for episode in self.run.results}
        for env in (env for env in self.suite.env if env.label in self._replay_envs):
            suite_task = open_suite_task(self.suite, env, num_envs=64)
            with closing(suite_task.slots) as slots:
                for game in slots.envs if isinstance(slots, SerialVectorEnv) else ():
                    game.state_schema = self.log.state_schemas.get(env.label, 1)
                if answers is not None and answer_pins(slots.prototype.query_backends):
                    slots.answer_from(ReplayedAnswers(answers, env.label))
                policy = make_agent(agent.kind, slots, **options_as_played(agent))
                for again in play(suite_task, agent.kind, policy, suite_task.plan):
                    sample = recorded[again.key]
                    differing = _differing(again.measured_as(sample), sample)
                    if differing:
                        where, how = again.id, ", ".join(differing)
                        yield Mismatch("re-run", where, f"the agent plays otherwise: {how}")

    def _check_answers(self) -> AnswerCheck:
        """Compute the answers that the replays used again, where the part that gave them is at hand."""
        checks = {label: replay_env.answers.check() for label, replay_env in self._replay_envs.items()}
        for label, (_, problems) in checks.items():
            self.problems += (Mismatch("answer", label, problem) for problem in problems)
        return merged(check for check, _ in checks.values())


def _refuse_unplayable(agent: SuiteAgent, slots: AgentVectorEnv) -> None:
    """Raise an `UnsupportedEnvError` where an agent does not play an environment.

    Agents whose options name files or servers are not made to find that out: a stranger chose these.
    """
    entry = AGENTS.get(agent.kind)
    if entry is None or entry.repeatable:
        make_agent(agent.kind, slots, **agent.options)
    elif entry.unplayable:
        load_reference(entry.unplayable)(slots.prototype, agent.sampling)


def _differing(again: EvalSample, sample: EvalSample) -> list[str]:
    """Return the names of the repeatable fields that differ, measures one by one."""
    ours, theirs = _comparable(again), _comparable(sample)
    return [key for key in {**theirs, **ours} if ours.get(key) != theirs.get(key)]


def _comparable(episode: EvalSample) -> dict[str, str]:
    """Return fields and measures as text, since -0.0 equals 0.0 as a number."""
    table = episode.repeatable
    measures: dict[str, float] = table.pop("measures", {})
    table |= {f"measure {name!r}": value for name, value in measures.items()}
    return {key: canonical_json(value) for key, value in table.items()}
