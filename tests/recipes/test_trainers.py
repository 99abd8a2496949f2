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
from agentgym.errors import UsageError
from agentgym.history.diagnostics.table import DIAGNOSTICS
from agentgym.inference.models.language_model import save_model
from agentgym.inference.models.tiny import tiny_model, tiny_vision_model, word_tokenizer
from agentgym.recipes import find_recipe, recipe_config, recipe_names, recipes_of, root
from agentgym.recipes.environments import short_name
from agentgym.recipes.evaluation_protocols import protocol_names
from agentgym.training.machine.resources import Machine, resolve
from tests.recipes.check_recipes import parser
from tests.recipes.paper_rows import PAPERS, read_tables

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "trainers" / "README.md").read_text(encoding="utf-8")
TABLES = PAGE[PAGE.index("### GiGPO") :].partition("## Launch")[0]

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
    assert found["objective.clip_low"].source.startswith("langfengQ/verl-agent@")
    assert "algorithm_options.penalty" not in found
    assert next(iter(found)) == "iterations"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("algorithm = [", "is not TOML"),
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
        (["grpo", "--env", "agentgym/Sotopia-v0", "--table", "steppo"], "choose one of gigpo/grpo-alfworld"),
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
    return train._config(parser().parse_args(words))


def test_a_recipe_a_preset_and_a_table_are_the_same_run():
    named = _config(["train", "--recipe", "steppo/grpo-hotpotqa", "--seed", "3"])
    env = ["train", "grpo", "--env", "agentgym/HotpotQA-v0", "--seed", "3"]
    assert named == _config([*env, "--preset", "paper"]) == _config([*env, "--table", "steppo"])
    assert named == recipe_config(find_recipe("steppo/grpo-hotpotqa"), named.env_id, seed=3)


def test_the_preferred_paper_comes_first(tmp_path, monkeypatch):
    copy = tmp_path / "trainers"
    shutil.copytree(root(), copy)
    (copy / "aaa").mkdir()
    shutil.copy(copy / "gigpo" / "grpo-webshop.toml", copy / "aaa" / "grpo-webshop.toml")
    monkeypatch.setattr("agentgym.recipes.reader.root", lambda: copy)
    found = recipes_of("grpo")
    papers = ("gigpo", "steppo", "istar", "graphgpo", "3spo", "aaa", "capo")
    assert found.papers("agentgym/WebShop-v0") == papers
    assert found.choose("agentgym/WebShop-v0").table == "gigpo"
    assert {found.choose("agentgym/WebShop-v0", paper).table for paper in papers} == set(papers)


