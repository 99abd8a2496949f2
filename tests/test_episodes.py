"""Rules of an episode: why a game is over, and the step that an answer took."""

import pytest

from agentgym.core.episodes import CONTRACT_KEYS, game_end, suite_keys, taken_step
from agentgym.core.types import Completion
from agentgym.registration import open_env


@pytest.mark.parametrize(
    ("terminated", "truncated", "won", "reason"),
    [
        (True, False, True, "success"),
        (True, False, False, "failure"),
        (False, True, True, "step_limit"),
        (False, True, False, "step_limit"),
        (False, False, True, None),
    ],
)
def test_a_game_ends_by_itself_or_by_its_step_limit(terminated, truncated, won, reason):
    assert game_end(terminated=terminated, truncated=truncated, won=won) == reason


def test_a_step_is_what_was_seen_done_and_received():
    env = open_env("agentgym/EZPoints-v0", split="train")
    seen, before = env.reset(seed=3)
    completion = Completion(before["admissible_actions"][0], text="said")
    outcome = env.step(completion.action)
    step, info = taken_step(seen, before, completion, outcome), outcome[4]
    assert (step.observation, step.completion, step.valid) == (seen, completion, True)
    assert (step.state_hash, step.next_state_hash) == (before["state_hash"], info["state_hash"])
    assert (step.reward, step.terminated, step.truncated) == outcome[1:4]
    assert (step.progress, step.cost, step.side) == (info["progress"] - before["progress"], 1.0, None)
    assert step.admissible_actions == before["admissible_actions"]


def test_a_suites_own_keys_are_those_that_not_every_environment_has():
    info = dict.fromkeys(CONTRACT_KEYS) | {"formula": "1+2"}
    assert suite_keys(info) == {"formula": "1+2"}
