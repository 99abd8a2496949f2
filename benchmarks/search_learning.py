"""Two algorithms on the built-in HotpotQA: ``python -m benchmarks.search_learning``, ``make train-search``.

A tiny model is shown what the oracle does on a few training questions, then learns from its own searches and
answers by `ALGORITHMS`. It is played on test questions before and after, beside chance and the rule, and the
learning curves are drawn. Everything is written under `FOLDER`, which git ignores; ``--publish`` takes the
table and the picture into the repository.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, TypeAlias

import torch

from agentgym.agents.random import RandomPolicy
from agentgym.algos.table import ALGORITHMS as KNOWN
from agentgym.cli import main as agentgym
from agentgym.core.calls import read_calls
from agentgym.core.types import Completion, Policy, Request
from agentgym.envs.multihop.env import HotpotQAEnv
from agentgym.envs.multihop.forms import ANSWER, CALLS
from agentgym.envs.multihop.rules import make_lexical
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.training.policy.agent import make_model_agent
from agentgym.vector.core import AgentVectorEnv

ENV = "agentgym/HotpotQA-v0"
OPTIONS = {"form": "search-r1", "corpus": "own", "k": 1, "actions": "candidates"}
"""One search or answer a step among the names seen so far, one passage a search, ten passages a question."""

FOLDER = Path("runs/search")
CLONE = FOLDER / "clone"
PLAYED = FOLDER / "played.json"
CURVE = FOLDER / "hotpotqa-learning.png"
PAGE = Path("benchmarks/search_learning.md")
PICTURE = Path("docs/images") / CURVE.name

DEMONSTRATIONS, EPOCHS = 600, 4
"""Questions that the oracle answers for behaviour cloning, and how often they are gone through."""
CLONING = ("learning_rate=4e-3",)

ALGORITHMS = ("grpo", "gigpo")
SEEDS = (0,)
ITERATIONS = 32
TASKS, GROUP = 32, 8
"""Questions of an iteration, and episodes of each."""
EVALUATED = 200
"""Questions of the validation split."""
LEARNING = (
    f"rollout.tasks={TASKS}",
    f"rollout.group_size={GROUP}",
    f"rollout.num_envs={TASKS * GROUP}",
    # no entropy bonus: what was cloned is too undecided, and most is won by deciding
    "learner.entropy_coefficient=0.0",
    "learner.learning_rate=3e-3",
    "learner.minibatches=2",
    "learner.token_budget=8192",
    "warmup=2",
    f"evaluation.tasks={EVALUATED}",
    "evaluation.temperature=1.0",
    "evaluation.every=8",
)
SMOOTH = 5
"""Iterations whose training success is averaged in the picture."""

CLOSED = ("Question: Did", "Question: Were", "Question: Are")
"""How questions begin that are answered by yes or no."""

TESTED = 400
"""Questions of the test split, each played once."""

Played: TypeAlias = dict[str, Any]
"""How a policy does on the test questions."""

TITLES = {
    "random": "random actions",
    "unread": "`unread`: answers from the question alone",
    "lexical": "the rule `lexical`",
    CLONE.name: "cloned only",
    "oracle": "oracle",
}
"""Of the rows that are no training runs."""


def run_folder(algorithm: str, seed: int) -> Path:
    """Return the folder of a training run."""
    return FOLDER / f"hotpotqa-{algorithm}-seed{seed}"


# ---- training -------------------------------------------------------------------------------------


def clone() -> int:
    """Clone the oracle, from random weights; return the exit code."""
    words = ["train", "bc", "--env", ENV, "--model", "tiny:0.1m", "--seed", "0", "--out", str(CLONE)]
    words += ["--tasks", str(DEMONSTRATIONS), "--epochs", str(EPOCHS)]
    return timed(CLONE, _with_settings(words, CLONING))


def train(algorithm: str, seed: int) -> int:
    """Train the clone; return the exit code."""
    folder = run_folder(algorithm, seed)
    words = ["train", algorithm, "--env", ENV, "--model", str(CLONE), "--preset", "tiny"]
    words += ["--out", str(folder), "--seed", str(seed), "--iterations", str(ITERATIONS)]
    return timed(folder, _with_settings(words, LEARNING))


def timed(folder: Path, words: list[str]) -> int:
    """Run a command; write its processor time beside the folder that it makes, and return the exit code."""
    began = process_time()
    code = agentgym(words)
    _seconds_file(folder).write_text(f"{process_time() - began:.1f}\n", encoding="utf-8")
    return code


def _with_settings(words: Sequence[str], settings: Iterable[str]) -> list[str]:
    options = (f"env_options.{name}={value}" for name, value in OPTIONS.items())
    return [*words, *(word for pair in (*options, *settings) for word in ("--set", pair))]


def _seconds_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.seconds")


# ---- playing --------------------------------------------------------------------------------------


def play_all() -> int:
    """Play the test questions by everybody; return 0."""
    torch.set_num_threads(1)
    trained = [run_folder(algorithm, seed) for algorithm in ALGORITHMS for seed in SEEDS]
    models = {CLONE.name: CLONE, **{run.name: run / "checkpoints" / "last" / "model" for run in trained}}
    makers: dict[str, Callable[[AgentVectorEnv], Policy]] = {
        "random": lambda envs: RandomPolicy(envs.prototype.action_kind),
        "unread": lambda _: Unread(),
        "lexical": make_lexical,
        **{name: _model_maker(path) for name, path in models.items()},
    }
    table = {name: play(make) for name, make in makers.items()}
    for name, path in models.items():
        table[name]["greedy"] = play(_model_maker(path, temperature=0.0))["all"]
    table["oracle"] = play(_oracle)
    PLAYED.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    return 0


def play(make: Callable[[AgentVectorEnv], Policy]) -> Played:
    """Return how a policy does on the test questions."""
    with closing(open_vector(ENV, 64, split="test", options=OPTIONS)) as envs:
        tasks = envs.tasks[:TESTED]
        types = {task.id: task.content.type for task in tasks}
        worker = RolloutWorker(envs, make(envs), env_id=ENV)
        won: dict[str, list[bool]] = {}
        said: Counter[str] = Counter()
        searches = 0
        for trajectory in worker.run(EpisodeSpec(task.id, seed, 0) for seed, task in enumerate(tasks)):
            won.setdefault(types[trajectory.task_id], []).append(trajectory.won)
            calls = [call for step in trajectory.steps for call in read_calls(step.action, CALLS) or ()]
            searches += sum(call.name != ANSWER for call in calls)
            said.update(call.text for call in calls if call.name == ANSWER)
    every = [one for some in won.values() for one in some]
    return {
        "all": statistics.fmean(every),
        **{type: statistics.fmean(some) for type, some in won.items()},
        "searches": searches / len(every),
        "yes or no": (said["yes"] + said["no"]) / len(every),
    }


class Unread:
    """Answers at once: what can be won without a search."""

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer each question yes, or by the last name in it."""
        return [Completion(self._answer(request)) for request in requests]

    def _answer(self, request: Request) -> str:
        listed = [action for action in request.admissible_actions if action.startswith(f"{ANSWER}[")]
        closed = str(request.observation).startswith(CLOSED)
        return f"{ANSWER}[yes]" if closed else listed[-1]