def test_where_several_papers_have_a_run_it_is_said_which(capsys, monkeypatch):
    env = ["train", "grpo", "--preset", "paper", "--env"]
    plain = _config([*env, "agentgym/WebShop-v0"])
    said = capsys.readouterr().err
    assert (
        "settings of gigpo/grpo-webshop; gigpo, steppo, istar, graphgpo, 3spo, capo have such a run" in said
    )
    assert "--table PAPER chooses" in said
    assert len(said.splitlines()) == 1
    assert _config([*env, "agentgym/WebShop-v0", "--table", "gigpo"]) == plain
    assert _config([*env, "agentgym/WebShop-v0", "--table", "steppo"]).loss.clip_high == 0.0004
    assert _config([*env, "agentgym/WebShop-v0", "--table", "capo"]).loss.clip_high == 0.2
    _config([*env, "agentgym/Sotopia-v0"])  # iStar's alone
    monkeypatch.setenv("RANK", "1")
    _config([*env, "agentgym/WebShop-v0"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("setting", ['pool = "/etc"', 'weights_folder = "."'])
def test_no_recipe_says_where_a_run_writes(tmp_path, setting):
    path = tmp_path / "mine.toml"
    path.write_text(
        f'algorithm = "grpo"\nenv = "Sokoban"\n[[settings]]\nwhy = "mine"\nrollout = {{ {setting} }}\n'
    )
    with pytest.raises(
        UsageError, match=rf"no recipe names a folder to write in: pass rollout\.{setting.split()[0]} with"
    ):
        find_recipe(str(path))


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
SECTIONS = {
    title.lower(): rows
    for title, rows in re.findall(r"### (\w+) \(.*?\n(.*?)(?=\n### )", TABLES, flags=re.DOTALL)
    if title.lower() in PAPERS
}
PICTURES = ("VisualSokoban", "EZPoints")


def test_the_page_names_every_recipe_and_protocol():
    words = {word for line in COMMANDS for word in line.split()} | set(re.findall(r"`([^`\s]+)`", PAGE))
    for name in recipe_names():
        assert name in words or "/dr_grpo-" in name, name
    assert set(protocol_names()) <= words


def test_the_page_names_every_variant_that_a_paper_has():
    named = {(find_recipe(words[3]).algorithm, one) for words, one in _variants()}
    for algorithm in ("steppo", "spo3", "istar"):
        assert {one for name, one in named if name == algorithm} == set(recipes_of(algorithm).variants)
    assert named <= {(name, one) for name in ALGORITHMS for one in _known_variants(name)}


def _variants():
    for line in COMMANDS:
        words = line.split()
        yield from ((words, words[at + 1]) for at, word in enumerate(words) if word == "--variant")


def _known_variants(name):
    return recipes_of(name).variants if any(f"/{name}-" in each for each in recipe_names()) else ()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Directories of two tiny models, of text and of text and pictures."""
    folder = tmp_path_factory.mktemp("models")
    tokenizer = word_tokenizer(["right"])
    save_model(folder / "text", tiny_model("0.1m", tokenizer, context=40_000))
    save_model(folder / "pictures", tiny_vision_model("0.1m", tokenizer, context=40_000))
    return folder


@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_of_the_page_are_commands(line, models):
    arguments = parser().parse_args(line.replace(" RUN", " runs/x").split()[1:])
    if line.startswith("agentgym train --recipe"):
        recipe = find_recipe(arguments.recipe)
        kind = "pictures" if short_name(recipe.env_id) in PICTURES else "text"
        arguments.model = str(models / kind)
        config = train._config(arguments)
        assert config.env_id == recipe.env_id
        resolved = resolve(config, Machine("cuda", "H100", 80 << 30, ranks=8))
        assert resolved.learner.token_budget > 0
    elif line.startswith("agentgym bench"):
        assert arguments.protocol in protocol_names()
    elif line.startswith("agentgym plot") and arguments.what:
        assert arguments.what in DIAGNOSTICS


def _places(cell):
    """Return the tables and figures that a row is of."""
    found = re.findall(r"(Table|Figure)s? (\d+(?:, \d+)*)", cell)
    return [f"{kind} {number}" for kind, numbers in found for number in numbers.split(", ")]


def _how(command):
    """Return how far a row's commands come."""
    if "`agentgym" in command:
        return "partly" if "partly" in command else "by commands"
    return {"worded anew": "prompts", "drawings": "drawings", "drawings and pictures": "drawings"}[command]


def _reached(paper):
    """Return each table and figure of a paper, and how far its commands come."""
    rows = [line.strip("|").split(" | ", 1) for line in SECTIONS[paper].splitlines() if line.startswith("| ")]
    listed = [(place, _how(rest.strip(" |"))) for head, rest in rows[1:] for place in _places(head)]
    assert len({place for place, _ in listed}) == len(listed), paper
    return dict(listed)


@pytest.mark.parametrize("paper", SECTIONS)
def test_every_table_and_figure_is_listed_with_commands_where_it_has_numbers(paper):
    reached = _reached(paper)
    tables = [table for table in read_tables() if table.paper == paper]
    assert set(reached) == {table.place for table in tables}
    for table in tables:
        right = {"drawing": {"drawings"}, "settings": {"by commands", "prompts"}}
        assert reached[table.place] in right.get(table.kind, {"by commands", "partly"}), table


def test_the_page_counts_its_tables():
    rows, columns = [], ("by commands", "partly", "prompts", "drawings")
    for paper in SECTIONS:
        how = list(_reached(paper).values())
        counts = [how.count(column) for column in columns]
        rows.append([sum(counts[:2]), *counts])
    rows.append([sum(column) for column in zip(*rows, strict=True)])
    names = [*re.findall(r"### (\w+) \(", TABLES)[: len(SECTIONS)], "all"]  # the five papers come first
    for name, row in zip(names, rows, strict=True):
        assert f"| {name} | {' | '.join(map(str, row))} |\n" in TABLES
    assert rows[-1][1] >= 40


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
