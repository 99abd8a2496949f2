"""The one list of environments, and the one way to open one.

Entry points are strings: registering imports no environment. An environment of another package is named as

* ``module:id``: the module is imported, from the current directory first, and registers the id with
  `gymnasium.register`;
* an id that is in Gymnasium's registry already;
* an id that an installed package declares as an entry point of the group ``agentgym.envs``, whose value is
  ``module:Class``. Entry points are looked up when an unknown id is asked for, never by ``import agentgym``.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from agentgym.core.options import Option, check_choice, check_options, options_of
from agentgym.core.suite_spec import DataSource, SuiteSpec
from agentgym.data.sources import source_list
from agentgym.env import AgentEnv
from agentgym.errors import UntrustedReferenceError, UsageError, nearest
from agentgym.io.optional import import_named, load_reference, plugins
from agentgym.vector.core import AgentVectorEnv
from agentgym.vector.serial import SerialVectorEnv

ENTRY_POINTS = "agentgym.envs"
"""Group of the entry points by which other packages add environments."""


class EnvEntry(NamedTuple):
    """Places of an environment's two forms, as ``module:Class``."""

    single: str
    vector: str


ENVIRONMENTS: dict[str, EnvEntry] = {
    "agentgym/Sokoban-v0": EnvEntry(
        "agentgym.envs.sokoban.env:SokobanEnv", "agentgym.envs.sokoban.vector:sokoban_vector_env"
    ),
    "agentgym/VisualSokoban-v0": EnvEntry(
        "agentgym.envs.sokoban.env:VisualSokobanEnv", "agentgym.envs.sokoban.vector:VisualSokobanVectorEnv"
    ),
    "agentgym/EZPoints-v0": EnvEntry(
        "agentgym.envs.ezpoints.env:EZPointsEnv", "agentgym.envs.ezpoints.env:EZPointsVectorEnv"
    ),
    "agentgym/ALFWorld-v0": EnvEntry(
        "agentgym.envs.alfworld.env:ALFWorldEnv", "agentgym.envs.alfworld.env:ALFWorldVectorEnv"
    ),
    "agentgym/WebShop-v0": EnvEntry(
        "agentgym.envs.webshop.env:WebShopEnv", "agentgym.envs.webshop.env:WebShopVectorEnv"
    ),
    "agentgym/HotpotQA-v0": EnvEntry(
        "agentgym.envs.multihop.env:HotpotQAEnv", "agentgym.envs.multihop.env:HotpotQAVectorEnv"
    ),
    "agentgym/TwoWiki-v0": EnvEntry(
        "agentgym.envs.multihop.env:TwoWikiEnv", "agentgym.envs.multihop.env:TwoWikiVectorEnv"
    ),
    "agentgym/MuSiQue-v0": EnvEntry(
        "agentgym.envs.multihop.env:MuSiQueEnv", "agentgym.envs.multihop.env:MuSiQueVectorEnv"
    ),
    "agentgym/SearchQA-v0": EnvEntry(
        "agentgym.envs.multihop.env:SearchQAEnv", "agentgym.envs.multihop.env:SearchQAVectorEnv"
    ),
    "agentgym/PaperSearch-v0": EnvEntry(
        "agentgym.envs.papersearch.env:PaperSearchEnv", "agentgym.envs.papersearch.env:PaperSearchVectorEnv"
    ),
    "agentgym/Sotopia-v0": EnvEntry(
        "agentgym.envs.sotopia.env:SotopiaEnv", "agentgym.envs.sotopia.env:SotopiaVectorEnv"
    ),
}
"""Registered ids. No ``max_episode_steps``: environments truncate themselves (see ``max_steps``)."""

ARRAY_ENVIRONMENTS: dict[str, EnvEntry] = {
    "agentgym/SokobanArray-v0": EnvEntry(
        "agentgym.envs.sokoban.array_env:SokobanArrayEnv",
        "agentgym.envs.sokoban.array_env:SokobanArrayVectorEnv",
    ),
}
"""Registered ids of environments for numeric learners: no text, no `AgentEnv`, in no evaluation suite."""

REMOTE_ENVIRONMENTS: dict[str, EnvEntry] = {
    "agentgym/Remote-v0": EnvEntry(
        "agentgym.serving.env.client:RemoteEnv", "agentgym.serving.env.client:RemoteVectorEnv"
    ),
}
"""Registered ids of environments that are on a server, whose ``url`` they take: in no evaluation suite."""


