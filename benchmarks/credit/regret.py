"""Regret of committed runs and of public logs: ``python -m benchmarks.credit.regret --logs FOLDER``.

The logs are imported first, by the actions that they hold; thoughts and plans are none. FOLDER holds the
public logs of language models as published, and with ``--gold`` another the trajectories of
Ruimeng-Ye/wts_70B, of which every fifth is taken.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from agentgym.core.distances import StepBounds
from agentgym.credit.regret import EpisodeRegret, RegretSummary, regret_of_run, total
from agentgym.evaluation.imports.importing import LogSource, import_log
from agentgym.evaluation.log.results import EvalSample
from agentgym.evaluation.log.stored_run import StoredRun, read_stored_run
from agentgym.evaluation.suites.suite import SuiteEnv
from agentgym.evaluation.verify.archives import open_run
from agentgym.registration import suite_spec
from benchmarks.harness.report import parser, publish, table_text

OUT = Path("benchmarks/credit/regret.json")
RUNS = Path("benchmarks/runs")
SUITES = ("official-alfworld-unseen-game", "demo")
"""Suites whose committed runs are measured."""

GOLD = "eval_agent/data/alfworld/json_2.1.1/train/*/*/gt_traj.json"
GOLD_STRIDE = 5

Measured: TypeAlias = list[tuple[EvalSample, EpisodeRegret]]

_ACTION = re.compile(r"^>(?! *(?:think|actionpath|$)) *(.*)$", re.MULTILINE | re.IGNORECASE)

NOTES = """\
Steps into a dead end have an infinite regret and are left out of the means. A share of an episode's limit
says where its decisive step falls; ALFWorld's limit is 50 steps.

- All distances are proven but those that the last column counts.
- Dead ends of ALFWorld are few. In the two that were looked at a thing is taken that no place may hold, a
  roll of paper towels, and the hand is never free again.
- Some official games hold one thing in two places at once (a mug on the coffee machine and on the countertop
  below it). Taking it from one leaves it in the other, and the shortest plans make use of that.
- Of public logs the first 50 actions are played. An episode whose agent gives up before the step limit may
  have no decisive step. ADaPT reports 107 of 134 games won. As its log is read here, 87 of
  them are, so that its rows are of this reading.
