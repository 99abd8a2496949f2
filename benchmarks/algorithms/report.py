"""The report of a study: a page, the numbers behind it as JSON, and learning curves."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.core.arrays import Floats
from agentgym.errors import UsageError
from agentgym.evaluation.board.statistics import Estimate, minimum_detectable_difference, t_interval
from agentgym.io.files import replace_file
from agentgym.io.records import parse
from agentgym.io.untrusted import read_json
from benchmarks.algorithms.claims import Claim
from benchmarks.algorithms.comparison import adjusted, first_above, paired_p
from benchmarks.algorithms.curves import draw
from benchmarks.algorithms.plan import ENVIRONMENTS, MODEL, SETTINGS, Environment, Study
from benchmarks.algorithms.runs import (
    BEFORE,
    COMMITTED,
    RunKey,
    StartingPoint,
    SweepRun,
    digest_of,
    finished,
)
from benchmarks.harness.report import machine

RNG_SEED = 0
VERDICTS = ("holds", "open", "not confirmed", "reversed")
_LEVEL = 0.05
_PAPERS_SCALE = (
    " Scale, tasks, models and step budgets have nothing in common with the papers': what holds here "
    "supports a mechanism, and what does not refutes nothing."
)


@dataclass(frozen=True, slots=True)
class Line:
    """One arm in one environment."""

    label: str
    runs: tuple[SweepRun, ...]
    """By seed."""

    @property
    def means(self) -> Floats:
        """(seeds,), the share of held-out episodes that was won."""
        return np.array([run.held_out_success for run in self.runs])

    def versus(self, other: Line) -> Floats:
        """Return (seeds,) differences over the seeds that both have."""
        own, others = (
            {run.seed: mean for run, mean in zip(x.runs, x.means, strict=True)} for x in (self, other)
        )
        return np.array([own[seed] - others[seed] for seed in own if seed in others])


def write_report(study: Study, keys: Sequence[RunKey], folder: Path) -> None:
    """Write ``STUDY.json`` of the finished runs, and its page.

    Args:
        study: the table.
        keys: all of its cells; what is not finished counts as missing.
        folder: is written to.

    Raises:
        UsageError: committed runs that stand beside the study's were made otherwise.
    """
    beside = runs_beside(study)
    _check_beside(study, beside)
    record: dict[str, Any] = {
        "study": study.name,
        "source": study.source,
        "processor": machine()["cpu"],
        "settings": dict(SETTINGS),
        "environments": {
            key: {**asdict(ENVIRONMENTS[key]), "before": asdict(_before(ENVIRONMENTS[key]))}
            for key in study.environments
            if (ENVIRONMENTS[key].warm_start / BEFORE).exists()
        },
        "planned": len(keys),
        **_runs(study, [{"arm": key.arm.label, **asdict(run)} for key, run in finished(keys)], len(keys)),
    }
    if beside and record["runs"]:
        record["beside"] = [{"arm": label, **asdict(run)} for label, run in beside]
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / f"{page_name(study)}.json", json.dumps(record, default=dict) + "\n")
    write_page(study, folder)


def _runs(study: Study, runs: list[dict[str, Any]], planned: int) -> dict[str, Any]:
    """Return runs by what may be shown of them: of declared orderings nothing before all are there."""
    if not study.declared:
        return {"runs": runs}
    if len(runs) < planned:
        return {"runs": [], "unfinished": runs}
    return {
        "runs": [run for run in runs if run["seed"] in study.seeds],
        "held_back": [run for run in runs if run["seed"] in study.held_back],
    }


def write_page(study: Study, folder: Path) -> None:
    """Write ``STUDY.md`` and, for the main study, curves from ``STUDY.json`` alone.

    Raises:
        UsageError: the folder holds no such file, or a damaged one.
    """
    path = folder / f"{page_name(study)}.json"
    record = read_json(path)
    done = list(_read_runs(record, path))
    pictures = {}
    if study.drawn and done:
        for name in study.environments:
            picture = name if study.name in ("main", name) else f"{study.name}-{name}"
            pictures[name] = draw(name, done, folder, picture)
    replace_file(path.with_suffix(".md"), "\n".join(_page(study, record, done, pictures)) + "\n")


def _read_runs(
    record: Mapping[str, Any], path: Path, parts: Sequence[str] = ("runs", "held_back", "unfinished")
) -> Iterator[tuple[str, SweepRun]]:
    """Yield the runs of a file with the labels of their arms."""
    for part in parts:
        for run in record.get(part, ()):
            fields = {name: value for name, value in run.items() if name != "arm"}
            yield run["arm"], parse(SweepRun, fields, str(path))


def runs_beside(study: Study) -> list[tuple[str, SweepRun]]:
    """Return the runs of the main table that stand beside a study's own."""
    labels, path = {arm.label for arm in study.beside}, COMMITTED / "report.json"
    return [
        (label, run)
        for label, run in (_read_runs(read_json(path), path) if labels else ())
        if label in labels and run.environment in study.environments and run.seed in study.seeds
    ]


