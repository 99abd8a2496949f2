"""Recorded rollouts of single iterations of a training run, with the algorithm's values for each step.

A run with ``keep_rollouts=10`` writes the episodes of every tenth iteration: ``rollouts/000010.jsonl`` and so
on, a line per episode, each file whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from agentgym.core.hashing import canonical_json
from agentgym.core.types import EndReason
from agentgym.errors import UsageError
from agentgym.io.files import make_folder, replace_file
from agentgym.io.records import parse
from agentgym.io.untrusted import MAX_LINES_SIZE, loads_json, read_file

FOLDER = "rollouts"


@dataclass(frozen=True, slots=True)
class KeptStep:
    """One step, with its share of the credit."""

    state_hash: str
    """Of the state acted in."""
    admissible: int
    """Index into `KeptEpisode.admissible_actions`."""
    action: str
    response: str
    """The model's text."""
    response_ids: tuple[int, ...]
    """Its token ids."""
    valid: bool
    """Whether the environment accepted the action."""
    reward: float
    return_to_go: float
    """Sum of the rewards from this step on, not discounted."""
    advantage: float
    """Of the step; where the algorithm credits tokens, the mean over the response's."""
    token_advantages: tuple[float, ...]
    """Of each response token, where the algorithm credits tokens; else empty."""
    value: float | None
    """The critic's, before the update, of the state acted in; None without a critic."""
    process_reward: float | None
    """The reward model's, of the step; None without one."""
    version: int
    """Of the weights that sampled the response."""


@dataclass(frozen=True, slots=True)
class KeptEpisode:
    """One episode that an update was trained on."""

    iteration: int
    """Of the run, from 1."""
    version: int
    """Of the weights that the iteration updated."""
    group: int
    """Which group of the iteration, from 0; its members are compared with each other."""
    task_id: str
    task_type: str
    seed: int
    """The environment's."""
    rollout: int
    """Which member of the group, from 0."""
    won: bool
    score: float
    end_reason: EndReason
    final_hash: str
    """Of the last state."""
    admissible_actions: tuple[tuple[str, ...], ...]
    """Each different list of actions once."""
    steps: tuple[KeptStep, ...]
    notes: Mapping[str, float] = field(default_factory=dict)
    """Further numbers of it by name, where its collector gives any: of a sample of a state, such as 3SPO
    takes, the state's depth, visits and score."""

    @property
    def line(self) -> str:
        """JSON on one line."""
        table = asdict(self)
        return canonical_json(table)


def rollouts_file(folder: Path, iteration: int) -> Path:
    """Return the path of an iteration's rollouts in a run's folder."""
    return folder / FOLDER / f"{iteration:06d}.jsonl"


def write_rollouts(folder: Path, iteration: int, episodes: Iterable[KeptEpisode]) -> None:
    """Write the rollouts of an iteration, all at once."""
    path = rollouts_file(folder, iteration)
    make_folder(path.parent)
    replace_file(path, "".join(f"{episode.line}\n" for episode in episodes))


def kept_iterations(folder: Path) -> list[int]:
    """Return the iterations of a run with recorded rollouts, ascending."""
    return sorted(int(path.stem) for path in (folder / FOLDER).glob("*.jsonl") if path.stem.isdecimal())


def drop_rollouts(folder: Path, after: int) -> None:
    """Remove the rollouts of iterations after one: a resumed run plays them again."""
    for iteration in kept_iterations(folder):
        if iteration > after:
            rollouts_file(folder, iteration).unlink()


def read_rollouts(folder: Path, iteration: int) -> list[KeptEpisode]:
    """Read the rollouts of an iteration, group by group.

    Raises:
        UsageError: they were not kept, or a line is malformed; the message has its number.
    """
    path = rollouts_file(folder, iteration)
    known = ", ".join(map(str, kept_iterations(folder))) or "none; train with --set keep_rollouts=10"
    data = read_file(path, largest=MAX_LINES_SIZE, remedy=f"iterations kept: {known}")
    *lines, rest = data.split(b"\n")
    if rest:
        raise UsageError(f"{path}, line {len(lines) + 1}: the line is cut off")
    episodes = []
    for number, line in enumerate(lines, start=1):
        try:
            episodes.append(_parse_line(line, iteration))
        except ValueError as error:
            raise UsageError(f"{path}, line {number}: malformed: {error}") from error
    return episodes


def _parse_line(line: bytes, iteration: int) -> KeptEpisode:
    episode = parse(KeptEpisode, loads_json(line, "line"), "episode")
    if episode.line.encode() != line:
        raise ValueError("the line is not written as records are")
    if episode.iteration != iteration:
        raise ValueError(f"it is of iteration {episode.iteration}")
    if any(not 0 <= step.admissible < len(episode.admissible_actions) for step in episode.steps):
        raise ValueError("a step names a list of actions that is not there")
    return episode
