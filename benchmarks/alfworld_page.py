"""The page of `benchmarks.alfworld_learning`: what each stage adds, with intervals."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from agentgym.core.arrays import Floats
from agentgym.evaluation.board.leaderboard import read_published
from agentgym.evaluation.board.statistics import Estimate, percentile_interval, resampling_counts, wilson

Played: TypeAlias = list[dict[str, Any]]
"""Of each game its type, whether it was won, the number of steps, and SPL."""

WITHIN = (15, 30, 50)
RESAMPLES = 9_999
GOAL = 0.92
CHOSEN_ON = ("train", "builtin")
"""Sets of games that settings were chosen on."""
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
    "clone": "clone of the explorer, DAgger included",
    "gigpo": "clone, then GiGPO",
    "gigpo-alone": "GiGPO from random weights, without the clone",
    "rules": "the explorer (teacher)",
    "oracle": "planner, which sees the game",
}
ORDER = tuple(TITLES)

TRIALS = (
    "What was tried on train games alone to choose the wording and the settings: single runs of models of "
    "0.13 to 0.45 million weights, on two cores that many others used. Of the later points, held-out "
    "steps and games are those of the tables above, or some of them.",
    "",
    "- The memory by place (the lines of `alfworld-memory`): after four epochs over 4,500 demonstrated "
    "steps a clone won none of 100 held-out games of `pick2`, and with numbers as single tokens 10 of 100 of "
    "the published valid_train. With the task told last the loss fell faster, in two layers as fast as in "
    "three by processor time.",
    "- With the line `named`, which compares the words of the task with those of the memory, the loss "
    "of a first epoch over the same 22,700 steps was 1.36 instead of 1.71, in 67 processor-seconds "
    "instead of 97 (two layers instead of three).",
    "- GiGPO from a clone of that wording, on built-in train games with episodes cut at 15 steps: 30 "
    "iterations of 8 games with 8 episodes each at a learning rate of 5e-4 won 54 of 100 held-out built-in "
    "games after 55; 19 iterations of 16 games at 2e-3 left the share of training episodes that are won at "
    "about a half. Neither is a gain.",
    "- What that clone got wrong (75.0 % of valid_seen, 184 processor-seconds): of 1,510 held-out published "
    "steps of the explorer it chose 88.6 % alike, but where a thing that had been seen was to be fetched it "
    "named the wrong place at every second step. Taking the likeliest command it won 78 and 51 of "
    "100 held-out games, published and built-in; at temperature 0.4 it won 87 and 65, since lost episodes "
    "are loops in which a command leaves the memory as it was.",
    "- With `moved` in the line `named`, and what was seen told by place: after two epochs over 8,000 "
    "steps, a loss on held-out published and built-in ones of 1.09 and 1.19 instead of 1.22 and 1.19, in "
    "30 processor-seconds instead of 38.",
    "- In the same two epochs: learning rate 2e-3 instead of 3e-3, 1.08 and 1.16; 96 wide instead of 64, "
    "1.06 and 1.19 in 45 processor-seconds; without colons and blank lines at 5e-3, 1.24 and 1.24; in the "
    "earlier wording, Muon at 2e-2 for the matrices, 1.28 and 1.27 in 48 processor-seconds.",
    "- Stage by stage, held-out games won within 50 steps, published and built-in (random seed 0): after "
    "the two epochs of demonstrations 83.0 and 69.5 % (60.0 and 55.0 % by the likeliest command), after "
    "round 1 of DAgger 89.0 and 79.5 %, after round 2 95.0 and 84.5 %. A round goes over "
    "everything once more, so this is of corrections and of training together; as many epochs "
    "without corrections were not run.",
    "- GiGPO from the clone of random seed 0 at a learning rate of 3e-4 with two mini-batches: ten "
    "iterations won 1.5 points less of the episodes in training than at 1.5e-3 with four, and moved the "
    "policy by a hundredth as much (KL). Twenty at 1.5e-3, after the clones of two seeds, won less of "
    "valid_seen (91.1 after 97.5 %) and of the built-in valid_unseen (83.8 after 87.8 %) within 50 steps.",
    "- Why that clone, in `alfworld-memory-terse`, lost built-in games (200 further held-out train games): "
    "where the explorer looks into a new place, the clone went to one that it had looked into at 12 % of "
    "the states of won games that it came to first, and at 41 % of those of lost ones; there the memory "
    "stayed as it was, and it went to and fro between two such places until the end.",
    "- Other wordings, each shown the same 12,241 steps (6,500 of the explorer, the others corrected) "
    "twice; loss on held-out steps of the explorer, published and built-in, and on the built-in steps of a "
    "clone: `alfworld-memory-terse` 0.90, 0.94, 1.57; with a line of empty places 1.02, 1.01, 1.58; with "
    "places by their last visit 0.97, 0.96, 1.55; with the commands tried in vain 0.86, 0.94, 1.51; with "
    "the places not looked into told last 0.96, 0.96, 1.47; with those marked by a word 0.87, 1.00, 1.66, "
    "or by other tokens 0.88, 0.92, 1.41; with these tokens and without things that the task does not name "
    "0.76, 0.84, 1.46; with the numbers of the others as well 0.64, 0.80, 1.31; and with what was tried as "
    "well, which is `alfworld-memory-task`, 0.69, 0.80, 1.35. Each is one run: what differs by less than "
    "0.1 may be chance.",
    "- Shown three times and playing 200 published and 200 built-in held-out games: "
    "`alfworld-memory-terse` won 48.0 and 34.0 %, `alfworld-memory-task` 74.0 and 66.0 %, and without what "
    "was tried 79.0 and 62.0 %.",
    "- In that wording, two heads instead of four 0.84, 0.87, 1.31; four key-value heads instead of two "
    "0.82, 0.86, 1.55; 96 wide 0.81, 0.85, 1.24 in half as much time again.",
    "- Rounds of DAgger in which the model plays at temperature 1.0: after round 2 it won, at 0.4, 95.5 % "
    "of the 200 published and 86.3 % of 300 further built-in held-out games, after round 3 95.5 and 85.3 "
    "%. At 1.0 it meets few of the loops that it is lost in at 0.4. After one more round, played at 0.4, "
    "it won 98.5 and 93.3 %. So all rounds are played at 0.4.",
    "- GiGPO after the clone of random seed 1, at temperature 0.4 with episodes of up to 30 steps, against "
    "that clone on 500 further held-out built-in games: 20 iterations at a learning rate of 5e-4 won 2.6 "
    "points more within 15 steps (standard error 1.0) and 0.2 more within 50 (0.8); 60 at 1e-3 won 0.8 "
    "more (1.3) and 1.8 less (1.2). At 0.4 more than nine groups of ten end alike, so there is little to "
    "learn from.",
    "- GiGPO from random weights ended after 10 of its 20 iterations: no attempt was won, so there was "
    "nothing to learn from.",
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
        return np.array([[_value(game, value) for game in self.rows[name][which]] for name in self.of(stage)])

    def of(self, stage: str) -> list[str]:
        """Return the names of a stage's rows, one for each seed that it was trained with."""
        return [name for name in self.rows if _stage(name) == stage]


