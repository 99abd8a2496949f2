"""Claims: runs grouped by agent and origin, contradictions, and equal episodes.

Runs that share a folder, or were packed together, may be seeds of one row. The order and the names of folders
decide nothing: who copies a run into a folder that comes first gains nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from agentgym.core.hashing import sha256_json
from agentgym.evaluation.log.results import EpisodeKey
from agentgym.evaluation.verify.submissions import Submission, Unranked
from agentgym.evaluation.verify.verdicts import BADGES

ALIKE = 0.8
"""Share of equal episodes from which two runs are reported.

Agents of the committed boards that never saw each other's episodes share 76 % at most: a trained one and the
oracle, on levels of a few moves. A copy with one episode swapped shares this much from five episodes on.
"""

_OF_A_SEED = (
    "training_seed",
    "weights_sha256",
    "training_run",
    "training_episodes",
    "training_tokens",
    "training_gpu_seconds",
)
"""Fields in which the training seeds of one agent differ."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Runs of a row."""

    runs: tuple[Submission, ...]
    """Runs of the row: one, or one per training seed, all of one origin."""
    contested_by: tuple[str, ...] = ()
    """Result ids of the runs of other rows that have the same agent and training seed and other episodes."""


@dataclass(frozen=True, slots=True)
class EqualEpisodes:
    """Two runs that have episodes in common: the same actions in the same states, to the last link."""

    first: str
    """Name of the row."""
    first_result: str
    """Result id of its run."""
    second: str
    second_result: str
    equal: int
    of: int
    """Episodes of both in which either agent wrote text and had an action accepted."""


def claims_of(submissions: Iterable[Submission]) -> tuple[list[Claim], list[Unranked]]:
    """Group the runs of each agent into rows; return the claims, and the copies among the runs.

    A row joins numbered training seeds of one agent and one origin, so that no run changes a row of another
    origin; a run without a training seed is a row of its own. Of one agent's runs with the same episodes one
    counts within an origin, and of exact copies between origins. Runs of one agent and training seed with
    other episodes contest each other.
    """
    agents: dict[str, dict[str, list[Submission]]] = {}
    for entry in in_order(submissions):
        agents.setdefault(_agent(entry), {}).setdefault(entry.origin, []).append(entry)
    claims: list[Claim] = []
    copies: list[Unranked] = []
    for origins in agents.values():
        rows = [row for runs in origins.values() for row in _rows(runs, copies)]
        different = _different(sorted(rows, key=lambda row: _place(row[0])), copies)
        claims += (Claim(tuple(row), tuple(_contesting(row, different))) for row in different)
    return sorted(claims, key=lambda claim: _place(claim.runs[0])), copies


def _rows(runs: Iterable[Submission], copies: list[Unranked]) -> Iterator[list[Submission]]:
    """Yield the rows of an agent's runs of one origin."""
    seeds: dict[int | None, list[Submission]] = {}
    for entry in runs:
        _add(entry, seeds.setdefault(entry.run.agent.model.training_seed, []), "", copies)
    together: list[Submission] = []
    for seed, found in seeds.items():
        if seed is None or len(found) > 1:
            yield from ([entry] for entry in found)
        else:
            _add(found[0], together, " of another training seed", copies)
    if together:
        yield together


def _different(rows: Iterable[list[Submission]], copies: list[Unranked]) -> list[list[Submission]]:
    """Return an agent's rows but copies of one before them.

    Copies have equal records, or they are of an agent that played the same again here. Other rows with the
    same episodes stay: what tells them apart is their submitters' word, which must not choose between them.
    """
    first_rows: dict[frozenset[str], list[Submission]] = {}
    for row in rows:
        same = frozenset(
            sha256_json(sorted(_links(entry).items()))
            if entry.verdict.badge == "re-run"
            else entry.run.record_id or ""
            for entry in row
        )
        if first_rows.setdefault(same, row) is not row:
            for entry in row:
                _add(entry, first_rows[same], "", copies)
    return list(first_rows.values())


def _contesting(row: Iterable[Submission], rows: Iterable[list[Submission]]) -> Iterator[str]:
    """Yield the result ids of runs of other rows that cannot be true beside a row's."""
    own = {entry.run.agent.model.training_seed: _links(entry) for entry in row}
    for other in rows:
        for entry in other if other is not row else ():
            seed = entry.run.agent.model.training_seed
            if seed in own and _links(entry) != own[seed]:
                yield result_of(entry)


def in_order(submissions: Iterable[Submission]) -> list[Submission]:
    """Return runs ordered by their content, whatever their folders."""
    return sorted(submissions, key=_place)


def result_of(entry: Submission) -> str:
    """Return the result id of a verified run, which is complete."""
    return entry.run.result_id or ""


def _place(entry: Submission) -> tuple[str, str, int, str]:
    run = entry.run
    return run.folder_name, result_of(entry), -BADGES.index(entry.verdict.badge), run.record_id or ""


def _agent(entry: Submission) -> str:
    identity = entry.run.agent.identity
    model = {key: value for key, value in identity["model"].items() if key not in _OF_A_SEED}
    return sha256_json({**identity, "model": model})


def _add(entry: Submission, runs: list[Submission], whose: str, copies: list[Unranked]) -> None:
    """Add a run to others, or to the copies where one of them has the same episodes."""
    twin = next((other for other in runs if _links(other) == _links(entry)), None)
    if twin is None:
        runs.append(entry)
        return
    run = entry.run
    reason = f"the same episodes as result {result_of(twin)[:12]}{whose}, so they count once"
    copies.append(Unranked(run.agent.display_name, run.request_id, run.suite.name, reason))


def _links(entry: Submission) -> dict[EpisodeKey, str]:
    """Return the last link of each hash chain, which depends on actions and results but not on the agent."""
    return {episode.key: episode.hash_chain[-1] for episode in entry.episodes}


def equal_episodes(claims: Sequence[Claim], names: Sequence[str]) -> Iterator[EqualEpisodes]:
    """Yield the pairs of runs with at least `ALIKE` of equal episodes; ``names`` are of their rows.

    Episodes in which nothing was said or no action accepted distinguish nothing, so they are left out; so are
    pairs of agents that both played again here.
    """
    found = [(name, entry) for claim, name in zip(claims, names, strict=True) for entry in claim.runs]
    links = [_links(entry) for _, entry in found]
    acted = [
        {e.key for e in entry.episodes if any(e.actions) and e.invalid_count < e.length} for _, entry in found
    ]
    for i, j in combinations(range(len(found)), 2):
        (first, one), (second, other) = found[i], found[j]
        if one.verdict.badge == other.verdict.badge == "re-run":
            continue
        both = (acted[i] | acted[j]) & links[i].keys() & links[j].keys()
        equal = sum(links[i][key] == links[j][key] for key in both)
        if both and equal >= ALIKE * len(both):
            yield EqualEpisodes(first, result_of(one), second, result_of(other), equal, len(both))
