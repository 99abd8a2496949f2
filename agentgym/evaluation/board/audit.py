"""Audits: what two results of anybody have in common, their difference, and what choosing gives by chance."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from agentgym.core.arrays import Floats
from agentgym.core.hashing import canonical_json, sha256_json
from agentgym.errors import MissingDataError, UsageError, nearest
from agentgym.evaluation.board.choosing import MAX_TASKS, Choice, Interval, resampled_gain
from agentgym.evaluation.board.leaderboard import read_published
from agentgym.evaluation.board.published import Conditions
from agentgym.evaluation.board.scoring import EnvEpisodes
from agentgym.evaluation.board.statistics import CONFIDENCE, t_quantile
from agentgym.evaluation.suites.plan import open_single
from agentgym.evaluation.suites.suite import PlayedEnv
from agentgym.evaluation.verify.archives import open_run
from agentgym.io.records import read_toml
from agentgym.registration import class_of

NOT_SAID = "not said"

FACTS = (
    "environment",
    "split",
    "panel",
    "task ids",
    "limit",
    "options",
    "prompt",
    "sampling",
    "seeds",
    "rule",
)
"""Facts that two results are compared by, in the order of the table."""

MET = "met in training"
"""Fact that is shown and not compared: how many tasks belong to the training split."""

CONDITIONS_NAME = "conditions.toml"
"""Name of the file with the papers' statements, beside that of their results."""

_LIMITS = {"n": MAX_TASKS, "seeds": 100, "best-of": 10_000, "spread": 100}
"""Greatest value of each setting of a result."""