def register_environments() -> None:
    """Add every environment to Gymnasium's registry, once."""
    for env_id, entry in (ENVIRONMENTS | ARRAY_ENVIRONMENTS | REMOTE_ENVIRONMENTS).items():
        if env_id not in gymnasium.registry:
            gymnasium.register(env_id, entry_point=entry.single, vector_entry_point=entry.vector)


def make(env_id: str, *, split: str | None = None, **options: Any) -> AgentEnv[Any]:
    """Make a single environment, without wrappers: `gymnasium.make` with the type that it has.

    Args:
        env_id: a registered id; ``module:id`` imports the module first, which registers it.
        split: whose tasks it plays; None for the environment's default.
        **options: further options of its constructor.

    Raises:
        UsageError: unknown id, option or option value, or not an `AgentEnv`.
        MissingDataError: its data is not on this machine.

    Example:
        >>> env = make("agentgym/EZPoints-v0", split="test")
        >>> observation, info = env.reset(seed=0)
        >>> info["admissible_actions"] == env.admissible_actions()
        True
    """
    return open_env(env_id, split=split, options=options)


def make_vec(
    env_id: str,
    num_envs: int = 1,
    *,
    split: str | None = None,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    **options: Any,
) -> AgentVectorEnv:
    """Make a vector environment: `gymnasium.make_vec` with the type that it has.

    Args:
        env_id: as `make`. An environment without a vector form is wrapped by `SerialVectorEnv`.
        num_envs: number of slots.
        split: as `make`.
        autoreset_mode: what happens to a slot whose episode is over: NextStep, SameStep or Disabled.
        **options: as `make`.

    Raises:
        UsageError: as `make`, or an unknown mode.
        MissingDataError: as `make`.

    Example:
        >>> envs = make_vec("agentgym/EZPoints-v0", 3, autoreset_mode="Disabled")
        >>> envs.reset(seed=0)[1]["turn"].tolist()
        [0, 0, 0]
    """
    return _open_vector(env_id, num_envs, autoreset_mode, split, options, "")


def open_env(
    env_id: str,
    *,
    split: str | None = None,
    options: Mapping[str, Any] | None = None,
    where: str = "",
    **loose: Any,
) -> AgentEnv[Any]:
    """Make a single environment, without wrappers.

    Args:
        env_id: a registered id; ``module:id`` imports the module first, which registers it.
        split: whose tasks it plays; None for the environment's default.
        options: further options of its constructor.
        where: begins error messages.
        loose: refused: options go into ``options``.

    Raises:
        UsageError: unknown id, option or option value, or not an `AgentEnv`.
        MissingDataError: its data is not on this machine.
    """
    _refuse_loose(loose, "make")
    spec, chosen = _checked(env_id, split, options, where)
    limit = _step_limit(spec, chosen)
    made = gymnasium.make(spec.id, disable_env_checker=True, **limit, **chosen).unwrapped
    return cast(AgentEnv[Any], made)


def open_vector(
    env_id: str,
    num_envs: int,
    *,
    split: str | None = None,
    options: Mapping[str, Any] | None = None,
    where: str = "",
    **loose: Any,
) -> AgentVectorEnv:
    """Make a vector environment in autoreset mode DISABLED; arguments and errors as `open_env`.

    Args:
        env_id: as `open_env`. An environment without a vector form is wrapped by `SerialVectorEnv`.
        num_envs: number of slots.
        split: as `open_env`.
        options: as `open_env`.
        where: as `open_env`.
        loose: as `open_env`.
    """
    _refuse_loose(loose, "make_vec")
    return _open_vector(env_id, num_envs, AutoresetMode.DISABLED, split, options, where)


def class_of(env_id: str, where: str = "") -> type[AgentEnv[Any]]:
    """Return the class of a single environment."""
    spec = find_spec(env_id, where)
    if spec.entry_point is None:
        raise UsageError(f"{where}{spec.id} has no single form: register it with an entry_point")
    creator = _load(spec, spec.entry_point, where)
    if not inspect.isclass(creator):
        raise UsageError(f"{where}{spec.id} is made by a function: register the class itself")
    if not issubclass(creator, AgentEnv):
        raise UsageError(
            f"{where}{env_id} is not an AgentEnv: subclass agentgym.AgentEnv, name another environment, "
            "or open it with gymnasium.make"
        )
    return creator


def suite_spec(env_id: str) -> SuiteSpec:
    """Return the record of an environment's suite; errors as `class_of`."""
    return class_of(env_id).suite_spec


