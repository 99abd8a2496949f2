"""Logs of the original engines and public ones, imported: ``python -m benchmarks.bridges.imports``.

ALFWorld's own engine (TextWorld) plays official games here, in both dialects, and its log is imported as
``react`` and as ``jsonl``; recordings of the original WebShop are compared step by step; then copies of each
log are imported in which one value was changed. Public logs are read from clones of their repositories, at
the commits named here, and stay there.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import numpy as np

from agentgym.agents import make_agent
from agentgym.data.directory import data_directory
from agentgym.env import AgentEnv
from agentgym.envs.alfworld.engine.dialects import Dialect
from agentgym.envs.alfworld.engine.textworld import TextWorldEngine
from agentgym.envs.alfworld.source import read_game
from agentgym.evaluation.imports.comparison import Agreement, compare_episode
from agentgym.evaluation.imports.dialects import DIALECTS
from agentgym.evaluation.imports.importing import ImportedRun, LogSource, import_log
from agentgym.evaluation.imports.logs import parse_episode
from agentgym.evaluation.suites.plan import open_single
from agentgym.evaluation.suites.suite import SuiteEnv
from agentgym.evaluation.verify.verification import verify_run
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.vector.core import AgentVectorEnv
from benchmarks.bridges.logs import Episode, as_jsonl, as_react
from benchmarks.memoised import hurried
from benchmarks.parity import webshop

GAMES = 20
"""Games of valid_seen that the original engine plays, in each dialect."""

WALK = 20
CHANGES = 40
"""Copies of a log in which one value is changed, of each quantity."""

EVERY = 5
"""One gold trajectory in so many is imported."""

ALFWORLD = "agentgym/ALFWorld-v0"
REJECTED = "Nothing happens."


@dataclass(frozen=True, slots=True)
class PublicLog:
    """A log of a public repository."""

    repository: str
    commit: str
    path: str
    dialect: str
    env: SuiteEnv
    read: Callable[[Callable[[str], str], list[str]], str]
    """Makes the log's text of a function that reads a file, and the paths that there are."""


def alfworld(split: str, **options: Any) -> SuiteEnv:
    """Return official games of ALFWorld as an environment of a suite."""
    kwargs = {"dataset": "official", **options}
    return SuiteEnv(ALFWORLD, "ALFWorld", split, tasks=0, metric="score", kwargs=kwargs)


def react_prompts(read: Callable[[str], str], paths: list[str]) -> str:
    """Return the examples of ReAct's prompts, one after the other."""
    return "\n------------\n".join(text.strip() for text in json.loads(read(paths[0])).values()) + "\n"


def gold_trajectories(read: Callable[[str], str], paths: list[str]) -> str:
    """Return conversations between a game and an expert as transcripts, each under its game's name."""
    lines = []
    for path in paths[::EVERY]:
        lines += ["------------", "/".join(path.split("/")[-3:-1])]
        for record in json.loads(read(path)):
            lines.append(("> " if record["from"] == "gpt" else "") + record["value"].strip())
    return "\n".join(lines) + "\n"


def step_records(read: Callable[[str], str], paths: list[str]) -> str:
    """Return trajectories, whose steps hold what was seen before them, in the documented form."""
    seen, episodes = set(), []
    for path in paths:
        for line in read(path).splitlines():
            record = json.loads(line)
            game = record["metadata"].get("reset", {}).get("alfworld_info", {}).get("extra.gamefile", [""])[0]
            if record["trajectory_id"] in seen or not record["steps"]:
                continue
            seen.add(record["trajectory_id"])
            after = [*(step["observation"] for step in record["steps"][1:]), None]
            steps = [
                {key: step[key] for key in ("action", "reward", "done")} | {"observation": observation}
                for step, observation in zip(record["steps"], after, strict=True)
            ]
            episodes.append({"task": game, "observation": record["initial_observation"], "steps": steps})
    return as_jsonl(episodes)


PUBLIC = (
    PublicLog(
        "ysymyth/ReAct",
        "6bdb3a1fd38b8188fc7ba4102969fe483df8fdc9",
        "prompts/alfworld_3prompts.json",
        "react",
        alfworld("train"),
        react_prompts,
    ),
    PublicLog(
        "Ruimeng-Ye/wts_70B",
        "97c1b8b6bc9adc9f2ce80133bc566ad56573703b",
        "eval_agent/data/alfworld/json_2.1.1/train/*/*/gt_traj.json",
        "react",
        alfworld("train", max_steps=200),
        gold_trajectories,
    ),
    PublicLog(
        "MikazukiMisaki/Alfworld-Self-Improvement-Project",
        "df1a68e881f5b5bf226c069f5c6f1f5103379ed7",
        "results/baseline/*/trajectory.jsonl",
        "jsonl",
        alfworld("valid_seen", dialect="current"),
        step_records,
    ),
)


