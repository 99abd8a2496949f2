"""The page of `benchmarks.alfworld_learning`: what each stage adds, with intervals."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from agentgym.arrays import Floats
from agentgym.evaluation.leaderboard import read_published
from agentgym.evaluation.statistics import Estimate, percentile_interval, resampling_counts, wilson

Played: TypeAlias = list[dict[str, Any]]
"""Of each game its type, whether it was won, the number of steps, and SPL."""

WITHIN = (15, 30, 50)
RESAMPLES = 9_999
GOAL = 0.92
PAPERS = Path("benchmarks/published.toml")
PRINTED = (
    ("GiGPO", "prompting", "GPT-4o"),
    ("GiGPO", "GiGPO w/ std", "Qwen2.5-7B-Instruct"),
    ("GraphGPO", "GraphGPO + DS", "Qwen2.5-1.5B-Instruct"),
)
"""Rows of papers that stand beside: paper, method, model."""
THREESPO = (
    "| 3SPO, table 1 | 3SPO | Qwen2.5-1.5B-Instruct | 95.42 | ALFWorld, valid_seen | free text | 400 epochs |"
)
"""Its row, which is in no file of the boards."""

TITLES = {
    "random": "uniform choice among the admissible commands",
    "untrained": "random weights, same wording",
    "clone": "clone of the explorer",
    "gigpo": "clone, then GiGPO",
    "gigpo-alone": "GiGPO from random weights, without the clone",
    "rules": "the explorer (teacher)",
    "oracle": "planner, which sees the game",
}
ORDER = tuple(TITLES)

TRIALS = (
    "What was tried before, on train games alone, to choose the wording and the settings. Each is one "
    "run of a model of 0.13 to 0.45 million weights, on two cores that many others used.",
    "",
    "- The memory by place (the lines of `alfworld-memory`): after four epochs over 4,500 demonstrated "
    "steps a clone won none of 100 held-out games of `pick2`, and with numbers as single tokens 10 of 100 of "
    "the published valid_train. By kind of thing, with the task told last, the loss fell faster, in two "
    "layers as fast as in three by processor time.",
    "- With the line `named`, which compares the words of the task with those of the memory, the loss "
    "of a first epoch over the same 22,700 steps was 1.36 instead of 1.71, in 67 processor-seconds "
    "instead of 97 (two layers instead of three). After three epochs, 184 processor-seconds, that "
    "model won 77 of 100 held-out published train games, 75 within 15 steps (random seed 1; the last "
    "losses of seeds 0 and 2 were 26 and 68 % higher, and they were not played).",
    "- GiGPO from that clone, on built-in train games with episodes cut at 15 steps: 30 iterations of "
    "8 games with 8 episodes each at a learning rate of 5e-4 won 72 of the same games, and 54 of 100 "
    "held-out built-in ones after 55; 19 iterations of 16 games at 2e-3 left the share of training "
    "episodes that are won at about a half. Neither is a gain. An iteration takes 1 to 3 "
    "processor-seconds.",
    "- Queries and keys that begin alike, and outputs that begin as the transposes of values, had a "
    "loss of 0.78 instead of 0.88 after an epoch (with heads of another number); not used.",
)
"""The log of what each change gave."""


@dataclass(frozen=True)
class Results:
    """What was played and how long training took."""

    rows: Mapping[str, Mapping[str, Played]]
    """By agent, with its seed where it was trained, and by set of games."""
    titles: Mapping[str, str]
    """Of the sets of games."""
    seconds: Mapping[str, float]
    """Processor time of stages."""
    seeds: Sequence[int]

    def to_json(self) -> str:
        """Return all that the page is made of."""
        return json.dumps(asdict(self), indent=None) + "\n"

    def pooled(self, stage: str, which: str, value: str) -> Floats:
        """Return (seeds, games) values of a stage: ``spl``, or ``15`` for success within 15 steps."""
        names = [stage] if stage in self.rows else [f"{stage}-seed{seed}" for seed in self.seeds]
        return np.array([[_value(game, value) for game in self.rows[name][which]] for name in names])


def _value(game: Mapping[str, Any], value: str) -> float:
    return float(game["spl"]) if value == "spl" else float(game["won"] and game["steps"] <= int(value))


def share(values: Floats) -> Estimate:
    """Return the share of games that are won, over (seeds, games): Wilson's interval over games."""
    games = values.mean(0)
    return wilson(float(games.mean()), len(games))


def difference(one: Floats, other: Floats) -> Estimate:
    """Return the mean difference of (seeds, games) values, with the bootstrap's interval over games.

    Games are paired. Where there are several seeds, a game's difference is that of its means over them.
    """
    gaps = one.mean(0) - other.mean(0)
    counts = resampling_counts(len(gaps), RESAMPLES, np.random.default_rng(0))
    return percentile_interval(float(gaps.mean()), counts @ gaps / len(gaps))


def page(results: Results) -> str:
    """Return the page."""
    seeds = ", ".join(str(seed) for seed in results.seeds)
    lines = [
        "# A model that learns ALFWorld",
        "",
        "Constrained choice, demonstrations of a hand-written explorer: a model of 0.16 million random "
        "weights chooses among the admissible commands by what a player remembers (the wording "
        "[`alfworld-memory-terse`](../docs/envs/alfworld.md#memory)). Commands are not filtered; the memory "
        "is a function of past observations and actions, without a prior, a plan or the explorer's order. "
        f"Random seeds: {seeds}. Models take their likeliest command; 50 steps are allowed; every game is "
        "played once, and none of these was trained or tuned on.",
        "",
        "`make train-alfworld` does all this again under `runs/alfworld`; `--publish` writes this page.",
    ]
    for which, title in results.titles.items():
        lines += ["", f"## {title[0].upper()}{title[1:]}", "", *_table(results, which)]
        lines += ["", *_differences(results, which)]
    lines += ["", "## By family", "", *_families(results)]
    lines += ["", "## Time", "", *_seconds(results)]
    lines += ["", "## What limits it", "", *_limits(results)]
    lines += ["", "## What was tried", "", *TRIALS]
    lines += ["", "## What papers print", "", *_papers()]
    return "\n".join(lines) + "\n"


