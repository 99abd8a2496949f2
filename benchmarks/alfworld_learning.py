"""A model that learns ALFWorld on two cores: ``python -m benchmarks.alfworld_learning``.

A model of random weights is shown what the rule-based explorer does, which sees no more than the model does,
and is told what a player remembers (`agentgym.envs.alfworld.task_memory`); in rounds of DAgger it plays by
itself and is shown what the explorer would have done there. Then it plays built-in games, where an episode
of more than `STEPS` steps is lost, and GiGPO shortens its ways. It is played on games that it was not
trained on after each stage, beside its teacher and the controls. Everything is written under `FOLDER`, which
git ignores; a run that was interrupted goes on where it was. ``--publish`` takes the page into the
repository.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import torch

from agentgym.agents import make_agent
from agentgym.cli import main as agentgym
from agentgym.cli.train_bc import epochs_bar
from agentgym.core.types import Policy
from agentgym.envs.alfworld import prior, rules
from agentgym.io.files import replace_file
from agentgym.prompts.settings import Prompting
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.training.checkpoint import has_checkpoint
from agentgym.training.cloning.clone import STATE_FILE, SUMMARY_FILE, clone
from agentgym.training.cloning.supervised import CloningConfig, shown_tasks
from agentgym.training.models.tiny import tiny_model, word_tokenizer
from agentgym.training.policy.agent import make_model_agent
from agentgym.training.policy.saved import SavedAgent, Training, save_agent
from agentgym.vector.core import AgentVectorEnv
from benchmarks.alfworld_page import Played, Results, page

ENV = "agentgym/ALFWorld-v0"
PUBLISHED: Mapping[str, Any] = {"dataset": "official", "dialect": "current"}
BUILT_IN: Mapping[str, Any] = {}

FOLDER = Path("runs/alfworld")
PAGE = Path("benchmarks/alfworld_learning.md")
NUMBERS = PAGE.with_suffix(".json")

SIZE = "0.1m"
TEMPERATURE = 0.4
"""That models play at, in DAgger's rounds and under GiGPO as well: so they meet the loops that lose games."""

PROMPTING = Prompting(
    wording="alfworld-memory-task",
    answer="bare",
    history=0,
    budget=1024,
    choice="constrained",
    temperature=TEMPERATURE,
)
CONTEXT = 2048
NUMBERED = 60
"""Numbers of things and receptacles up to this are single tokens."""

CLONING = CloningConfig(
    env_id=ENV,
    env_options=PUBLISHED,
    also=(BUILT_IN,),
    teacher="rules",
    shuffled=True,
    tasks=2000,
    epochs=2,
    rounds=4,
    round_tasks=335,
    batch=16,
    learning_rate=2e-3,
    warmup=100,
    beta2=0.98,
    token_budget=4096,
    held_out=0,
)
"""Of each of both train splits, ``tasks`` games are shown and ``rounds * round_tasks`` played."""

ALGORITHM = "gigpo"
STEPS = 30
ITERATIONS = 20
LEARNING = (
    f"env_options.max_steps={STEPS}",
    "rollout.tasks=16",
    "rollout.group_size=8",
    "rollout.num_envs=128",
    "learner.entropy_coefficient=0.0",
    "learner.learning_rate=5e-4",
    "learner.minibatches=2",
    "learner.token_budget=4096",
    "warmup=2",
    "checkpoint_every=5",
    "evaluation.every=0",
)


@dataclass(frozen=True)
class Games:
    """Games that rows are compared on."""

    title: str
    split: str
    options: Mapping[str, Any]
    tasks: int

    def choose(self, tasks: Sequence[str]) -> list[str]:
        """Return the ids of those played: the first; of a train split the last in `shown_tasks`' order."""
        if self.split != "train":
            return list(tasks[: self.tasks])
        return shown_tasks(replace(CLONING, tasks=len(tasks)), tasks)[-self.tasks :]


PLAYED_ON = {
    "train": Games("published train games, held out", "train", PUBLISHED, 200),
    "builtin": Games("built-in train games, held out", "train", BUILT_IN, 200),
    "seen": Games("published valid_seen", "valid_seen", PUBLISHED, 140),
    "unseen": Games("built-in valid_unseen", "valid_unseen", BUILT_IN, 200),
}
"""Settings were chosen on the first two alone."""


# ---- training -------------------------------------------------------------------------------------


def words() -> Iterator[str]:
    """Yield the words of the games and of their memory: kinds of things and places, of goals and commands."""
    for counts in prior.load().values():
        for thing, places in counts.items():
            yield from (thing, *places)
    yield from rules.goal_words()
    yield from re.findall(
        "[a-z]+",
        "go to take from move open close use clean heat cool with examine slice look inventory help put in "
        "on task seen unknown held here tried named none closed away moved desklamp floorlamp",
    )


def untrained(seed: int) -> Path:
    """Make the model of random weights; return its folder."""
    return untrained_in(FOLDER / f"untrained-seed{seed}", seed, words())