def find_spec(env_id: str, where: str = "") -> EnvSpec:
    """Return Gymnasium's record of an environment."""
    module, colon, name = env_id.rpartition(":")
    if colon:
        _import(module, where)
    if name not in gymnasium.registry and (entry := plugins(ENTRY_POINTS).get(name)):
        import_named(entry.module, trusted=True)  # it may register the id itself
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=f"{entry.module}:{entry.attr}")
    spec = gymnasium.registry.get(name)
    if spec is None and colon:
        registers = f"module {module} registers no {name!r}{nearest(name, gymnasium.registry)}"
        raise UsageError(f"{where}{registers}: call gymnasium.register in it")
    if spec is None:
        known = sorted(known_ids())
        short = {name.rpartition("/")[2].rpartition("-v")[0].lower(): name for name in known}
        word = env_id.rpartition("/")[2].partition("-v")[0].lower()
        close = difflib.get_close_matches(word, short, n=1)
        meant = nearest(short[close[0]] if close else env_id, known)
        raise UsageError(
            f"{where}unknown id {env_id!r}{meant}; known: {', '.join(known)}; "
            "write module:id for one that a module registers"
        )
    return spec


def known_ids() -> tuple[str, ...]:
    """Return the ids of this package, and of entry points of others."""
    return tuple(dict.fromkeys((*ENVIRONMENTS, *plugins(ENTRY_POINTS))))


def data_sources() -> Iterator[DataSource]:
    """Yield the official data sets of all suites, once each."""
    found = {source.name: source for env_id in known_ids() for source in suite_spec(env_id).sources}
    yield from found.values()


def data_source(name: str) -> DataSource:
    """Return an official data set by its name, or a download's; UsageError where neither is known."""
    known = {source.name: source for source in data_sources()}
    downloads = {
        each: known[found.source] for each, found in source_list().set.items() if found.source in known
    }
    check_choice("data set", name, downloads | known)
    return (downloads | known)[name]


def _open_vector(
    env_id: str,
    num_envs: int,
    mode: AutoresetMode | str,
    split: str | None,
    options: Mapping[str, Any] | None,
    where: str,
) -> AgentVectorEnv:
    spec, chosen = _checked(env_id, split, options, where, ("num_envs", "autoreset_mode"))
    if spec.vector_entry_point is None:
        settings = {**spec.kwargs, **_step_limit(spec, chosen), **chosen}
        return SerialVectorEnv(num_envs, env_class=class_of(env_id, where), autoreset_mode=mode, **settings)
    _load(spec, spec.vector_entry_point, where)
    made = gymnasium.make_vec(spec.id, num_envs=num_envs, autoreset_mode=mode, **chosen)
    if not isinstance(made, AgentVectorEnv):
        raise UsageError(f"{where}{env_id}: {type(made).__name__} is not an AgentVectorEnv")
    return made


def _refuse_loose(options: Mapping[str, Any], maker: str) -> None:
    if options:
        given = ", ".join(f"{name!r}: ..." for name in options)
        raise UsageError(
            f"options are one argument, options={{{given}}}; agentgym.{maker} takes them as keywords"
        )


def check_env_options(env_id: str, options: Mapping[str, Any], where: str = "") -> None:
    """Check an environment's id and options without making it; UsageError as `make`."""
    _checked(env_id, None, options, where)


def _checked(
    env_id: str,
    split: str | None,
    options: Mapping[str, Any] | None,
    where: str,
    further: tuple[str, ...] = (),
) -> tuple[EnvSpec, dict[str, Any]]:
    """Turn what Gymnasium would report in its own ways into one line."""
    env_class = class_of(env_id, where)
    chosen = dict(options or {})
    if split is not None:
        chosen["split"] = split
    check_options(chosen, {**options_of(env_class), **{name: Option(name) for name in further}}, where)
    return find_spec(env_id, where), chosen


def _step_limit(spec: EnvSpec, chosen: Mapping[str, Any]) -> dict[str, int]:
    """Return a registered ``max_episode_steps`` as the environment's own limit, where none is chosen."""
    if spec.max_episode_steps is None or "max_steps" in {**spec.kwargs, **chosen}:
        return {}
    return {"max_steps": spec.max_episode_steps}


def _load(spec: EnvSpec, entry_point: object, where: str) -> Any:
    try:
        return load_reference(entry_point, trusted=True) if isinstance(entry_point, str) else entry_point
    except UsageError as error:
        raise UsageError(f"{where}{spec.id}: {error}") from error


def _import(module: str, where: str) -> None:
    try:
        import_named(module)
    except UntrustedReferenceError:
        raise
    except UsageError as error:
        raise UsageError(f"{where}{error}") from error
