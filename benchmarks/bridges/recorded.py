"""Recorded episodes, and the comparison of what another interface makes of their actions.

Half of the episodes are a random agent's, half the rule-based agent's, on the first tasks of the split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from agentgym.agents import make_agent
from agentgym.core.types import Completion, Policy, Request, Trajectory
from agentgym.registration import ENVIRONMENTS, open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from benchmarks.harness.report import publish, table

AGENTS = ("random", "rules")
SLOTS = 16
SUITES = [
    env_id
    for env_id in ENVIRONMENTS
    if env_id.split("/")[1] not in ("TwoWiki-v0", "MuSiQue-v0", "SearchQA-v0")
]
"""Environments that differ in more than their data, for short checks."""
HERE = Path(__file__).parent


class Reached(NamedTuple):
    """What a step came to, as an interface tells it."""

    reward: float
    terminated: bool
    truncated: bool
    state_hash: str


class Player(Protocol):
    """An interface that is compared: one episode at a time."""

    def begin(self, task: str, seed: int) -> str:
        """Start an episode; return the hash of its first state."""
        ...

    def play(self, action: str) -> Reached:
        """Play an action."""
        ...

    def end(self, trajectory: Trajectory) -> Iterable[str]:
        """Look at the interface after an episode; yield what is wrong, in words."""
        ...


@dataclass(slots=True)
class Comparison:
    """What was found of an environment."""

    env_id: str
    options: Mapping[str, Any]
    episodes: int = 0
    steps: int = 0
    won: int = 0
    differences: dict[str, int] = field(
        default_factory=lambda: {"rewards": 0, "ends": 0, "hashes": 0, "other": 0}
    )
    """Number of steps that differ, by what differs; ``other`` is what `Player.end` finds."""
    first: str = ""
    """The first difference, in words."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)

    def differs(self, kind: str, words: str) -> None:
        """Count a difference."""
        self.differences[kind] += 1
        self.first = self.first or f"{kind}: {words}"


class FirstCall:
    """Makes the first of the calls that an agent wants to make at once."""

    def __init__(self, agent: Policy):
        """Bind the agent."""
        self._agent = agent

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Ask the agent, and leave out all but the first line of its actions."""
        return [
            replace(answer, action=answer.action.partition("\n")[0]) for answer in self._agent.act(requests)
        ]


def record(env_id: str, episodes: int, *, single: bool = False, **options: Any) -> list[Trajectory]:
    """Play episodes in a vector environment, each task once by each agent, with a seed of its own.

    Args:
        env_id: the environment.
        episodes: how many.
        single: whether an action is one call at most, for interfaces in which each call is a step.
        **options: of the environment's constructor.
    """
    found: list[Trajectory] = []
    share = episodes // len(AGENTS)
    with closing(open_vector(env_id, SLOTS, options=options)) as envs:
        tasks = envs.tasks.ids[:share]
        for number, name in enumerate(AGENTS):
            agent = make_agent(name if envs.prototype.suite_spec.rules else "random", envs)
            worker = RolloutWorker(envs, FirstCall(agent) if single else agent, env_id=env_id)
            seeds = range(number * share, (number + 1) * share)
            found += worker.run(EpisodeSpec(tasks[seed % len(tasks)], seed, rollout=0) for seed in seeds)
    return found


def compare(
    env_id: str, trajectories: Sequence[Trajectory], open_player: Callable[[], Player], **options: Any
) -> Comparison:
    """Play the recorded actions through another interface, all with one instance of it."""
    found, player = Comparison(env_id, dict(options)), open_player()
    for trajectory in trajectories:
        found.episodes += 1
        found.won += trajectory.won
        where = f"task {trajectory.task_id}, seed {trajectory.seed}"
        if player.begin(trajectory.task_id, trajectory.seed) != trajectory.initial_hash:
            found.differs("hashes", f"{where}, at the beginning")
        for number, step in enumerate(trajectory.steps):
            found.steps += 1
            reached = player.play(step.action)
            at = f"{where}, step {number}, {step.action!r:.80}: {reached}"
            if reached.reward != step.reward:
                found.differs("rewards", at)
            if (reached.terminated, reached.truncated) != (step.terminated, step.truncated):
                found.differs("ends", at)
            if reached.state_hash != step.next_state_hash:
                found.differs("hashes", at)
        for words in player.end(trajectory):
            found.differs("other", f"{where}: {words}")
    return found


def write_report(
    peer: str,
    title: str,
    about: str,
    found: Sequence[Comparison],
    packages: Sequence[str],
    out: Path = HERE,
    **further: Any,
) -> int:
    """Write ``PEER.json`` and ``PEER.md``, and print the latter.

    Args:
        peer: names the files and the command.
        title: of the page.
        about: a paragraph on what was compared.
        found: a comparison for each environment.
        packages: whose versions are noted.
        out: the folder.
        **further: what else the record holds.

    Returns:
        1 where anything differs, else 0.
    """
    versions = {package: version(package) for package in packages}
    record = {"versions": versions, **further, "rows": [each.to_json() for each in found]}
    kinds = list(found[0].differences)
    lines = [
        f"# {title}",
        "",
        f"`make bridge-{peer}`; {', '.join(f'{name} {number}' for name, number in versions.items())}.",
        "",
        about,
        "",
    ]
    rows = []
    for each in found:
        name, counts = each.env_id.removeprefix("agentgym/"), (each.differences[kind] for kind in kinds)
        rows.append((name, each.episodes, each.won, f"{each.steps:,}", *counts))
    head = ("environment", "episodes", "won", "steps", *(f"other {kind}" for kind in kinds[:-1]), "else")
    lines += table(head, rows, 3 + len(kinds))
    lines += ["", *(f"{each.env_id}: {each.first}" for each in found if each.first)]
    publish(out / f"{peer}.json", record, "\n".join(lines).rstrip() + "\n")
    return int(any(each.first for each in found))