_SETTING = re.compile(r"(.*),([a-z-]+)=([^,=]*)")
_SCALES = {"%": 100.0, "of 100": 100.0, "of 10": 10.0, "": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedResult:
    """A success rate, and what is known of how it came about."""

    name: str
    success: float
    """Success from 0 to 1."""
    tasks: int = 0
    """Number of tasks; 0 where it is not stated."""
    seeds: int = 1
    readings: int = 0
    """Number of readings of which it is the best; 0 where it is not stated."""
    spread: float = 0.0
    """Standard deviation over seeds; 0 for none."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Stated facts, by `FACTS`, and `MET`."""
    paper: str = ""
    """Name of the paper that prints it; empty for none."""
    wins: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Outcomes of the attempts at each task, by id; empty for a printed result."""

    @property
    def estimate(self) -> Interval | None:
        """Success without what choosing adds, with its interval; None where too little is stated for one."""
        found = Choice(self.tasks, max(1, self.readings), self.seeds).true_success(self.success)
        if self.seeds > 1 and self.spread:
            half = t_quantile((1.0 + CONFIDENCE) / 2.0, self.seeds - 1) * self.spread / self.seeds**0.5
            value = found.value if self.tasks else self.success
            return Interval(value, max(0.0, value - half), min(1.0, value + half))
        return found if self.tasks else None


@dataclass(frozen=True, slots=True)
class Finding:
    """What an audit finds of two results; differences are second minus first, from -1 to 1."""

    first: AuditedResult
    second: AuditedResult
    facts: Mapping[str, str]
    """``same``, ``different`` or `NOT_SAID`, by `FACTS`."""
    shared: int
    """Number of tasks that both are known to have."""
    paired: bool
    """Whether both are known to have the same tasks, and outcomes are compared task by task."""
    interval: Interval | None
    """Difference without what choosing adds, unless paired; None where too little is stated for one."""
    readings: int
    """Readings of which the best is taken in `gain`."""
    gain: float | None
    """Success that choosing the best reading adds by chance, if paired to the mean of both; None where no
    number of tasks is stated."""
    resampled: float | None
    """The same where every reading is of these tasks, each won as often as by both; None unless paired."""

    def record(self) -> dict[str, Any]:
        """Return it as JSON, with its verdict and without single outcomes."""
        table = asdict(self) | {"difference": self.difference, "verdict": self.verdict}
        for each in (table["first"], table["second"]):
            del each["wins"]
        return table

    @property
    def difference(self) -> float:
        """Difference as it is printed."""
        return self.second.success - self.first.success

    @property
    def claimed(self) -> bool:
        """Whether one of the two says that it is the best of `readings`."""
        return max(self.first.readings, self.second.readings) > 1

    @property
    def verdict(self) -> str:
        """Three sentences: on the tasks, on the difference, on the choice."""
        return " ".join((self._tasks, self._difference, self._choice))

    @property
    def _tasks(self) -> str:
        different = [
            name for name in FACTS if self.facts[name] == "different" and name not in ("panel", "task ids")
        ]
        but = f", but with another {', another '.join(different)}" if different else ""
        one, other = self.first, self.second
        if self.paired:
            met = one.facts.get(MET, "0").split()[0]
            training = f", {met} of them for training" if met != "0" else ""
            return f"These were played on the same {self.shared} tasks{training}{but}."
        if one.wins and other.wins:
            return (
                f"They share {self.shared} of {one.tasks} and {other.tasks} tasks, so tasks differ, too{but}."
            )
        if self.facts["panel"] == "different":
            return f"They were played on different tasks, {one.tasks} and {other.tasks} of them{but}."
        return f"Whether they were played on the same tasks is not said{but}."

    @property
    def _difference(self) -> str:
        shift = self.difference if self.interval is None else self.interval.value
        ahead = (self.second if shift >= 0.0 else self.first).name
        text = f"{ahead} wins {100 * abs(shift):.1f} points more"
        text = "Both win equally often" if round(1000 * shift) == 0 else text
        if self.interval is None:
            lacking = next(each.name for each in (self.first, self.second) if each.estimate is None)
            return (
                f"{text}, without an interval: add ,n=TASKS to {lacking}, whose number of tasks is not said."
            )
        ends = sorted((self.interval.low, self.interval.high), key=lambda end: end if shift >= 0.0 else -end)
        text += f" [{', '.join(f'{100 * math.copysign(1.0, shift) * end:.1f}' for end in ends)}]"
        text += " once what choosing adds is taken off" if self.claimed and not self.paired else ""
        open_ended = self.interval.low <= 0.0 <= self.interval.high
        return text + (": this much play does not show a difference." if open_ended else ".")

    @property
    def _choice(self) -> str:
        if not self.claimed and self.first.facts.get("rule") == self.second.facts.get("rule") == "last":
            return "Both are the last checkpoint of their training, so neither was chosen among several."
        if self.gain is None:
            return "What choosing the best of several checkpoints gives is unknown without a number of tasks."
        tasks = _chosen(self.first, self.second).tasks
        best = f"the best of {self.readings} checkpoints on {tasks} tasks alone"
        gives = (
            f"Choosing {best} gives" if self.claimed else f"Neither says so, but choosing {best} would give"
        )
        again = f" ({100 * self.resampled:.1f} on the very same tasks)" if self.resampled is not None else ""
        against = "more" if self.gain >= abs(self.difference) else "less"
        return f"{gives} {100 * self.gain:.1f}{again}, {against} than the difference."


def audit(first: AuditedResult, second: AuditedResult, assumed: int = 30) -> Finding:
    """Compare two results.

    Args:
        first: what the other is held against.
        second: the other.
        assumed: readings to choose from where neither result says how many.

    Raises:
        UsageError: they are of different environments.
    """
    one, other = first.facts.get("environment"), second.facts.get("environment")
    if one and other and first.wins and second.wins and one != other:
        raise UsageError(
            f"{first.name} is of {one}, {second.name} of {other}: name results of one environment"
        )
    facts = {}
    for name in FACTS:
        values = {first.facts.get(name), second.facts.get(name)}
        if bool(first.wins) != bool(second.wins) and name not in ("panel", "seeds"):
            values = {None}  # the words of papers and of runs do not compare
        if first.paper != second.paper and len(values) > 1 and name in ("split", "rule"):
            values = {None}  # nor do unequal words of two papers
        facts[name] = NOT_SAID if None in values else "same" if len(values) == 1 else "different"
    shared = len(first.wins.keys() & second.wins.keys())
    paired = shared > 0 and first.wins.keys() == second.wins.keys()
    claimed, chosen = max(first.readings, second.readings), _chosen(first, second)
    readings, gain, resampled = claimed if claimed > 1 else assumed, None, None
    if chosen.tasks:
        choice = Choice(chosen.tasks, readings)
        chance = choice.true_success(chosen.success).value if claimed > 1 else chosen.success
        chance = (first.success + second.success) / 2.0 if paired else chance
        gain = choice.expected(chance) - chance
    interval = unpaired_difference(first.estimate, second.estimate)
    if paired:
        before, after = (
            np.array([each.wins[task] for task in sorted(each.wins)]) for each in (first, second)
        )
        interval = paired_difference(after.mean(axis=1) - before.mean(axis=1))
        resampled = resampled_gain(np.hstack([before, after]), readings)
    return Finding(first, second, facts, shared, paired, interval, readings, gain, resampled)


def paired_difference(differences: Floats) -> Interval:
    """Mean of paired differences with its interval (Agresti and Min 2005).

    Two more pairs, a half of one in each cell of the table of wins and losses, keep the coverage where few
    tasks differ (``benchmarks/choosing.md``).

    ``differences``: float64[T], from -1 to 1, of each task.
    """
    n = len(differences) + 2
    centre = float(differences.sum()) / n
    variance = (float((differences**2).sum()) + 1.0) / n - centre**2
    half = NormalDist().inv_cdf((1.0 + CONFIDENCE) / 2.0) * math.sqrt(variance / n)
    value = float(differences.mean())
    return Interval(value, max(-1.0, min(value, centre - half)), min(1.0, max(value, centre + half)))


def unpaired_difference(first: Interval | None, second: Interval | None) -> Interval | None:
    """Difference of independent estimates (Newcombe 1998, from their one-sided widths); None without both."""
    if first is None or second is None:
        return None
    value = second.value - first.value
    low = value - math.hypot(second.value - second.low, first.high - first.value)
    return Interval(value, low, value + math.hypot(second.high - second.value, first.value - first.low))


def _chosen(first: AuditedResult, second: AuditedResult) -> AuditedResult:
    """Return the result whose choice is in question: of more readings, else the better one."""
    return max(second, first, key=lambda each: (each.tasks > 0, each.readings, each.success))


# --- reading results --------------------------------------------------------------------------------


def read_result(text: str, env: str | None = None, allow: Collection[str] = ()) -> AuditedResult:
    """Read a result: a run, a paper's number, or a line such as ``GiGPO=90.8``.

    Args:
        text: path of a run, ``FILE.toml#PAPER#TABLE#METHOD#COLUMN[#MODEL]``, or ``NAME=PERCENT``; then
            ``,n=``, ``,seeds=``, ``,spread=`` and ``,best-of=`` in any order.
        env: label of the environment, for runs of several.
        allow: references ``module:name`` in runs that may be imported.

    Raises:
        UsageError: it cannot be read.
    """
    body, settings = text, dict[str, float]()
    while not Path(body).exists() and (found := _SETTING.fullmatch(body)) and found[2] in _LIMITS:
        body, name = found[1], found[2]
        settings[name] = _number(found[3], name, _LIMITS[name], whole=name != "spread")
    if Path(body).exists():
        result = _of_run(Path(body), env, allow)
        if settings.keys() - {"best-of"}:
            raise UsageError(f"{text}: a run has its tasks and seeds itself: give best-of alone")
    elif "#" in body:
        result = _of_paper(body)
    elif "=" in body:
        name, _, value = body.rpartition("=")
        if (unknown := name.rpartition(",")[2]) != name:
            raise UsageError(
                f"{text}: unknown setting {unknown!r}{nearest(unknown, _LIMITS)}: give {', '.join(_LIMITS)}"
            )
        result = AuditedResult(name=name, success=_number(value, name or "the result", 100) / 100.0)
    else:
        raise UsageError(f"{text}: no such run: name a run, FILE.toml#PAPER#..., or NAME=PERCENT,n=NUMBER")
    return _with(result, settings)


def _with(result: AuditedResult, settings: Mapping[str, float]) -> AuditedResult:
    """Return a result with what the user says of it."""
    names = {"n": "panel", "seeds": "seeds", "best-of": "rule"}
    stated = {names[name]: f"{value:g}" for name, value in settings.items() if name in names}
    result = replace(
        result,
        tasks=int(settings.get("n", result.tasks)),
        seeds=int(settings.get("seeds", result.seeds)),
        readings=int(settings.get("best-of", result.readings)),
        spread=settings.get("spread", 100 * result.spread) / 100.0,
        facts={**result.facts, **stated},
    )
    if result.tasks * result.seeds > MAX_TASKS:
        raise UsageError(f"{result.name}: tasks times seeds are more than {MAX_TASKS:,}")
    return result


def _number(text: str, name: str, most: float, *, whole: bool = False) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not int(whole) <= value <= most or (whole and value != int(value)):
        kind = "a whole number from 1" if whole else "a number from 0"
        raise UsageError(f"{name} must be {kind} to {most:,}, got {text!r}")
    return value


def _of_paper(text: str) -> AuditedResult:
    file, *place = text.split("#")
    path = Path(file)
    if not path.exists():
        raise UsageError(f"{file}: no such file: name the TOML file of published results")
    paper, column, numbers = read_published(path).cell(place)
    scale, beside = _SCALES.get(column.unit), path.with_name(CONDITIONS_NAME)
    if scale is None or numbers[0] > scale:
        raise UsageError(f"{text} is not a share: its unit is {column.unit!r}; name a success rate")
    conditions = read_toml(Conditions, beside) if beside.exists() else Conditions()
    stated = {name: value for name, (value, _) in conditions.of(paper, column).items()}
    return AuditedResult(
        name=f"{paper.name} {place[2]}",
        paper=paper.name,
        success=numbers[0] / scale,
        tasks=int(stated.get("panel", 0)),
        seeds=int(stated.get("seeds", 1)),
        spread=numbers[1] / scale if len(numbers) > 1 else 0.0,
        facts={"environment": column.environment, **{name: str(value) for name, value in stated.items()}},
    )


def _of_run(path: Path, label: str | None, allow: Collection[str]) -> AuditedResult:
    run = open_run(path, allow=allow)
    labels = [found.env.label for found in run.log.played]
    if run.log.result_id is None:
        raise UsageError(f"{path} is incomplete; run the same bench command again")
    if label is None and len(labels) > 1:
        raise UsageError(f"{path} has several environments: choose one with --env: {', '.join(labels)}")
    found = next((each.env for each in run.log.played if label in (None, each.env.label)), None)
    if found is None:
        raise UsageError(
            f"{path} has no environment {label!r}{nearest(label, labels)}: choose from {', '.join(labels)}"
        )
    episodes = [sample for sample in run.results if sample.env == found.label]
    try:
        won = EnvEpisodes(found, run.log.suite.attempts, [episodes]).values(
            lambda episode: float(episode.won)
        )[0]
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    tasks = sorted({sample.task_id for sample in episodes})
    agent = run.log.agent
    facts = {
        "environment": found.id,
        "split": found.split,
        "panel": str(len(tasks)),
        "task ids": sha256_json(tasks)[:12],
        "limit": str(found.kwargs.get("max_steps") or class_of(found.id).default_max_steps),
        "options": canonical_json(
            {name: value for name, value in found.kwargs.items() if name != "max_steps"}
        ),
        "prompt": agent.prompt_sha256[:12],
        "sampling": canonical_json(agent.sampling) if agent.sampling else "",
        "seeds": "1",
        "rule": agent.model.checkpoint if agent.model.weights_sha256 else "",
        MET: _met_in_training(found, tasks),
    }
    return AuditedResult(
        name=agent.display_name,
        success=float(won.mean()),
        tasks=len(tasks),
        facts={name: value for name, value in facts.items() if value},
        wins={task: tuple(outcomes) for task, outcomes in zip(tasks, won.tolist(), strict=True)},
    )


def _met_in_training(env: PlayedEnv, tasks: Sequence[str]) -> str:
    """Return how many tasks the training split has; nothing without one, or where its data is missing."""
    if "train" not in class_of(env.id).splits:
        return ""
    try:
        training = open_single(replace(env, split="train"))
    except MissingDataError:
        return ""
    with_task = len(set(tasks).intersection(training.tasks.ids))
    training.close()
    return f"{with_task} of {len(tasks)}"
