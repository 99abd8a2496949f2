"""Many episodes in one process: equal to single ones, and over one compiled form of each game."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from agentgym.envs.alfworld.env import ALFWorldEnv
from agentgym.vector.serial import SerialVectorEnv

MEGABYTES = """
import json, sys
import numpy as np
from agentgym.envs.alfworld.env import ALFWorldEnv
from agentgym.vector.serial import SerialVectorEnv

options = json.loads(sys.argv[1])
envs = SerialVectorEnv(1024, env_class=ALFWorldEnv, autoreset_mode="NextStep", **options)
ids = [task.id for task in envs.tasks[:200]]
_, infos = envs.reset(seed=0, options={"tasks": [ids[i % 200] for i in range(1024)]})
generator = np.random.default_rng(0)
for _ in range(25):
    actions = [a[int(generator.integers(len(a)))] if a else "look" for a in infos["admissible_actions"]]
    *_, infos = envs.step(actions)
scenes = {id(env._scene) for env in envs.envs}
print(len(scenes))
with open("/proc/self/status") as status:
    print(next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")))
"""


def choose(generator, admissible):
    """Draw a command for each slot, a few of them unknown."""
    return [
        "dance" if generator.random() < 0.05 else a[int(generator.integers(len(a)))] if a else ""
        for a in admissible
    ]


def test_many_episodes_equal_single_ones():
    """128 episodes over 64 games, step for step."""
    envs = SerialVectorEnv(
        128,
        env_class=ALFWorldEnv,
        observation="augmented",
        max_steps=12,
        autoreset_mode=AutoresetMode.DISABLED,
    )
    singles = [ALFWorldEnv(observation="augmented", max_steps=12) for _ in range(128)]
    tasks = [task.id for task in envs.tasks[:64]] * 2
    texts, infos = envs.reset(seed=5, options={"tasks": tasks})
    for slot, env in enumerate(singles):
        text, info = env.reset(seed=5 + slot, options={"task": tasks[slot]})
        assert text == texts[slot]
        assert info == {key: infos[key][slot] for key in info}
    generator = np.random.default_rng(3)
    for _ in range(12):
        actions = choose(generator, infos["admissible_actions"])
        texts, rewards, ended, cut, infos = envs.step(actions)
        for slot, env in enumerate(singles):
            text, reward, terminated, truncated, info = env.step(actions[slot])
            assert (text, reward, terminated, truncated) == (
                texts[slot],
                rewards[slot],
                ended[slot],
                cut[slot],
            )
            assert info == {key: infos[key][slot] for key in info}
        over = ended | cut
        if over.any():
            break
    assert len(set(texts)) > 60


def test_episodes_of_a_game_share_its_compiled_form():
    envs = SerialVectorEnv(12, env_class=ALFWorldEnv, autoreset_mode=AutoresetMode.DISABLED)
    ids = [task.id for task in envs.tasks[:3]]
    _, infos = envs.reset(seed=0, options={"tasks": ids * 4})
    assert len({id(env._scene) for env in envs.envs}) == 3
    assert len(set(infos["state_hash"])) == 3


def test_episodes_are_copied_between_slots():
    envs = SerialVectorEnv(2, env_class=ALFWorldEnv, autoreset_mode=AutoresetMode.DISABLED)
    envs.reset(seed=0)
    for _ in range(5):
        commands = envs.envs[0].admissible_actions()
        envs.step_at([0], [commands[-1]])
    snapshot = pickle.loads(pickle.dumps(envs.snapshot(0)))
    assert envs.restore(1, snapshot) == envs.copy(0, 1)
    assert envs.envs[0].state_hash() == envs.envs[1].state_hash()


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"dataset": "official"}, marks=pytest.mark.assets)],
    ids=["builtin", "official"],
)
def test_a_thousand_episodes_over_two_hundred_games_fit(options):
    """In a process of its own: at most 600 MB, all of its imports included."""
    import json

    command = [sys.executable, "-c", MEGABYTES, json.dumps(options)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    scenes, megabytes = map(int, out.split())
    assert scenes <= 200 + 1024
    assert megabytes <= 600
