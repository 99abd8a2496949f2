"""``agentgym recipes``: what papers say about their training runs, beside what the recipes set."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from agentgym.cli.commands import COMMANDS
from agentgym.cli.parser import Commands, Parser, add_command, add_groups
from agentgym.cli.terminal import open_console
from agentgym.errors import UsageError

if TYPE_CHECKING:
    from agentgym.recipes import AlgorithmRecipes, RecipeSetting
    from agentgym.recipes.comparison import ComparedSetting


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command and those within it."""
    group = add_command(
        commands,
        "recipes",
        None,
        about=COMMANDS["recipes"],
        example="agentgym recipes show gigpo --env WebShop",
    )
    within = add_groups(group)
    listing = add_command(
        within,
        "list",
        run_list,
        about="List the recipes of each algorithm, PAPER/ALGORITHM-ENVIRONMENT.",
        example="agentgym recipes list",
    )
    showing = add_command(
        within,
        "show",
        run_show,
        about="Show a recipe: every setting, the paper's own value, and its source.",
        example="agentgym recipes show gigpo/gigpo-webshop",
    )
    showing.add_argument(
        "name", metavar="NAME", help="a recipe, such as gigpo/gigpo-webshop, a TOML file, or an algorithm"
    )
    showing.add_argument(
        "--env",
        metavar="NAME",
        help="environment of an algorithm's recipes, such as WebShop, or its id (default: all)",
    )
    comparing = add_command(
        within,
        "diff",
        run_diff,
        about="Show the settings in which two recipes differ.",
        example="agentgym recipes diff gigpo/grpo-webshop gigpo/gigpo-webshop",
    )
    for name in ("one", "other"):
        comparing.add_argument(name, metavar=name.upper(), help="a recipe, or a TOML file")
    for parser in (listing, showing, comparing):
        parser.add_argument("--json", action="store_true", help="print JSON")


def run_list(arguments: argparse.Namespace) -> int:
    """Print a row for each algorithm."""
    from rich.table import Table

    from agentgym.recipes import algorithms_with_recipes, recipes_of

    found = [recipes_of(name) for name in algorithms_with_recipes()]
    if arguments.json:
        rows = [
            {
                "algorithm": each.algorithm,
                "paper": each.paper,
                "tables": each.tables,
                "envs": [*each.by_env],
                "recipes": [recipe.name for recipe in each.recipes],
            }
            for each in found
        ]
        _print_json(rows)
        return 0
    table = Table()
    for head in ("Algorithm", "Paper", "Whose tables", "Recipes"):
        table.add_column(head, overflow="fold")
    for each in found:
        names = "\n".join(recipe.name for recipe in each.recipes)
        table.add_row(each.algorithm, each.paper, each.tables, names)
    open_console().print(table)
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Print a recipe, or an algorithm's on every environment."""
    from agentgym.recipes import AlgorithmRecipes, algorithms_with_recipes, find_recipe, recipes_of
    from agentgym.recipes.comparison import as_json, compared, compared_everywhere
    from agentgym.recipes.environments import full_name

    if "/" in arguments.name or arguments.name.endswith(".toml"):
        if arguments.env is not None:
            raise UsageError(f"{arguments.name} is of one environment: leave out --env")
        recipe = find_recipe(arguments.name)
        found, env_id = AlgorithmRecipes(algorithm=recipe.algorithm), recipe.env_id
        if recipe.algorithm in algorithms_with_recipes():
            found = recipes_of(recipe.algorithm)
    else:
        found = recipes_of(arguments.name)
        if arguments.env is None:
            if arguments.json:
                _print_json([as_json(found, each, env_id) for env_id, each in found.by_env.items()])
            else:
                _print(found, "", compared_everywhere(found), with_envs=True)
            return 0
        env_id = full_name(arguments.env)
        recipe = found.choose(env_id)
    if arguments.json:
        _print_json(as_json(found, recipe, env_id))
    else:
        _print(found, env_id, compared(recipe), untrained=recipe.env_id != env_id)
    return 0


def run_diff(arguments: argparse.Namespace) -> int:
    """Print a row for each setting in which two recipes differ."""
    from rich.table import Table

    from agentgym.recipes import find_recipe
    from agentgym.recipes.comparison import differences

    one, other = find_recipe(arguments.one), find_recipe(arguments.other)
    rows = differences(one, other)
    if arguments.json:
        _print_json([{"setting": name, one.name: _json(a), other.name: _json(b)} for name, a, b in rows])
        return 0
    table = Table()
    for head in ("Setting", one.name, other.name):
        table.add_column(head, overflow="fold")
    for name, a, b in rows:
        table.add_row(name, _cell(a), _cell(b))
    open_console().print(table)
    return 0


def _json(setting: RecipeSetting | None) -> dict[str, Any] | None:
    return None if setting is None else {"value": setting.value, "source": setting.source}


def _cell(setting: RecipeSetting | None) -> str:
    from agentgym.recipes.comparison import value_text

    return "not set" if setting is None else f"{value_text(setting.value)} ({setting.source})"


def _print_json(value: Any) -> None:
    open_console().print(json.dumps(value, indent=2), markup=False, soft_wrap=True)


def _print(
    found: AlgorithmRecipes,
    env_id: str,
    rows: list[ComparedSetting],
    *,
    with_envs: bool = False,
    untrained: bool = False,
) -> None:
    from rich.table import Table

    from agentgym.recipes.environments import short_name

    console = open_console()
    where = f" on {short_name(env_id)}" if env_id else ""
    title = f"{found.algorithm}{where}: {found.paper}; tables: {found.tables}"
    console.print(title, markup=False, soft_wrap=True)
    if untrained:
        trained = ", ".join(map(short_name, found.by_env))
        console.print(
            f"no paper trains by it on {short_name(env_id)}: general settings; recipes are for {trained}",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )
    columns = ("Setting", "Preset", "Paper", "Source")
    table = Table()
    for head in ("Setting", "Environments", *columns[1:]) if with_envs else columns:
        table.add_column(head, overflow="fold")
    for row in rows:
        mark = "* " if row.setting.departs else ""
        envs = (", ".join(map(short_name, row.envs)),) if with_envs else ()
        table.add_row(row.name, *envs, row.preset, f"{mark}{row.paper}", row.setting.source)
    console.print(table)
    whys = dict.fromkeys(f"* {row.name}: {row.setting.why}" for row in rows if row.setting.departs)
    if whys:
        console.print("Departures, on purpose:", markup=False)
        for why in whys:
            console.print(why, markup=False, soft_wrap=True)
