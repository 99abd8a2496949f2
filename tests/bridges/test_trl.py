"""The bridge to TRL: tools as its trainer reads them, episodes as the environment's own, steps of GRPO."""

import json
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from agentgym.bridges.trl import EnvironmentFactory, mixed_rows
from agentgym.core.tools import Tool
from agentgym.errors import UsageError
from agentgym.registration import make
from benchmarks.bridges import recorded, trl

ROOT = Path(__file__).resolve().parents[2]
SOKOBAN = "agentgym/Sokoban-v0"
NO_DIFFERENCES = {"rewards": 0, "ends": 0, "hashes": 0, "other": 0}


def run(*words):
    """Run a script of the checkout that imports TRL; return what it printed."""
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "TRL_EXPERIMENTAL_SILENCE": "1",
    }
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- parity ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", recorded.SUITES)
def test_tools_play_recorded_episodes_as_they_were(env_id):
    found = trl.play(env_id, 2)
    assert (found.episodes, found.differences, found.first) == (2, NO_DIFFERENCES, "")


def test_the_committed_report_has_no_differences():
    rows = json.loads((recorded.HERE / "trl.json").read_text())["rows"]
    assert len(rows) >= 11
    assert {row["env_id"] for row in rows} <= set(recorded.ENVIRONMENTS)
    assert all(row["episodes"] == 200 and row["differences"] == NO_DIFFERENCES for row in rows)


def test_what_differs_is_counted_and_reported(tmp_path, capsys):
    class Wrong(trl.ToolCaller):
        def play(self, action):
            reached = super().play(action)
            return reached._replace(reward=reached.reward + 1, truncated=not reached.truncated, state_hash="")

    episodes = recorded.record(SOKOBAN, 2, single=True, max_steps=3)
    factory = EnvironmentFactory(SOKOBAN, max_steps=3)
    found = recorded.compare(SOKOBAN, episodes, lambda: Wrong(factory, factory()._env.tools))
    assert found.differences == {
        "rewards": found.steps,
        "ends": found.steps,
        "hashes": found.steps,
        "other": 0,
    }
    assert recorded.write_report("trl", "A title", "About.", [found], ("gymnasium",), tmp_path) == 1
    steps = found.steps
    assert (
        f"| Sokoban-v0 | 2 | {found.won} | {steps} | {steps} | {steps} | {steps} | 0 |"
        in capsys.readouterr().out
    )
    assert json.loads((tmp_path / "trl.json").read_text())["rows"][0]["first"].startswith("rewards: task ")


def test_threads_that_share_a_world_play_as_one_after_the_other():
    factory = EnvironmentFactory("agentgym/WebShop-v0")
    tools = factory()._env.tools
    episodes = recorded.record("agentgym/WebShop-v0", 8, single=True)

    def played(episode):
        return recorded.compare("", [episode], lambda: trl.ToolCaller(factory, tools)).differences

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(played, episodes)) == [NO_DIFFERENCES] * 8


# ---- what TRL asks of a factory ---------------------------------------------------------------------


PLAYS = """
import json, pickle, sys
factory = pickle.load(sys.stdin.buffer)
player = factory()
player.reset(**factory.rows(1)[0])
player.move(direction="up")
print(json.dumps([type(player).__name__, player.info["state_hash"], player.get_reward()]))
"""


def test_a_factory_is_pickled_into_another_process():
    factory = EnvironmentFactory(SOKOBAN, num_boxes=1, max_steps=5)
    player = factory()
    player.reset(**factory.rows(1)[0])
    player.move(direction="up")
    done = subprocess.run(
        [sys.executable, "-c", PLAYS], input=pickle.dumps(factory), capture_output=True, cwd=ROOT
    )
    assert json.loads(done.stdout) == ["SokobanEnv", player.info["state_hash"], player.get_reward()]


def test_instances_share_the_world_and_a_class_of_their_own():
    factory = EnvironmentFactory("agentgym/WebShop-v0")
    one, other = factory(), factory()
    assert type(one) is type(other)
    assert one._env is not other._env
    assert one._env.tasks is other._env.tasks
    assert type(EnvironmentFactory("agentgym/WebShop-v0")()) is not type(one)


def test_a_reset_forgets_the_episode_before():
    player = EnvironmentFactory(SOKOBAN, num_boxes=1, max_steps=2)()
    opening = player.reset(seed=3)
    first = player.info
    player.move("up")
    player.move("down")
    assert (player.truncated, player.get_reward()) == (True, -0.2)
    with pytest.raises(ValueError, match=r"^Game over$"):
        player.move("up")
    assert player.rewards == [-0.1, -0.1]
    assert player.reset(seed=3, prompt=[], anything=None) == opening
    assert (player.info, player.rewards, player.terminated, player.truncated) == (first, [], False, False)


def test_the_prompt_ends_with_instructions_and_answers_tell_the_turn():
    player = EnvironmentFactory("agentgym/HotpotQA-v0")()
    opening = player.reset(seed=0)
    assert "Question: " in opening
    assert opening.startswith("You answer a question")
    answer = player.search(query="the mill")
    assert "after 1 turn" in answer
    assert "You answer a question" not in answer


