"""Boards: runs over the same environments, tasks and seeds, scored, compared and ranked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from agentgym.agents.metadata import FILE_OPTIONS
from agentgym.core.arrays import Floats
from agentgym.core.hashing import canonical_json, sha256_json
from agentgym.core.suite_spec import Measure
from agentgym.evaluation.board.aggregates import Aggregate, Scale, aggregate_one_seed, aggregate_seeds
from agentgym.evaluation.board.scoring import EnvEpisodes, EnvResult
from agentgym.evaluation.board.statistics import (
    CONFIDENCE,
    can_be_told,
    holm,
    minimum_detectable_difference,
    permuted_p,
    ranks,
    sign_flip_p,
)
from agentgym.evaluation.log.judge_spread import JudgeSpread
from agentgym.evaluation.log.recorded_answers import AnswerCheck, merged
from agentgym.evaluation.log.results import EvalLog, EvalSpec, Excluded, RunEndpoint, RunEnv
from agentgym.evaluation.log.unreadable import UnreadableShare
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.evaluation.verify.claims import (
    Claim,
    EqualEpisodes,
    claims_of,
    equal_episodes,
    in_order,
    result_of,
)
from agentgym.evaluation.verify.submissions import Submission, Unranked, not_built
from agentgym.evaluation.verify.verdicts import BADGES, Badge, Role
from agentgym.io.hub import without_places

RESAMPLING_SEED = 0
"""Seed of every bootstrap and permutation test, so that a page depends on the results alone."""


@dataclass(frozen=True, slots=True)
class Row:
    """An agent's line: one run, or one per training seed."""

    name: str
    role: Role
    agent: SuiteAgent
    """Agent of the first run."""
    runs: tuple[str, ...]
    """Request ids of the runs."""
    results: tuple[str, ...]
    """Result ids of the same runs."""
    seeds: int
    """Number of training seeds; 0 for agents without training."""
    badge: Badge
    """Lowest badge of its runs."""
    answers: AnswerCheck | None
    """Check of its runs' recorded answers; None where they have none."""
    date: str
    """Day of its latest run."""
    versions: tuple[str, ...]
    """Package versions with which its runs were played."""
    envs: Mapping[str, EnvResult]
    """Results by label, in the environments that the agent plays."""
    left_out: tuple[Excluded, ...]
    """Other environments of the board, each with the reason."""
    aggregate: Aggregate | None
    """Aggregate over the environments that can be normalised; None without one, or where the agent does not
    play all of the board's."""
    rank: int | None
    """1 + number of rows significantly better; equal ranks are a tied set; None when unranked, also where too
    few runs can tell it from no other row."""
    contested_by: tuple[str, ...] = ()
    """Result ids of other runs of the same agent and training seed, which have other episodes."""
    endpoints: tuple[RunEndpoint, ...] = ()
    """Models behind endpoints that its runs asked; stated by the submitter."""
    spread: JudgeSpread | None = None
    """Spread of the judge's ratings of one transcript of its first run; None where it was not measured."""
    unreadable: tuple[UnreadableShare, ...] = ()
    """Shares of the answers to its runs' environments that could not be parsed."""

    def judge_deviations(self, label: str) -> Mapping[str, float]:
        """Return the standard deviation of a judge's rating, by the score or measure that it changes."""
        judged = None if self.spread is None else self.spread.envs.get(label)
        return {} if judged is None else judged.deviations

    @property
    def earned(self) -> str:
        """Badge of the row, with its check of recorded answers."""
        answers = self.answers.badge if self.answers is not None else ""
        return self.badge + answers + ", contested" * bool(self.contested_by)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two rows on the normalised mean: paired by task where each is one run, else by their runs' means."""

    first: str
    second: str
    difference: float
    """Mean difference, first minus second."""
    standard_error: float
    p: float
    """P value of the two-sided permutation test: of the signs of tasks, or of the runs."""
    p_holm: float
    """P value adjusted over all pairs of the board that can be told apart (Holm); 1 for others."""


