"""verl-agent's own workers beside ours, step for step: ``python -m benchmarks.bridges.verl_agent``.

The checkout's managers play scripted responses over their Ray workers
(`benchmarks.bridges.verl_agent_peer`, in a process of its own); the same managers then play the same
responses and tasks over our vector environment, and everything they return is compared. Rows that are over
are left out, as the checkout's trainer leaves them out.
"""

from __future__ import annotations

import importlib
import json
import lzma
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from agentgym.bridges.verl_agent import replace_workers
from agentgym.core.tasks import ListTaskSet
from agentgym.errors import UsageError
from benchmarks.bridges.verl_agent_inputs import Workspace
from benchmarks.bridges.verl_agent_peer import configuration
from benchmarks.bridges.verl_agent_report import markdown
from benchmarks.harness.report import machine, parser, publish
from benchmarks.parity.webshop import goal_task
from benchmarks.speed.webshop_original import commit_of

OUT = Path(__file__).with_suffix(".json")
KEEP = Path("tests/bridges/verl_agent")
KEPT = 4
"""Rounds whose exchanges are kept for tests."""

EPISODES = 200
COMPARED = ("reward", "end", "validity", "won", "prompt", "anchor", "success_evaluator")
EXAMPLES = 10
ROWS = ("env.rollout.n=4", "data.train_batch_size=2", "data.val_batch_size=4")
"""Eight rows of training, in two groups of four, and four of validation: twelve workers at once."""

SUITES = ("alfworld", "webshop", "sokoban")
AS_TEXT = "env.sokoban.mode=tiny_rgb_array"
"""Its script for Sokoban asks for pictures, which are drawn otherwise here; boards can be compared."""

PACKAGES = (
    *("ray", "torch", "tensordict", "textworld", "alfworld", "gym", "gym-sokoban"),
    *("pyserini", "spacy", "numpy", "gymnasium"),
)


class Comparison:
    """Plays recorded rounds of one suite over our environment."""

    def __init__(self, suite: str, workspace: Workspace, record: Sequence[Mapping[str, Any]]):
        """Make both managers, over the tasks of the record."""
        folder = workspace.folder
        self.suite = suite
        self.differences: Counter[str] = Counter(dict.fromkeys(COMPARED, 0))
        self.counts: Counter[str] = Counter()
        self.kinds: dict[str, list[int]] = {}
        self.examples: list[dict[str, Any]] = []
        loaded = configuration(workspace.checkout, settings(suite, workspace))
        if suite == "sokoban":
            write_levels(record, folder / "levels")
        options = {
            "alfworld": {"dataset": "official"},
            "webshop": {"tagger": "blank-en"},  # as the stand-in for spaCy's model tags
            "sokoban": {"dataset": str(folder / "levels")},
        }[suite]
        env = SimpleNamespace(
            **{str(name): loaded.env[name] for name in loaded.env}, agentgym={**options, "anchor": "text"}
        )
        config = SimpleNamespace(env=env, data=loaded.data)
        replace_workers()
        theirs: Any = importlib.import_module("agent_system.environments")
        self.managers = dict(zip(("train", "valid"), theirs.make_envs(config), strict=True))

    def play(self, number: int, record: Mapping[str, Any]) -> None:
        """Play one round and compare it."""
        manager = self.managers[record["split"]]
        named = self._tasks(manager, number, record)
        observations, infos = manager.reset([{"task": name} for name in named])
        start, rows = record["start"], range(len(named))
        for row in rows:
            self._compare("prompt", row, "(start)", observations["text"][row], start["text"][row])
            self._compare("anchor", row, "(start)", observations["anchor"][row], start["anchor"][row])
        batches: list[list[dict[str, bool]]] = [[] for _ in rows]
        seen: list[list[Any]] = [[] for _ in rows]
        for step in record["steps"]:
            observations, rewards, dones, infos = manager.step(list(step["texts"]))
            for row in rows:
                batches[row].append({"active_masks": step["active"][row]})
                seen[row].append(infos[row])
                if step["active"][row]:
                    ours = (rewards[row], dones[row], infos[row]["is_action_valid"], infos[row]["won"])
                    texts = (observations["text"][row], observations["anchor"][row])
                    self._step(row, step, (*ours, *texts))
        success = manager.success_evaluator(total_infos=seen, total_batch_list=batches)
        theirs = record["success"]
        for name in {*success, *theirs}:
            one, other = list(success.get(name, ())), list(theirs.get(name, ()))
            self._compare("success_evaluator", 0, name, one, other)
        self.counts["episodes"] += len(named)
        self.counts["won"] += int(sum(theirs["success_rate"]))

    def _step(self, row: int, step: Mapping[str, Any], ours: Sequence[Any]) -> None:
        done, response, kind = step["dones"][row], step["texts"][row], step["kinds"][row]
        keys = ("rewards", "dones", "valid", "won", "text", "anchor")
        for name, one, key in zip(COMPARED, ours, keys, strict=False):
            if done and name in ("prompt", "anchor"):
                continue  # of an episode that is over nothing is asked any more
            self._compare(name, row, response, one, step[key][row])
        self.counts["steps"] += 1
        self.counts["ends"] += done
        counted = self.kinds.setdefault(kind, [0, 0])
        counted[0] += 1
        counted[1] += step["valid"][row]

    def _compare(self, name: str, row: int, response: str, ours: Any, theirs: Any) -> None:
        ours = ours.item() if isinstance(ours, np.generic | np.ndarray) else ours
        if ours != theirs:
            self.differences[name] += 1
            if len(self.examples) < EXAMPLES:
                shown = {"what": name, "row": row, "response": response[-300:]}
                self.examples.append({**shown, "ours": str(ours)[-1500:], "theirs": str(theirs)[-1500:]})

    def _tasks(self, manager: Any, number: int, record: Mapping[str, Any]) -> list[str]:
        """Return the names of a round's tasks, which our environment is given."""
        if self.suite == "alfworld":
            return list(record["tasks"])
        if self.suite == "sokoban":
            return [f"{number}.xsb#{row}" for row in range(len(record["tasks"]))]
        goals = [goal_task(goal) for goal in record["tasks"]]
        prototype = manager.envs.envs.prototype
        prototype.tasks = ListTaskSet(
            "recorded", {goal.id: goal for goal in goals}.values(), dataset="recorded", suite="webshop"
        )
        return [goal.id for goal in goals]


