"""Every recipe: its command line, its presets, and what a tiny run of it leaves."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from agentgym.cli.train import TRAINABLE
from agentgym.recipes import has_paper
from agentgym.recipes.published import BY_ENV, WEBSHOP
from agentgym.training.config import TINY

NOT_RECIPES = {"__init__", "recipe"}
ROOT = Path(__file__).parents[2]


RECIPES = sorted({path.stem for path in (ROOT / "trainers").glob("*.py")} - NOT_RECIPES)


def test_a_recipe_is_of_an_algorithm_that_can_be_trained_and_has_a_program():
    assert set(RECIPES) <= set(TRAINABLE)
    assert [name for name in TRAINABLE if has_paper(name)] == [name for name in TRAINABLE if name in RECIPES]


@pytest.mark.parametrize("name", RECIPES)
def test_presets_are_sound(name):
    paper = import_module(f"agentgym.recipes.{name}").PAPER
    for env in (*BY_ENV, "agentgym/EZPoints-v0"):
        config = paper.config(name, env, model="tiny")
        assert config.learner.learning_rate == 1e-6
        assert config.rollout.tasks * config.rollout.group_size == 128
        assert config.prompting.choice == "free"
        assert TINY.config(name, env).loss.kl_coefficient == 0.0
    alfworld = paper.config(name, "agentgym/ALFWorld-v0", model="tiny")
    assert alfworld.env_options["max_steps"] == (20 if name == "steppo" else 50)
    assert alfworld.prompting.wording == "alfworld"


def test_graphgpo_discounts_as_its_table_says():
    paper = import_module("agentgym.recipes.graphgpo").PAPER
    omegas = [paper.config("graphgpo", env, model="tiny").switches["omega"] for env in BY_ENV]
    assert omegas == [0.1, 0.8, 0.2]


def test_webshop_is_as_its_columns_say():
    settings = {
        name: import_module(f"agentgym.recipes.{name}").PAPER.config(name, WEBSHOP, model="tiny")
        for name in ("gigpo", "hgpo", "steppo")
    }
    told = {name: (each.prompting.budget, each.prompting.max_tokens) for name, each in settings.items()}
    assert told == {"gigpo": (4096, 512), "hgpo": (4096, 512), "steppo": (16384, 4096)}
    assert [each.learner.minibatch_steps for each in settings.values()] == [64, 64, 128]
    assert all(each.env_options == {"max_steps": 15} for each in settings.values())
    assert settings["hgpo"].switches["std"] is False


def test_a_recipe_runs_as_a_program(tmp_path):
    settings = ("rollout.tasks=2", "rollout.group_size=2", "evaluation.every=0")
    command = [
        sys.executable,
        "-m",
        "trainers.graphgpo",
        "--env",
        "agentgym/ALFWorld-v0",
        "--iterations",
        "1",
    ]
    command += ["--model", "tiny:0.1m", "--preset", "tiny", "--out", str(tmp_path / "run")]
    command += [word for setting in settings for word in ("--set", setting)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert "finished after 1 iterations" in done.stdout
    assert (tmp_path / "run" / "checkpoints" / "000001" / "model" / "agent.json").is_file()


def test_a_recipe_says_what_is_wrong_in_one_line():
    command = [sys.executable, "-m", "trainers.gigpo", "--preset", "papper"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("agentgym: ")
    assert len(done.stderr.splitlines()) == 1