@dataclass(frozen=True, slots=True)
class Board:
    """One table."""

    suite: EvalSpec
    suite_sha256: str
    """Digest of the suite that the runs were verified against, its `Suite.sha256`."""
    envs: tuple[RunEnv, ...]
    left_out: tuple[str, ...]
    """Environments of the suite, by label, whose data neither the submitters nor the verifier have: with any,
    no row is ranked."""
    attested: tuple[str, ...]
    """Environments, by label, whose episodes rest on attested answers: an endpoint's, which nobody can
    recompute. Such runs share no board with others."""
    families: Mapping[str, str]
    """Suite of environments of each environment, by label; each weighs the same in means."""
    columns: Mapping[str, tuple[Measure, ...]]
    """The measures that tables show of each environment, by label, as the suite file here chooses them."""
    scales: Mapping[str, Scale]
    """Floor and oracle of each environment, by label; empty where either row is missing."""
    detectable: Mapping[str, float | None]
    """Least difference in score detected with 80 % power, by label; None where it exceeds the scale."""
    rows: tuple[Row, ...]
    """Rows of the board, best first; ranked ones before others."""
    comparisons: tuple[Comparison, ...]
    alike: tuple[EqualEpisodes, ...]
    """Runs that have nearly all episodes in common, within a row or across."""
    unranked: tuple[Unranked, ...]


def make_boards(found: Iterable[Submission | Unranked]) -> tuple[list[Board], list[Unranked]]:
    """Make one board for each set of comparable runs.

    Returns the boards by suite, version and number of environments, and the unranked runs that belong to
    none, in an order that does not depend on that of the runs. Runs whose board cannot be built are among
    the latter.
    """
    by_key: dict[tuple[str, str], list[Submission]] = {}
    unranked: list[Unranked] = []
    for entry in found:
        if isinstance(entry, Unranked):
            unranked.append(entry)
        else:
            by_key.setdefault((sha256_json(entry.run.comparison_key), entry.scale), []).append(entry)
    # runs without a board appear below the first board of their suite
    homes: dict[str, list[Unranked]] = {}
    for run in sorted(unranked, key=astuple):
        homes.setdefault(run.suite, []).append(run)
    boards = []
    for _, entries in sorted(by_key.items(), key=_board_order):
        suite = entries[0].run.suite.name
        try:
            boards.append(_board(in_order(entries), homes.get(suite, [])))
        except Exception as error:  # noqa: BLE001  # a suite file may be a stranger's: the others are built
            homes.setdefault(suite, []).extend(not_built(entry, error) for entry in in_order(entries))
        else:
            homes.pop(suite, None)
    return boards, [run for runs in homes.values() for run in runs]


def _board_order(
    keyed: tuple[tuple[str, str], Sequence[Submission]],
) -> tuple[str, str, int, str, tuple[str, str]]:
    digests, (first, *_) = keyed
    run = first.run
    return run.suite.name, run.suite.version, -len(run.envs), run.suite_sha256, digests


# --- one board --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    """A row in the making: the row without aggregate and rank, and its episodes by label."""

    row: Row
    episodes: Mapping[str, EnvEpisodes]


def _board(submissions: Sequence[Submission], unranked: list[Unranked]) -> Board:
    first = submissions[0]
    run, families = first.run, first.families
    left_out = tuple(gap.label for gap in first.verdict.missing)
    claims, copies = claims_of(submissions)
    names = _names(claims)
    entries = [_entry(claim, name, first.columns) for claim, name in zip(claims, names, strict=True)]
    scales = {} if left_out else _scales(run, entries)
    usable = [found.env.label for found in run.envs if found.env.label in scales]
    usable = [label for label in usable if scales[label].usable]
    sizes = Counter(families[label] for label in usable)
    weights = np.array([1.0 / (len(sizes) * sizes[families[label]]) for label in usable])
    columns = Normalisable(tuple(usable), weights, scales)
    complete = [entry for entry in entries if not entry.row.left_out]
    rows = [_with_aggregate(entry, columns) for entry in complete]
    comparisons: list[Comparison] = []
    if usable:
        comparisons = _compare(complete, columns)
        rows = ranked(rows, comparisons)
    rows += [entry.row for entry in entries if entry.row.left_out]
    return Board(
        suite=run.suite,
        suite_sha256=first.verdict.suite_sha256,
        envs=tuple(replace(e, env=replace(e.env, kwargs=_by_name(e.env.kwargs))) for e in run.envs),
        left_out=left_out,
        attested=tuple(
            found.env.label for found in run.envs if any(pin.standing == "attested" for pin in found.answers)
        ),
        families=families,
        columns=first.columns,
        scales=scales,
        detectable={found.env.label: _detectable(found) for found in run.envs},
        rows=tuple(sorted(rows, key=_order)),
        comparisons=tuple(comparisons),
        alike=tuple(equal_episodes(claims, names)),
        unranked=(*unranked, *copies),
    )


def _by_name(options: Mapping[str, Any]) -> dict[str, Any]:
    """Sort options by name, in whatever order a run has them."""
    ordered: dict[str, Any] = json.loads(canonical_json(options))
    return ordered


