"""Recipes: how papers train, read from the TOML files of ``trainers/``.

``trainers/PAPER/ALGORITHM-ENVIRONMENT.toml`` has the settings of one run that a paper reports,
``trainers/shared`` the parts that several runs have in common, and ``trainers/algorithms`` what holds for an
algorithm on any environment. ``trainers/README.md`` describes the form of the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.algos.table import ALGORITHMS
from agentgym.core.options import check_choice
from agentgym.errors import UsageError, nearest
from agentgym.io.paths import shipped_folder
from agentgym.io.records import read_toml
from agentgym.recipes.environments import short_name
from agentgym.registration import class_of

if TYPE_CHECKING:
    from agentgym.training.config import TrainConfig

SECTIONS = (
    "iterations",
    "warmup",
    "split",
    "rollout",
    "env_options",
    "prompting",
    "learner",
    "objective",
    "algorithm_options",
    "reward_model",
    "evaluation",
)
"""Parts of a configuration that a recipe sets, in the order in which they are shown."""

_COMMON = ("algorithms", "shared")
"""Folders of ``trainers`` that belong to no paper."""


_NOTES = ("source", "key", "paper", "why")
"""Keys of a group of settings that are no settings."""

WRITTEN = ("rollout.pool", "rollout.weights_folder")
"""Settings that name folders to write in: a recipe may be a stranger's, so only the command line has them."""


def root() -> Path:
    """Return the folder ``trainers``: within an installed package, or beside the package in a checkout."""
    return shipped_folder("trainers")