def _check_beside(study: Study, found: Sequence[tuple[str, SweepRun]]) -> None:
    """Raise UsageError where a run that stands beside was made with other settings, or another warm start."""
    arms = {arm.label: arm for arm in study.beside}
    for label, run in found:
        if digest_of(RunKey(run.environment, arms[label], run.seed)) != run.digest:
            raise UsageError(
                f"{run.environment}, {label}: its committed run began with other weights or settings than a "
                "run of this machine: run `make sweep` here first"
            )


def page_name(study: Study) -> str:
    """Return the name of a study's page and numbers, without ending."""
    return "report" if study.name == "main" else f"sweep-{study.name}"


def _page(
    study: Study, record: Mapping[str, Any], done: Sequence[tuple[str, SweepRun]], pictures: dict[str, str]
) -> Iterator[str]:
    yield f"# {study.title}"
    yield ""
    yield (
        f"At tiny scale: {study.source}. `python -m benchmarks.algorithms {study.name}` trains "
        "what is missing and writes this page; it can be stopped at any point and continues."
    )
    yield ""
    yield from _coverage(study, record, done)
    whole = not study.declared or len(done) == record["planned"]
    done = [*done, *_read_runs(record, Path(page_name(study)), ("beside",))]
    for name in study.environments:
        environment = ENVIRONMENTS[name]
        lines = _lines(study, name, done)
        if lines and whole:
            before = parse(StartingPoint, record["environments"][name]["before"], name)
            yield from _section(study, environment, before, lines, pictures.get(name))
            if study.beside:
                yield from _price(study, lines)
    if study.name == "main":
        yield (
            "Which of the papers' orderings hold is asked with forty other seeds: "
            "[sweep-orderings](sweep-orderings.md)."
        )
    if study.declared and whole:
        yield from _declared(study, done)
    elif study.declared:
        yield f"## {study.question}"
        yield ""
        yield f"Results are hidden until all {record['planned']:,} runs are there."
    if study.expected and done:
        yield from _expected(study, done)


