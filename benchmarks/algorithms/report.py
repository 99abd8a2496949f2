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
from agentgym.evaluation.board.statistics import Estimate, t_interval
from agentgym.io.files import replace_file
from agentgym.io.records import parse
from agentgym.io.untrusted import read_json
from benchmarks.algorithms.claims import CLAIMS, Claim
from benchmarks.algorithms.comparison import adjusted, first_above, paired_p
from benchmarks.algorithms.curves import draw
from benchmarks.algorithms.plan import ENVIRONMENTS, MODEL, SETTINGS, Environment, Study
from benchmarks.algorithms.runs import BEFORE, RunKey, StartingPoint, SweepRun, finished
from benchmarks.speed.report import machine

RNG_SEED = 0
_MIN_SEEDS = 2
"""Of both algorithms, for a verdict on their order."""


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
    """
    record = {
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
        "runs": [{"arm": key.arm.label, **asdict(run)} for key, run in finished(keys)],
    }
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / f"{page_name(study)}.json", json.dumps(record, default=dict) + "\n")
    write_page(study, folder)


def write_page(study: Study, folder: Path) -> None:
    """Write ``STUDY.md`` and, for the main study, curves from ``STUDY.json`` alone.

    Raises:
        UsageError: the folder holds no such file, or a damaged one.
    """
    path = folder / f"{page_name(study)}.json"
    record = read_json(path)
    done = [(run.pop("arm"), parse(SweepRun, run, str(path))) for run in record["runs"]]
    pictures = {}
    if study.drawn and done:
        for name in study.environments:
            picture = name if study.name in ("main", name) else f"{study.name}-{name}"
            pictures[name] = draw(name, done, folder, picture)
    replace_file(path.with_suffix(".md"), "\n".join(_page(study, record, done, pictures)) + "\n")


def page_name(study: Study) -> str:
    """Return the name of a study's page and numbers, without ending."""
    return "report" if study.name == "main" else f"sweep-{study.name}"


def _page(
    study: Study, record: Mapping[str, Any], done: Sequence[tuple[str, SweepRun]], pictures: dict[str, str]
) -> Iterator[str]:
    yield f"# {study.title}"
    yield ""
    yield (
        f"At {_scale(study)} scale: {study.source}. `python -m benchmarks.algorithms {study.name}` trains "
        "what is missing and writes this page; it can be stopped at any point and continues."
    )
    yield ""
    yield from _coverage(study, record, done)
    for name in study.environments:
        environment = ENVIRONMENTS[name]
        lines = _lines(study, name, done)
        if lines:
            before = parse(StartingPoint, record["environments"][name]["before"], name)
            yield from _section(study, environment, before, lines, pictures.get(name))
    if study.name == "main":
        yield from _orderings(study, done)
    if study.expected and done:
        yield from _expected(study, done)


def _coverage(study: Study, record: Mapping[str, Any], done: Sequence[tuple[str, SweepRun]]) -> Iterator[str]:
    seconds = [run.cpu_seconds for _, run in done]
    missing = {arm.label for arm in study.arms} - {label for label, _ in done}
    longest = f", {max(seconds):.0f} the longest" if seconds else ""
    seeds = sorted({run.seed for _, run in done})
    yield "## Coverage and method"
    yield ""
    if done:
        yield (
            f"{len(done)} of {record['planned']} runs have finished, seeds {', '.join(map(str, seeds))}; "
            f"they took {sum(seconds):,.0f} processor-seconds in all{longest}, on "
            f"{record.get('processor', 'two shared cores')}."
            + (f" Not run: {', '.join(sorted(missing))}." if missing else "")
        )
    else:
        yield f"Planned: none of {record['planned']} runs has finished yet."
    yield ""
    size = SETTINGS["rollout.group_size"]
    tasks = " or ".join(map(str, sorted({_tasks(ENVIRONMENTS[name]) for name in study.environments})))
    models = " or ".join(f"`{name}`" for name in _models(study))
    yield (
        f"Every run begins with the same weights, a model {models} that cloned a few episodes of the "
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


def _models(study: Study) -> list[str]:
    return list(dict.fromkeys(ENVIRONMENTS[name].model for name in study.environments))


def _tasks(environment: Environment) -> int:
    return int(environment.settings.get("rollout.tasks", SETTINGS["rollout.tasks"]))


def _scale(study: Study) -> str:
    return "tiny" if _models(study) == [MODEL] else "small"


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


def _orderings(study: Study, done: Sequence[tuple[str, SweepRun]]) -> Iterator[str]:
    yield "## Which of the papers' orderings appear"
    yield ""
    yield (
        "The difference of the first to the second in success after training, in points. It *appears* where "
        "the interval lies above 0, is *reversed* where it lies below, and is *open* else. Scale, tasks, "
        "models and step budgets have nothing in common with the papers': what appears here supports a "
        "mechanism, and what does not refutes nothing."
    )
    yield ""
    tables = {name: _lines(study, name, done) for name in study.environments}
    shown = [name for name in study.environments if tables[name]]
    yield "| ordering | printed | " + " | ".join(ENVIRONMENTS[name].title for name in shown) + " |"
    yield "|---|---|" + "---|" * len(shown)
    counts: dict[str, int] = {"appears": 0, "open": 0, "reversed": 0}
    for claim in CLAIMS:
        cells = []
        for name in shown:
            verdict, cell = _verdict(claim, tables[name])
            cells.append(cell)
            if verdict:
                counts[verdict] += 1
        yield f"| {claim.better} > {claim.worse} | {claim.printed} | " + " | ".join(cells) + " |"
    yield ""
    yield "In all: " + ", ".join(f"{number} {verdict}" for verdict, number in counts.items()) + "."


def _expected(study: Study, done: Sequence[tuple[str, SweepRun]]) -> Iterator[str]:
    yield "## The order that was expected"
    yield ""
    yield (
        f"{' > '.join(study.expected)}, as it was committed before the first run. The difference of the "
        "first to the second in success after training, in points: it *appears* where the interval lies "
        "above 0, is *reversed* where it lies below, and is *open* else, which supports nothing."
    )
    yield ""
    tables = {name: _lines(study, name, done) for name in study.environments}
    yield "| order | " + " | ".join(ENVIRONMENTS[name].title for name in tables) + " |"
    yield "|---|" + "---|" * len(tables)
    for better, worse in combinations(study.expected, 2):
        cells = [_verdict(Claim(better, worse, ""), lines)[1] for lines in tables.values()]
        yield f"| {better} > {worse} | " + " | ".join(cells) + " |"


def _verdict(claim: Claim, lines: Sequence[Line]) -> tuple[str, str]:
    found = {line.label: line for line in lines}
    if claim.better not in found or claim.worse not in found:
        return "", "not run"
    difference = found[claim.better].versus(found[claim.worse])
    if len(difference) < _MIN_SEEDS:
        return "", "too few seeds"
    estimate = t_interval(difference, (-1.0, 1.0))
    verdict = "appears" if estimate.low > 0 else "reversed" if estimate.high < 0 else "open"
    return verdict, f"{verdict}: {_percent(estimate, sign=True)}"


def _lines(study: Study, environment: str, done: Sequence[tuple[str, SweepRun]]) -> list[Line]:
    found = []
    for arm in study.arms:
        runs = [run for label, run in done if run.environment == environment and label == arm.label]
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
