"""What a step-level method loses that takes the observation's text for the state.

``python -m benchmarks.studies.state_hash`` plays groups of episodes from one start on ten sets of tasks of
every suite, matches their steps by state and by text, writes ``state_hash.json`` beside this file, and the
table and the picture of ``docs/state_hash.md``; ``--page`` only writes the latter.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.agents.random import RandomPolicy
from agentgym.agents.table import find_agent
from agentgym.algos.batch import StepBatch
from agentgym.algos.matching import match_states
from agentgym.algos.table import ALGORITHMS
from agentgym.core.arrays import Floats, Ints
from agentgym.core.rng import TurnRng
from agentgym.core.types import Completion, Policy, Request
from agentgym.evaluation.board.statistics import t_interval
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker
from tools.blocks import replaced, table_block

FOUND, PAGE = Path(__file__).with_suffix(".json"), Path("docs/state_hash.md")
PICTURE = Path("docs/images/state_hash.png")
BLOCK = table_block("| suite | player | won |")
SETS, TASKS, GROUP_SIZE, SEED = 10, 32, 8, 20261128
METHODS = ("gigpo", "graphgpo")
EXPLORED = 3
"""The rules play one step of so many at random: episodes that are all alike have no advantages."""


@dataclass(frozen=True, slots=True)
class Case:
    """An environment with options, and who knows its game."""

    name: str
    id: str
    options: Mapping[str, Any] = field(default_factory=dict)
    guide: str = "rules"


def _alfworld(name: str, **options: Any) -> Case:
    return Case(f"ALFWorld, {name}", "agentgym/ALFWorld-v0", {"max_steps": 30, **options})


CASES = (
    _alfworld("game"),
    _alfworld("game, augmented", observation="augmented"),
    _alfworld("current", dialect="current"),
    _alfworld("current, augmented", dialect="current", observation="augmented"),
    Case("WebShop", "agentgym/WebShop-v0"),
    Case("Sokoban", "agentgym/Sokoban-v0", {"dim_room": (6, 6), "num_boxes": 1}),
    Case("HotpotQA", "agentgym/HotpotQA-v0", {"actions": "candidates", "k": 2, "corpus": "own"}),
    Case("PaperSearch", "agentgym/PaperSearch-v0", {"actions": "candidates", "max_steps": 12}, "oracle"),
    Case("SOTOPIA", "agentgym/Sotopia-v0", {"actions": "candidates", "view": "lite", "max_turns": 12}),
)

COLUMNS = ("won", "merged", "split", "gigpo turned", "graphgpo turned")
"""Columns of the page; `state_hash.json` has more."""


class ExploringPolicy:
    """A policy that now and then acts at random."""

    def __init__(self, policy: Policy, explorer: RandomPolicy):
        """Take both."""
        self.policy, self.explorer = policy, explorer

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Ask both; take the explorer's action at one step of `EXPLORED`."""
        planned, drawn = self.policy.act(requests), self.explorer.act(requests)
        turns = (TurnRng(~request.seed, request.turn).below(EXPLORED) for request in requests)
        return [other if turn == 0 else own for own, other, turn in zip(planned, drawn, turns, strict=True)]


def mixed(groups: Ints, others: Ints) -> float:
    """Return the share of groups of two steps or more whose steps are of several of the others.

    Example:
        >>> mixed(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 2, 2, 2]))
        0.5
    """
    sizes = np.bincount(groups)
    pairs = np.unique(np.stack([groups, others]), axis=1)
    several = np.bincount(pairs[0], minlength=len(sizes)) > 1
    return float(several.sum() / max(1, (sizes > 1).sum()))


def compare(steps: StepBatch) -> dict[str, float]:
    """Return what text merges and splits, and the share of advantages that it turns round, by name."""
    state, text = match_states(steps, "state"), match_states(steps, "text")
    result = {
        "won": float(steps.won[np.unique(steps.trajectory, return_index=True)[1]].mean()),
        "merged": mixed(text, state),
        "split": mixed(state, text),
    }
    for method in METHODS:
        own, other = (
            np.round(ALGORITHMS[method].advantage(steps, match=match), 9) for match in ("state", "text")
        )
        result[f"{method} turned"] = float((own * other < 0).mean())
        result[f"{method} differs"] = float((np.abs(own - other) > 1e-6).mean())
    return result