def test_arguments_that_fit_no_tool_are_no_step():
    player = EnvironmentFactory(SOKOBAN, num_boxes=1)()
    player.reset(seed=0)
    for arguments in ({"direction": "sideways"}, {}, {"direction": "up", "times": 2}, {"direction": 1}):
        with pytest.raises(ValueError, match="a call of move"):
            player.move(**arguments)
    assert player.info["turn"] == 0


def test_pictures_are_blocks_of_a_message():
    player, env = EnvironmentFactory("agentgym/VisualSokoban-v0")(), make("agentgym/VisualSokoban-v0")
    picture, text = player.reset(seed=0)
    assert (picture["type"], text["type"]) == ("image", "text")
    assert text["text"].startswith("You are playing Sokoban")
    env.reset(seed=0)
    expected = env.step("up")[0]["image"]
    assert np.array_equal(np.asarray(player.move(direction="up")[0]["image"]), expected)


def test_rows_name_tasks_and_factories():
    factories = {
        "easy": EnvironmentFactory(SOKOBAN, num_boxes=1),
        "cards": EnvironmentFactory("agentgym/EZPoints-v0"),
    }
    rows = mixed_rows(factories, 2)
    assert [(row["environment"], row["seed"]) for row in rows] == [
        ("easy", 0),
        ("easy", 1),
        ("cards", 0),
        ("cards", 1),
    ]
    for row in rows:
        player = factories[row["environment"]]()
        player.reset(**row)
        assert player.info["task_id"] == row["task"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: EnvironmentFactory("agentgym/Sokobam-v0"), "unknown id 'agentgym/Sokobam-v0'"),
        (lambda: EnvironmentFactory(SOKOBAN, wording="sokobam")(), "unknown wording 'sokobam'"),
        (lambda: EnvironmentFactory(SOKOBAN, boxes=1)(), "boxes"),
        (lambda: EnvironmentFactory(SOKOBAN)().reset(prompt=[]), "give them a column 'task' or 'seed'"),
        (lambda: EnvironmentFactory(SOKOBAN)().reset(task="x"), "'x'"),
        (
            lambda: EnvironmentFactory("agentgym/ALFWorld-v0", wording="alfworld-memory")(),
            "choose another wording",
        ),
    ],
)
def test_bad_settings_are_refused_in_one_line(call, message):
    with pytest.raises(UsageError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["reset", "get_reward", "info", "_hidden"])
def test_a_tool_that_trl_would_not_call_is_refused(name):
    factory = EnvironmentFactory(SOKOBAN)
    factory._env.tools = (Tool(name, "Does something.", template="up"),)
    with pytest.raises(UsageError, match=f"TRL calls no tool named '{name}': rename it"):
        factory()


# ---- with TRL's trainer -----------------------------------------------------------------------------


@pytest.mark.peer
@pytest.mark.slow
def test_two_steps_of_grpo_in_each_of_three_suites_and_in_all_at_once(tmp_path):
    found = json.loads(run("tests/bridges/grpo_steps.py", tmp_path).splitlines()[-1])
    assert list(found) == ["sokoban", "hotpotqa", "webshop", "mixed"]
    for name, run_of in found.items():
        assert (run_of["steps"], run_of["differences"]) == (2, 0), name
        assert run_of["turns"] > 0, name
        assert run_of["moved"] > 0.0, name
    classes = {"sokoban": "SokobanEnv", "hotpotqa": "HotpotQAEnv", "webshop": "WebShopEnv"}
    for name, logged in classes.items():
        assert found[name]["logged"] == [f"rewards/{logged}/mean", "rewards/watch/mean"]
    assert found["mixed"]["logged"] == [f"rewards/{name}/mean" for name in sorted(classes.values())] + [
        "rewards/watch/mean"
    ]


@pytest.mark.peer
@pytest.mark.slow
def test_the_example_trains(tmp_path):
    from trl.chat_template_utils import qwen2_5_chat_template

    from agentgym.inference.models.language_model import save_model
    from agentgym.inference.models.tiny import tiny_model, word_tokenizer

    player = EnvironmentFactory(SOKOBAN, num_boxes=1)()
    tokenizer = word_tokenizer([player.reset(seed=0), qwen2_5_chat_template])
    tokenizer.chat_template = qwen2_5_chat_template
    save_model(tmp_path / "tiny", tiny_model("0.1m", tokenizer))
    settings = {
        "model_name_or_path": tmp_path / "tiny",
        "output_dir": tmp_path / "out",
        "max_steps": 1,
        "logging_steps": 1,
        "max_completion_length": 32,
        "per_device_train_batch_size": 2,
        "num_generations": 2,
        "bf16": False,
        "use_cpu": True,
        "report_to": "none",
        "save_strategy": "no",
    }
    words = [word for name, value in settings.items() for word in (f"--{name}", value)]
    assert "'rewards/SokobanEnv/mean': '0'" in run("examples/trl_sokoban.py", *words)
