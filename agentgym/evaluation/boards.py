"""Boards: runs over the same environments, tasks and seeds, scored, compared and ranked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np

from agentgym.arrays import Floats
from agentgym.errors import UsageError
from agentgym.evaluation.aggregates import Aggregate, Scale, aggregate_one_seed, aggregate_seeds
from agentgym.evaluation.results import (
    EPISODES_FILE,
    RUN_FILE,
    EpisodeRecord,
    Excluded,
    RunEnv,
    RunHeader,
    RunRecord,
    file_sha256,
    read_episodes,
    read_run,
    result_id,
)
from agentgym.evaluation.scoring import EnvEpisodes, EnvResult
from agentgym.evaluation.statistics import CONFIDENCE, holm, minimum_detectable_difference, ranks, sign_flip_p
from agentgym.evaluation.suite import SuiteAgent
from agentgym.evaluation.verify import Badge, read_verdict
from agentgym.hashing import sha256_json

RESAMPLING_SEED = 0
"""Seeds every bootstrap and permutation test, so that a page follows from the results alone."""

Role = Literal["floor", "oracle", "agent"]


@dataclass(frozen=True, slots=True)
class Row:
    """An agent's line: one run, or one per training seed."""

    name: str
    role: Role
    agent: SuiteAgent
    """The first run's."""
    runs: tuple[str, ...]
    """Request ids."""
    seeds: int
    """Training seeds; 0 for agents without training."""
    badge: Badge
    """The least of its runs'."""
    date: str
    """Day of its latest run."""
    versions: tuple[str, ...]
    """Versions of this package that played."""
    envs: Mapping[str, EnvResult]
    """By label, of the environments that the agent plays."""
    left_out: tuple[Excluded, ...]
    """The board's other environments."""
    aggregate: Aggregate | None
    """Over the environments that can be normalised; None where there is none, or the agent does not play
    all of the board's."""
    rank: int | None
    """1 + number of rows significantly better; equal ranks are a tied set; None when unranked."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two rows, paired by task, on the normalised mean."""

    first: str
    second: str
    difference: float
    """First minus second."""
    standard_error: float
    p: float
    """Two-sided sign-flip permutation test."""
    p_holm: float
    """Adjusted over all pairs of the board."""


@dataclass(frozen=True, slots=True)
class Unranked:
    """A run that is on no line of a table, and why."""

    name: str
    run: str
    """Request id."""
    reason: str