def _model_maker(path: Path, **settings: float) -> Callable[[AgentVectorEnv], Policy]:
    return lambda envs: make_model_agent(envs, str(path), **settings)  # type: ignore[arg-type]


def _oracle(envs: AgentVectorEnv) -> Policy:
    game = envs.prototype
    assert isinstance(game, HotpotQAEnv), "the suite that is played"
    return game.oracle()


# ---- what is shown --------------------------------------------------------------------------------


def draw() -> int:
    """Draw the learning curves; return the exit code."""
    runs = [str(run_folder(algorithm, seed)) for algorithm in ALGORITHMS for seed in SEEDS]
    metrics = ("--metric", "success", "--metric", "eval")
    return agentgym(["plot", *runs, *metrics, "--smooth", str(SMOOTH), "--out", str(CURVE)])


def report() -> str:
    """Return the page."""
    played: dict[str, Played] = json.loads(PLAYED.read_text(encoding="utf-8"))
    lines = [
        "# Learning to search",
        "",
        f"Two algorithms on `{ENV}`, on one processor core: a model of 0.1 million weights, form `search-r1` "
        "(one search or one answer a step, four steps), a search finds one of the question's ten passages, "
        "searches and answers are chosen among the names seen so far. The reward is the exact match alone.",
        "",
        f"![Success on training questions and on {EVALUATED} of the validation split](../{PICTURE})",
        "",
        f"The model first clones the oracle on {DEMONSTRATIONS} training questions ({EPOCHS} epochs), then "
        f"plays {ITERATIONS} iterations of {TASKS} questions, {GROUP} episodes each. All rows play the same "
        f"{TESTED} test questions once; models sample at temperature 1. Settings were chosen on the training "
        "and validation splits. A share's 95 % interval is about \N{PLUS-MINUS SIGN}5 points.",
        "",
        "| | success | bridge | comparison | greedy | searches | yes or no | processor-seconds |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *(_row(name, how) for name, how in played.items()),
        "",
        "`unread` makes no search: it answers yes where the question begins as a yes-or-no question does, "
        "else the last name in the question. What it wins of the comparisons needs no reading: only bridge "
        "questions, and comparisons beyond that, show that a policy searches and reads.",
        "",
        "`greedy` takes the likeliest token each time. Where success rises and `greedy` does not, as here "
        "within the intervals, training has made the choice more decided rather than the reading "
        "better. One random seed; three shorter runs of GRPO were made before, with other learning rates "
        "and an entropy bonus.",
        "",
        "From random weights, without the clone, reading is not learned in this time: one run of GRPO with "
        "`first_search=true`, `k=2` and three steps went from 3.3% to 13.3% of 300 validation questions in "
        "130 processor-seconds, of comparisons from 8% to 42%, of bridge questions from 1.4% to 1.0%. It had "
        "learned to answer at once.",
        "",
        "`make train-search` does all this again under `runs/search`; `--publish` writes this page.",
    ]
    return "\n".join(lines) + "\n"