@dataclass(frozen=True, slots=True)
class RecipeSetting:
    """A setting of a recipe, with its source.

    Example:
        >>> RecipeSetting(0.95, "GiGPO, Appendix D").departs
        False
        >>> RecipeSetting("token", "verl-agent", "step_product (Eq. 9)", "leaves the clipping range").departs
        True
    """

    value: Any
    """Value of the setting in the recipe."""
    source: str
    """Source of the value: a paper with its section or table, or a file of public code."""
    paper: str = ""
    """Value in the paper where it differs; empty where it is the same."""
    why: str = ""
    """Reason for the difference, in a few words."""

    def __post_init__(self) -> None:
        """Refuse a setting without a source, and a departure without a reason."""
        if not self.source or bool(self.paper) != bool(self.why):
            raise ValueError(f"a setting names its source, and a departure its paper and why: {self}")

    @property
    def departs(self) -> bool:
        """Whether the recipe departs from the paper on purpose."""
        return bool(self.paper)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one paper trains by one algorithm on one environment."""

    name: str
    """Name of the recipe, ``PAPER/ALGORITHM-ENVIRONMENT``, or the path of a file outside `root`."""
    path: Path
    algorithm: str
    """Name of the algorithm for ``agentgym train``."""
    env_id: str
    """Id of the environment; empty for settings that hold for environments no paper trains on."""
    settings: Mapping[str, RecipeSetting]
    """Settings by the dotted names of `agentgym.training.config.override`, in the order of `SECTIONS`."""

    @property
    def table(self) -> str:
        """The paper whose table the run is from, by its folder."""
        return self.path.parent.name

    @property
    def values(self) -> dict[str, Any]:
        """The values of `settings`."""
        return {name: setting.value for name, setting in self.settings.items()}


@dataclass(frozen=True, slots=True)
class Variant:
    """An extension or ablation of an algorithm: settings that it changes."""

    about: str
    """Description of the variant, with its place in a paper."""
    settings: Mapping[str, Any]
    """Changed settings by dotted name; ``algorithm`` and ``encoder`` may be among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmRecipes:
    """All recipes of an algorithm."""

    algorithm: str
    paper: str = ""
    """Authors, year and arXiv number of the algorithm's paper."""
    tables: str = ""
    """Tables and code that the recipes' settings come from, in words."""
    recipes: tuple[Recipe, ...] = ()
    """Recipes for one environment each, the preferred one first."""
    general: Recipe | None = None
    """Recipe for environments that no paper trains on."""
    variants: Mapping[str, Variant] = field(default_factory=dict)

    @property
    def by_env(self) -> dict[str, Recipe]:
        """The preferred recipe of each environment that a paper trains on."""
        found: dict[str, Recipe] = {}
        for each in self.recipes:
            found.setdefault(each.env_id, each)
        return found

    def papers(self, env_id: str) -> tuple[str, ...]:
        """Return the papers that have a run on an environment, the preferred one first."""
        return tuple(each.table for each in self.recipes if each.env_id == env_id)

    def choose(self, env_id: str, table: str = "") -> Recipe:
        """Return the recipe for an environment, of a paper if one is named by ``table``."""
        if not table:
            found = self.by_env.get(env_id, self.general)
        else:
            found = next(
                (each for each in self.recipes if (each.env_id, each.table) == (env_id, table)), None
            )
        if found is None:
            by_whom = f"of {table} " if table else ""
            names = ", ".join(each.name for each in self.recipes)
            raise UsageError(
                f"no recipe {by_whom}for {self.algorithm} on {env_id}: choose one of {names}, or train with "
                "--preset plain"
            )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicCode:
    """A repository of public code at one commit."""

    commit: str
    about: str
    """Description of the repository, in a line."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys of its files by the setting that they set, where they differ from those of `PublicSources`."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Its names of algorithms and environments, in paths, where they differ from ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicSources:
    """Public code that recipes cite: the file ``sources.toml`` beside them."""

    keys: Mapping[str, str]
    """Keys by the setting that they set, in the words of verl, on which all these repositories build."""
    code: Mapping[str, PublicCode]
    """Repositories by ``OWNER/NAME``."""

    def place(self, source: str, setting: str, key: str, of: _RecipeFile) -> str:
        """Return ``OWNER/NAME: PATH`` of a setting as ``OWNER/NAME@COMMIT:PATH:KEY``, any other as it is.

        ``key``: the place in the file where the tables name none, or another.
        """
        repository, _, path = source.partition(": ")
        repository = of.code if repository == "code" else repository
        if repository not in self.code:
            return source
        code, env = self.code[repository], short_name(of.env).lower()
        path = path.replace("{algorithm}", code.names.get(of.algorithm, of.algorithm))
        path = path.replace("{env}", code.names.get(env, env))
        return f"{repository}@{code.commit[:8]}:{path}:{key or code.keys.get(setting) or self.keys[setting]}"


@cache
def public_sources(path: Path) -> PublicSources:
    """Read a file ``sources.toml``."""
    return read_toml(PublicSources, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A file of shared settings."""

    settings: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecipeFile(_Part):
    algorithm: str
    env: str
    extends: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    code: str = ""
    """Repository that sources of its parts call ``code``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _AlgorithmFile(_RecipeFile):
    env: str = ""
    paper: str
    tables: str
    prefer: tuple[str, ...]
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def recipe_names() -> tuple[str, ...]:
    """Return the names of the recipes that are shipped."""
    paths = sorted(path for path in root().glob("*/*-*.toml") if path.parent.name not in _COMMON)
    return tuple(f"{path.parent.name}/{path.stem}" for path in paths)


def find_recipe(name: str) -> Recipe:
    """Return a recipe: one of `recipe_names`, or the path of a TOML file.

    Example:
        >>> find_recipe("hgpo/hgpo-webshop").settings["algorithm_options.std"].value
        False
    """
    if name.endswith(".toml"):
        return _read(Path(name), name)
    names = recipe_names()
    if name not in names:
        raise UsageError(
            f"no recipe {name!r:.80}{nearest(name, names)}: `agentgym recipes list` has the names; or name a "
            "TOML file"
        )
    found = _read(root() / f"{name}.toml", name)
    if not found.path.stem.startswith(f"{found.algorithm}-"):
        raise UsageError(
            f"{found.path}: algorithm: {found.algorithm!r} is not what the file's name begins with"
        )
    return found


def algorithms_with_recipes() -> tuple[str, ...]:
    """Return the algorithms that have a recipe: built-in ones in the order of their table, then others."""
    found = {name.partition("/")[2].partition("-")[0] for name in recipe_names()}
    return (*(name for name in ALGORITHMS if name in found), *sorted(found - ALGORITHMS.keys()))


def recipes_of(algorithm: str) -> AlgorithmRecipes:
    """Return the recipes of an algorithm.

    Example:
        >>> recipes_of("grpo").choose("agentgym/WebShop-v0").name
        'gigpo/grpo-webshop'
    """
    known = algorithms_with_recipes()
    check_choice("algorithm of recipes", algorithm, known, ", or train with --preset plain")
    own = [find_recipe(name) for name in recipe_names() if name.partition("/")[2].startswith(f"{algorithm}-")]
    path = root() / "algorithms" / f"{algorithm}.toml"
    if not path.is_file():
        return AlgorithmRecipes(algorithm=algorithm, recipes=tuple(own))
    file = read_toml(_AlgorithmFile, path)
    rank = {table: number for number, table in enumerate(file.prefer)}
    return AlgorithmRecipes(
        algorithm=algorithm,
        paper=file.paper,
        tables=file.tables,
        recipes=tuple(sorted(own, key=lambda each: rank.get(each.table, len(rank)))),
        general=Recipe(f"algorithms/{algorithm}", path, algorithm, "", _merged(file, path)),
        variants={name: _variant(table, f"{path}: variants.{name}") for name, table in file.variants.items()},
    )


def find_variant(algorithm: str, name: str) -> Variant:
    """Return a variant of an algorithm by name.

    Example:
        >>> dict(find_variant("graphgpo", "ds").settings)
        {'rollout.attempts': 10, 'rollout.filter_on': 'won'}
    """
    known = recipes_of(algorithm).variants if algorithm in algorithms_with_recipes() else {}
    if name not in known:
        listed = f"{nearest(name, known)}; it has {', '.join(known)}" if known else ": set options by --set"
        raise UsageError(f"{algorithm} has no variant {name!r:.60}{listed}")
    return known[name]


def recipe_config(
    recipe: Recipe, env_id: str, changes: Mapping[str, Any] | None = None, **whole: Any
) -> TrainConfig:
    """Return the configuration of a run; ``env_id`` counts for a recipe that names none.

    ``changes`` are as `agentgym.training.config.override` takes them; ``whole`` are fields of the
    configuration, such as ``model`` and ``seed``. An error about a setting of the recipe names its file.
    """
    from agentgym.training.config import Preset

    if not recipe.env_id:
        class_of(env_id)  # raises before the file is read: an unknown environment is not the file's mistake
    preset = Preset(recipe.values)
    try:
        return preset.config(recipe.algorithm, env_id, changes, **whole)
    except UsageError:
        try:
            preset.config(recipe.algorithm, env_id)
        except UsageError as error:
            raise UsageError(f"{recipe.path}: {error}") from error
        raise  # the recipe is right, what was given beside it is not


def _variant(table: Mapping[str, Any], where: str) -> Variant:
    changes = {key: value for key, value in table.items() if key != "about"}
    return Variant(
        _text(table, "about", where), dict(_flat(changes, where, (*SECTIONS, "encoder", "algorithm")))
    )


def _read(path: Path, name: str) -> Recipe:
    file = read_toml(_RecipeFile, path)
    return Recipe(name, path, file.algorithm, file.env, _merged(file, path))


def _merged(file: _RecipeFile, path: Path) -> Mapping[str, RecipeSetting]:
    """Return the settings of the shared parts and then the file's own; of one name the last counts."""
    merged: dict[str, RecipeSetting] = {}
    shared = root() / "shared"
    parts = {part.stem: part for part in shared.glob("*.toml")}
    for name in file.extends:
        if name not in parts:
            raise UsageError(
                f"{path}: extends: no shared part {name!r:.60}{nearest(name, parts)} in {shared}"
            )
        merged |= _settings(_part(parts[name]).settings, parts[name], file)
    for name in file.without:
        if merged.pop(name, None) is None:
            raise UsageError(f"{path}: without: no part sets {name!r:.60}{nearest(name, merged)}")
    merged |= _settings(file.settings, path, file)
    return dict(sorted(merged.items(), key=lambda item: SECTIONS.index(item[0].partition(".")[0])))