@dataclass(frozen=True, slots=True)
class Board:
    """One table."""

    suite: RunHeader
    envs: tuple[RunEnv, ...]
    left_out: tuple[Excluded, ...]
    scales: Mapping[str, Scale]
    """Floor and oracle of each environment, by label; empty where either row is missing."""
    detectable: Mapping[str, float | None]
    """Least difference in score found with 80 % power, by label; None for a single task."""
    rows: tuple[Row, ...]
    """Best first; ranked rows before others."""
    comparisons: tuple[Comparison, ...]
    unranked: tuple[Unranked, ...]


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A run that is complete and undamaged."""

    run: RunRecord
    episodes: list[EpisodeRecord]
    badge: Badge


_SPENT_ON_TRAINING = ("training_episodes", "training_tokens", "training_gpu_seconds")


def load_boards(results: Path) -> list[Board]:
    """Read every run below a folder and make one board for each set of comparable runs.

    Raises:
        UsageError: there is no run, or a run's files cannot be read.
    """
    folders = sorted(path.parent for path in results.rglob(RUN_FILE))
    if not folders:
        raise UsageError(f"no run below {results}; run `agentgym bench SUITE.toml` first")
    arenas: dict[str, list[_Loaded | Unranked]] = {}
    records: dict[str, RunRecord] = {}
    for folder in folders:
        run = read_run(folder)
        arena = sha256_json(run.arena)
        records[arena] = run
        arenas.setdefault(arena, []).append(_load(folder, run))
    boards = [_board(records[arena], loaded) for arena, loaded in arenas.items()]
    return sorted(boards, key=lambda board: (board.suite.name, board.suite.version, -len(board.envs)))


def _load(folder: Path, run: RunRecord) -> _Loaded | Unranked:
    """Read a run if its files are whole; a run that fails verification is shown without numbers."""
    name = run.agent.display_name

    def unranked(reason: str) -> Unranked:
        return Unranked(name, run.request_id, reason)

    asked = sum(found.env.count for found in run.played) * run.suite.attempts
    if not (folder / EPISODES_FILE).exists():
        return unranked(f"partial: 0 of {asked} episodes")
    if run.result_id is None:
        lines = (folder / EPISODES_FILE).read_bytes().count(b"\n")
        return unranked(f"partial: {lines} of {asked} episodes")
    if run.episodes_sha256 != file_sha256(folder / EPISODES_FILE):
        return unranked(f"{EPISODES_FILE} is not the file that {RUN_FILE} names")
    verdict = read_verdict(folder)
    if verdict is not None and not verdict.ok:
        return unranked(f"rejected by verification: {len(verdict.problems)} problems")
    episodes = read_episodes(folder)
    if run.result_id != result_id(run.request_id, episodes):
        return unranked("result_id does not follow from the episodes")
    keys = {episode.key for episode in episodes}
    if len(keys) < asked:
        return unranked(f"partial: {len(keys)} of {asked} episodes")
    per_env = Counter(episode.env for episode in episodes)
    if per_env != {found.env.label: found.env.count * run.suite.attempts for found in run.played}:
        return unranked("holds episodes that were not asked for, or some twice")
    return _Loaded(run, episodes, "self-reported" if verdict is None else verdict.badge)


# --- one board --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    """A row in the making: the row without aggregate and rank, and its episodes by label."""

    row: Row
    episodes: Mapping[str, EnvEpisodes]


def _board(run: RunRecord, loaded: Sequence[_Loaded | Unranked]) -> Board:
    unranked = [entry for entry in loaded if isinstance(entry, Unranked)]
    groups = _by_agent([entry for entry in loaded if isinstance(entry, _Loaded)], unranked)
    entries = [_entry(runs, name) for runs, name in zip(groups, _names(groups), strict=True)]
    scales = _scales(run, entries)
    usable = [found.env.label for found in run.envs if found.env.label in scales]
    usable = [label for label in usable if scales[label].usable]
    complete = [entry for entry in entries if not entry.row.left_out]
    rows = [_with_aggregate(entry, scales, usable) for entry in complete]
    comparisons: list[Comparison] = []
    if usable:
        comparisons = _compare(complete, scales, usable)
        rows = ranked(rows, comparisons)
    rows += [entry.row for entry in entries if entry.row.left_out]
    return Board(
        suite=run.suite,
        envs=run.envs,
        left_out=run.missing,
        scales=scales,
        detectable={found.env.label: _detectable(found) for found in run.envs},
        rows=tuple(sorted(rows, key=_order)),
        comparisons=tuple(comparisons),
        unranked=tuple(unranked),
    )


def _by_agent(loaded: Iterable[_Loaded], unranked: list[Unranked]) -> list[list[_Loaded]]:
    """Group the runs of one agent's training seeds; a second run of a seed is set aside."""
    groups: dict[str, dict[int | None, _Loaded]] = {}
    for entry in loaded:
        identity = entry.run.agent.identity
        model = dict(identity["model"])
        seed = model.pop("training_seed")
        for own in ("weights_sha256", "training_run", *_SPENT_ON_TRAINING):  # a seed has its own
            del model[own]
        group = groups.setdefault(sha256_json({**identity, "model": model}), {})
        if seed in group:
            reason = "a second run of the same agent and training seed; only the first counts"
            unranked.append(Unranked(entry.run.agent.display_name, entry.run.request_id, reason))
        else:
            group[seed] = entry
    return [list(group.values()) for group in groups.values()]


def _names(groups: Sequence[Sequence[_Loaded]]) -> list[str]:
    """Name each group; agents that share a name get their request's digits, and no role."""
    names = [group[0].run.agent.name for group in groups]
    return [
        name if names.count(name) == 1 else f"{name}#{group[0].run.request_id[:6]}"
        for name, group in zip(names, groups, strict=True)
    ]


def _entry(runs: Sequence[_Loaded], name: str) -> _Entry:
    first = runs[0].run
    episodes = {}
    gaps = {gap.label: gap for entry in runs for gap in entry.run.unsupported}
    for found in first.envs:
        label = found.env.label
        if label in gaps:
            continue
        per_run = [[e for e in entry.episodes if e.env == label] for entry in runs]
        episodes[label] = EnvEpisodes(found.env, first.suite.attempts, per_run)
    stretches = [stretch for entry in runs for stretch in entry.run.provenance]
    badges: tuple[Badge, ...] = ("self-reported", "replayed", "re-run")
    roles: dict[str, Role] = {first.suite.floor: "floor", first.suite.oracle: "oracle"}
    row = Row(
        name=name,
        role=roles.get(name, "agent"),
        agent=first.agent,
        runs=tuple(entry.run.request_id for entry in runs),
        seeds=sum(entry.run.agent.model.training_seed is not None for entry in runs),
        badge=min((entry.badge for entry in runs), key=badges.index),
        date=max(stretch.date for stretch in stretches)[:10],
        versions=tuple(sorted({stretch.agentgym for stretch in stretches})),
        envs={label: table.result(_rng()) for label, table in episodes.items()},
        left_out=tuple(gaps.values()),
        aggregate=None,
        rank=None,
    )
    return _Entry(row, episodes)


