"""Verification: play every recorded action again and compare everything that follows from it.

Seeds, task ids and manifests are recomputed from the suite; what the run says about them is only
compared. Episodes are replayed in single environments, while runs are played in vector ones, so a
replay also checks one against the other. What a replay shows is that the score belongs to the
actions; it does not show which agent chose them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentgym.agents import make_agent
from agentgym.env import AgentEnv
from agentgym.errors import UnsupportedEnvError, UsageError
from agentgym.evaluation.agent_metadata import complete, contradictions, has_metadata
from agentgym.evaluation.bench import open_suite_task, play
from agentgym.evaluation.plan import PlannedEpisode, open_single, planned_episodes
from agentgym.evaluation.results import (
    ABORTED,
    EPISODES_FILE,
    RUN_FILE,
    SCHEMA,
    VERIFY_FILE,
    EpisodeRecord,
    RunRecord,
    file_sha256,
    new_run,
    parse_episodes,
    read_bytes,
    read_json,
    read_run,
    result_id,
)
from agentgym.evaluation.suite import Suite, SuiteAgent, SuiteEnv, load_suite
from agentgym.evaluation.suites import suite_file_of_run
from agentgym.files import replace_file
from agentgym.hashing import HashChain, sha256_json
from agentgym.provenance import Provenance, here_and_now
from agentgym.records import parse
from agentgym.types import EndReason

if TYPE_CHECKING:
    from rich.console import Console

Key = tuple[str, str, int]
"""Environment label, task id, rollout: `EpisodeRecord.key`."""

Badge = Literal["self-reported", "replayed", "re-run"]
"""How far a run has been checked: not at all, its actions, or the agent itself."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One thing that is wrong with a run."""

    kind: Literal[
        "run",
        "request",
        "suite",
        "environment",
        "manifest",
        "agent",
        "unfinished",
        "file",
        "result",
        "malformed",
        "missing",
        "duplicate",
        "unknown",
        "seed",
        "replay",
        "re-run",
    ]
    where: str
    detail: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.kind}: {self.where}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What verification found; the content of ``verify.json``."""

    schema: int
    ok: bool
    badge: Badge
    """What the run has earned."""
    problems: tuple[Mismatch, ...]
    episodes: int
    """Episodes replayed."""
    steps: int
    """Steps replayed."""
    run_sha256: str
    """sha256 of ``run.json`` as it was verified."""
    episodes_sha256: str
    """sha256 of ``episodes.jsonl`` as it was verified."""
    provenance: Provenance
    """Where it was verified."""


@dataclass(frozen=True, slots=True)
class _World:
    """An environment opened for replay, and the episodes that the suite asks for."""

    env: SuiteEnv
    game: AgentEnv[Any]
    plan: Mapping[Key, PlannedEpisode]


def verify_run(
    folder: Path, *, suite: Path | None = None, rerun: bool = False, console: Console | None = None
) -> Verdict:
    """Verify a run and write ``verify.json`` into its folder.

    Args:
        folder: the run's folder.
        suite: the suite file to verify against; None for the shipped suite of the
            run's name, else ``suites/NAME.toml`` in a folder above.
        rerun: also let the agent play again, which succeeds for deterministic agents only.
        console: where progress is shown; None for nowhere.

    Returns:
        The verdict, with all problems found.

    Raises:
        UsageError: there is no run in the folder, or no suite to verify it against.
        MissingDataError: the data of an environment is not on this machine.
    """
    data = read_bytes(folder / EPISODES_FILE)
    read_bytes(folder / RUN_FILE)
    try:
        run = read_run(folder)
    except UsageError as error:
        return _conclude(folder, [Mismatch("run", RUN_FILE, str(error))], [], rerun=False)
    known = load_suite(suite or suite_file_of_run(folder, run.suite.name))
    with ExitStack() as stack:
        worlds = _open_worlds(known, run, stack)
        problems = list(_check_request(run, known, worlds))
        problems += _check_unsupported(run, known)
        worlds = {
            found.env.label: worlds[found.env.label] for found in run.played if found.env.label in worlds
        }
        episodes, malformed = _read(data)
        problems += malformed
        problems += _check_files(folder, run, episodes)
        problems += _check_keys(episodes, worlds)
        problems += _replay_all(episodes, worlds, f"replaying {run.agent.display_name}", console)
    if rerun and not problems:
        problems += _rerun(run, known, episodes)
    return _conclude(folder, problems, episodes, rerun=rerun)


def read_verdict(folder: Path) -> Verdict | None:
    """Return the verdict in a run's folder if it is about the files that are there now."""
    path = folder / VERIFY_FILE
    if not path.exists():
        return None
    verdict = parse(Verdict, read_json(path), str(path))
    about = (verdict.schema, verdict.run_sha256, verdict.episodes_sha256)
    now = (SCHEMA, file_sha256(folder / RUN_FILE), file_sha256(folder / EPISODES_FILE))
    return verdict if about == now else None