def untrained_in(folder: Path, seed: int, vocabulary: Iterable[str]) -> Path:
    """Make a model of random weights for which some words are single tokens, where there is none yet."""
    if not folder.exists():
        tokenizer = word_tokenizer(
            (variant for word in sorted(set(vocabulary)) for variant in (word, f" {word}")), numbers=NUMBERED
        )
        training = Training(
            env_id=ENV,
            algorithm="none",
            base_model=f"tiny:{SIZE}",
            seed=seed,
            run=folder.name,
            iterations=0,
            episodes=0,
            tokens=0,
        )
        model = tiny_model(SIZE, tokenizer, context=CONTEXT, seed=seed)
        save_agent(folder, model, SavedAgent(PROMPTING, training))
    return folder


def cloned(seed: int) -> Path:
    """Clone the explorer; return the model's folder."""
    folder = FOLDER / f"clone-seed{seed}"
    if not (folder / SUMMARY_FILE).exists():
        config = replace(CLONING, model=str(untrained(seed)), seed=seed)
        with timed(folder), epochs_bar(config) as report:
            clone(config, folder, report=report, resume=(folder / STATE_FILE).exists())
    return folder


def reinforced(seed: int, begin: Callable[[int], Path], name: str = ALGORITHM) -> Path:
    """Train a model by reinforcement learning; return its folder.

    Args:
        seed: of everything.
        begin: makes the model that training begins with, and returns its folder.
        name: of the run.
    """
    run = FOLDER / f"{name}-seed{seed}"
    model = run / "checkpoints" / "last" / "model"
    if not _over(run):
        if has_checkpoint(run):
            said = ["train", ALGORITHM, "--resume", str(run)]
        else:
            shutil.rmtree(run, ignore_errors=True)
            said = ["train", ALGORITHM, "--env", ENV, "--model", str(begin(seed)), "--preset", "tiny"]
            said += ["--out", str(run), "--seed", str(seed), "--iterations", str(ITERATIONS)]
            said += [word for pair in LEARNING for word in ("--set", pair)]
        with timed(run):
            code = agentgym(said)
        if code:
            raise SystemExit(code)
    return model


def _over(run: Path) -> bool:
    """Return whether a training run has done all its iterations."""
    last = run / "checkpoints" / "last"
    return last.exists() and int(last.resolve().name) >= ITERATIONS


@contextmanager
def timed(folder: Path) -> Iterator[None]:
    """Add the processor time of a stage to what is written beside its folder."""
    began = process_time()
    try:
        yield
    finally:
        path = seconds_file(folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        before = float(path.read_text(encoding="utf-8")) if path.exists() else 0.0
        replace_file(path, f"{before + process_time() - began:.1f}\n")


def seconds_file(folder: Path) -> Path:
    """Return the file with the processor time of a stage."""
    return folder.with_name(f"{folder.name}.seconds")


# ---- playing --------------------------------------------------------------------------------------


def agents(seed: int) -> dict[str, Callable[[AgentVectorEnv], Policy]]:
    """Return who plays, by the row's name; models are trained where they are not yet."""
    fixed = {"random": "random", "rules": "rules", "oracle": "oracle"}
    makers: dict[str, Callable[[AgentVectorEnv], Policy]] = {
        name: partial(make_agent, kind) for name, kind in fixed.items() if seed == 0
    }
    models = {
        "untrained": untrained(seed),
        "clone": cloned(seed),
        "gigpo": reinforced(seed, cloned),
    }
    if seed == 0:
        models["gigpo-alone"] = reinforced(seed, untrained, "gigpo-alone")
    return makers | {f"{name}-seed{seed}": _player(folder) for name, folder in models.items()}


def _player(folder: Path) -> Callable[[AgentVectorEnv], Policy]:
    """Return what makes the agent of a model."""
    return lambda envs: make_model_agent(envs, str(folder), temperature=TEMPERATURE)


def play(name: str, make: Callable[[AgentVectorEnv], Policy], which: str) -> Played:
    """Return how an agent does on games, each played once; what was played before is read."""
    path = FOLDER / "played" / f"{name}-{which}.json"
    if not path.exists():
        games = PLAYED_ON[which]
        with closing(open_vector(ENV, 64, split=games.split, options=games.options)) as envs:
            worker = RolloutWorker(envs, make(envs), env_id=ENV, measured=True)
            tasks = games.choose(envs.tasks.ids)
            ended = {one.task_id: one for one in worker.run(EpisodeSpec(task, 0, 0) for task in tasks)}
        played = [
            {
                "type": ended[task].task_type,
                "won": ended[task].won,
                "steps": len(ended[task].steps),
                "spl": ended[task].measures["spl"],
            }
            for task in tasks
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(played) + "\n")
    found: Played = json.loads(path.read_text(encoding="utf-8"))
    return found


def main() -> int:
    """Go through the stages; what an earlier call finished is left as it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds 0 to N - 1 (default: 1)")
    parser.add_argument("--publish", action="store_true", help="write the committed page")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows: dict[str, dict[str, Played]] = {}
    for seed in range(arguments.seeds):
        for name, make in agents(seed).items():
            rows[name] = {which: play(name, make, which) for which in PLAYED_ON}
    seconds = {path.stem: float(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.seconds")}
    titles = {which: games.title for which, games in PLAYED_ON.items()}
    results = Results(rows, titles, seconds, tuple(range(arguments.seeds)))
    text = page(results)
    sys.stdout.write(text)
    if arguments.publish:
        replace_file(PAGE, text)
        replace_file(NUMBERS, results.to_json())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