@dataclass(frozen=True, slots=True)
class Normalisable:
    """The environments that can be normalised."""

    labels: tuple[str, ...]
    weights: Floats
    """Weights, float64[E], of sum 1: suites of environments weigh the same, and so do columns in a suite."""
    scales: Mapping[str, Scale]


def _names(claims: Sequence[Claim]) -> list[str]:
    """Name each claim; agents that share a name get their request's digits, or else their result's."""
    first = [claim.runs[0] for claim in claims]
    names = [entry.run.agent.name for entry in first]
    results = [result_of(entry) for entry in first]
    records = [sha256_json(sorted(entry.run.record_id or "" for entry in claim.runs)) for claim in claims]
    requests = [entry.run.request_id[:6] for entry in first]
    for ids in (requests, [result[:6] for result in results], results, records):
        counts = Counter(names)
        names = [
            name if counts[name] == 1 else f"{entry.run.agent.name}#{digits}"
            for name, digits, entry in zip(names, ids, first, strict=True)
        ]
    return names


def _entry(claim: Claim, name: str, columns: Mapping[str, tuple[Measure, ...]]) -> _Entry:
    runs = claim.runs
    first = runs[0].run
    episodes = {}
    gaps = {gap.label: gap for entry in runs for gap in entry.verdict.unsupported}
    for found in first.envs:
        label = found.env.label
        if label in gaps:
            continue
        per_run = [[e for e in entry.episodes if e.env == label] for entry in runs]
        shown = columns.get(label, ())
        episodes[label] = EnvEpisodes(
            found.env, first.suite.attempts, per_run, shown, asks_endpoint=first.asks_endpoint
        )
    checks = [entry.verdict.answers for entry in runs if entry.verdict.answers is not None]
    stretches = [stretch for entry in runs for stretch in entry.run.provenance]
    row = Row(
        name=name,
        role=runs[0].verdict.role,
        agent=_shown(first.agent),
        runs=tuple(entry.run.request_id for entry in runs),
        results=tuple(map(result_of, runs)),
        seeds=sum(entry.run.agent.model.training_seed is not None for entry in runs),
        badge=min((entry.verdict.badge for entry in runs), key=BADGES.index),
        answers=merged(checks) if checks else None,
        date=max(stretch.date for stretch in stretches)[:10],
        versions=tuple(sorted({stretch.agentgym for stretch in stretches})),
        envs={label: table.result(_rng()) for label, table in episodes.items()},
        left_out=tuple(gaps.values()),
        aggregate=None,
        rank=None,
        contested_by=claim.contested_by,
        endpoints=tuple({(e.url, e.model): e for entry in runs for e in entry.run.endpoints}.values()),
        spread=runs[0].spread,
        unreadable=tuple(each for entry in runs for each in entry.unreadable),
    )
    return _Entry(row, episodes)


def _shown(agent: SuiteAgent) -> SuiteAgent:
    """Drop the places of an agent's files: a page has no place for local paths."""
    options = without_places(agent.options, FILE_OPTIONS)
    return replace(agent, options=_by_name(options), sampling=_by_name(agent.sampling))


def _scales(run: EvalLog, entries: Iterable[_Entry]) -> dict[str, Scale]:
    if not run.suite.floor:
        return {
            found.env.label: Scale(0.0, 1.0) if found.env.metric == "success" else Scale(*found.env.bounds)
            for found in run.envs
        }
    by_role = {entry.row.role: entry.row for entry in entries}
    if "floor" not in by_role or "oracle" not in by_role:
        return {}
    floor, oracle = by_role["floor"].envs, by_role["oracle"].envs
    labels = [found.env.label for found in run.envs if found.env.label in floor.keys() & oracle.keys()]
    return {label: Scale(floor[label].score.value, oracle[label].score.value) for label in labels}


def _with_aggregate(entry: _Entry, columns: Normalisable) -> Row:
    if not columns.labels:
        return entry.row
    chosen = [columns.scales[label] for label in columns.labels]
    if len(entry.row.runs) == 1:
        results = [entry.row.envs[label].score for label in columns.labels]
        normalised = [scale.normalise_estimate(x) for scale, x in zip(chosen, results, strict=True)]
        return replace(entry.row, aggregate=aggregate_one_seed(normalised, columns.weights))
    means = [entry.episodes[label].scores.mean(axis=2) for label in columns.labels]
    bounds = [entry.episodes[label].bounds for label in columns.labels]
    return replace(entry.row, aggregate=aggregate_seeds(means, chosen, bounds, columns.weights))