def _coverage(study: Study, record: Mapping[str, Any], done: Sequence[tuple[str, SweepRun]]) -> Iterator[str]:
    seconds = [run.cpu_seconds for _, run in done]
    missing = {arm.label for arm in study.arms} - {label for label, _ in done}
    longest = f", {max(seconds):.0f} the longest" if seconds else ""
    seeds = sorted({run.seed for _, run in done} - {*study.held_back})
    yield "## Coverage and method"
    yield ""
    if done:
        yield (
            f"{len(done)} of {record['planned']} runs have finished, seeds {_seeds(seeds)}; "
            f"they took {sum(seconds):,.0f} processor-seconds in all{longest}, on "
            f"{record.get('processor', 'two shared cores')}."
            + (f" Not run: {', '.join(sorted(missing))}." if missing else "")
        )
    else:
        yield f"Planned: none of {record['planned']} runs has finished yet."
    yield ""
    size = SETTINGS["rollout.group_size"]
    tasks = " or ".join(map(str, sorted({_tasks(ENVIRONMENTS[name]) for name in study.environments})))
    yield (
        f"Every run begins with the same weights, a model `{MODEL}` that cloned a few episodes of the "
        "environment's oracle or rules, and ends with the first iteration that has spent the budget of "
        f"environment steps. An iteration is {tasks} tasks, {size} episodes each unless an arm sets another "
        f"number (also for the algorithms that need no groups). {study.chosen} "
        "Advantages and objectives are the papers' (`agentgym.algos`), without KL to a "
        "reference; DAPO samples dynamically, and the episodes that it leaves out count as steps. Success in "
        "training (thresholds, curves) is that of the groups kept for DAPO and of the ends of trees "
        "for 3SPO, so it lies above what these policies do when they play."
    )
    yield ""
    if not done:
        return
    yield (
        "*Mean* is the success on held-out tasks after training, in %, sampled at temperature 1, several "
        f"attempts each. It and the difference to {study.baseline} have 95 % intervals of Student's t over "
        "the means of the seeds; *seeds* is the least and greatest of these means. The interval says where "
        "the mean of many seeds lies ([checked with forty](coverage.md)), the range where one more seed may. "
        f"*p* is a sign-flip test of the seeds' differences, Holm-adjusted within the table; "
        f"with {len(seeds)} seeds it is {2 / 2 ** len(seeds):.2g} at least before the adjustment."
    )
    yield ""


def _seeds(seeds: Sequence[int]) -> str:
    run = len(seeds) > 1 and list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]} to {seeds[-1]}" if run else ", ".join(map(str, seeds))


def _tasks(environment: Environment) -> int:
    return int(environment.settings.get("rollout.tasks", SETTINGS["rollout.tasks"]))


def _section(
    study: Study, environment: Environment, before: StartingPoint, lines: Sequence[Line], picture: str | None
) -> Iterator[str]:
    rng = np.random.default_rng(RNG_SEED)
    won = statistics.fmean(statistics.fmean(task) for task in before.won)
    yield f"## {environment.title}"
    yield ""
    yield (
        f"{environment.about[0].upper()}{environment.about[1:]}. The warm start, cloned from "
        f"{environment.demonstrations} episodes{_of_rules(environment)}, wins {won:.1%} of "
        f"{environment.held_out} held-out tasks x {environment.attempts} attempts in "
        f"{before.steps_per_episode:.1f} steps on average. Budget {lines[0].runs[0].budget:,} steps, "
        f"learning rate {environment.learning_rate:g}."
    )
    yield ""
    head = f"| | runs | mean | seeds | against {study.baseline} | p | seeds above | "
    yield head + f"iterations to {environment.threshold:.0%} | steps to it | iterations | processor-seconds |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    base = next((line for line in lines if line.label == study.baseline), lines[0])
    others = {line.label: line.versus(base) for line in lines if line is not base}
    raw = [paired_p(diff, rng) if len(diff) else 1.0 for diff in others.values()]
    p_values = dict(zip(others, adjusted(raw), strict=True))
    for line in sorted(lines, key=lambda line: -float(line.means.mean())):
        yield _row(line, others.get(line.label), p_values.get(line.label), environment)
    yield ""
    if picture:
        yield f"![Success in training by environment steps, exponential moving average .95]({picture})"
        yield ""


def _price(study: Study, lines: Sequence[Line]) -> Iterator[str]:
    """Yield what the study's own arms and the baseline spent; tokens of older runs were not counted."""
    yield "| | episodes trained on | environment steps | sampled tokens | mean |"
    yield "|---|---:|---:|---:|---:|"
    for line in lines:
        if line.label in (study.baseline, *(arm.label for arm in study.arms)):
            spent = [(run.episodes, run.env_steps[-1], run.tokens) for run in line.runs]
            episodes, steps, tokens = (statistics.fmean(values) for values in zip(*spent, strict=True))
            counted = f"{tokens:,.0f}" if tokens else "not counted"
            cells = (f"{episodes:,.0f}", f"{steps:,.0f}", counted, f"{100 * line.means.mean():.1f}")
            yield f"| {line.label} | {' | '.join(cells)} |"
    yield ""


