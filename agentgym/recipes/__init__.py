"""Recipes of the papers: the TOML files of ``trainers/``, read, compared and made into configurations.

Reading needs no torch; only `recipe_config` does.
"""

from __future__ import annotations

from agentgym.recipes.reader import (
    AlgorithmRecipes,
    Recipe,
    RecipeSetting,
    Variant,
    algorithms_with_recipes,
    find_recipe,
    find_variant,
    recipe_config,
    recipe_names,
    recipes_of,
    root,
)

__all__ = [
    "AlgorithmRecipes",
    "Recipe",
    "RecipeSetting",
    "Variant",
    "algorithms_with_recipes",
    "find_recipe",
    "find_variant",
    "recipe_config",
    "recipe_names",
    "recipes_of",
    "root",
]
