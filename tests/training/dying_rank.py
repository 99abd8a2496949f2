"""One rank of a run: ``agentgym`` with the words after the first two, which may die once on its way.

``torchrun -m -- tests.training.dying_rank CASE FOLDER train ...``: CASE is a `dying_ranks.Case` as JSON;
FOLDER, which all ranks share, takes what happens, a line of JSON each.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from agentgym.cli import main
from agentgym.training.learner.update import Learner
from agentgym.training.loop import Trainer
from agentgym.training.setup import Meter

CASE: dict[str, Any] = json.loads(sys.argv[1])
FOLDER = Path(sys.argv[2])
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def note(what: str, iteration: int) -> None:
    """Add a line to what happens."""
    line: dict[str, Any] = {"what": what, "iteration": iteration, "rank": RANK, "ranks": RANKS}
    # torchrun gives each round of processes another port
    line |= {"process": os.getpid(), "round": os.environ["MASTER_PORT"]}
    with (FOLDER / "notes.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


class Death:
    """Counts the calls of an iteration, and dies in one of them."""

    def __init__(self) -> None:
        """Begin before the first iteration."""
        self.iteration = 0
        self.calls = {"rollout": 0, "update": 0}

    def count(self, stage: str) -> None:
        """Count a call; die where it is the one, unless a rank has died before."""
        self.calls[stage] += 1
        place = (CASE["stage"], CASE["iteration"], CASE["rank"], CASE["call"])
        if (stage, self.iteration, RANK, self.calls[stage]) != place or (FOLDER / "died").exists():
            return
        (FOLDER / "died").touch()
        note("died", self.iteration)
        if CASE["machine"]:
            os.kill(os.getppid(), signal.SIGKILL)  # torchrun's agent
        os.kill(os.getpid(), signal.SIGKILL)


def watch(death: Death) -> None:
    """Have a run count its calls, and note each iteration."""
    iterate, act, step = Trainer.iterate, Meter.act, Learner._step

    @functools.wraps(iterate)
    def iterated(self: Trainer) -> Any:
        death.iteration = self.iteration + 1
        death.calls = dict.fromkeys(death.calls, 0)
        note("begins", death.iteration)
        return iterate(self)

    @functools.wraps(act)
    def acted(self: Meter, requests: Any) -> Any:
        death.count("rollout")
        return act(self, requests)

    @functools.wraps(step)
    def stepped(self: Learner, *arguments: Any, **options: Any) -> Any:
        death.count("update")
        return step(self, *arguments, **options)

    Trainer.iterate, Meter.act, Learner._step = iterated, acted, stepped  # type: ignore[method-assign]


if __name__ == "__main__":
    watch(Death())
    sys.exit(main(sys.argv[3:]))
