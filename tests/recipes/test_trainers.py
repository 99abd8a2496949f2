"""The files of ``trainers``: how they are merged and refused, what their page says, and how one is added."""

import itertools
import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from agentgym.algos.table import ALGORITHMS
from agentgym.cli import main, train
from agentgym.cli.commands import make_parser
from agentgym.errors import UsageError
from agentgym.recipes import find_recipe, recipe_config, recipe_names, recipes_of, root
from agentgym.recipes.environments import short_name
from agentgym.recipes.protocols import protocol_names

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "trainers" / "README.md").read_text(encoding="utf-8")
TABLES = PAGE.partition("### GiGPO")[2].partition("## Launch")[0]

OWN = """
algorithm = "grpo"
env = "agentgym/EZPoints-v0"
extends = ["verl-agent", "istar"]
without = ["algorithm_options.penalty"]

[[settings]]
source = "a run of mine"
paper = "8"
why = "memory"
rollout.group_size = 4

[[settings]]
source = "another"
rollout.tasks = 2
iterations = 3
"""


def test_the_folder_is_the_checkouts():
    assert root() == ROOT / "trainers"


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_is_named_after_its_algorithm_and_environment(name):
    recipe = find_recipe(name)
    algorithm, _, env = name.partition("/")[2].partition("-")
    assert (algorithm, env.replace("-", "")) == (recipe.algorithm, short_name(recipe.env_id).lower())
    assert recipe.algorithm in ALGORITHMS
    assert recipe.settings


def test_every_shared_part_is_extended():
    files = [tomllib.loads(path.read_text()) for path in root().glob("*/*.toml")]
    extended = {name for file in files for name in file.get("extends", ())}
    assert extended == {path.stem for path in (root() / "shared").glob("*.toml")}


