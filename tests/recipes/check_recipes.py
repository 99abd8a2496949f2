"""Compare every recipe with what five papers print and public code sets: ``make check-recipes``.

The papers' rows are typed by another hand (`tests.recipes.papers`). A run of theirs has to have a recipe; a
value that they print stands in the recipe, or the recipe says what the paper has and why it departs; what
they do not print cites no paper. What cites public code is there at the commit, the path and the key that it
names (`tests.recipes.code_facts`).
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

from agentgym.cli.commands import make_parser
from agentgym.cli.train import _config
from agentgym.core.options import options_of
from agentgym.inference.policy.saved import default_prompting
from agentgym.recipes import (
    Recipe,
    RecipeSetting,
    find_recipe,
    recipe_names,
)
from agentgym.recipes.environments import short_name
from agentgym.recipes.evaluation_protocols import EvaluationProtocol, load_protocol
from agentgym.registration import class_of
from agentgym.training.config import TrainConfig
from tests.recipes import code_facts
from tests.recipes.paper_rows import PAPERS, Paper, Print, Silent, read_paper
from tests.recipes.paper_variants import VARIANTS
from tools.public_code import PLACE, all_recipes

TITLES = {"steppo": "StepPO", "graphgpo": "GraphGPO", "gigpo": "GiGPO", "3spo": "3SPO", "istar": "iStar"}

PROTOCOLS = {"TwoWiki": "steppo-2wiki", "MuSiQue": "steppo-musique"}
"""Of what is evaluated and not trained on."""

OTHER_PAPERS = ("DAPO", "Dr. GRPO", "GSPO", "PRIME", "SOTOPIA")
"""Of algorithms and environments, beside the five."""

NOWHERE = "printed nowhere: "
"""What the source of a value begins with that neither a paper nor public code has."""

PROGRAMS = {"steppo": ("steppo", "capo")}
"""Folders of recipes of a paper that has several programs; a paper's own else."""

Row = tuple[str, str, str, str]
"""Paper, algorithm, environment and setting."""


@dataclass(slots=True)
class Verdict:
    """What a comparison has found."""

    compared: int = 0
    """Printed values, on each run that they hold for."""
    departures: dict[Row, RecipeSetting] = field(default_factory=dict)
    unexplained: list[str] = field(default_factory=list)
    sources: Counter[str] = field(default_factory=Counter)
    """Settings of all recipes by what they come from."""


@cache
def paper(name: str) -> Paper:
    """Return a paper's rows."""
    return read_paper(name)


@cache
def recipes() -> dict[tuple[str, str, str], Recipe]:
    """Return the recipes by folder, algorithm and environment."""
    found = [find_recipe(name) for name in recipe_names()]
    return {(each.table, each.algorithm, short_name(each.env_id)): each for each in found}


@cache
def runs(name: str) -> frozenset[tuple[str, str, str]]:
    """Return a paper's runs: algorithm, environment and variant."""
    return frozenset(
        (algorithm, env, run.variant)
        for run in paper(name).runs
        for algorithm in run.algorithms
        for env in run.envs
    )


parser = cache(make_parser)


@cache
def config_of(name: str, words: tuple[str, ...] = ()) -> TrainConfig:
    """Return the configuration that the command line makes of a recipe."""
    return _config(parser().parse_args(["train", "--recipe", name, "--model", "tiny", *words]))


def value_of(config: TrainConfig, setting: str) -> Any:
    """Return what a run has, defaults of its algorithm and environment among them."""
    part, _, name = setting.partition(".")
    if part == "algorithm_options":
        return {**config.spec.defaults, **config.algorithm_options}[name]
    if part == "env_options":
        option = options_of(class_of(config.env_id))[name]
        return config.env_options.get(name, option.default)
    whole = {
        "objective": config.loss,
        "reward_model": config.reward_settings,
        "prompting": config.prompting or default_prompting(config.model, config.env_id),
    }.get(part, getattr(config, part))
    return getattr(whole, name) if name else whole