def _of_rules(environment: Environment) -> str:
    return " of its rules" if environment.teacher == "rules" else ""


def _row(line: Line, difference: Floats | None, p: float | None, environment: Environment) -> str:
    success = _percent(t_interval(line.means, (0.0, 1.0)))
    spread = f"{100 * line.means.min():.0f} to {100 * line.means.max():.0f}"
    against, chance, seeds = "", "", ""
    if difference is not None and len(difference):
        against = _percent(t_interval(difference, (-1.0, 1.0)), sign=True)
        chance = "" if p is None else f"{p:.3f}"
        seeds = f"{int((difference > 0).sum())} of {len(difference)}"
    firsts = [first_above(run.success, environment.threshold) for run in line.runs]
    reached = [
        (first, run.env_steps[first - 1]) for first, run in zip(firsts, line.runs, strict=True) if first
    ]
    note = "" if len(reached) == len(firsts) else f" ({len(reached)} of {len(firsts)})"
    when = f"{statistics.median(first for first, _ in reached):g}{note}" if reached else "-"
    spent = f"{statistics.median(steps for _, steps in reached):,.0f}" if reached else "-"
    seconds = statistics.fmean(run.cpu_seconds for run in line.runs)
    iterations = statistics.fmean(len(run.success) for run in line.runs)
    ends = Counter(run.end for run in line.runs if run.end != "budget")
    label = line.label + "".join(f" ({count} {end})" for end, count in ends.items())
    return (
        f"| {label} | {len(line.runs)} | {success} | {spread} | {against} | {chance} | {seeds} | {when} | "
        f"{spent} | {iterations:.0f} | {seconds:.1f} |"
    )


def _declared(study: Study, done: Sequence[tuple[str, SweepRun]]) -> Iterator[str]:
    yield f"## {study.question}"
    yield ""
    yield (
        "The difference of the first to the second in success after training, in points, with the 95 % "
        f"interval of Student's t over {len(study.seeds)} seeds; *p* of the sign-flip test of the seeds' "
        "differences, Holm-adjusted over all cells of this table; then the difference on the "
        f"{len(study.held_back)} seeds that were held back, and *p* of its one-sided test. An ordering "
        "*holds* or is *reversed* where the first p is at most .05 and the second too, with the same sign; "
        "it is *not confirmed* where only the first is, and *open* else. Orderings, seeds and this rule were "
        "committed before the first run ([claims.py](claims.py))." + ("" if study.beside else _PAPERS_SCALE)
    )
    yield ""
    cells = {
        (name, claim): cell
        for name in study.environments
        for claim in study.declared
        if (cell := _compared(study, name, claim, done)) is not None
    }
    p_values = dict(zip(cells, adjusted([cell.p for cell in cells.values()]), strict=True))
    titles = " | ".join(ENVIRONMENTS[name].title for name in study.environments)
    yield f"| ordering | {'why' if study.beside else 'printed'} | {titles} |"
    yield "|---|---|" + "---|" * len(study.environments)
    counts: Counter[str] = Counter()
    for claim in study.declared:
        row = []
        for name in study.environments:
            if (name, claim) not in cells:
                row.append("cannot be trained")
                continue
            cell, p = cells[name, claim], p_values[name, claim]
            verdict = cell.verdict(p)
            counts[verdict] += 1
            row.append(
                f"{verdict}: {_percent(t_interval(cell.seen, (-1.0, 1.0)), sign=True)}, p = {p:.3f}; "
                f"held back {100 * cell.held_back.mean():+.1f}, p = {cell.confirmation():.3f}"
            )
        yield f"| {claim.better} > {claim.worse} | {claim.printed} | " + " | ".join(row) + " |"
    yield ""
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    sizes = [minimum_detectable_difference(float(c.seen.std(ddof=1)), len(c.seen)) for c in cells.values()]
    yield (
        f"In all: {verdicts}. With {len(study.seeds)} seeds a difference of {100 * min(sizes):.0f} to "
        f"{100 * max(sizes):.0f} points, by cell, is found with probability .8, before the adjustment."
    )