def _scales(run: RunRecord, entries: Iterable[_Entry]) -> dict[str, Scale]:
    by_role = {entry.row.role: entry.row for entry in entries}
    if "floor" not in by_role or "oracle" not in by_role:
        return {}
    floor, oracle = by_role["floor"].envs, by_role["oracle"].envs
    labels = [found.env.label for found in run.envs if found.env.label in floor.keys() & oracle.keys()]
    return {label: Scale(floor[label].score.value, oracle[label].score.value) for label in labels}


def _with_aggregate(entry: _Entry, scales: Mapping[str, Scale], usable: Sequence[str]) -> Row:
    if not usable:
        return entry.row
    chosen = [scales[label] for label in usable]
    if len(entry.row.runs) == 1:
        results = [entry.row.envs[label].score for label in usable]
        normalised = [scale.normalise_estimate(x) for scale, x in zip(chosen, results, strict=True)]
        return replace(entry.row, aggregate=aggregate_one_seed(normalised))
    means = [entry.episodes[label].scores.mean(axis=2) for label in usable]
    return replace(entry.row, aggregate=aggregate_seeds(means, chosen, _rng()))


def _compare(
    entries: Sequence[_Entry], scales: Mapping[str, Scale], usable: Sequence[str]
) -> list[Comparison]:
    """Compare all pairs on the normalised mean: every environment weighs the same, every task pairs."""
    pairs = list(combinations(range(len(entries)), 2))
    if not pairs:
        return []
    blocks, variances = [], np.zeros(len(pairs))
    for label in usable:
        scale = scales[label]
        means = np.stack([e.episodes[label].scores.mean(axis=(0, 2)) for e in entries], axis=1)  # [T, R]
        tasks = len(means)
        weight = 1.0 / (len(usable) * tasks * (scale.oracle - scale.floor))
        terms: Floats = weight * (means[:, [i for i, _ in pairs]] - means[:, [j for _, j in pairs]])
        blocks.append(terms)
        if tasks > 1:
            variances += tasks * terms.var(axis=0, ddof=1)
    terms = np.concatenate(blocks)
    p = sign_flip_p(terms, _rng())
    names = [entry.row.name for entry in entries]
    columns = zip(pairs, terms.sum(axis=0), np.sqrt(variances), p, holm(p), strict=True)
    return [
        Comparison(names[i], names[j], float(d), float(se), float(raw), float(adjusted))
        for (i, j), d, se, raw, adjusted in columns
    ]


def ranked(rows: Sequence[Row], comparisons: Sequence[Comparison]) -> list[Row]:
    """Give each row its rank.

    Args:
        rows: R rows.
        comparisons: of all pairs, in the order of `itertools.combinations`.
    """
    better = np.zeros((len(rows), len(rows)), dtype=np.bool_)
    for (i, j), comparison in zip(combinations(range(len(rows)), 2), comparisons, strict=True):
        if comparison.p_holm <= 1.0 - CONFIDENCE:
            better[i, j], better[j, i] = comparison.difference > 0.0, comparison.difference < 0.0
    return [replace(row, rank=rank) for row, rank in zip(rows, ranks(better), strict=True)]


def _order(row: Row) -> tuple[float, float, str]:
    rank = float("inf") if row.rank is None else row.rank
    mean = 0.0 if row.aggregate is None else -row.aggregate.mean.value
    return rank, mean, row.name


def _detectable(found: RunEnv) -> float | None:
    """For two independent agents that succeed half of the time: the worst case."""
    if found.env.count < 2:
        return None
    least, greatest = (0.0, 1.0) if found.env.metric == "success" else found.env.bounds
    sd = (greatest - least) * float(np.sqrt(0.5))
    return minimum_detectable_difference(sd, found.env.count)


def _rng() -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(RESAMPLING_SEED))
