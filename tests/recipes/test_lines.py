"""Recipes as configurations, and as the command line shows them."""

import json
import tomllib
from pathlib import Path

import pytest

from agentgym.algos.table import ALGORITHMS
from agentgym.cli import main
from agentgym.errors import UsageError
from agentgym.recipes import RecipeSetting, algorithms_with_recipes, recipe_config, recipes_of
from agentgym.recipes.comparison import compared_everywhere
from agentgym.recipes.environments import full_name, short_name
from tools import build_site, recipe_tables

RECIPES = algorithms_with_recipes()
ROOT = Path(__file__).parents[2]
CASES = [(each.table, name, short_name(each.env_id)) for name in RECIPES for each in recipes_of(name).recipes]


def ids(case):
    return "-".join(case)


def test_a_recipe_is_of_an_algorithm():
    assert set(RECIPES) <= set(ALGORITHMS)
    assert len(RECIPES) >= 15


@pytest.mark.parametrize("name", RECIPES)
def test_general_settings_are_for_environments_that_no_paper_has(name):
    found = recipes_of(name)
    general = found.choose("agentgym/MuSiQue-v0").values
    assert found.general is not None
    assert general == found.general.values
    assert not any(key.startswith("env_options.") for key in general)
    assert {"objective.ratio", "learner.learning_rate", "prompting.max_tokens"} <= general.keys()


@pytest.mark.parametrize(
    ("env", "setting", "source"),
    [
        ("ALFWorld", "iterations", "GraphGPO, Appendix C.1"),
        ("ALFWorld", "algorithm_options.omega", "GraphGPO, Appendix C.4"),
        ("WebShop", "algorithm_options.omega", "GraphGPO, Appendix C.5"),
        ("WebShop", "prompting.budget", "GraphGPO, Appendix C.5"),
        ("VisualSokoban", "algorithm_options.omega", "GraphGPO, Appendix C.6"),
        ("VisualSokoban", "prompting.pictures", "GraphGPO, Figure 8"),
        ("ALFWorld", "algorithm_options.std", "GraphGPO, Equation 6"),
        ("ALFWorld", "algorithm_options.graph_weight", "GraphGPO, Section 5.1"),
        ("WebShop", "evaluation.every", "GraphGPO, Figure 9"),
        ("VisualSokoban", "rollout.tasks", "GraphGPO, Appendix C.6"),
    ],
)
def test_graphgpo_is_cited_where_it_says_so(env, setting, source):
    assert recipes_of("graphgpo").choose(full_name(env)).settings[setting].source == source


@pytest.mark.parametrize(
    ("env", "setting"),
    [("WebShop", "split"), ("PaperSearch", "env_options.dataset"), ("PaperSearch", "evaluation.tasks")],
)
def test_steppos_numbers_of_tasks_are_cited_where_they_are(env, setting):
    assert (
        recipes_of("steppo")
        .choose(full_name(env))
        .settings[setting]
        .source.startswith("StepPO, Appendix B.1")
    )


def test_departures_of_3spos_run_are_recorded():
    """Table 7 has 400 epochs, Algorithm 1 ends with the frontier, scripts evaluate every 50 and 200."""
    for env in ("ALFWorld", "WebShop"):
        lines = recipes_of("spo3").choose(full_name(env)).settings
        assert (lines["algorithm_options.batches"].value, lines["algorithm_options.batches"].departs) == (
            400,
            False,
        )
        assert (lines["algorithm_options.penalty"].value, lines["algorithm_options.penalty"].departs) == (
            0.1,
            False,
        )
        departing = {name for name, line in lines.items() if line.departs}
        assert departing == {
            "iterations",
            "algorithm_options.budget",
            "evaluation.every",
            "prompting.wording",
            "learner.old_log_probs",
        }
        # as many updates as the batches can take: (400 + 1) trees a place of at most the budget
        assert lines["iterations"].value == 401 * lines["algorithm_options.budget"].value


