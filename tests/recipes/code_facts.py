"""Hold the settings that recipes take from public code against the keys and values of its files.

``trainers/sources.toml`` pins each repository, ``tests/recipes/code`` keeps what its cited files set
(`tools.public_code`). A value is translated into ours here; where it is a function or an author's text it has
a digest instead, and `READINGS` says what was read there: when the digest changes, it is to be read again.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from agentgym.io.records import read_toml
from agentgym.recipes import Recipe, RecipeSetting
from agentgym.recipes.environments import short_name
from agentgym.recipes.reader import public_sources, root
from tools.public_code import FACTS, PLACE, file_of

READINGS = FACTS / "readings.toml"

WORDS: Mapping[str, Mapping[str, Any]] = {
    "objective.kl": {"low_var_kl": "k3", "kl": "k1"},
    "objective.ratio": {"vanilla": "token", "gspo": "sequence"},
    "algorithm_options.std": {"mean_std_norm": True, "mean_norm": False},
    "algorithm_options.match": {"True": "similar", "False": "state"},
    "evaluation.split": {"eval_in_distribution": "valid_seen"},
}
"""Our names of what a key may say."""

TASKS = {"ALFWorld": 3_553, "WebShop": 11_587, "HotpotQA": 90_447, "PaperSearch": 33_551, "SearchQA": 169_615}
"""Training tasks of programs whose epoch is one pass over them; of the others an epoch is one iteration."""

EPOCHS_OF_TASKS = ("AgentR1/StepPO", "AgentR1/CAPO")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a place of public code was read to do."""

    place: str
    """Place, ``OWNER/NAME:PATH:KEY``."""
    digest: str
    """Value of the key when it was read."""
    says: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Our settings that follow; of a departure, those of the code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Readings:
    reading: tuple[Reading, ...]


@cache
def readings() -> Mapping[str, Reading]:
    """Return the readings by place."""
    return {each.place: each for each in read_toml(_Readings, READINGS).reading}


@cache
def facts(repository: str) -> Mapping[str, Any]:
    """Return a repository's commit and the keys and values of its files."""
    return tomllib.loads(file_of(repository).read_text(encoding="utf-8"))


def problem(recipe: Recipe, setting: str, line: RecipeSetting) -> str:
    """Return how a setting from public code is not what the code has; empty where it is, or says why not."""
    place = PLACE.fullmatch(line.source)
    if place is None:
        return f"{line.source!r} is no OWNER/NAME@COMMIT:PATH:KEY"
    known = facts(place["repository"])
    if known["commit"][:8] != place["commit"]:
        again = "`make check-recipes CHECKOUTS=FOLDER` reads them again"
        return f"{line.source}: its facts are of {known['commit'][:8]}: {again}"
    file = known.get(place["path"], {})
    if place["key"] not in file:
        return f"{line.source}: the file has no such key"
    raw = file[place["key"]]
    owners = settings_of(place["repository"], place["key"])
    if owners and setting not in owners:
        return f"{line.source}: {setting} is not what the key sets: {', '.join(sorted(owners))}"
    if not raw:
        return f"{line.source}: what a command prints there is not known"
    reading = readings().get(f"{place['repository']}:{place['path']}:{place['key']}")
    if reading is not None and reading.digest != raw:
        return f"{line.source}: changed from {reading.digest} to {raw} since it was read"
    if reading is not None and setting in reading.settings:
        found: Any = reading.settings[setting]
    elif raw.startswith("sha256:"):
        return f"{line.source}: no reading covers {setting}"
    else:
        found = translated(recipe, setting, raw, file, place["repository"])
    if found == line.value and isinstance(found, bool) == isinstance(line.value, bool):
        return ""
    if line.departs and names(line.paper, found):
        return ""
    return f"{line.source}: {setting} is {line.value!r}, {found!r} there ({raw})"


def settings_of(repository: str, key: str) -> frozenset[str]:
    """Return the settings that a key of verl, or of a repository, sets; none for a place in other files."""
    sources = public_sources(root() / "sources.toml")
    keys = {**sources.keys, **sources.code[repository].keys}
    return frozenset(setting for setting, known in keys.items() if known == key)


def names(text: str, value: Any) -> bool:
    """Return whether a text has a value as a word or number of its own, not within another."""
    if isinstance(value, bool):
        return str(value).lower() in text
    said = f"{value:g}" if isinstance(value, float) else str(value)
    return re.search(rf"(?<![\w.]){re.escape(said)}(?![\w.]*\d)", text.replace(",", "")) is not None


def translated(recipe: Recipe, setting: str, raw: str, file: Mapping[str, str], repository: str) -> Any:
    """Return our value of a key's."""
    if setting == "objective.aggregation" and str(recipe.values["objective.ratio"]).startswith("step_"):
        return raw.replace("seq-mean-token-mean", "step-mean")  # a row of theirs is a step
    if raw in WORDS.get(setting, {}):
        return WORDS[setting][raw]
    rule = RULES.get(setting)
    number = _literal(raw)
    if rule is None or isinstance(number, str):
        return number
    return rule(number, recipe, file, repository)


def _literal(raw: str) -> Any:
    try:
        return ast.literal_eval({"true": "True", "false": "False", "null": "None"}.get(raw, raw))
    except (ValueError, SyntaxError):
        return raw


def _iterations(epochs: int, recipe: Recipe, file: Mapping[str, str], repository: str) -> int:
    """Return the iterations of as many passes over all tasks, or epochs where each is one iteration."""
    env = short_name(recipe.env_id)
    if env != "SearchQA" and repository not in EPOCHS_OF_TASKS:
        return epochs
    return epochs * (TASKS.get(env, TASKS["ALFWorld"]) // int(file["data.train_batch_size"]))


def _rows(prompts: int, recipe: Recipe, file: Mapping[str, str], repository: str) -> int:
    """Return a mini-batch in rows: verl counts prompts, and multiplies by its own rollouts of each."""
    return prompts * int(file.get("actor_rollout_ref.rollout.n", 1))


def _episodes(size: int, recipe: Recipe, file: Mapping[str, str], repository: str) -> int:
    return int(recipe.values["rollout.tasks"]) * int(recipe.values["rollout.group_size"]) // size


def _warmup(share: float, recipe: Recipe, file: Mapping[str, str], repository: str) -> int:
    return int(share * recipe.values["iterations"])


RULES: Mapping[str, Callable[[Any, Recipe, Mapping[str, str], str], Any]] = {
    "iterations": _iterations,
    "learner.minibatch_steps": _rows,
    "warmup": _warmup,
    "reward_model.minibatches": _episodes,
}
"""What a number of a key is in ours, where it is another."""
