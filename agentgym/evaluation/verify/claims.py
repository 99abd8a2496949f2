"""Claims: runs grouped by agent, contradictions, and equal episodes.

Nothing here depends on where a run lies: whoever copies a run into a folder that comes first gains nothing.
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
"""What the training seeds of an agent do not share."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Runs of a row."""

    runs: tuple[Submission, ...]
    """One, or one per training seed."""
    contested_by: tuple[str, ...] = ()
    """Result ids of the other runs of the same agent and training seed, which have other episodes."""


@dataclass(frozen=True, slots=True)
class EqualEpisodes:
    """Two runs that have episodes in common: the same actions in the same states, to the last link."""

    first: str
    """Name of the row."""
    first_result: str
    """Its run, by result id."""
    second: str
    second_result: str
    equal: int
    of: int
    """Episodes of both in which either said something and had an action accepted."""


def claims_of(submissions: Iterable[Submission]) -> tuple[list[Claim], list[Unranked]]:
    """Group the runs of each agent, and separate those that contradict each other; return claims and copies.

    Runs of one agent and training seed with the same episodes are copies, of which one counts. With other
    episodes each is a claim of its own, and a training seed of no other.
    """
    agents: dict[str, dict[int | None, list[Submission]]] = {}
    copies: list[Unranked] = []
    for entry in in_order(submissions):
        seeds = agents.setdefault(_agent(entry), {})
        runs = seeds.setdefault(entry.run.agent.model.training_seed, [])
        _add(entry, runs, "", copies)
    claims: list[Claim] = []
    for seeds in agents.values():
        together: list[Submission] = []
        for runs in seeds.values():
            if len(runs) == 1:
                _add(runs[0], together, " of another training seed", copies)
                continue
            results = [result_of(entry) for entry in runs]
            for place, entry in enumerate(runs):
                claims.append(Claim((entry,), (*results[:place], *results[place + 1 :])))
        if together:
            claims.append(Claim(tuple(together)))
    return sorted(claims, key=lambda claim: _place(claim.runs[0])), copies


def in_order(submissions: Iterable[Submission]) -> list[Submission]:
    """Return runs by what is in them, wherever they lie."""
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
    """Return the last link of each hash chain: what was played and came of it, by whomever."""
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