def play(case: Case, name: str) -> dict[str, Any]:
    """Play a case; return what is found on each set of tasks."""
    with closing(open_vector(case.id, 64, split="train", options=case.options)) as envs:
        explorer = RandomPolicy(envs.prototype.action_kind)
        policy: Policy = explorer
        if name != "random":
            policy = ExploringPolicy(find_agent(name)(envs), explorer)
        worker = RolloutWorker(envs, policy, env_id=case.id)
        tasks = [task.id for task in envs.tasks[: SETS * TASKS]]
        sets = [tasks[number * TASKS : (number + 1) * TASKS] for number in range(SETS)]
        found = [
            compare(StepBatch.from_groups(worker.collect(part, group_size=GROUP_SIZE, seed=SEED + number)))
            for number, part in enumerate(sets)
            if len(part) == TASKS
        ]
    return {"case": case.name, "player": name, "sets": found}


def shares(each: Mapping[str, Any], column: str) -> Floats:
    """Return a column in percent, an entry a set of tasks."""
    return 100.0 * np.array([found[column] for found in each["sets"]])


def table(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the table in Markdown, in percent with intervals over sets of tasks, without random players."""
    yield "| suite | player | " + " | ".join(_title(column) for column in COLUMNS) + " |"
    yield "|---|---|" + "---:|" * len(COLUMNS)
    for each in found:
        if each["player"] != "random":
            cells = [_cell(shares(each, column)) for column in COLUMNS]
            yield f"| {each['case']} | {each['player']} | {' | '.join(cells)} |"


def _title(column: str) -> str:
    method, _, what = column.rpartition(" ")
    return f"{ALGORITHMS[method].title} {what}" if method else column


def _cell(values: Floats) -> str:
    if not values.any():
        return "0"
    estimate = t_interval(values, (0.0, 100.0))
    return f"{estimate.value:.1f} [{estimate.low:.1f}, {estimate.high:.1f}]"


def draw(found: Sequence[Mapping[str, Any]]) -> None:
    """Draw how many advantages text turns round."""
    from matplotlib.figure import Figure

    names = [case.name for case in CASES if any(each["case"] == case.name for each in found)]
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    for axes, method in zip(figure.subplots(1, 2, sharey=True), METHODS, strict=True):
        for place, who in enumerate(("random", "rules or oracle")):
            turned = {
                each["case"]: t_interval(shares(each, f"{method} turned"), (0.0, 100.0))
                for each in found
                if each["player"] in who
            }
            heights = [turned[name].value for name in names]
            below = [turned[name].value - turned[name].low for name in names]
            above = [turned[name].high - turned[name].value for name in names]
            rows = [number + 0.36 * (place - 0.5) for number in range(len(names))]
            axes.barh(rows, heights, 0.34, xerr=(below, above), label=who, error_kw={"lw": 0.8})
        axes.set_yticks(range(len(names)), names)
        axes.set_title(ALGORITHMS[method].title)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("advantages of other sign, %, with 95 % intervals over sets of tasks", fontsize="medium")
    axes.invert_yaxis()
    axes.legend(frameon=False)
    figure.savefig(PICTURE, dpi=110)


def write_page(found: Sequence[Mapping[str, Any]]) -> None:
    """Put the table into the page, and draw the picture."""
    body = "\n".join(table(found)) + "\n"
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), BLOCK, body), encoding="utf-8")
    draw(found)


def main() -> None:
    """Play what the command line names, keep it, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", nargs="*", help="names of cases, or beginnings of them; all by default")
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    known = json.loads(FOUND.read_text(encoding="utf-8")) if FOUND.exists() else []
    found = {(each["case"], each["player"]): each for each in known if "sets" in each}
    for case in CASES:
        if given.page or (given.cases and not case.name.startswith(tuple(given.cases))):
            continue
        for name in ("random", case.guide):
            found[case.name, name] = play(case, name)
            sys.stderr.write(f"{case.name}, {name}\n")
        ordered = [
            found[key]
            for each in CASES
            for key in ((each.name, "random"), (each.name, each.guide))
            if key in found
        ]
        FOUND.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    write_page([found[case.name, name] for case in CASES for name in ("random", case.guide)])


if __name__ == "__main__":
    main()