def same(found: Any, printed: Any) -> bool:
    """Return whether two values are one, whatever kind of sequence or number they are."""
    if isinstance(found, tuple | list):
        return list(found) == list(printed)
    return found == printed and isinstance(found, bool) == isinstance(printed, bool)


def names_it(setting: RecipeSetting, printed: Any) -> bool:
    """Return whether a departure says what the paper has."""
    return setting.departs and code_facts.names(setting.paper, printed)


def holds(row: Print | Silent, algorithm: str, env: str) -> bool:
    """Return whether a row is of an algorithm on an environment."""
    return (not row.algorithms or algorithm in row.algorithms) and (not row.envs or env in row.envs)


def judge_runs(name: str, verdict: Verdict) -> None:
    """Compare each run of a paper with its recipe, and with the variant of it."""
    asked = product(PROGRAMS.get(name, (name,)), sorted(runs(name)))
    for folder, (algorithm, env, variant) in asked:
        recipe = recipes().get((folder, algorithm, env))
        where = f"{folder}: {algorithm} on {env}" + (f", {variant}" if variant else "")
        if recipe is None:
            verdict.unexplained.append(f"{where}: no recipe")
            continue
        words = VARIANTS.get((name, algorithm, variant)) if variant else ()
        if words is None:
            verdict.unexplained.append(f"{where}: no variant of {recipe.name}")
            continue
        config, plain = config_of(recipe.name, words), config_of(recipe.name)
        rows = printed_rows(name, algorithm, env, variant)
        if words and config == plain and not any(row.variant for row in rows):
            verdict.unexplained.append(f"{where}: {' '.join(words)} changes nothing")
        for row in rows:
            found, line = value_of(config, row.setting), recipe.settings.get(row.setting)
            if row.variant != variant and found != value_of(plain, row.setting):
                continue  # what the variant is about
            verdict.compared += 1
            if same(found, row.value):
                continue
            if line is not None and names_it(line, row.value) and same(found, line.value):
                verdict.departures[folder, algorithm, env, row.setting] = line
            else:
                said = f"{row.setting} is {found!r}, {row.value!r} in {row.place}"
                verdict.unexplained.append(f"{where}: {said}")


def printed_rows(name: str, algorithm: str, env: str, variant: str) -> list[Print]:
    """Return the values that a paper prints of a run; a variant's own go before what holds for all."""
    rows = [
        row
        for row in paper(name).prints
        if row.setting and row.value != "" and row.variant in ("", variant) and holds(row, algorithm, env)
    ]
    own = {row.setting for row in rows if row.variant}
    return [row for row in rows if row.variant == variant or row.setting not in own]


def judge_protocols(name: str, verdict: Verdict) -> None:
    """Compare what a paper prints of environments that it evaluates on and does not train on."""
    for row in paper(name).prints:
        for env in row.envs:
            if env in PROTOCOLS and row.setting and row.value != "":
                verdict.compared += 1
                found = asked(load_protocol(PROTOCOLS[env]), row.setting)
                if found != row.value:
                    verdict.unexplained.append(
                        f"{PROTOCOLS[env]}: {row.setting} is {found!r}, {row.value!r} in {row.place}"
                    )


def asked(protocol: EvaluationProtocol, setting: str) -> Any:
    """Return a protocol's counterpart of a setting."""
    part, _, name = setting.partition(".")
    if setting == "evaluation.tasks":
        return protocol.env[0].tasks
    if part == "env_options":
        return protocol.env[0].kwargs[name]
    return getattr(protocol.model, name)


def judge_sources(recipe: Recipe, verdict: Verdict) -> None:
    """Check that each setting's source is a paper that prints it, a file of public code, or nowhere."""
    for setting, line in recipe.settings.items():
        kind = kind_of(line.source)
        verdict.sources[kind] += 1
        if not kind:
            verdict.unexplained.append(f"{recipe.name}: {setting}: no paper and no file: {line.source!r}")
        if kind == "public code" and (found := code_facts.problem(recipe, setting, line)):
            verdict.unexplained.append(f"{recipe.name}: {found}")
        cited = [key for key, title in TITLES.items() if line.source.startswith((f"{title},", f"{title}:"))]
        for key in cited:
            problem = silence(key, recipe.algorithm, short_name(recipe.env_id), setting, line.source)
            if problem:
                verdict.unexplained.append(f"{recipe.name}: {setting}: {line.source!r}, but it {problem}")