# --- the request ------------------------------------------------------------------------------------


def _open_worlds(suite: Suite, run: RunRecord, stack: ExitStack) -> dict[str, _World]:
    played = {found.env.label for found in run.envs}
    worlds = {}
    for env in suite.env:
        if env.label in played:
            game = open_single(env)
            stack.callback(game.close)
            plan = planned_episodes(suite, env, game.tasks)
            by_key = {(env.label, episode.task.id, episode.rollout): episode for episode in plan}
            worlds[env.label] = _World(env, game, by_key)
    return worlds


def _check_request(run: RunRecord, suite: Suite, worlds: Mapping[str, _World]) -> Iterator[Mismatch]:
    """Compare what the run says it was asked with what the suite asks."""
    found = [(world.env, world.game.tasks.manifest_sha256) for world in worlds.values()]
    expected = new_run(suite, run.agent, found)
    if run.request_id != sha256_json(run.request):
        yield Mismatch("request", RUN_FILE, "request_id does not follow from the request")
    if run.suite_sha256 != expected.suite_sha256 or run.suite != expected.suite:
        yield Mismatch("suite", RUN_FILE, f"made for another suite than {suite.name} {suite.version}")
    ours = {env.env.label: env for env in expected.envs}
    for theirs in run.envs:
        label = theirs.env.label
        if label not in ours:
            yield Mismatch("environment", label, "the suite has no such environment")
        elif theirs.manifest_sha256 != ours[label].manifest_sha256:
            yield Mismatch("manifest", label, "the split's tasks are not those recomputed from the suite")
        elif theirs != ours[label]:
            yield Mismatch("environment", label, "specification differs from the suite's")
    if [env.env.label for env in run.envs] != list(ours):
        yield Mismatch("environment", RUN_FILE, "environments are not in the suite's order, each once")
    for label in {env.label for env in suite.env} ^ {*ours, *(gap.label for gap in run.left_out)}:
        yield Mismatch("environment", label, "neither played nor said to be left out, or unknown")
    yield from _check_agent(run.agent, suite)


def _check_unsupported(run: RunRecord, suite: Suite) -> Iterator[Mismatch]:
    """Make the agent anew for each environment that it is said not to play: that must fail."""
    said = {gap.label for gap in run.unsupported}
    for env in suite.env:
        if env.label in said:
            arena = open_suite_task(suite, env, num_envs=1)
            with ExitStack() as stack:
                stack.callback(arena.slots.close)
                try:
                    make_agent(run.agent.kind, arena.slots, **run.agent.options)
                except UnsupportedEnvError:
                    continue
                except UsageError as error:
                    yield Mismatch(
                        "environment", env.label, f"left out, and the agent cannot be made: {error}"
                    )
                else:
                    yield Mismatch("environment", env.label, "left out, though the agent plays it")


def _check_agent(agent: SuiteAgent, suite: Suite) -> Iterator[Mismatch]:
    """Compare the agent that played with the suite's agent of that name."""
    for said in suite.agent:
        if has_metadata(said.kind):  # the run says more than the suite
            seeds = (None, agent.model.training_seed)
            if said.name == agent.name and said.model.training_seed in seeds:
                for name, ours, theirs in contradictions(said, agent):
                    yield Mismatch("agent", agent.name, f"{name} is {theirs!r}, in the suite {ours!r}")
        elif said.display_name == agent.display_name and complete(said).identity != agent.identity:
            yield Mismatch("agent", agent.name, "differs from the suite's agent of that name")


# --- the files --------------------------------------------------------------------------------------


def _read(data: bytes) -> tuple[list[EpisodeRecord], list[Mismatch]]:
    episodes, problems = [], []
    for number, outcome in parse_episodes(data):
        if isinstance(outcome, str):
            problems.append(Mismatch("malformed", f"{EPISODES_FILE} line {number}", outcome))
        else:
            episodes.append(outcome)
    return episodes, problems


def _check_files(folder: Path, run: RunRecord, episodes: Sequence[EpisodeRecord]) -> Iterator[Mismatch]:
    if run.result_id is None or run.episodes_sha256 is None:
        yield Mismatch("unfinished", RUN_FILE, "the run is not complete; run the same bench command again")
        return
    if run.episodes_sha256 != file_sha256(folder / EPISODES_FILE):
        yield Mismatch("file", EPISODES_FILE, "its sha256 is not the one in run.json")
    if run.result_id != result_id(run.request_id, episodes):
        yield Mismatch("result", RUN_FILE, "result_id does not follow from the episodes")


