"""What recipes make of one success among seven failures: the reward's size decides who is encouraged."""

import numpy as np
import pytest

from agentgym.algos import grpo
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import Compat
from agentgym.recipes import find_recipe, recipe_names

INVALID = (3, 0, 2, 5, 7, 10, 14, 18)
"""Rejected actions of each of eight episodes of twenty steps; the first is won."""

DIVIDING = [
    name
    for name in recipe_names()
    for settings in (find_recipe(name).values,)
    if settings.get("algorithm_options.std") and settings.get("env_options.reward") == "sparse10"
    if "algorithm_options.penalty" in settings
]
"""Recipes that divide by the group's deviation and pay 10 for success."""


def _episodes(win):
    steps = 20
    trajectory = np.repeat(np.arange(len(INVALID)), steps)
    reward, valid = np.zeros(trajectory.size), np.ones(trajectory.size, dtype=bool)
    for number, count in enumerate(INVALID):
        valid[number * steps : number * steps + count] = False
    reward[steps - 1] = win
    return StepBatch.of(
        group=np.zeros_like(trajectory),
        trajectory=trajectory,
        state=np.arange(trajectory.size),
        reward=reward,
        valid=valid,
    )


def test_there_are_such_recipes():
    assert {"grpo", "gigpo", "graphgpo", "hgpo"} <= {find_recipe(name).algorithm for name in DIVIDING}


@pytest.mark.parametrize("name", DIVIDING)
def test_the_winner_is_encouraged_and_every_failure_discouraged(name):
    settings = find_recipe(name).values
    episode = grpo.advantage(_episodes(10.0), compat=Compat(penalty=settings["algorithm_options.penalty"]))[
        ::20
    ]
    assert episode[0] == pytest.approx(2.4, abs=0.1)
    assert (episode[1:] < 0).all()


def test_a_reward_of_one_would_encourage_polite_failures():
    episode = grpo.advantage(_episodes(1.0), compat=Compat(penalty=0.1))[::20]
    assert (episode[1:] > 0).any()
