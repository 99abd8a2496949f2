"""What a gateway makes of an environment's answers and of its calls: literal steps."""

from types import SimpleNamespace

import pytest

from agentgym.serving.gateway.call_tree import EnvRow
from agentgym.serving.gateway.episodes import _step
from agentgym.serving.gateway.sessions import env_row


def answer(reward):
    info = {
        "state_hash": "a",
        "admissible_actions": ["up"],
        "turn": 1,
        "progress": 0,
        "action_is_valid": True,
    }
    row = {"observation": {"text": "seen"}, "terminated": False, "truncated": False}
    return {**row, "metadata": info, "reward": reward}


@pytest.mark.parametrize(("reward", "paid"), [(0.0, 0.0), (None, 0.0), (-0.1, -0.1), (1.0, 1.0), (2, 2)])
def test_a_reward_is_what_the_environment_paid(reward, paid):
    assert env_row(answer(reward)).reward == paid


def call(view, *moves):
    """Return a call whose parts that a step does not need are left out."""
    made = SimpleNamespace(ids=(7,), logprobs=(-0.5,), version=3, versions=None)
    said = SimpleNamespace(text="I think.")
    return SimpleNamespace(
        view=EnvRow(view, f"sees {view}"), moves=tuple(map(EnvRow, moves)), generation=made, answer=said,
        prompt_ids=(1, 2), seconds=0.5, reward=0.25, messages=(), valid=True, cost=1.0, terminated=False,
        truncated=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("moves", "following", "joined", "after"),
    [
        ((), "second", True, "second"),  # a call without a step leads to what the next call saw
        ((), "second", False, "second"),
        ((), None, True, "first"),
        (("moved", "again"), "second", True, "again"),
        (("moved",), None, True, "moved"),
    ],
)
def test_a_call_leads_to_its_last_step_or_to_what_the_next_one_saw(moves, following, joined, after):
    step = _step(call("first", *moves), None if following is None else call(following), joined=joined)
    assert (step.state_hash, step.next_state_hash, step.reward) == ("first", after, 0.25)
    assert step.completion.response_ids == (7,)


def test_a_calls_progress_and_cost_are_those_of_its_steps():
    first = call("first")
    assert (_step(first, None, joined=True).progress, _step(first, None, joined=True).cost) == (0.0, 0.0)
    first.view = EnvRow("first", progress=0.25)
    first.moves = (EnvRow("a", progress=0.5, cost=1.0), EnvRow("b", progress=1.0, cost=2.5))
    step = _step(first, call("b"), joined=True)
    assert (step.progress, step.cost) == (0.75, 3.5)