def original_alfworld(dialect: Dialect, games: int) -> list[Episode]:
    """Play official games in TextWorld: half of each walk by chance, half towards the goal; some nonsense."""
    options = {"dataset": "official", "dialect": dialect}
    slots = open_vector(ALFWORLD, 1, split="valid_seen", options=options)
    tasks = slots.tasks
    rng = np.random.default_rng(11)
    engine, episodes = TextWorldEngine(), []
    for number in rng.choice(len(tasks), games, replace=False):
        task = tasks[int(number)]
        text = read_game(task.content, dialect)
        expert = [] if number % 2 else _expert(slots, task.id)
        with hurried():
            episode: Episode = {
                "task": task.source_id,
                "observation": engine.start(text.domain, text.grammar, text.problem),
                "steps": [],
                "success": False,
            }
            while len(episode["steps"]) < WALK and not engine.won:
                commands = engine.commands
                action = expert.pop(0) if expert else str(commands[int(rng.integers(len(commands)))])
                if rng.random() < 0.1 and not expert:
                    action = "dance with the fridge"
                step = {"action": action, "observation": engine.step(action)}
                episode["steps"].append(step | {"reward": float(engine.won), "done": engine.won})
            episode["success"] = engine.won
        episodes.append(episode)
    return episodes


def _expert(slots: AgentVectorEnv, task: str) -> list[str]:
    worker = RolloutWorker(slots, make_agent("oracle", slots), env_id=ALFWORLD)
    (played,) = worker.run([EpisodeSpec(task, 0, 0)])
    return [step.completion.action for step in played.steps]


def webshop_report(folder: Path) -> dict[str, Any]:
    """Compare every recorded episode of the original WebShop, and copies with a change."""
    recorded = webshop.read_episodes(folder)
    comparison = webshop.Comparison(webshop.recorded_world(folder, recorded))
    place = SuiteEnv("agentgym/WebShop-v0", "WebShop", "recorded", tasks=0)

    def find(number: int, logged: Episode) -> Agreement:
        env = comparison.environment(recorded[number])
        episode = parse_episode(logged, f"episode {number}")
        return compare_episode(episode, env, place, DIALECTS["jsonl"], task=env.tasks[0].id)[1]

    logged: list[Episode] = [
        {
            "observation": episode["reset_obs"],
            "steps": [
                {"action": step["action"], "observation": step["obs"]}
                | {"reward": float(step["reward"]), "done": step["done"]}
                for step in episode["steps"]
            ],
        }
        for episode in recorded
    ]
    found = [find(number, episode) for number, episode in enumerate(logged)]
    return {
        "episodes": len(logged),
        "steps": sum(len(episode["steps"]) for episode in logged),
        "agree": sum(not each.mismatches for each in found),
        "compared": dict(sum((Counter[str](each.compared) for each in found), Counter())),
        "differ": dict(Counter(mismatch.quantity for each in found for mismatch in each.mismatches)),
        "not found": 0,
        "verified": None,
        "changes found": changes_found(logged, lambda n, twin: [m.step for m in find(n, twin).mismatches]),
    }


def change(episode: Episode, quantity: str, rng: np.random.Generator) -> int:
    """Change one value of an episode; return its step.

    An action that was accepted is changed to one that is not: what was rejected may be called anything.
    """
    steps = episode["steps"]
    seen = [episode["observation"], *(step["observation"] for step in steps)]
    places = list(range(len(steps)))
    if quantity == "action":
        places = [n for n in places if seen[n + 1] not in (seen[n], REJECTED)]
    number = int(rng.choice(places))
    step = steps[number]
    if quantity == "observation":
        words = step["observation"].split(" ")
        words[int(rng.integers(len(words)))] = "unicorn"
        step["observation"] = " ".join(words)
    elif quantity == "reward":
        step["reward"] += 0.5
    elif quantity == "end":
        step["done"] = not step["done"]
    else:
        step["action"] = "ride the unicorn"
    return number + 1


