"""The real engine: it leaves the process as it was, and plays as the native one does."""

import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from agentgym.envs.alfworld.engine import textworld
from agentgym.envs.alfworld.engine.game import Game
from agentgym.errors import UsageError
from agentgym.io import optional
from tests.alfworld.cottage import DOMAIN, GRAMMAR, PROBLEM


@pytest.fixture(scope="module")
def engine():
    return textworld.TextWorldEngine()


@pytest.mark.peer
def test_every_construct_plays_as_in_the_real_engine(engine):
    game = Game(DOMAIN, GRAMMAR, PROBLEM)
    rng = np.random.default_rng(0)
    theirs = engine.start(DOMAIN, GRAMMAR, PROBLEM)
    said = set()
    for _ in range(12):
        state, ours = game.initial, game.intro()
        for _ in range(25):
            operations = game.operations(state)
            commands = tuple(operations)
            assert (theirs, engine.commands, engine.facts()) == (ours, commands, game.facts(state))
            assert engine.won == game.won(state)
            assert engine.score == (None if state == game.initial else int(game.won(state)))
            operation = operations[commands[int(rng.integers(len(commands)))]]
            theirs = engine.step(operation.command)
            state = game.apply(state, operation)
            ours = game.feedback(operation, state)
            said.add((operation.schema, game.won(state)))
        theirs = engine.restart()
    assert {name for name, _ in said} == set(game.schemas)


@pytest.mark.peer
def test_what_it_does_not_know_changes_nothing(engine):
    engine.start(DOMAIN, GRAMMAR, PROBLEM)
    before = (engine.commands, engine.facts())
    assert engine.step("fly") == engine.step("") == "Nothing happens."
    assert (engine.commands, engine.facts()) == before
    assert engine.step("  wait ") == "It is dim. Here: a mug 2."


@pytest.mark.peer
@pytest.mark.parametrize("goal", ["(lid chest_bar_7)", "(open shelf_bar_1)"])
def test_games_it_cannot_play_are_refused(engine, goal):
    start = PROBLEM.index("(:goal")
    with pytest.raises(UsageError, match="cannot play a game whose goal"):
        engine.start(DOMAIN, GRAMMAR, f"{PROBLEM[:start]}(:goal {goal}))")


@pytest.mark.peer
def test_the_process_is_left_as_it_was(engine):
    before = (random.getstate(), np.random.get_state()[1].tobytes(), sys.argv, sys.stdout)  # noqa: NPY002
    textworld.TextWorldEngine().start(DOMAIN, GRAMMAR, PROBLEM)
    assert before == (random.getstate(), np.random.get_state()[1].tobytes(), sys.argv, sys.stdout)  # noqa: NPY002


@pytest.mark.peer
def test_the_newest_pair_is_found():
    folder = textworld.installed_logic()
    assert folder is not None
    assert {"alfred.pddl", "alfred.twl2"} <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(("minor", "remedy"), [(12, "pip install 'alfworld=="), (13, "use an older Python")])
def test_a_missing_engine_says_how_to_get_it(monkeypatch, minor, remedy):
    monkeypatch.setitem(sys.modules, "textworld", None)
    monkeypatch.setattr(optional, "sys", SimpleNamespace(version_info=(3, minor, 0)))
    with pytest.raises(UsageError, match=f"textworld is not installed: {remedy}.*Python before 3.13"):
        textworld.TextWorldEngine()