def kind_of(source: str) -> str:
    """Return what a source is: a paper, public code or nowhere; empty for none of these."""
    if source.startswith(
        tuple(f"{title}{mark}" for title in (*TITLES.values(), *OTHER_PAPERS) for mark in ",:")
    ):
        return "a paper"
    if PLACE.fullmatch(source):
        return "public code"
    return "nowhere" if source.startswith(NOWHERE) else ""


def silence(name: str, algorithm: str, env: str, setting: str, source: str) -> str:
    """Return how a paper does not print a setting of a run where it is cited; empty where it does."""
    cited = paper(name)
    if any(row.setting == setting and holds(row, algorithm, env) for row in cited.silent):
        return "says nothing of it"
    known = env if env in cited.envs else ""
    rows = [row for row in cited.prints if not known or not row.envs or known in row.envs]
    places = [places_of(row.place) for row in rows if row.setting == counterpart(setting)]
    if not places:
        return "prints no such row"
    named = places_of(source)
    if any(not row or all(within(place, row) for place in named) for row in places):
        return ""
    return f"prints it in {sorted(frozenset().union(*places))}"


_PLACE = re.compile(
    r"(Table|Section|Appendix|Figure|Equation|Algorithm|Footnote)s? ([A-Z]?\.?\d[\d.]*|[A-Z])"
)


def places_of(text: str) -> frozenset[str]:
    """Return the places that a citation names.

    Example:
        >>> sorted(places_of("StepPO, Section 5.1 and Appendix B.4: 128"))
        ['Appendix B.4', 'Section 5.1']
    """
    return frozenset(f"{kind} {number.rstrip('.')}" for kind, number in _PLACE.findall(text))


def within(place: str, row: frozenset[str]) -> bool:
    """Return whether a place is one of a row's, or what holds one of them."""
    return any(each == place or each.startswith(f"{place}.") for each in row)


def counterpart(setting: str) -> str:
    """Return the setting that the papers' rows have a line by."""
    return {"split": "evaluation.tasks", "evaluation.split": "evaluation.tasks"}.get(setting, setting)


def judge() -> Verdict:
    """Compare all papers and recipes."""
    verdict = Verdict()
    for name in PAPERS:
        judge_runs(name, verdict)
        judge_protocols(name, verdict)
    for recipe in all_recipes():
        judge_sources(recipe, verdict)
    return verdict


def lines(verdict: Verdict) -> list[str]:
    """Return a verdict as text: departures with their reasons, what is unexplained, and counts."""
    grouped: dict[tuple[str, RecipeSetting, str], list[str]] = {}
    for (name, algorithm, env, setting), line in verdict.departures.items():
        grouped.setdefault((name, line, setting), []).append(f"{algorithm}-{env}")
    runs_of_all = sum(len(PROGRAMS.get(name, (name,))) * len(runs(name)) for name in PAPERS)
    counts = ", ".join(f"{count} from {kind or 'unknown'}" for kind, count in verdict.sources.most_common())
    return [
        "Departures from what the papers print:",
        *(
            f"  {name}: {setting} is {line.value}, not {line.paper}: {line.why} ({', '.join(where)})"
            for (name, line, setting), where in grouped.items()
        ),
        *(f"unexplained: {line}" for line in verdict.unexplained),
        f"{runs_of_all} runs, {verdict.compared} printed values, {len(verdict.departures)} departures in "
        f"{len(grouped)} lines, {len(verdict.unexplained)} unexplained",
        f"{len(recipes())} recipes, settings: {counts}",
    ]


if __name__ == "__main__":
    found = judge()
    sys.stdout.write("\n".join(lines(found)) + "\n")
    sys.exit(1 if found.unexplained else 0)