def changes_found(episodes: list[Episode], find: Callable[[int, Episode], Sequence[int]]) -> dict[str, int]:
    """Change a value at a time; count the changes of which the first mismatch is at their step.

    Args:
        episodes: without mismatches.
        find: returns the steps of the mismatches of an episode, by its number.
    """
    rng = np.random.default_rng(5)
    found: dict[str, int] = {}
    for quantity in ("observation", "reward", "end", "action"):
        found[quantity] = 0
        for _ in range(CHANGES):
            number = int(rng.integers(len(episodes)))
            twin = copy.deepcopy(episodes[number])
            step = change(twin, quantity, rng)
            found[quantity] += [step] == list(find(number, twin)[:1])
    return found


def imported(text: str, dialect: str, env: SuiteEnv, folder: Path) -> ImportedRun:
    """Import a text."""
    log = folder / "log.txt"
    log.write_text(text, encoding="utf-8")
    return import_log(LogSource(log, dialect, "log", "a log"), env, folder)


def summary(run: ImportedRun) -> dict[str, Any]:
    """Return what a report says of an imported run."""
    differing = {mismatch.where for mismatch in run.mismatches}
    verdict = None if run.folder is None else verify_run(run.folder)
    return {
        "episodes": run.episodes,
        "steps": run.steps,
        "agree": run.episodes - len(differing),
        "compared": dict(run.compared),
        "differ": dict(Counter(mismatch.quantity for mismatch in run.mismatches)),
        "not found": len(run.not_found),
        "verified": None if verdict is None else verdict.ok,
        "examples": [[m.task, m.step, m.theirs, m.ours] for m in run.mismatches[:12]],
    }


def alfworld_report(folder: Path) -> dict[str, Any]:
    """Import what ALFWorld's own engine did."""
    report: dict[str, Any] = {}
    for dialect in get_args(Dialect):
        env = alfworld("valid_seen", dialect=dialect)
        episodes = original_alfworld(dialect, GAMES)
        report[f"{dialect}, jsonl"] = summary(imported(as_jsonl(episodes), "jsonl", env, folder))
        report[f"{dialect}, react"] = summary(imported(as_react(episodes), "react", env, folder))

        game = open_single(env)

        def find(
            number: int, twin: Episode, env: SuiteEnv = env, game: AgentEnv[Any] = game
        ) -> Sequence[int]:
            logged, task = parse_episode(twin, "changed"), game.tasks.find(twin["task"]).id
            return [
                m.step for m in compare_episode(logged, game, env, DIALECTS["jsonl"], task=task)[1].mismatches
            ]

        report[f"{dialect}, jsonl"]["changes found"] = changes_found(episodes, find)
    return report


def public_report(checkouts: Path, folder: Path) -> dict[str, Any]:
    """Import public logs, each at its commit."""
    report: dict[str, Any] = {}
    for log in PUBLIC:

        def git(*words: str, where: str = log.repository) -> str:
            command = ["git", "-C", str(checkouts / where), *words]
            return subprocess.run(command, capture_output=True, check=True, text=True).stdout

        def read(path: str, commit: str = log.commit) -> str:
            return git("show", f"{commit}:{path}")

        listed = git("ls-tree", "-r", "--name-only", log.commit).splitlines()
        paths = [path for path in listed if Path(path).match(log.path)]
        summed = summary(imported(log.read(read, paths), log.dialect, log.env, folder))
        about = {"commit": log.commit, "path": log.path, "dialect": log.dialect, "environment": log.env.spec}
        report[log.repository] = {**about, **summed}
    return report


def notebook_report(checkouts: Path, folder: Path) -> dict[str, Any]:
    """Read ReAct's WebShop notebook, which needs the full catalogue to be played."""
    repository, commit = PUBLIC[0].repository, PUBLIC[0].commit
    command = ["git", "-C", str(checkouts / repository), "show", f"{commit}:WebShop.ipynb"]
    log = folder / "WebShop.ipynb"
    log.write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
    episodes = DIALECTS["react"].read(log, ())
    printed = re.findall(r'"500 ([0-9.]+) [0-9.]+ [0-9.]+', log.read_text(encoding="utf-8"))
    return {
        "episodes": len(episodes),
        "actions": sum(len(episode.steps) for episode in episodes),
        "bought": sum(episode.steps[-1].done is True for episode in episodes),
        "mean reward read": sum(episode.steps[-1].reward or 0.0 for episode in episodes) / len(episodes),
        "mean reward printed": float(printed[0]) if printed else None,
    }


