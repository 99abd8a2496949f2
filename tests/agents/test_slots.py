"""Prompt slots hold what a request says, for suites with and without places."""

import numpy as np
import pytest

from agentgym.core.types import Completion, Request, Step
from agentgym.prompts.fields import Exchange, PromptFields


def step(observation, action):
    return Step(observation, "0", ("a", "b"), Completion(action), 0.0, "1", True, False, False)


def request(observation="now", **changes):
    past = (step("first", "a"), step({"text": "second", "image": np.zeros((1, 1, 3), np.uint8)}, "b"))
    return Request(3, "t", "pick", 2, observation, ("a", "b"), "2", 7, history=past, **changes)


@pytest.mark.parametrize("history", [0, 1, 2, 9])
def test_the_last_turns_are_kept(history):
    every = (Exchange("first", "a"), Exchange("second", "b"))
    slots = PromptFields.of(request(), history=history)
    assert slots.recent == every[len(every) - min(history, 2) :]
    assert (slots.observation, slots.turn, slots.admissible_actions) == ("now", 2, ("a", "b"))


def test_a_suite_without_places_leaves_them_empty():
    slots = PromptFields.of(request(extra={"deadlock": False}), history=1)
    assert (slots.task, slots.location, slots.held, slots.moved) == ("", "", "", ())


def test_a_suite_with_places_fills_them():
    extra = {
        "goal": "find it.",
        "location": "shelf 1",
        "held": "mug 1(cleaned)",
        "moved": ("mug 2 to shelf 1",),
    }
    slots = PromptFields.of(request({"text": "seen", "image": None}, extra=extra), history=0)
    assert slots == PromptFields("find it.", "seen", 2, (), ("a", "b"), *list(extra.values())[1:])
