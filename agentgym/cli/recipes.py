"""``agentgym recipes``: what papers say about their training runs, beside what the presets set."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from agentgym.cli.parser import Commands, Parser, add_command, add_groups
from agentgym.cli.terminal import open_console

if TYPE_CHECKING:
    from agentgym.recipes.comparison import ComparedLine
    from agentgym.recipes.lines import Recipe

ABOUT = "Show the presets of the papers, line by line beside what the papers say."


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command and those within it."""
    group = add_command(
        commands, "recipes", None, about=ABOUT, example="agentgym recipes show gigpo --env WebShop"
    )
    within = add_groups(group)
    listing = add_command(
        within,
        "list",
        run_list,
        about="List the recipes, and the environments that each trains on.",
        example="agentgym recipes list",
    )
    showing = add_command(
        within,
        "show",
        run_show,
        about="Show a recipe: every setting, the paper's own value, and who says so.",
        example="agentgym recipes show gigpo --env WebShop",
    )
    showing.add_argument("algorithm", metavar="ALGORITHM", help="name of the algorithm, such as gigpo")
    showing.add_argument(
        "--env", metavar="NAME", help="environment, such as WebShop, or its id (default: all that it has)"
    )
    for parser in (listing, showing):
        parser.add_argument("--json", action="store_true", help="print JSON")


def run_list(arguments: argparse.Namespace) -> int:
    """Print a row for each recipe."""
    from rich.table import Table

    from agentgym.recipes import RECIPES, recipe
    from agentgym.recipes.environments import short_name

    found = [recipe(name) for name in RECIPES]
    if arguments.json:
        rows = [
            {"algorithm": each.algorithm, "paper": each.paper, "tables": each.tables, "envs": [*each.by_env]}
            for each in found
        ]
        _print_json(rows)
        return 0
    table = Table("Algorithm", "Paper", "Whose tables", "Environments")
    for each in found:
        table.add_row(each.algorithm, each.paper, each.tables, ", ".join(map(short_name, each.by_env)))
    open_console().print(table)
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Print a recipe for an environment, or all of it."""
    from agentgym.recipes import recipe
    from agentgym.recipes.comparison import as_json, compared
    from agentgym.recipes.environments import full_name

    found = recipe(arguments.algorithm)
    env_id = None if arguments.env is None else full_name(arguments.env)
    if arguments.json:
        wanted = list(found.by_env) if env_id is None else [env_id]
        tables = [as_json(found, one) for one in wanted]
        _print_json(tables if env_id is None else tables[0])
        return 0
    _print(found, env_id, compared(found, env_id))
    return 0


def _print_json(value: Any) -> None:
    open_console().print(json.dumps(value, indent=2), markup=False, soft_wrap=True)


def _print(found: Recipe, env_id: str | None, rows: list[ComparedLine]) -> None:
    from rich.table import Table

    from agentgym.recipes.environments import short_name

    console = open_console()
    where = "" if env_id is None else f" on {short_name(env_id)}"
    title = f"{found.algorithm}{where}: {found.paper}; tables: {found.tables}"
    console.print(title, markup=False, soft_wrap=True)
    if env_id is not None and env_id not in found.by_env:
        trained = ", ".join(map(short_name, found.by_env))
        console.print(
            f"no paper trains by it on {short_name(env_id)}: general settings; recipes are for {trained}",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )
    columns = ("Setting", "Preset", "Paper", "Source")
    table = Table()
    for head in columns if env_id is not None else ("Setting", "Environments", *columns[1:]):
        table.add_column(head, overflow="fold")
    for row in rows:
        mark = "* " if row.line.departs else ""
        envs = () if env_id is not None else (", ".join(map(short_name, row.envs)),)
        table.add_row(row.setting, *envs, row.preset, f"{mark}{row.paper}", row.line.source)
    console.print(table)
    whys = dict.fromkeys(f"* {row.setting}: {row.line.why}" for row in rows if row.line.departs)
    if whys:
        console.print("Departures, on purpose:", markup=False)
        for why in whys:
            console.print(why, markup=False, soft_wrap=True)