@cache
def _part(path: Path) -> _Part:
    return read_toml(_Part, path)


def _settings(
    blocks: Iterable[Mapping[str, Any]], path: Path, of: _RecipeFile
) -> Mapping[str, RecipeSetting]:
    found: dict[str, RecipeSetting] = {}
    sources = public_sources(root() / "sources.toml")
    for number, block in enumerate(blocks, 1):
        where = f"{path}: settings {number}"
        source, key, paper, why = (_text(block, each, where) for each in _NOTES)
        for name, value in _flat({each: block[each] for each in block if each not in _NOTES}, where):
            if name in found:
                raise UsageError(f"{where}: {name} is set twice: keep one")
            if name in WRITTEN:
                raise UsageError(f"{where}: no recipe names a folder to write in: pass {name} with --set")
            try:
                found[name] = RecipeSetting(value, sources.place(source, name, key, of), paper, why)
            except KeyError:
                raise UsageError(
                    f"{where}: {name}: no key of {source} is known: name it, key = ..."
                ) from None
            except ValueError as error:
                raise UsageError(f"{where}: {name}: {error}") from error
    return found


def _text(table: Mapping[str, Any], key: str, where: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise UsageError(f"{where}: {key}: expected a string, got {value!r:.60}")
    return value


def _flat(
    table: Mapping[str, Any], where: str, known: tuple[str, ...] = SECTIONS
) -> Iterator[tuple[str, Any]]:
    """Yield settings by dotted name: ``rollout = {tasks = 16}`` is ``rollout.tasks``."""
    for key, value in table.items():
        if key not in known:
            raise UsageError(f"{where}: unknown key {key!r}{nearest(key, known)}; known: {', '.join(known)}")
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", setting) for inner, setting in value.items())
        else:
            yield key, value
