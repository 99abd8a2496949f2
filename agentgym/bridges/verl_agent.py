"""verl-agent and its forks: our environments below their own managers, under their own trainer.

In a checkout's folder, with the arguments that its script gives to its trainer::

    python -m agentgym.bridges.verl_agent verl.trainer.main_ppo env.env_name=Webshop ...

Nothing of the checkout changes. Managers, prompts, memories and projections are its own; the Ray workers
below them are replaced in every process that imports them. ``+env.agentgym.NAME=VALUE`` sets an option of the
environment; ``splits`` two at once; with ``anchor=text``, GiGPO groups steps by the text shown, as in the
checkout, and not by ``state_hash``. Every reset of validation plays the first tasks of its split
(``val_envs.envs.panel``), unless ``validation=drawn``.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from agentgym.bridges.verl_agent_rows import ForkRows
from agentgym.bridges.verl_agent_search import SearchRows
from agentgym.errors import UsageError

ROWS = {"alfworld": ForkRows, "webshop": ForkRows, "sokoban": ForkRows, "search": SearchRows}
MANAGERS = frozenset(f"{name}EnvironmentManager" for name in ("AlfWorld", "Webshop", "Sokoban", "Search"))
_MODULE = "agentgym.bridges.verl_agent"
_RAY_HOOK = "RAY_RUNTIME_ENV_HOOK"


class _SuiteLoader(SourceFileLoader):
    """Loads a suite's package without its ``__init__``, which would import Ray and the suite's engine."""

    def exec_module(self, module: ModuleType) -> None:
        suite = module.__name__.rpartition(".")[2]
        projection = importlib.import_module(f"{module.__name__}.projection")
        setattr(module, f"build_{suite}_envs", partial(ROWS[suite], suite))
        setattr(module, f"{suite}_projection", getattr(projection, f"{suite}_projection"))


class _ManagerLoader(SourceFileLoader):
    """Loads a checkout's module of managers; each of our suites' opens its rows, and anchors its steps."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        for name in MANAGERS & vars(module).keys():
            setattr(module, name, _over_rows(getattr(module, name)))


class _ForkFinder:
    """Finds those modules of a checkout that are loaded otherwise, before Python's own finders."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, last = name.rpartition(".")
        suite = last in ROWS and package.endswith(".env_package")
        found = PathFinder.find_spec(name, path) if suite or last == "env_manager" else None
        if found is None or found.origin is None:
            return None
        found.loader = (_SuiteLoader if suite else _ManagerLoader)(name, found.origin)
        return found


def _over_rows(base: Any) -> Any:
    class Manager(base):  # type: ignore[misc]
        def __init__(self, envs: Any, projection_f: Any, config: Any):
            envs.open(config)
            super().__init__(envs, projection_f, config)

        def reset(self, kwargs: Any = None) -> tuple[Any, ...]:
            self.envs.env_kwargs = kwargs
            return self._anchored(*super().reset(kwargs))

        def step(self, text_actions: list[str]) -> tuple[Any, ...]:
            return self._anchored(*super().step(text_actions))

        def _anchored(self, observations: dict[str, Any], *others: Any) -> tuple[Any, ...]:
            if self.envs.anchor == "state":
                observations["anchor"] = [info["state_hash"] for info in self.envs.infos]
            return observations, *others

    return Manager


def replace_workers() -> None:
    """Replace a checkout's workers in this process: what it imports from now on gets our environments.

    Raises:
        UsageError: the checkout's managers are imported already, over its own workers.
    """
    if any(isinstance(finder, type) and finder.__name__ == _ForkFinder.__name__ for finder in sys.meta_path):
        return
    if "agent_system.environments.env_manager" in sys.modules:
        raise UsageError("agent_system.environments is imported already: replace its workers before")
    sys.meta_path.insert(0, _ForkFinder)


def ray_environment(runtime_env: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a trainer gives to ``ray.init``, so that Ray's processes replace workers, too.

    Ray calls it by the name in its variable ``RAY_RUNTIME_ENV_HOOK``.
    """
    return {**(runtime_env or {}), "worker_process_setup_hook": f"{_MODULE}.{replace_workers.__name__}"}


def run_trainer(arguments: Sequence[str]) -> None:
    """Run a checkout's trainer, a module's name and its arguments, over our environments.

    Raises:
        UsageError: this is not run in a checkout, it has no such module, or Ray has another hook.
    """
    if not arguments or arguments[0].startswith("-"):
        raise UsageError(
            f"name the checkout's trainer: python -m {_MODULE} verl.trainer.main_ppo [arguments]"
        )
    trainer, hook = arguments[0], f"{_MODULE}.{ray_environment.__name__}"
    if importlib.util.find_spec("agent_system") is None:
        raise UsageError("there is no agent_system here: run this in the folder of a checkout of verl-agent")
    if os.environ.setdefault(_RAY_HOOK, hook) != hook:
        raise UsageError(f"{_RAY_HOOK} is {os.environ[_RAY_HOOK]!r:.60}: unset it, since this needs its own")
    try:
        found = importlib.util.find_spec(trainer)
    except ModuleNotFoundError as error:
        if not f"{trainer}.".startswith(f"{error.name}."):
            raise UsageError(f"{trainer} needs {error.name}: install what the checkout requires") from error
        found = None
    if found is None:
        raise UsageError(
            f"the checkout has no module {trainer!r:.60}: name one such as verl.trainer.main_ppo"
        )
    replace_workers()
    sys.argv = list(arguments)
    runpy.run_module(trainer, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    try:
        run_trainer(sys.argv[1:])
    except UsageError as problem:
        raise SystemExit(f"error: {str(problem).splitlines()[-1]}") from problem