def test_published_tables_have_the_papers_titles():
    tables = tomllib.loads((ROOT / "benchmarks" / "published.toml").read_text())["paper"]
    by_name = {(each["name"], each["table"]): each["title"] for each in tables}
    assert "without episode-level advantages (- A_E)" in by_name["GraphGPO", "3"]
    figures = [table for _, table in by_name if table.startswith("Figure")]
    assert (len(by_name) - len(figures), len(figures)) == (24, 2)


def test_a_departure_has_a_reason():
    with pytest.raises(ValueError, match="a departure its paper and why"):
        RecipeSetting(1, "a paper", paper="2")
    with pytest.raises(ValueError, match="names its source"):
        RecipeSetting(1, "")


@pytest.mark.parametrize("case", [case for case in CASES if ALGORITHMS[case[1]].trainable], ids=ids)
def test_a_recipe_is_a_configuration(case):
    table, name, env = case
    config = recipe_config(recipes_of(name).choose(full_name(env), table), full_name(env), model="tiny")
    assert config.algorithm == name
    assert config.rollout.tasks * config.rollout.group_size in (128, 256, 1280)
    assert config.prompting is not None
    assert config.prompting.choice == "free"


def test_show_prints_preset_paper_and_source(capsys):
    assert main(["recipes", "show", "gigpo", "--env", "webshop", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["env"] == "agentgym/WebShop-v0"
    lines = {line["setting"]: line for line in shown["lines"]}
    assert lines["algorithm_options.gamma"]["preset"] == lines["algorithm_options.gamma"]["paper"] == 0.95
    assert lines["algorithm_options.gamma"]["source"] == "GiGPO, Appendix D.1"
    assert lines["objective.ratio"]["departs"] is True
    assert "always clipped" in lines["objective.ratio"]["why"]
    assert main(["recipes", "show", "gigpo", "--env", "WebShop"]) == 0
    text = capsys.readouterr().out
    assert "* objective.ratio: a product over hundreds of tokens" in text
    assert main(["recipes", "show", "hgpo", "--env", "Sotopia"]) == 0
    assert "no paper trains by it on Sotopia" in capsys.readouterr().out


def test_list_names_every_recipe(capsys):
    assert main(["recipes", "list", "--json"]) == 0
    assert [row["algorithm"] for row in json.loads(capsys.readouterr().out)] == list(RECIPES)
    assert main(["recipes", "list"]) == 0
    assert "reinforce_pp_baseline" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gigppo"], "unknown algorithm of recipes 'gigppo'"),
        (["gigpo", "--env", "Webshp"], "unknown environment 'Webshp'"),
    ],
)
def test_a_misspelt_name_is_one_line(words, message, capsys):
    assert main(["recipes", "show", *words]) == 2
    assert message in capsys.readouterr().err
    with pytest.raises(UsageError):
        recipes_of("nothing")


def test_pages_of_algorithms_list_each_recipe():
    """`python -m tools.recipe_tables` writes them."""
    pages = list(recipe_tables.pages())
    for page in pages:
        assert recipe_tables.updated(page) == page.read_text(encoding="utf-8"), page.name
    assert {page.stem for page in pages} == {ALGORITHMS[name].page for name in RECIPES}


@pytest.mark.parametrize("name", RECIPES)
def test_the_site_compares_each_recipe_with_its_papers(name):
    page = build_site.recipe_pages()[name]
    papers = {each.table for each in recipes_of(name).recipes}
    assert all(f"`agentgym train {name} --preset paper --table {paper}`" in page for paper in papers)
    assert all(f"| `{row.name}` | " in page for row in compared_everywhere(recipes_of(name)))
    departing = [row.setting for row in compared_everywhere(recipes_of(name)) if row.setting.departs]
    assert all(f"**{each.paper}**: {each.why} | {each.source} |" in page for each in departing)


def test_pages_of_the_site_link_to_the_settings_of_their_recipes():
    path = Path("docs/algorithms/grpo.md")
    text = (ROOT / path).read_text(encoding="utf-8")
    shown = recipe_tables.with_links(path, text)
    assert shown.startswith(text.rstrip())
    assert "[GRPO](../../recipes/grpo.md), [Dr. GRPO](../../recipes/dr_grpo.md)" in shown
    assert recipe_tables.with_links(Path("docs/gpu.md"), text) == text
