"""The entry point for gem, made and wrapped as gem 0.1.0 does; gem itself is not installed here."""

import pytest

from agentgym.bridges.gem import make_gem_env
from agentgym.errors import UsageError


def test_environments_of_other_seeds_draw_other_tasks():
    drawn = [
        [
            make_gem_env("agentgym/Sokoban-v0", seed=seed, num_boxes=1).reset()[1]["task_id"]
            for seed in range(4)
        ]
        for _ in range(2)
    ]
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) > 1


def test_a_wrapper_may_copy_each_attribute_and_give_the_seed_by_place():
    env = make_gem_env("agentgym/Sokoban-v0", split="valid")
    copied = {name: getattr(env, name) for name in dir(env) if not name.startswith("_")}
    assert "task" not in copied
    assert copied["reset"](3)[1] == env.reset(seed=3)[1]
    assert "task" in dir(env)


def test_an_unknown_option_is_refused():
    with pytest.raises(UsageError, match="unknown option 'num_boxs'"):
        make_gem_env("agentgym/Sokoban-v0", num_boxs=1)
