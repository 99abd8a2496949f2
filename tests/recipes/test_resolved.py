"""The resolved recipes: one file each, up to date, with the settings that the recipe sets."""

import tomllib

import pytest

from agentgym.recipes import find_recipe, recipe_names, root
from tools import resolved_recipes

PAPERS = resolved_recipes.papers()


@pytest.mark.parametrize("paper", PAPERS)
def test_the_files_of_a_paper_are_up_to_date(paper):
    """`make pages` writes them."""
    found = {path: path.read_text(encoding="utf-8") for path in (resolved_recipes.FOLDER / paper).iterdir()}
    assert found == resolved_recipes.files(paper)


def test_there_are_no_files_of_other_papers():
    assert sorted(path.name for path in resolved_recipes.FOLDER.iterdir()) == sorted(PAPERS)


@pytest.mark.parametrize("paper", PAPERS)
def test_a_file_has_the_values_and_sources_of_its_recipe(paper):
    for path, text in resolved_recipes.files(paper).items():
        recipe = find_recipe(f"{paper}/{path.stem}")
        assert list(_flat(tomllib.loads(text), recipe.settings)) == [
            ("algorithm", recipe.algorithm),
            ("env", recipe.env_id),
            *recipe.values.items(),
        ]
        for setting in recipe.settings.values():
            assert {setting.source, setting.paper, setting.why} <= {"", *_comments(text)}


def _flat(table, names, prefix=""):
    """Yield settings by dotted name; a table that is a setting's value stays whole."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and name not in names:
            yield from _flat(value, names, f"{name}.")
        else:
            yield name, value


def _comments(text):
    """Return what comments say, without the words that begin them."""
    found = [line.partition("# ")[2] for line in text.splitlines()]
    return {each.removeprefix("The paper: ").removeprefix("Otherwise here: ") for each in found}


def test_they_are_no_recipes():
    assert not [name for name in recipe_names() if name.startswith("resolved")]
    assert resolved_recipes.FOLDER.parent == root()