def test_later_settings_replace_earlier_ones_with_their_source(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    found = find_recipe(str(path)).settings
    assert (found["rollout.group_size"].value, found["rollout.group_size"].paper) == (4, "8")
    assert (found["rollout.tasks"].value, found["rollout.tasks"].source) == (2, "another")
    assert found["learner.learning_rate"].source == "iStar, Appendix C.1"  # not verl-agent's
    assert found["objective.clip_low"].source.startswith("verl-agent")
    assert "algorithm_options.penalty" not in found
    assert next(iter(found)) == "iterations"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("algorithm = [", "is no TOML"),
        (OWN.replace("algorithm =", "algoritm ="), "unknown key 'algoritm' (did you mean 'algorithm'?)"),
        (OWN.replace('algorithm = "grpo"', ""), "key 'algorithm' is missing"),
        (OWN.replace('"istar"', '"istarr"'), "extends: no shared part 'istarr' (did you mean 'istar'?)"),
        (OWN.replace("penalty", "penality"), "without: no part sets 'algorithm_options.penality'"),
        (
            OWN.replace("rollout.tasks", "rolout.tasks"),
            "settings 2: unknown key 'rolout' (did you mean 'rollout'?)",
        ),
        (OWN.replace("rollout.tasks", "rollout.taks"), "unknown setting 'rollout.taks'"),
        (OWN.replace("tasks = 2", "group_size = 2"), "settings 2: rollout.group_size is set twice"),
        (OWN.replace('source = "another"', ""), "settings 2: rollout.tasks: a setting names its source"),
        (
            OWN.replace('why = "memory"', ""),
            "settings 1: rollout.group_size: a setting names its source, and",
        ),
        (OWN.replace('"another"', "3"), "settings 2: source: expected a string, got 3"),
        (OWN.replace("tasks = 2", 'tasks = "two"'), "tasks: expected an integer, got 'two'"),
    ],
)
def test_a_damaged_file_is_one_line_that_names_file_and_key(text, message, tmp_path, capsys):
    path = tmp_path / "own.toml"
    path.write_text(text)
    assert main(["train", "--recipe", str(path), "--plan"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"agentgym: {path}")
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--recipe", "gigpo/gigpo-alfwrld"], "(did you mean 'gigpo/gigpo-alfworld'?)"),
        (["--recipe", "../gigpo/gigpo-alfworld"], "no recipe"),
        (["--recipe", "gigpo/gigpo-alfworld", "--env", "agentgym/Sokoban-v0"], "leave out --env"),
        (["--recipe", "gigpo/gigpo-alfworld", "--preset", "tiny"], "leave out --preset"),
        (["grpo", "--recipe", "gigpo/gigpo-alfworld"], "trains by gigpo"),
        (["gigpo", "--env", "agentgym/Sokobn-v0", "--preset", "paper"], "agentgym: unknown id"),
        (["recipe"], "name a recipe"),
        (["grpo", "--env", "agentgym/WebShop-v0", "--table", "steppo"], "choose one of gigpo/grpo-alfworld"),
        (
            ["grpo", "--env", "agentgym/WebShop-v0", "--table", "gigpo", "--preset", "tiny"],
            "leave out --table",
        ),
    ],
)
def test_words_that_contradict_a_recipe_are_one_line(words, message, capsys):
    assert main(["train", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def _config(words):
    return train._config(make_parser().parse_args(words))


def test_a_recipe_a_preset_and_a_table_are_the_same_run():
    named = _config(["train", "--recipe", "steppo/grpo-hotpotqa", "--seed", "3"])
    env = ["train", "grpo", "--env", "agentgym/HotpotQA-v0", "--seed", "3"]
    assert named == _config([*env, "--preset", "paper"]) == _config([*env, "--table", "steppo"])
    assert named == recipe_config(find_recipe("steppo/grpo-hotpotqa"), named.env_id, seed=3)


def test_the_preferred_paper_comes_first(tmp_path, monkeypatch):
    copy = tmp_path / "trainers"
    shutil.copytree(root(), copy)
    shutil.copy(copy / "gigpo" / "grpo-webshop.toml", copy / "istar" / "grpo-webshop.toml")
    (copy / "aaa").mkdir()
    shutil.copy(copy / "gigpo" / "grpo-webshop.toml", copy / "aaa" / "grpo-webshop.toml")
    monkeypatch.setattr("agentgym.recipes.reader.root", lambda: copy)
    found = recipes_of("grpo")
    assert [each.table for each in found.recipes if each.env_id == "agentgym/WebShop-v0"] == [
        "gigpo",
        "istar",
        "aaa",
    ]
    assert found.choose("agentgym/WebShop-v0").table == "gigpo"
    assert found.choose("agentgym/WebShop-v0", "aaa").table == "aaa"


def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path, monkeypatch):
    copy = tmp_path / "trainers"
    shutil.copytree(root(), copy)
    shutil.copy(copy / "gigpo" / "grpo-webshop.toml", copy / "gigpo" / "ppo-webshop.toml")
    monkeypatch.setattr("agentgym.recipes.reader.root", lambda: copy)
    with pytest.raises(UsageError, match=r"ppo-webshop.toml: algorithm: 'grpo' is not what"):
        recipes_of("ppo")


def test_diff_shows_what_differs(capsys):
    assert main(["recipes", "diff", "gigpo/grpo-webshop", "gigpo/gigpo-webshop", "--json"]) == 0
    rows = {row["setting"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["algorithm_options.std"]["gigpo/grpo-webshop"]["value"] is True
    assert rows["algorithm_options.gamma"]["gigpo/grpo-webshop"] is None
    assert "rollout.tasks" not in rows
    assert main(["recipes", "diff", "gigpo/grpo-webshop", "gigpo/gigpo-webshop"]) == 0
    assert "not set" in capsys.readouterr().out


def test_list_and_show_name_recipes(capsys):
    assert main(["recipes", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sorted(name for row in rows for name in row["recipes"]) == sorted(recipe_names())
    assert main(["recipes", "show", "gigpo/gigpo-webshop", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert main(["recipes", "show", "gigpo", "--env", "WebShop", "--json"]) == 0
    assert shown == json.loads(capsys.readouterr().out)
    assert shown["recipe"] == "gigpo/gigpo-webshop"


def _expanded(text):
    """Return what a shell makes of braces."""
    parts = re.split(r"\{([^}]*)\}", text)
    choices = [part.split(",") if number % 2 else [part] for number, part in enumerate(parts)]
    return ["".join(words) for words in itertools.product(*choices)]


COMMANDS = [line for span in re.findall(r"`(agentgym [^`]+)`", TABLES) for line in _expanded(span)]


def test_the_page_names_every_recipe_and_protocol():
    words = {word for line in COMMANDS for word in line.split()} | set(re.findall(r"`([^`\s]+)`", PAGE))
    for name in recipe_names():
        assert name in words or name.replace("/dr_grpo-", "/grpo-") in words, name
    assert set(protocol_names()) <= words


@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_of_the_page_are_commands(line):
    arguments = make_parser().parse_args(line.replace(" RUN", " runs/x").split()[1:])
    if line.startswith("agentgym train --recipe"):
        arguments.model = "tiny"
        config = train._config(arguments)
        assert config.env_id == find_recipe(arguments.recipe).env_id
    elif line.startswith("agentgym bench"):
        assert arguments.protocol in protocol_names()


def test_studies_of_the_page_are_studies():
    from benchmarks.algorithms.studies import STUDIES

    assert set(re.findall(r"STUDY=([a-z0-9-]+)", PAGE)) <= set(STUDIES)


RECIPE = """# GRPO on Sokoban: mine, Table 1.

algorithm = "grpo"
env = "agentgym/Sokoban-v0"
extends = ["verl-agent", "verl-agent-sokoban"]

[[settings]]
source = "mine, Section 4"
rollout.group_size = 16
"""


def test_a_recipe_is_one_file(tmp_path, monkeypatch, capsys):
    """In a copy of the folder, where nothing else is touched."""
    copy = tmp_path / "trainers"
    shutil.copytree(root(), copy)
    (copy / "mine").mkdir()
    (copy / "mine" / "grpo-sokoban.toml").write_text(RECIPE)
    monkeypatch.setattr("agentgym.recipes.reader.root", lambda: copy)
    assert main(["recipes", "list", "--json"]) == 0
    assert "mine/grpo-sokoban" in capsys.readouterr().out
    assert main(["recipes", "show", "mine/grpo-sokoban", "--json"]) == 0
    settings = {row["setting"]: row for row in json.loads(capsys.readouterr().out)["lines"]}
    assert settings["rollout.group_size"]["preset"] == 16
    by_name = _config(["train", "--recipe", "mine/grpo-sokoban"])
    assert by_name.rollout.group_size == 16
    env = ["train", "grpo", "--env", "agentgym/Sokoban-v0"]
    assert _config([*env, "--table", "mine"]) == by_name
    assert _config([*env, "--preset", "paper"]).rollout.group_size == 8  # GiGPO's is preferred
