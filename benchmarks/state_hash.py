"""What a step-level method loses that takes the observation's text for the state.

``python -m benchmarks.state_hash`` plays groups of episodes from one start with three players on every suite,
matches their steps by state and by text, writes ``benchmarks/state_hash.json``, and the table and the picture
of ``docs/state_hash.md``; ``--page`` only writes the latter.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agentgym.agents.random import RandomPolicy
from agentgym.agents.table import find_agent
from agentgym.algos.batch import StepBatch
from agentgym.algos.matching import match_states
from agentgym.algos.table import ALGORITHMS
from agentgym.core.arrays import Ints
from agentgym.core.rng import TurnRng
from agentgym.core.types import Completion, Policy, Request
from agentgym.evaluation.board.statistics import t_interval
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.cloning.clone import SUMMARY_FILE, clone
from agentgym.training.cloning.supervised import CloningConfig
from agentgym.training.policy.open import default_prompting
from agentgym.vector.core import AgentVectorEnv

FOLDER = Path("runs/state_hash")
"""Where cloned models are kept; git ignores it."""

FOUND, PAGE = Path("benchmarks/state_hash.json"), Path("docs/state_hash.md")
PICTURE = Path("docs/images/state_hash.png")
BEGIN, END = "<!-- measured -->\n", "<!-- end of measured -->\n"
TRAINED = Path("benchmarks/algorithms/sweep-state-hash.json")
TRAINED_BEGIN, TRAINED_END = "<!-- trained -->\n", "<!-- end of trained -->\n"
TASKS, GROUP_SIZES, SEED = 32, (8, 16), 20261123
PLAYERS = ("random", "rules", "oracle", "tiny")
METHODS = ("gigpo", "graphgpo")
EXPLORED = 3
"""The rules play one step of so many at random: episodes that are all alike have no advantages."""

MODEL = "tiny:0.1m"


@dataclass(frozen=True, slots=True)
class Case:
    """An environment with options."""

    name: str
    id: str
    options: Mapping[str, Any] = field(default_factory=dict)
    demonstrations: int = 60
    """Episodes of the oracle that the tiny model is cloned from; 0 where its actions cannot be listed."""
    guide: str = "rules"
    """The player that knows the game."""

    @property
    def players(self) -> tuple[str, ...]:
        """Return the players of this case."""
        return "random", self.guide, *(["tiny"] if self.demonstrations else [])


def _alfworld(name: str, **options: Any) -> Case:
    return Case(f"ALFWorld, {name}", "agentgym/ALFWorld-v0", {"max_steps": 30, **options})


CASES = (
    _alfworld("game"),
    _alfworld("game, augmented", observation="augmented"),
    _alfworld("current", dialect="current"),
    _alfworld("current, augmented", dialect="current", observation="augmented"),
    Case("WebShop", "agentgym/WebShop-v0", demonstrations=0),
    Case("Sokoban", "agentgym/Sokoban-v0", {"dim_room": (6, 6), "num_boxes": 1}),
    Case("HotpotQA", "agentgym/HotpotQA-v0", {"actions": "candidates", "k": 2, "corpus": "own"}),
    Case("PaperSearch", "agentgym/PaperSearch-v0", {"actions": "candidates", "max_steps": 12}, 30, "oracle"),
    Case("SOTOPIA", "agentgym/Sotopia-v0", {"actions": "candidates", "view": "lite", "max_turns": 12}),
)


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


def player(name: str, case: Case, envs: AgentVectorEnv) -> Policy:
    """Return who plays; the tiny model is cloned from the oracle first, unless it is there."""
    explorer = RandomPolicy(envs.prototype.action_kind)
    if name == "random":
        return explorer
    if name == case.guide:
        return ExploringPolicy(find_agent(name)(envs), explorer)
    folder = FOLDER / re.sub(r"\W+", "-", case.name.lower())
    if not (folder / SUMMARY_FILE).exists():
        clone(
            CloningConfig(
                env_id=case.id,
                env_options=case.options,
                tasks=case.demonstrations,
                epochs=3,
                learning_rate=3e-3,
                token_budget=4096,
                model=MODEL,
                held_out=0,
                prompting=default_prompting(MODEL, case.id).replaced({"history": 0}),
            ),
            folder,
        )
    return find_agent("model")(envs, path=str(folder), temperature=1.0)


def mixed(groups: Ints, others: Ints) -> dict[str, float]:
    """Compare two partitions of the same steps.

    Returns:
        ``groups``: how many of the first have two steps or more; ``share``: the share of them whose steps are
        of several of the others; ``steps``: the share of all steps that are in these.

    Example:
        >>> mixed(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 2, 2, 2]))
        {'groups': 2, 'share': 0.5, 'steps': 0.4}
    """
    sizes = np.bincount(groups)
    pairs = np.unique(np.stack([groups, others]), axis=1)
    kinds = np.bincount(pairs[0], minlength=len(sizes))
    several, large = kinds > 1, sizes > 1
    return {
        "groups": int(large.sum()),
        "share": float(several.sum() / max(1, large.sum())),
        "steps": float(sizes[several].sum() / len(groups)),
    }


def compare(steps: StepBatch) -> dict[str, Any]:
    """Return what text merges and splits, and how many advantages it turns round."""
    state, text = match_states(steps, "state"), match_states(steps, "text")
    result: dict[str, Any] = {
        "steps": len(state),
        "won": float(steps.won[np.unique(steps.trajectory, return_index=True)[1]].mean()),
        "merged": mixed(text, state),
        "split": mixed(state, text),
    }
    for method in METHODS:
        own, other = (
            np.round(ALGORITHMS[method].advantage(steps, match=match), 9) for match in ("state", "text")
        )
        result[method] = {
            "turned": float((own * other < 0).mean()),
            "differs": float((np.abs(own - other) > 1e-6).mean()),
        }
    return result


def play(case: Case, name: str) -> list[dict[str, Any]]:
    """Play a case; return what is found for each size of groups."""
    found = []
    with closing(open_vector(case.id, 64, split="train", options=case.options)) as envs:
        worker = RolloutWorker(envs, player(name, case, envs), env_id=case.id)
        tasks = [task.id for task in envs.tasks[:TASKS]]
        for size in GROUP_SIZES:
            steps = StepBatch.from_groups(worker.collect(tasks, group_size=size, seed=SEED))
            found.append({"case": case.name, "player": name, "group_size": size, **compare(steps)})
    return found


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the table in Markdown, in percent."""
    lines = [
        "| suite | player | group | won | merged | split | GiGPO turned | GiGPO differs | GraphGPO turned | "
        "GraphGPO differs |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for each in found:
        shares = [each["won"], each["merged"]["share"], each["split"]["share"]]
        shares += [each[method][what] for method in METHODS for what in ("turned", "differs")]
        numbers = " | ".join(f"{100 * share:.1f}" for share in shares)
        lines.append(f"| {each['case']} | {each['player']} | {each['group_size']} | {numbers} |")
    return "\n".join(lines) + "\n"


def draw(found: Sequence[Mapping[str, Any]]) -> None:
    """Draw how many advantages text turns round, in groups of 16."""
    from matplotlib.figure import Figure

    names = [case.name for case in CASES if any(each["case"] == case.name for each in found)]
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    for axes, method in zip(figure.subplots(1, 2, sharey=True), METHODS, strict=True):
        for place, who in enumerate(("random", "rules or oracle", "tiny")):
            shown = [each for each in found if each["group_size"] == 16 and each["player"] in who]
            turned = {each["case"]: 100 * each[method]["turned"] for each in shown}
            heights = [turned.get(name, 0.0) for name in names]
            axes.barh([n + 0.27 * (place - 1) for n in range(len(names))], heights, 0.25, label=who)
        axes.set_yticks(range(len(names)), names)
        axes.set_title(ALGORITHMS[method].title)
        axes.set_xlabel("advantages of other sign, %")
        axes.spines[["top", "right"]].set_visible(False)
    axes.invert_yaxis()
    axes.legend(frameon=False)
    figure.savefig(PICTURE, dpi=110)


def trained_table(record: Mapping[str, Any]) -> str:
    """Return the table of training by either, from the study's ``sweep-state-hash.json``."""
    rows = ["| suite | warm start | by state | by text | state - text |", "|---|---:|---:|---:|---:|"]
    for name, environment in record["environments"].items():
        state, text = (
            np.array(
                [np.mean(run["won"]) for run in record["runs"] if (run["environment"], run["arm"]) == key]
            )
            for key in ((name, "GiGPO by state"), (name, "GiGPO by text"))
        )
        cells = [f"{100 * np.mean(environment['before']['won']):.1f}"]
        for values, bounds, sign in ((state, 0.0, ""), (text, 0.0, ""), (state - text, -1.0, "+")):
            estimate = t_interval(values, (bounds, 1.0))
            shown = (f"{100 * value:{sign}.1f}" for value in (estimate.value, estimate.low, estimate.high))
            cells.append("{} [{}, {}]".format(*shown))
        rows.append(f"| {environment['title']} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def write_page(found: Sequence[Mapping[str, Any]]) -> None:
    """Put the tables into the page, and draw the picture."""
    page = PAGE.read_text()
    for begin, body, end in (
        (BEGIN, table(found), END),
        (TRAINED_BEGIN, trained_table(json.loads(TRAINED.read_text())), TRAINED_END),
    ):
        before, _, rest = page.partition(begin)
        page = before + begin + body + end + rest.partition(end)[2]
    PAGE.write_text(page)
    draw(found)


def main() -> None:
    """Play what the command line names, keep it, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help="names of cases, or beginnings of them; all by default")
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = {_key(each): each for each in (json.loads(FOUND.read_text()) if FOUND.exists() else [])}
    for case in CASES:
        if given.page or (given.cases and not case.name.startswith(tuple(given.cases))):
            continue
        for name in case.players:
            found |= {_key(each): each for each in play(case, name)}
        FOUND.write_text(json.dumps(sorted(found.values(), key=_place), indent=1) + "\n")
    write_page(sorted(found.values(), key=_place))


def _key(each: Mapping[str, Any]) -> tuple[Any, ...]:
    return each["case"], each["player"], each["group_size"]


def _place(each: Mapping[str, Any]) -> tuple[int, int, int]:
    names = [case.name for case in CASES]
    return names.index(each["case"]), PLAYERS.index(each["player"]), each["group_size"]


if __name__ == "__main__":
    main()
