"""The native form: equal to the plain one over many slots, in every option."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from agentgym.checking import check_agent_vector_env
from agentgym.checking.evidence import choose, first_difference
from agentgym.envs.ezpoints.env import EZPointsEnv
from agentgym.envs.ezpoints.rules import accepted, over, wins
from agentgym.envs.ezpoints.table import COLUMNS, NO_TOKEN, table
from agentgym.envs.ezpoints.vector import EZPointsVectorEnv
from agentgym.vector.serial import SerialVectorEnv

OPTIONS = [{}, {"rewards": "gym-cards", "split": "unseen_pairs"}, {"observation": "image", "max_steps": 3}]


class PlainVectorEnv(SerialVectorEnv):
    env_class = EZPointsEnv


@pytest.mark.parametrize("options", OPTIONS)
def test_keeps_the_contract(options):
    check_agent_vector_env(lambda **more: EZPointsVectorEnv(**{**options, **more}))


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("options", OPTIONS)
def test_equals_the_plain_form(options, mode):
    native, plain = (each(32, autoreset_mode=mode, **options) for each in (EZPointsVectorEnv, PlainVectorEnv))
    rng = np.random.Generator(np.random.PCG64(1))
    assert first_difference(native.reset(seed=5), plain.reset(seed=5)) is None
    for _ in range(40):
        actions = [choose(env.admissible_actions(), rng) for env in plain.envs]
        ours, theirs = native.step(actions), plain.step(actions)
        assert first_difference(ours, theirs) is None
        ended = theirs[2] | theirs[3]
        if mode is AutoresetMode.DISABLED and ended.any():
            options = {"reset_mask": ended}
            assert first_difference(native.reset(options=options), plain.reset(options=options)) is None


def test_the_table_is_the_rules():
    lookup = table()
    assert len(lookup.tokens) == len(lookup.rows) == 7122
    for (pair, tokens), row in lookup.rows.items():
        listed = accepted(pair, tokens)
        assert lookup.admissible[row] == listed
        assert lookup.over[row] == over(tokens)
        assert lookup.won[row] == wins(pair, tokens)
        assert not lookup.accepts[row, NO_TOKEN]
        for action, column in COLUMNS.items():
            assert lookup.accepts[row, column] == (action in listed)
            after = lookup.rows[pair, (*tokens, action)] if action in listed else row
            assert lookup.next[row, column] == after


def test_unseeded_slots_draw_their_own_tasks():
    envs = EZPointsVectorEnv(64)
    _, infos = envs.reset()
    assert len(set(infos["task_id"])) > 10