@dataclass(frozen=True, slots=True)
class _Cell:
    """A declared ordering on one environment."""

    seen: Floats
    """(seeds,) differences of paired seeds."""
    held_back: Floats
    """(seeds,) differences on the seeds that were held back."""

    @property
    def p(self) -> float:
        """Two-sided p of the differences, before the adjustment."""
        return paired_p(self.seen, np.random.default_rng(RNG_SEED))

    def confirmation(self) -> float:
        """Return the one-sided p of the held-back differences in the direction of the others."""
        p = paired_p(self.held_back, np.random.default_rng(RNG_SEED)) / 2.0
        return p if self.held_back.mean() * self.seen.mean() > 0 else 1.0 - p

    def verdict(self, adjusted_p: float) -> str:
        """Return one of `VERDICTS`."""
        if adjusted_p > _LEVEL:
            return "open"
        if self.confirmation() > _LEVEL:
            return "not confirmed"
        return "holds" if self.seen.mean() > 0 else "reversed"


def _compared(
    study: Study, environment: str, claim: Claim, done: Sequence[tuple[str, SweepRun]]
) -> _Cell | None:
    """Return a cell; None before all of its runs are there."""
    ours = {(label, run.seed): run.held_out_success for label, run in done if run.environment == environment}
    try:
        seen, held_back = (
            np.array([ours[claim.better, seed] - ours[claim.worse, seed] for seed in seeds])
            for seeds in (study.seeds, study.held_back)
        )
    except KeyError:
        return None
    return _Cell(seen, held_back)


def _expected(study: Study, done: Sequence[tuple[str, SweepRun]]) -> Iterator[str]:
    yield "## The order that was expected"
    yield ""
    yield (
        f"{' > '.join(study.expected)}, as it was committed before the first run. The difference of the "
        "first to the second in success after training, in points, with Student's 95 % interval over seeds, "
        "and *p* of the sign-flip test, Holm-adjusted over this table."
    )
    yield ""
    tables = {name: _lines(study, name, done) for name in study.environments}
    yield "| order | " + " | ".join(ENVIRONMENTS[name].title for name in tables) + " |"
    yield "|---|" + "---|" * len(tables)
    pairs = list(combinations(study.expected, 2))
    found = [_difference(pair, lines) for pair in pairs for lines in tables.values()]
    p_values = iter(adjusted([paired_p(each, np.random.default_rng(RNG_SEED)) for each in found]))
    rows = iter(found)
    for better, worse in pairs:
        cells = [
            f"{_percent(t_interval(next(rows), (-1.0, 1.0)), sign=True)}, p = {next(p_values):.3f}"
            for _ in tables
        ]
        yield f"| {better} > {worse} | " + " | ".join(cells) + " |"


def _difference(pair: tuple[str, str], lines: Sequence[Line]) -> Floats:
    found = {line.label: line for line in lines}
    return found[pair[0]].versus(found[pair[1]])


def _lines(study: Study, environment: str, done: Sequence[tuple[str, SweepRun]]) -> list[Line]:
    found = []
    for arm in (*study.arms, *study.beside):
        runs = [
            run
            for label, run in done
            if (run.environment, label) == (environment, arm.label) and run.seed not in study.held_back
        ]
        if runs:
            found.append(Line(arm.label, tuple(sorted(runs, key=lambda run: run.seed))))
    return found


def _before(environment: Environment) -> StartingPoint:
    path = environment.warm_start / BEFORE
    return parse(StartingPoint, read_json(path), str(path))


def _percent(estimate: Estimate, *, sign: bool = False) -> str:
    plus = "+" if sign else ""
    return (
        f"{100 * estimate.value:{plus}.1f} [{100 * estimate.low:{plus}.1f}, {100 * estimate.high:{plus}.1f}]"
    )
