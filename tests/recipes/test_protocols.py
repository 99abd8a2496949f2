"""Evaluation protocols: their files, and ``agentgym bench --protocol`` with tiny models."""

import json
import tomllib
from pathlib import Path

import pytest

from agentgym.cli import main
from agentgym.core.options import options_of
from agentgym.errors import MissingDataError, UsageError
from agentgym.evaluation.board.boards import make_boards
from agentgym.evaluation.log.runfiles import read_run
from agentgym.evaluation.suites.plan import columns
from agentgym.evaluation.suites.suite import load_suite
from agentgym.evaluation.suites.suite_text import suite_text
from agentgym.evaluation.verify.submissions import verify_below
from agentgym.inference.models.language_model import save_model
from agentgym.inference.models.tiny import tiny_model, tiny_vision_model, word_tokenizer
from agentgym.prompts import load_template
from agentgym.prompts.settings import Prompting
from agentgym.recipes import find_recipe, recipe_names
from agentgym.recipes.evaluation_protocols import load_protocol, protocol_names
from agentgym.registration import class_of, open_vector

ROOT = Path(__file__).parents[2]

NAMES = protocol_names()

PAPERS = {"gigpo", "graphgpo", "hgpo", "steppo", "istar", "3spo", "search"}

GAMES = {
    "gigpo-alfworld": (128, 140, 134),
    "hgpo-alfworld": (128, 128, 140, 134),
    "3spo-alfworld": (140, 134),
    "steppo-alfworld": (140, 134),
    "steppo-webshop": (500,),
    "istar-sotopia": (70, 450, 140, 900),
}
"""Published sizes, in GiGPO Table 1, 3SPO Table 1, StepPO Section 5.1, iStar Table 2."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "plain"
    save_model(folder, tiny_model("0.1m", word_tokenizer(["right"]), context=3000))
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_a_protocol_is_a_sound_suite(name, tmp_path):
    protocol = load_protocol(name)
    assert protocol.name == name
    (tmp_path / "suite.toml").write_text(suite_text(protocol.suite))
    suite = load_suite(tmp_path / "suite.toml")
    assert suite.sha256 == protocol.suite.sha256
    for env in suite.env:
        columns(env)
        assert set(env.kwargs) <= set(options_of(class_of(env.id)))
    asked = protocol.model
    assert load_template(asked.wording, asked.answer, class_of(suite.env[0].id).suite_spec.tools)
    assert Prompting(**{key: asked.options[key] for key in asked.options if key != "context"})
    assert [env.count for env in suite.env] == list(GAMES.get(name, [env.count for env in suite.env]))


def test_every_paper_has_protocols():
    assert {name.split("-")[0] for name in NAMES} == PAPERS


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_set_options_that_environments_have(name):
    recipe = find_recipe(name)
    given = {key.partition(".")[2] for key in recipe.settings if key.startswith("env_options.")}
    assert given <= set(options_of(class_of(recipe.env_id)))


@pytest.mark.parametrize(
    ("name", "corpus", "index", "passages"),
    [
        ("steppo-hotpotqa", "union", "hotpotqa", 509_308),
        ("steppo-2wiki", "fullwiki", "twowiki-fullwiki", 5_902_082),
        ("steppo-musique", "union", "musique", 139_416),
    ],
)
def test_protocols_of_questions_search_the_papers_passages(name, corpus, index, passages):
    """StepPO, B.2; the description of the index has as many."""
    assert {env.kwargs["corpus"] for env in load_protocol(name).env} == {corpus}
    described = tomllib.loads((ROOT / "indexes" / f"{index}.toml").read_text())
    assert described["passages"] == passages


@pytest.fixture(scope="module")
def seeing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "vl"
    words = load_template("sokoban-picture", "think-action").words()
    save_model(folder, tiny_vision_model("0.1m", word_tokenizer(words), context=3000))
    return folder


def test_a_protocol_evaluates_a_directory_as_it_was_trained(seeing, tmp_path, capsys):
    words = ["bench", "--protocol", "gigpo-sokoban", "--model", str(seeing), "--out", str(tmp_path)]
    assert main([*words, "--limit", "1", "--option", "max_tokens=4", "--verify"]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()[:3]] == [
        "re-run",
        "re-run",
        "replayed",
    ]
    (folder,) = (tmp_path / "gigpo-sokoban-first1").glob("vl-*")
    run = read_run(folder)
    assert run.agent.options["budget"] == 1024
    assert (run.agent.options["pictures"], run.agent.options["history"]) == ("alone", 0)
    assert (run.agent.sampling["temperature"], run.agent.sampling["max_tokens"]) == (0.4, 4)
    assert run.agent.sampling["choice"] == "free"


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(("-sokoban", "-ezpoints"))])
def test_a_protocol_of_pictures_is_refused_to_a_model_without_eyes(name, directory, tmp_path, capsys):
    words = ["bench", "--protocol", name, "--model", str(directory), "--out", str(tmp_path), "--limit", "1"]
    assert main(words) == 2
    assert "reads no pictures: set prompting.pictures to 'none'" in capsys.readouterr().err


OWN = """
name = "mine"
version = "1"
seed = 1
paper = "none"
source = "none"
checkpoint = "last"
template = "generic"
[model]
wording = "generic"
answer = "plain"
history = 0
budget = 2000
max_tokens = 4
temperature = 0.0
[[env]]
"""

CARDS = """
id = "agentgym/EZPoints-v0"
label = "EZPoints"
split = "test"
tasks = 2
"""

TALK = """
id = "agentgym/Sotopia-v0"
label = "talk"
split = "test"
tasks = 1
kwargs = { order = "simultaneous", max_turns = 2 }
"""


def bench(tmp_path, directory, env, *more):
    """Play a protocol of one's own; return the verified runs by the agent's name, and the board."""
    (tmp_path / "mine.toml").write_text(OWN + env)
    words = ["bench", "--protocol", str(tmp_path / "mine.toml"), "--model", str(directory)]
    assert main([*words, "--out", str(tmp_path / "runs"), *more]) == 0
    found = list(verify_below(tmp_path / "runs"))
    return {each.run.agent.name: each for each in found}, make_boards(found)[0]


def test_a_protocol_of_ones_own_is_played_beside_floor_and_oracle(directory, tmp_path):
    runs, (board,) = bench(tmp_path, directory, CARDS)
    found = {name: (each.verdict.role, each.verdict.badge) for name, each in runs.items()}
    assert found == {
        "random": ("floor", "re-run"),
        "oracle": ("oracle", "re-run"),
        "plain": ("agent", "replayed"),
    }
    assert (tmp_path / "runs" / "suites" / "mine.toml").is_file()
    assert board.rows[0].role == "oracle"
    # scores stay as the paper prints them
    assert (board.scales["EZPoints"].floor, board.scales["EZPoints"].oracle) == (0.0, 1.0)


def test_a_protocol_without_baselines_is_the_same_suite_and_ranked(directory, tmp_path):
    runs, (board,) = bench(tmp_path, directory, CARDS, "--no-baselines")
    assert runs.keys() == {"plain"}
    assert [(row.name, row.rank is not None) for row in board.rows] == [("plain", True)]
    (alone,) = runs.values()
    runs, _ = bench(tmp_path, directory, CARDS)
    assert {each.run.suite_sha256 for each in runs.values()} == {alone.run.suite_sha256}


def test_an_environment_without_an_oracle_is_played_without(directory, tmp_path, capsys):
    runs, (board,) = bench(tmp_path, directory, TALK)
    assert runs.keys() == {"random", "plain"}
    assert "left out: oracle: agent 'oracle' plays nothing of suite mine" in capsys.readouterr().err
    assert {row.role for row in board.rows} == {"floor", "agent"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--protocol", "gigpo-alfwrld", "--model", "x"], "unknown protocol 'gigpo-alfwrld'"),
        (["--protocol", "gigpo-sokoban"], "--protocol gigpo-sokoban evaluates a model"),
        ([], "name a suite, such as quick, or a protocol"),
        (["quick", "--protocol", "gigpo-sokoban"], "name a suite, such as quick, or a protocol"),
    ],
)
def test_what_is_missing_is_one_line(words, message, capsys):
    assert main(["bench", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def no_data(tmp_path, monkeypatch):
    """An empty data directory."""
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "nothing"))


def test_missing_games_of_a_protocol_name_their_import(directory, tmp_path, no_data, capsys):
    words = ["bench", "--protocol", "gigpo-webshop", "--model", str(directory), "--out", str(tmp_path)]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "agentgym data import webshop" in error
    assert len(error.splitlines()) == 1


def test_protocols_are_listed(capsys):
    assert main(["bench", "--protocols"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in NAMES)


def test_a_file_without_games_is_refused(tmp_path):
    path = tmp_path / "empty.toml"
    path.write_text('name = "x"\nversion = "1"\n')
    with pytest.raises(UsageError, match="empty"):
        load_protocol(str(path))


def _imported():
    """Yield the environments of recipes whose data has to be imported, with split and options as JSON."""
    for name in recipe_names():
        recipe = find_recipe(name)
        settings = recipe.values
        options = {key[12:]: value for key, value in settings.items() if key.startswith("env_options.")}
        if "dataset" in options:
            arguments = {"split": settings.get("split", "train"), "options": options}
            yield recipe.env_id, json.dumps(arguments, sort_keys=True)


@pytest.mark.parametrize(("env_id", "settings"), sorted(set(_imported())))
def test_data_that_is_not_there_is_named_and_nothing_takes_its_place(env_id, settings, no_data):
    with pytest.raises(MissingDataError, match=r"agentgym data import|agentgym index build"):
        open_vector(env_id, 1, **json.loads(settings))


@pytest.mark.slow
@pytest.mark.assets
def test_games_beyond_the_protocols_own_are_played_where_they_are(directory, tmp_path):
    words = ["bench", "--protocol", "gigpo-alfworld", "--model", str(directory), "--out", str(tmp_path)]
    own = ["--option", "max_tokens=1"]
    assert main([*words, *own, "--limit", "1", "--option", "history=0"]) == 0
    (folder,) = (tmp_path / "gigpo-alfworld-first1").glob("plain-*")
    run = read_run(folder)
    left_out = {gap.label: gap.reason for gap in run.left_out}
    assert left_out.keys() <= {"unseen, all"}
    assert all("agentgym data import alfworld" in reason for reason in left_out.values())
    assert "seen, 128" not in left_out