def _stage(name: str) -> str:
    return re.sub(r"-seed\d+$", "", name)


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
        "[`alfworld-memory-task`](../docs/envs/alfworld.md#memory)). Commands are not filtered; the memory "
        "is a function of past observations and actions, without a prior, a plan or the explorer's order. "
        f"Random seeds: {seeds}. Models sample at temperature 0.4, at which GiGPO validates; 50 steps are "
        "allowed; every game is played once. Settings were chosen on train games that are not shown to the "
        "clones, the first two tables of games below and others; of the other games, nothing was trained on "
        "(GiGPO draws its games from all built-in train games). "
        "What two earlier forms of the recipe won on valid_seen and on the built-in valid_unseen (75.0 and "
        "55.0 % within 50 steps, then 97.5 and 87.8 %) was known before; no setting of this one was compared "
        "there.",
        "",
        "`make train-alfworld` does all this again under `runs/alfworld`; `--publish` writes this page.",
    ]
    for which, title in results.titles.items():
        lines += ["", f"## {title[0].upper()}{title[1:]}", "", *_table(results, which)]
        lines += ["", *_differences(results, which)]
    lines += ["", "## By seed", "", *_by_seed(results)]
    lines += ["", "## By family", "", *_families(results)]
    lines += ["", "## Time", "", *_seconds(results)]
    lines += ["", "## What limits it", "", *_limits(results)]
    lines += ["", "## What was tried", "", *TRIALS]
    lines += ["", "## What papers print", "", *_papers()]
    return "\n".join(lines) + "\n"


def _stages(results: Results, *, trained: bool = False) -> list[str]:
    found = set(map(_stage, results.rows))
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
        steps = np.mean([game["steps"] for name in results.of(stage) for game in results.rows[name][which]])
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


def _by_seed(results: Results) -> list[str]:
    titles = list(results.titles.values())
    lines = ["| won within 15 / 50 | " + " | ".join(titles) + " |", "|---|" + "---:|" * len(titles)]
    for stage in _stages(results, trained=True):
        for row, name in enumerate(results.of(stage)):
            cells = []
            for which in results.titles:
                short, whole = (results.pooled(stage, which, k)[row].mean() for k in ("15", "50"))
                cells.append(f"{short:.1%} / {whole:.1%}")
            lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


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
    """Return what has been reached and what has not, and what has not been run."""
    judged = {which: title for which, title in results.titles.items() if which not in CHOSEN_ON}
    lines = [f"The aim was {GOAL:.0%} within 50 steps."]
    for stage in _stages(results, trained=True):
        shares = {which: float(results.pooled(stage, which, "50").mean()) for which in judged}
        short = [
            f"{won:.1%} of {judged[which]} (least in {_least(results, stage, which)})"
            for which, won in shares.items()
            if won < GOAL
        ]
        if short:
            lines.append(f"Short of it: {TITLES[stage]}, {'; '.join(short)}.")
        else:
            reached = "; ".join(f"{won:.1%} of {judged[which]}" for which, won in shares.items())
            lines.append(f"Reached: {TITLES[stage]}, {reached}.")
    for which, title in judged.items():
        if "rules" in results.rows and results.pooled("rules", which, "15").min() == 1:
            lines.append(f"The explorer wins all of {title} within 15 steps: there is nothing to gain there.")
    missing = [TITLES[stage] for stage in ORDER if stage not in _stages(results)]
    if missing:
        lines.append(f"Not played in the run of this page: {'; '.join(missing)}.")
    return lines


def _least(results: Results, stage: str, which: str) -> str:
    """Return the family that a stage wins least of, with its share."""
    types = np.array([game["type"] for game in results.rows[results.of(stage)[0]][which]])
    won = results.pooled(stage, which, "50")
    shares = {family: float(won[:, types == family].mean()) for family in np.unique(types).tolist()}
    family = min(shares, key=lambda one: shares[one])
    return f"`{family}`, {shares[family]:.1%}"


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