"""


def logged(folder: Path) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Yield the name, split and episodes of each public log."""
    adapt = json.loads((folder / "adapt_alfworld_valid_unseen_text-davinci-003.json").read_text())
    del adapt["overall"]
    told = [(name, one["trace"]) for kind in adapt.values() for name, one in kind.items()]
    episodes = [_episode(name, actions_in(text)) for name, text in told]
    yield "ADaPT, text-davinci-003", "valid_unseen", episodes
    for stage in ("D0", "D1"):
        lines = (folder / f"knowagent_alfworld_train_llama-2-13b_{stage}.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        episodes = [_episode(row["name"], actions_in(row["traj"])) for row in rows]
        yield f"KnowAgent, Llama-2-13b, {stage}", "train", episodes


def actions_in(transcript: str) -> list[str]:
    """Return what was played in a transcript; thoughts and KnowAgent's paths of actions are left out."""
    return _ACTION.findall(transcript)


def gold(folder: Path) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Yield the gold trajectories."""
    paths = sorted(folder.glob(GOLD))[::GOLD_STRIDE]
    told = [json.loads(path.read_text()) for path in paths]
    actions = [[each["value"] for each in turns if each["from"] == "gpt"] for turns in told]
    names = ["/".join(path.parts[-3:-1]) for path in paths]
    yield (
        "gold trajectories, wts_70B",
        "train",
        [_episode(*each) for each in zip(names, actions, strict=True)],
    )


def _episode(name: str, actions: Sequence[str]) -> dict[str, Any]:
    return {"task": name, "steps": [{"action": action} for action in actions[:50]]}


def imported(episodes: list[dict[str, Any]], split: str, name: str, out: Path) -> StoredRun:
    """Import a log of official games of ALFWorld."""
    log = out / "log.jsonl"
    log.write_text("".join(json.dumps(episode) + "\n" for episode in episodes))
    env = SuiteEnv("agentgym/ALFWorld-v0", "ALFWorld", split, 1, kwargs={"dataset": "official"})
    run = import_log(LogSource(log, "jsonl", re.sub("[^A-Za-z0-9]+", "-", name), name), env, out)
    if run.folder is None:
        raise SystemExit(f"{name}: no run; {run.not_found[:3]}")
    return read_stored_run(run.folder)


def main() -> None:
    """Measure, and write the report."""
    arguments = parser("benchmarks.credit.regret", __doc__, OUT)
    arguments.add_argument("--logs", type=Path, required=True, help="folder of the public logs")
    arguments.add_argument("--gold", type=Path, help="files of Ruimeng-Ye/wts_70B")
    given = arguments.parse_args()
    rows: list[dict[str, Any]] = []
    for suite in SUITES:
        for path in sorted((RUNS / suite).glob("*.run.xz")):
            run = open_run(path)
            for env in (found.env for found in run.log.envs if suite_spec(found.env.id).distance):
                own = [each for each in run.results if each.env == env.label]
                rows += measured(f"{suite}: {run.log.agent.display_name}, {env.label}", run, own)
    logs = [*logged(given.logs), *(gold(given.gold) if given.gold else ())]
    for name, split, episodes in logs:
        with TemporaryDirectory() as out:
            run = imported(episodes, split, name, Path(out))
            rows += measured(name, run, run.results)
    publish(given.out, {"rows": rows}, page(rows))


def measured(name: str, run: StoredRun, episodes: Sequence[EvalSample]) -> Iterator[dict[str, Any]]:
    """Yield a row for the episodes won, and one for those lost."""
    began = time.process_time()
    found: Measured = list(regret_of_run(run, episodes))
    seconds = round(time.process_time() - began, 1)
    for ended, won in (("won", True), ("lost", False)):
        own = [(episode, regret) for episode, regret in found if episode.won == won]
        if own:
            summary = RegretSummary.of([regret for _, regret in own])
            shares = sorted(r.decisive / r.limit for _, r in own if r.decisive is not None)
            exact = sum(_adds_up(*each) for each in own) if won else None
            middle = round(shares[len(shares) // 2], 2) if shares else None
            row = {"run": name, "ended": ended, **asdict(summary), "exact": exact, "middle": middle}
            yield row | {"decisive": len(shares), "seconds": seconds}


def _adds_up(episode: EvalSample, regret: EpisodeRegret) -> bool:
    """Return whether an episode's regrets are proven, and add up to its steps less the fewest."""
    return total(regret.known) == StepBounds(*[episode.length - regret.left[0].low] * 2)


def page(rows: Sequence[dict[str, Any]]) -> str:
    """Return the report."""
    head = (
        "run", "ended", "episodes", "steps", "mean regret", "of belief", "undone", "dead ends",
        "decisive step", "its median share of the limit", "adds up", "unproven",
    )  # fmt: skip
    lines = [
        (
            row["run"],
            row["ended"],
            f"{row['episodes']:,}",
            f"{row['steps']:,}",
            str(StepBounds(*row["known"])),
            str(StepBounds(*row["belief"])),
            f"{row['undone'] / row['steps']:.1%}" if row["steps"] else "",
            str(row["dead_ends"]),
            str(row["decisive"]) if row["ended"] == "lost" else "",
            str(row["middle"] or ""),
            f"{row['exact']} of {row['episodes']}" if row["exact"] is not None else "",
            str(row["unproven"]),
        )
        for row in rows
    ]
    return f"# Regret of recorded runs\n\n{table_text(head, lines)}\n{NOTES}"


if __name__ == "__main__":
    main()
