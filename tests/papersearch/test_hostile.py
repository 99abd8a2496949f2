"""No action takes longer than a moment, whatever it says, and however many were played before."""

import pytest

from agentgym.core.calls import Call, write_calls
from agentgym.env import MAX_ACTION_LENGTH
from agentgym.envs.papersearch.env import PaperSearchEnv, PaperSearchVectorEnv
from tests.test_hostile_actions import LENGTHS, PIECES, hostile, quick

OPTIONS = {"max_steps": 10**6, "untagged": "invalid", "selector": "lexical"}


@pytest.mark.parametrize("length", LENGTHS)
def test_every_action_is_answered_at_once(length):
    env, envs = PaperSearchEnv(**OPTIONS), PaperSearchVectorEnv(2, **OPTIONS)
    env.reset(seed=0)
    envs.reset(seed=0)
    for action in hostile(length):
        admissible = quick(env.is_admissible, action)
        assert env.step(action)[4]["action_is_valid"] == admissible
        quick(env.step, action)
        quick(envs.step, [action, action])


def test_many_calls_of_many_kinds_are_made_at_once():
    env = PaperSearchEnv(**OPTIONS, max_calls=100)
    env.reset(seed=0)
    for piece in PIECES:
        calls = [Call(name, piece * n) for name in ("search", "expand") for n in range(1, 20)]
        action = write_calls(calls)[:MAX_ACTION_LENGTH].rpartition("\n")[0]
        assert quick(env.step, action)[4]["action_is_valid"] == env.is_admissible(action)


def test_lines_of_other_kinds_do_not_end_calls():
    """Only a line break separates calls: what other alphabets break lines with is text."""
    env = PaperSearchEnv()
    env.reset(seed=0)
    info = env.step("search[a\u2028b]\nsearch[c\x0bd\x85e]\r\nexpand[\x1cf]")[4]
    assert info["action_is_valid"]
    assert info["step_cost"] == 3.0