def markdown(report: Mapping[str, Any]) -> str:
    """Write the report for people."""
    lines = ["# Imported logs", "", f"`make bridge-imports`. {report['versions']}.", ""]
    head = [
        "| log | episodes | agree | steps | values compared | differ | not at hand | replayed run |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += ["## Of the original engines", "", *head]
    lines += [
        _row(f"ALFWorld in TextWorld, dialect {name}", table) for name, table in report["alfworld"].items()
    ]
    if "webshop" in report:
        lines.append(_row("WebShop, recorded, as jsonl", report["webshop"]))
    lines += ["", f"One value changed, {CHANGES} times each; listed first, at its step:", ""]
    lines += ["| log | observation | reward | end | action |", "|---|---|---|---|---|"]
    changed = {
        name: table["changes found"] for name, table in report["alfworld"].items() if "changes found" in table
    }
    if "webshop" in report:
        changed["WebShop"] = report["webshop"]["changes found"]
    lines += [f"| {name} | {' | '.join(str(n) for n in found.values())} |" for name, found in changed.items()]
    if "public" in report:
        lines += ["", "## Public logs", "", *head]
        for name, table in report["public"].items():
            lines.append(_row(f"{name} at `{table['commit'][:7]}`, `{table['path']}`", table))
    if "notebook" in report:
        read = report["notebook"]
        counts = f"{read['episodes']} episodes, {read['actions']:,} actions, {read['bought']} purchases"
        means = (
            f"{read['mean reward read']:.6f}, the notebook itself prints {read['mean reward printed']:.6f}"
        )
        about = "ReAct's WebShop notebook is read and not played, for its catalogue is not at hand"
        lines += ["", f"{about}: {counts}; mean reward {means}."]
    return "\n".join([*lines, "", NOTES])


def _row(name: str, table: Mapping[str, Any]) -> str:
    verified = {None: "-", True: "verifies", False: "refused"}[table["verified"]]
    counts = (table["episodes"], table["agree"], table["steps"])
    values = (sum(table["compared"].values()), sum(table["differ"].values()), table["not found"])
    return f"| {name} | {' | '.join(f'{n:,}' for n in (*counts, *values))} | {verified} |"


NOTES = """\
## What differs, and why

- **ReAct's examples** are transcripts of the original engine, of which 10 of 33 differ in 22 sentences:
  five games, each with thoughts and without. One lists objects as no engine words them ("a cloth 1, a
  soapbar 1, a soapbottle 1"), one opens a fridge that it has not gone to, one takes a saltshaker from a
  cabinet that is empty: these were edited. Two have objects elsewhere than any training game that begins
  so: edited, or another version. Three more begin as no training game does.
- **Gold trajectories** (one in five of 3,554) and **trajectories of Qwen3-8B** (newest dialect) agree in
  everything that they say. One gold trajectory is of a game that is not in the set here.
- ReAct's and Reflexion's runs on ALFWorld, and most public ones, are of `valid_unseen`, whose games are
  not at hand.
- No log of a training run of verl-agent is at hand: its dialect is tested on rows written here.
- TextWorld ran here: its log is written as it plays. WebShop's recordings hold what its search had found
  and the prices it had drawn, which the environment is given; they are compared without the command, and
  make no run.
"""


def main() -> int:
    """Import, write the report, and exit 1 where an original engine's log disagrees or a change is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bridges.imports", description=main.__doc__)
    parser.add_argument("--checkouts", type=Path, help="folder with clones OWNER/NAME of public repositories")
    parser.add_argument("--recordings", type=Path, help="folder of the recordings of WebShop")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).with_suffix(""), help="report without suffix"
    )
    options = parser.parse_args()
    recordings = options.recordings or data_directory().parent / "golden"
    with TemporaryDirectory() as name:
        report: dict[str, Any] = {
            "versions": ", ".join(f"{p} {version(p)}" for p in ("alfworld", "textworld"))
        }
        report["alfworld"] = alfworld_report(Path(name))
        if (recordings / webshop.EPISODES).exists():
            report["webshop"] = webshop_report(recordings)
        if options.checkouts is not None:
            report["public"] = public_report(options.checkouts, Path(name))
            report["notebook"] = notebook_report(options.checkouts, Path(name))
    options.out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(markdown(report), encoding="utf-8")
    print(markdown(report))
    tables = [*report["alfworld"].values(), *([report["webshop"]] if "webshop" in report else [])]
    missed = [n for table in tables for n in table.get("changes found", {}).values() if n < CHANGES]
    return int(bool(missed) or any(table["differ"] for table in tables))


if __name__ == "__main__":
    raise SystemExit(main())
