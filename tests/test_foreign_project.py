"""From a project that never imports agentgym itself: scripts, a YAML configuration, Stable-Baselines3."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run_foreign(tmp_path: Path, code: str, *arguments: str) -> str:
    """Run a script in a folder of its own and return what it printed; warnings are errors."""
    assert "import agentgym" not in code
    assert "from agentgym" not in code
    script = tmp_path / "train.py"
    script.write_text(code)
    result = subprocess.run(
        [sys.executable, "-W", "error", str(script), *arguments],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_plain_script(tmp_path):
    out = run_foreign(
        tmp_path,
        """
import gymnasium
env = gymnasium.make("agentgym:agentgym/Sokoban-v0", split="test")
observation, info = env.reset(seed=7)
observation, reward, terminated, truncated, info = env.step(info["admissible_actions"][0])
print(info["turn"], reward)
envs = gymnasium.make_vec("agentgym:agentgym/Sokoban-v0", num_envs=3, split="test")
observations, infos = envs.reset(seed=7)
print(type(envs).__name__, len(observations), infos["turn"].tolist())
arrays = gymnasium.make("agentgym:agentgym/SokobanArray-v0")
print(arrays.observation_space.shape, arrays.action_space)
""",
    )
    assert out.splitlines() == ["1 -0.1", "SerialVectorEnv 3 [0, 0, 0]", "(6, 6, 4) Discrete(4)"]


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_async_workers_find_it(tmp_path, context):
    out = run_foreign(
        tmp_path,
        """
import sys
import gymnasium

if __name__ == "__main__":
    envs = gymnasium.make_vec(
        "agentgym:agentgym/Sokoban-v0",
        num_envs=2,
        vectorization_mode="async",
        vector_kwargs={"context": sys.argv[1]},
    )
    observations, infos = envs.reset(seed=7)
    observations, *_ = envs.step(("left", "up"))
    print(type(envs).__name__, all(text in envs.single_observation_space for text in observations))
    envs.close()
""",
        context,
    )
    assert out.split() == ["AsyncVectorEnv", "True"]


@pytest.mark.peer
def test_yaml_configuration(tmp_path):
    """A list in YAML stands where Python would have a tuple."""
    pytest.importorskip("yaml")
    (tmp_path / "config.yaml").write_text(
        "env:\n  id: agentgym:agentgym/Sokoban-v0\n  split: test\n  dim_room: [7, 7]\n  num_boxes: 2\n"
        "  max_steps: 30\nvector:\n  id: agentgym:agentgym/EZPoints-v0\n  num_envs: 4\n"
        "  autoreset_mode: SameStep\n"
    )
    out = run_foreign(
        tmp_path,
        """
import json, yaml, gymnasium
config = yaml.safe_load(open("config.yaml", encoding="utf-8").read())
env = gymnasium.make(**config["env"])
envs = gymnasium.make_vec(**config["vector"])
print(json.dumps([env.unwrapped.spec.max_episode_steps, len(env.reset(seed=0)[0].splitlines()),
                  envs.num_envs, envs.metadata["autoreset_mode"].value]))
""".replace(
            'open("config.yaml", encoding="utf-8").read()',
            '__import__("pathlib").Path("config.yaml").read_text()',
        ),
    )
    assert json.loads(out) == [30, 7, 4, "SameStep"]


@pytest.mark.parametrize(
    "call",
    [
        'make("agentgym:agentgym/Sokoban-v0", splt=1)',
        'make_vec("agentgym:agentgym/WebShop-v0", num_envs=2, splt=1)',
    ],
)
def test_a_misspelt_option_is_one_line(tmp_path, call):
    out = run_foreign(
        tmp_path,
        f"""
import gymnasium
try:
    gymnasium.{call}
except ValueError as error:
    print(error)
""",
    )
    assert out.startswith("unknown option 'splt' (did you mean 'split'?); known: ")
    assert len(out.splitlines()) == 1


@pytest.mark.peer
def test_stable_baselines3_vectorises_and_checks_it(tmp_path):
    pytest.importorskip("stable_baselines3")
    out = run_foreign(
        tmp_path,
        """
import warnings
import gymnasium
from gymnasium.wrappers import FlattenObservation
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_checker import check_env
    from stable_baselines3.common.env_util import make_vec_env
check_env(FlattenObservation(gymnasium.make("agentgym:agentgym/SokobanArray-v0")))  # planes, not an image
envs = make_vec_env("agentgym:agentgym/SokobanArray-v0", n_envs=2, seed=0)
model = PPO("MlpPolicy", envs, n_steps=16, batch_size=16, seed=0, device="cpu").learn(32)
print(model.num_timesteps)
""",
    )
    assert out.split()[-1] == "32"


@pytest.mark.slow
@pytest.mark.peer
def test_the_example_learns_a_little(tmp_path):
    """Runs to its end with few steps; the page shows what it reaches with the default number."""
    pytest.importorskip("sb3_contrib")
    result = subprocess.run(
        [
            sys.executable,
            ROOT / "examples" / "stable_baselines3_maskable_ppo.py",
            "--steps",
            "2048",
            "--episodes",
            "20",
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    before, after = result.stdout.splitlines()
    assert before.startswith("before: ")
    assert after.startswith("after 2048 steps: ")
    assert after.endswith("% of test levels won")
