"""The walk from a recipe to the learner: how many modules a reader passes through."""

import gc
import inspect
import sys

import pytest

from agentgym.cli import main
from agentgym.recipes import reader  # noqa: F401  # what imports run is no part of the walk
from agentgym.training import run  # noqa: F401
from agentgym.training.learner.update import Learner

MAX_ON_STACK, MAX_ENTERED = 12, 14
TRAINER = ("agentgym.cli.train", "agentgym.recipes", "agentgym.training.")


class Reached(BaseException):
    """The learner is about to be made."""


def test_a_recipe_reaches_the_learner_within_a_few_modules(monkeypatch, tmp_path):
    """Those of the call stack, and those of the trainer entered since the command began."""
    stack, entered = [], []

    def reached(self, *arguments, **options):
        sys.setprofile(None)
        stack.extend(frame.frame.f_globals["__name__"] for frame in inspect.stack())
        raise Reached

    def note(frame, event, argument):
        if event == "call":
            entered.append((frame.f_globals.get("__name__", ""), frame.f_code.co_name))

    monkeypatch.setattr(Learner, "__init__", reached)
    words = ["train", "gigpo", "--env", "agentgym/EZPoints-v0", "--model", "tiny:0.1m", "--preset", "paper"]
    # What other tests left, a suspended generator for one, is closed before or after, never within.
    gc.collect()
    gc.disable()
    sys.setprofile(note)
    try:
        with pytest.raises(Reached):
            main([*words, "--out", str(tmp_path / "run")])
    finally:
        sys.setprofile(None)
        gc.enable()
    passed = {name for name in stack if name.startswith("agentgym")}
    assert {"agentgym.cli.train", "agentgym.training.run", "agentgym.training.setup"} <= passed
    assert len(passed) <= MAX_ON_STACK, "\n".join(sorted(passed))
    began = entered.index(("agentgym.cli.train", "run"))
    rooms = {name for name, _ in entered[began:] if name.startswith(TRAINER)}
    assert len(rooms) <= MAX_ENTERED, "\n".join(sorted(rooms))