def _compare(entries: Sequence[_Entry], columns: Normalisable) -> list[Comparison]:
    """Compare all pairs on the normalised mean: environments weigh as in it.

    Tasks pair two rows of one run each, which says something of these weights alone; else runs are permuted.
    """
    pairs = list(combinations(range(len(entries)), 2))
    runs = [(len(entries[i].row.runs), len(entries[j].row.runs)) for i, j in pairs]
    single = [pair for pair, counts in zip(pairs, runs, strict=True) if counts == (1, 1)]
    tested = dict(zip(single, _over_tasks(entries, columns, single), strict=True)) if single else {}
    for i, j in set(pairs).difference(single):
        tested[i, j] = _over_runs(entries[i], entries[j], columns)
    testable, adjusted = can_be_told(runs), np.ones(len(pairs))
    adjusted[testable] = holm(np.array([tested[pair][2] for pair in pairs])[testable])
    return [
        Comparison(entries[i].row.name, entries[j].row.name, *tested[i, j], float(p))
        for (i, j), p in zip(pairs, adjusted, strict=True)
    ]


def _over_tasks(
    entries: Sequence[_Entry], columns: Normalisable, pairs: Sequence[tuple[int, int]]
) -> list[tuple[float, float, float]]:
    """Return difference, standard error and p value of pairs of rows of one run each; every task pairs."""
    blocks, variances = [], np.zeros(len(pairs))
    for label, share in zip(columns.labels, columns.weights, strict=True):
        scale = columns.scales[label]
        means = np.stack([e.episodes[label].scores.mean(axis=(0, 2)) for e in entries], axis=1)  # [T, R]
        tasks = len(means)
        weight = share / (tasks * (scale.oracle - scale.floor))
        terms: Floats = weight * (means[:, [i for i, _ in pairs]] - means[:, [j for _, j in pairs]])
        blocks.append(terms)
        if tasks > 1:
            variances += tasks * terms.var(axis=0, ddof=1)
    terms = np.concatenate(blocks)
    found = terms.sum(axis=0), np.sqrt(variances), sign_flip_p(terms, _rng())
    return [(float(difference), float(error), float(p)) for difference, error, p in zip(*found, strict=True)]


def _over_runs(first: _Entry, second: _Entry, columns: Normalisable) -> tuple[float, float, float]:
    """Return the same of two rows by their runs' normalised means; the error has their common variance."""
    one, other = (np.zeros(len(entry.row.runs)) for entry in (first, second))
    for label, share in zip(columns.labels, columns.weights, strict=True):
        for entry, values in ((first, one), (second, other)):
            scores = entry.episodes[label].scores
            values += share * columns.scales[label].normalise(scores.mean(axis=(1, 2)))
    squares = sum(float(((values - values.mean()) ** 2).sum()) for values in (one, other))
    variance = squares / (len(one) + len(other) - 2) * (1 / len(one) + 1 / len(other))
    return float(one.mean() - other.mean()), variance**0.5, permuted_p(one, other, _rng())


def ranked(rows: Sequence[Row], comparisons: Sequence[Comparison]) -> list[Row]:
    """Rank each row that can be told from any; comparisons are in the order of `itertools.combinations`."""
    better = np.zeros((len(rows), len(rows)), dtype=np.bool_)
    pairs = list(combinations(range(len(rows)), 2))
    testable = can_be_told([(len(rows[i].runs), len(rows[j].runs)) for i, j in pairs])
    for (i, j), comparison in zip(pairs, comparisons, strict=True):
        if comparison.p_holm <= 1.0 - CONFIDENCE:
            better[i, j], better[j, i] = comparison.difference > 0.0, comparison.difference < 0.0
    seen = {i for pair, can in zip(pairs, testable, strict=True) if can for i in pair}
    placed = zip(rows, ranks(better), range(len(rows)), strict=True)
    return [replace(row, rank=rank if i in seen or not pairs else None) for row, rank, i in placed]


def _order(row: Row) -> tuple[float, float, str]:
    rank = float("inf") if row.rank is None else row.rank
    mean = 0.0 if row.aggregate is None else -row.aggregate.mean.value
    return rank, mean, row.name


def _detectable(found: RunEnv) -> float | None:
    """Return the least detectable difference of two agents that win half of the time; None if too large."""
    if found.env.count < 2:
        return None
    least, greatest = (0.0, 1.0) if found.env.metric == "success" else found.env.bounds
    sd = (greatest - least) * float(np.sqrt(0.5))
    difference = minimum_detectable_difference(sd, found.env.count)
    return difference if difference <= greatest - least else None


def _rng() -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(RESAMPLING_SEED))
