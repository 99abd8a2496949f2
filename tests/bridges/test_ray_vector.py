"""Slots in Ray's actors play as those of one process, also after an actor has died."""

import numpy as np
import pytest
import ray

from agentgym.bridges.ray_vector import RayVectorEnv
from agentgym.errors import UsageError
from agentgym.registration import class_of, open_vector

ENV = "agentgym/EZPoints-v0"
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()


def same(one, other):
    assert one.keys() == other.keys()
    for key, column in one.items():
        assert np.asarray(column, dtype=object).tolist() == np.asarray(other[key], dtype=object).tolist(), key


def test_it_plays_as_one_process_does_whatever_dies():
    plain, actors = open_vector(ENV, 3), RayVectorEnv.of(ENV, 3)
    tasks = list(plain.tasks.ids)[:2]
    options = {"tasks": [tasks[0], tasks[0], None], "rollouts": [0, 1, 0]}
    (seen, infos), (found, rows) = (envs.reset(seed=5, options=options) for envs in (plain, actors))
    assert found == seen
    same(rows, infos)
    actions = dict(enumerate(infos["admissible_actions"]))
    for turn in range(4):
        if turn == 1:
            ray.kill(actors._actors[1])
        if turn == 3:
            assert actors.snapshot(0).to_bytes() == plain.snapshot(0).to_bytes()
            ray.kill(actors._actors[0])
        running = [slot for slot in actions if actions[slot]]
        chosen = [actions[slot][(turn + slot) % len(actions[slot])] for slot in running]
        expected, moved = plain.step_at(running, chosen), actors.step_at(running, chosen)
        assert moved[0] == expected[0]
        for one, other in zip(moved[1:4], expected[1:4], strict=True):
            assert one.tolist() == other.tolist()
        same(moved[4], expected[4])
        actions = dict(zip(running, expected[4]["admissible_actions"], strict=True))
    assert turn == 3
    assert actors.measures(2) == plain.measures(2)
    actors.close()
    plain.close()


def test_wrong_options_and_tasks_are_the_environments_own_errors():
    with pytest.raises(UsageError):
        RayVectorEnv(1, env_class=class_of(ENV), no_such_option=1)
    envs = RayVectorEnv.of(ENV, 1)
    with pytest.raises(UsageError, match="no task"):
        envs.reset(options={"tasks": ["no such task"]})
    envs.close()