def _stages(results: Results, *, trained: bool = False) -> list[str]:
    found = {re.sub(r"-seed\d+$", "", name) for name in results.rows}
    stages = ("clone", "gigpo") if trained else ORDER
    return [stage for stage in stages if stage in found]


def _table(results: Results, which: str) -> list[str]:
    lines = [
        "| | " + " | ".join(f"won within {k}" for k in WITHIN) + " | SPL | steps |",
        "|---|" + "---:|" * (len(WITHIN) + 2),
    ]
    for stage in _stages(results):
        cells = [_percent(share(results.pooled(stage, which, str(k)))) for k in WITHIN]
        spl = float(results.pooled(stage, which, "spl").mean())
        names = [name for name in results.rows if re.sub(r"-seed\d+$", "", name) == stage]
        steps = np.mean([game["steps"] for name in names for game in results.rows[name][which]])
        lines.append(f"| {TITLES[stage]} | {' | '.join(cells)} | {spl:.3f} | {steps:.1f} |")
    games = len(next(iter(results.rows.values()))[which])
    lines += [
        "",
        f"{games} games; Wilson's 95 % interval over games in brackets, of the mean over seeds where there "
        "are several. SPL is success weighted by the planner's length over the episode's.",
    ]
    return lines


def _differences(results: Results, which: str) -> list[str]:
    pairs = (("gigpo", "clone"), ("gigpo", "rules"), ("clone", "rules"))
    stages = _stages(results)
    lines = ["| paired difference | won within 15 | won within 50 | SPL |", "|---|---:|---:|---:|"]
    for one, other in pairs:
        if one in stages and other in stages:
            cells = [
                difference(results.pooled(one, which, value), results.pooled(other, which, value))
                for value in ("15", "50", "spl")
            ]
            points = [f"{100 * c.value:+.1f} [{100 * c.low:+.1f}, {100 * c.high:+.1f}]" for c in cells]
            lines.append(f"| {TITLES[one]} minus {TITLES[other]} | {' | '.join(points)} |")
    return [*lines, "", "In points; bootstrap over games."]


def _families(results: Results) -> list[str]:
    stages = [stage for stage in ("clone", "gigpo", "rules") if stage in _stages(results)]
    lines = [
        "| games | family | " + " | ".join(f"{TITLES[stage]}, within 15 / 50" for stage in stages) + " |",
        "|---|---|" + "---:|" * len(stages),
    ]
    for which, title in results.titles.items():
        types = [game["type"] for game in next(iter(results.rows.values()))[which]]
        for family in dict.fromkeys(types):
            own = np.array([each == family for each in types])
            cells = []
            for stage in stages:
                short, whole = (results.pooled(stage, which, k)[:, own].mean() for k in ("15", "50"))
                cells.append(f"{short:.1%} / {whole:.1%}")
            lines.append(f"| {title} | `{family}` ({own.sum()}) | {' | '.join(cells)} |")
    return lines


def _seconds(results: Results) -> list[str]:
    lines = ["| stage | processor-seconds |", "|---|---:|"]
    lines += [f"| `{name}` | {spent:.0f} |" for name, spent in sorted(results.seconds.items())]
    return [*lines, "", "Of one core; the clone's include the explorer's play."]


def _limits(results: Results) -> list[str]:
    """Return what has not been reached, and what has not been run."""
    stage = _stages(results, trained=True)[-1]
    short = []
    for which, title in results.titles.items():
        won = float(results.pooled(stage, which, "50").mean())
        if won < GOAL:
            short.append(f"{won:.1%} of {title}")
    lines = [f"The aim was {GOAL:.0%} within 50 steps."]
    if short:
        lines.append(f"Not reached: {'; '.join(short)}.")
    missing = [TITLES[stage] for stage in ORDER if stage not in _stages(results)]
    if missing:
        lines.append(f"Not played in the run of this page: {'; '.join(missing)}.")
    if short:
        lines.append(
            "The loss was still falling from epoch to epoch when the learning rate had fallen to nothing: "
            "what is short is training, minutes of a processor within the half hour that is allowed."
        )
    return lines


def _papers() -> list[str]:
    published = read_published(PAPERS)
    lines = [
        "Other models, prompts and games: not in one order with the rows above. Their actions are free text "
        "that is parsed; nobody showed them an explorer.",
        "",
        "| paper | method | model | success | games | actions | observation and protocol |",
        "|---|---|---|---:|---|---|---|",
    ]
    for name, method, model in PRINTED:
        for paper, rate in published.apart(()):
            alfworld = rate.environment.startswith("ALFWorld")
            if (paper.name, rate.method, rate.model, alfworld) == (name, method, model, True):
                lines.append(
                    f"| {name}, table {paper.table} | {method} | {model} | {rate.success} | "
                    f"{rate.environment} | free text | {paper.protocol} |"
                )
    return [*lines, THREESPO]


def _percent(share: Estimate) -> str:
    return f"{share.value:.1%} [{100 * share.low:.1f}, {100 * share.high:.1f}]"