def write_levels(record: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Write the rooms of all rounds as level files, a folder for each manager."""
    for number, played in enumerate(record):
        levels = folder / played["split"] / f"{number}.xsb"
        levels.parent.mkdir(parents=True, exist_ok=True)
        boards = [board(np.array(room["state"]), np.array(room["fixed"])) for room in played["tasks"]]
        levels.write_text("".join(f"; {i}\n{text}\n\n" for i, text in enumerate(boards)), encoding="utf-8")


def board(state: Any, fixed: Any) -> str:
    """Return a room as .xsb: its numbers are wall, floor, target, box on target, box, player."""
    symbols = np.array(list("# .*$@"))[state]
    symbols[(fixed == 2) & (state == 5)] = "+"
    symbols[(fixed == 2) & ((state == 3) | (state == 4))] = "*"
    return "\n".join("".join(row) for row in symbols)


def settings(suite: str, workspace: Workspace) -> list[str]:
    """Return the settings of the checkout's script for a suite, with fewer rows."""
    return [*workspace.settings(suite), *ROWS, AS_TEXT]


def compare(suite: str, workspace: Workspace, episodes: int, keep: Path) -> dict[str, Any]:
    """Play a suite on both sides, and keep some exchanges; return what was compared, and what differs."""
    out = workspace.folder / f"{suite}.jsonl"
    given = workspace.folder / f"{suite}.json"
    given.write_text(json.dumps(getattr(workspace, suite)()), encoding="utf-8")
    sized = ["--episodes", str(episodes), "--given", str(given), "--set", *settings(suite, workspace)]
    workspace.run("verl_agent_peer", str(workspace.checkout), suite, str(out), *sized)
    record = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    comparison = Comparison(suite, workspace, record)
    for number, played in enumerate(record):
        comparison.play(number, played)
    keep.mkdir(parents=True, exist_ok=True)
    kept = json.dumps([exchanged(played) for played in record[:KEPT]]).encode()
    (keep / f"{suite}.json.xz").write_bytes(lzma.compress(kept, preset=9))
    return {
        **comparison.counts,
        "differences": dict(comparison.differences),
        "responses": comparison.kinds,
        "examples": comparison.examples,
    }


def named(goal: Mapping[str, Any]) -> dict[str, Any]:
    """Return what names a goal without its text: its id and its price limit."""
    return {"id": goal_task(goal).id, "price_upper": goal["price_upper"]}


def exchanged(played: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a manager and its workers told each other in a round; of texts, digests."""
    names = ("actions", "active", "rewards", "dones", "won", "seen")
    steps = [{name: step[name] for name in names} for step in played["steps"]]
    tasks = [named(task) if "asin" in task else task for task in played["tasks"]]
    return {
        "split": played["split"],
        "tasks": tasks,
        "start": played["start"]["seen"],
        "steps": steps,
    }


def main() -> int:
    """Compare, measure and write the report; exit 1 on any difference."""
    given = parser(__spec__.name, __doc__, OUT)
    given.add_argument("--checkout", type=Path, required=True, help="of verl-agent")
    given.add_argument("--suites", nargs="*", default=list(SUITES), help=f"of {', '.join(SUITES)}")
    given.add_argument("--episodes", type=int, default=EPISODES)
    given.add_argument("--keep", type=Path, default=KEEP, help="folder of the exchanges that tests replay")
    given.add_argument("--commit", help="of the checkout, where it is no git repository")
    options = given.parse_args()
    if not (options.commit or (options.checkout / ".git").exists()):
        raise UsageError(f"{options.checkout} is no git repository: name its commit with --commit")
    written = options.out.with_suffix(".json")
    report = json.loads(written.read_text(encoding="utf-8")) if written.exists() else {"suites": {}}
    with tempfile.TemporaryDirectory() as name:
        workspace = Workspace(options.checkout, Path(name))
        sys.path.insert(0, str(workspace.checkout))
        report |= {
            "commit": options.commit or commit_of(options.checkout),
            "versions": {package: version(package) for package in PACKAGES},
            "machine": f"{machine()['cpu'].partition(',')[0]}, {os.cpu_count()} cores",
        }
        for suite in options.suites:
            report["suites"][suite] = compare(suite, workspace, options.episodes, options.keep)
        out = workspace.folder / "loop.json"
        workspace.run("verl_agent_loop", str(workspace.checkout), str(out))
        report["loop"] = json.loads(out.read_text(encoding="utf-8"))
    publish(options.out, report, markdown(report))
    return int(any(any(found["differences"].values()) for found in report["suites"].values()))


if __name__ == "__main__":
    raise SystemExit(main())