def _check_keys(episodes: Sequence[EpisodeRecord], worlds: Mapping[str, _World]) -> Iterator[Mismatch]:
    """Every episode the suite asks for, once, with the suite's seed, and nothing else."""
    planned = {key: episode for world in worlds.values() for key, episode in world.plan.items()}
    counts = Counter(episode.key for episode in episodes)
    for key in planned.keys() - counts.keys():
        yield Mismatch("missing", _name(key), "not in the file")
    for key, count in counts.items():
        if key not in planned:
            yield Mismatch("unknown", _name(key), "the suite does not ask for it")
        if count > 1:
            yield Mismatch("duplicate", _name(key), f"{count} times in the file")
    for episode in episodes:
        if episode.key in planned and episode.seed != planned[episode.key].seed:
            yield Mismatch(
                "seed", episode.id, f"seed {episode.seed} is not the suite's {planned[episode.key].seed}"
            )


def _name(key: Key) -> str:
    return "/".join(map(str, key))


# --- the replay -------------------------------------------------------------------------------------


def _replay_all(
    episodes: Sequence[EpisodeRecord], worlds: Mapping[str, _World], title: str, console: Console | None
) -> Iterator[Mismatch]:
    from rich.progress import track

    for episode in track(episodes, title, console=console, disable=console is None, show_speed=False):
        world = worlds.get(episode.env)
        if world is None or episode.key not in world.plan:
            continue  # reported as unknown
        replayed = _replay(episode, world, world.plan[episode.key].seed)
        if isinstance(replayed, str):
            yield Mismatch("replay", episode.id, replayed)
        elif replayed.line != episode.line:  # as text: 0.0 equals -0.0, and is not the same
            theirs = asdict(episode)
            differing = [key for key, value in asdict(replayed).items() if repr(value) != repr(theirs[key])]
            yield Mismatch("replay", episode.id, f"comes out otherwise: {', '.join(differing)}")


def _replay(episode: EpisodeRecord, world: _World, seed: int) -> EpisodeRecord | str:
    """Play an episode's actions from the suite's seed; return what they make, or why they cannot."""
    game = world.game
    _, info = game.reset(seed=seed, options={"task": episode.task_id})
    chain = HashChain(world.env.spec, episode.task_id, seed, episode.rollout, info["state_hash"])
    rewards: list[float] = []
    invalid = 0
    terminated = truncated = False
    for action in episode.actions:
        if terminated or truncated:
            return f"goes on after its end at step {len(rewards)}"
        _, reward, terminated, truncated, info = game.step(action)
        chain.extend(info["state_hash"], action, reward, terminated, truncated)
        rewards.append(float(reward))
        invalid += not info["action_is_valid"]
    reason: EndReason = "step_limit"
    if terminated:
        reason = "success" if info["won"] else "failure"
    elif not truncated:
        if episode.end_reason not in ABORTED:
            return f"is not over after its {len(rewards)} actions, but ended as {episode.end_reason}"
        reason = episode.end_reason
    aborted = reason in ABORTED
    episode_return = 0.0
    for reward in rewards:
        episode_return += reward
    return EpisodeRecord(
        env=episode.env,
        task_id=info["task_id"],
        task_type=info["task_type"],
        seed=seed,
        rollout=episode.rollout,
        actions=episode.actions,
        rewards=tuple(rewards),
        hash_chain=tuple(chain.links),
        episode_return=episode_return,
        score=0.0 if aborted else float(info["score"]),
        won=not aborted and bool(info["won"]),
        progress=0.0 if aborted else float(info["progress"]),
        length=len(rewards),
        invalid_count=invalid,
        end_reason=reason,
        # only the agent knows these
        prompt_tokens=episode.prompt_tokens,
        completion_tokens=episode.completion_tokens,
        env_seconds=episode.env_seconds,
        model_seconds=episode.model_seconds,
        cost=episode.cost,
    )


def _rerun(run: RunRecord, suite: Suite, episodes: Sequence[EpisodeRecord]) -> Iterator[Mismatch]:
    """Let the agent play everything again."""
    complete(run.agent)  # refuses other weights in the same place
    recorded = {episode.key: episode.repeatable for episode in episodes}
    for found in run.played:
        arena = open_suite_task(suite, found.env, num_envs=64)
        with ExitStack() as stack:
            stack.callback(arena.slots.close)
            policy = make_agent(run.agent.kind, arena.slots, **run.agent.options)
            for again in play(arena, policy, arena.plan):
                if again.repeatable != recorded[again.key]:
                    yield Mismatch("re-run", again.id, "the agent plays otherwise")


def _conclude(
    folder: Path, problems: Sequence[Mismatch], episodes: Sequence[EpisodeRecord], *, rerun: bool
) -> Verdict:
    earned: Badge = "re-run" if rerun else "replayed"
    verdict = Verdict(
        schema=SCHEMA,
        ok=not problems,
        badge="self-reported" if problems else earned,
        problems=tuple(problems),
        episodes=len(episodes),
        steps=sum(episode.length for episode in episodes),
        run_sha256=file_sha256(folder / RUN_FILE),
        episodes_sha256=file_sha256(folder / EPISODES_FILE),
        provenance=here_and_now(),
    )
    replace_file(folder / VERIFY_FILE, json.dumps(asdict(verdict), indent=2, ensure_ascii=False) + "\n")
    return verdict