def _row(name: str, how: Played) -> str:
    seconds = _seconds_file(FOLDER / name)
    spent = seconds.read_text(encoding="utf-8").strip() if seconds.exists() else "-"
    shares = " | ".join(f"{how[key]:.1%}" for key in ("all", "bridge", "comparison"))
    greedy = f"{how['greedy']:.1%}" if "greedy" in how else "-"
    return (
        f"| {_title(name)} | {shares} | {greedy} | {how['searches']:.2f} | {how['yes or no']:.0%} | {spent} |"
    )


def _title(name: str) -> str:
    for algorithm in ALGORITHMS:
        for seed in SEEDS:
            if name == run_folder(algorithm, seed).name:
                return f"cloned, then {KNOWN[algorithm].title}, seed {seed}"
    return TITLES[name]


def main() -> int:
    """Go through the stages; end at the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--publish", action="store_true", help="write the committed page and picture")
    publish = parser.parse_args().publish
    shutil.rmtree(FOLDER, ignore_errors=True)  # an earlier run's
    FOLDER.mkdir(parents=True)
    runs: list[Callable[[], int]] = [partial(train, name, seed) for name in ALGORITHMS for seed in SEEDS]
    for stage in (clone, *runs, play_all, draw):
        code = stage()
        if code:
            return code
    sys.stdout.write(report())
    if publish:
        PAGE.write_text(report(), encoding="utf-8")
        shutil.copyfile(CURVE, PICTURE)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
