"""The real engine: TextWorld with ALFWorld's names, as the extra ``alfworld`` installs them.

It is slow and cannot be copied, and is here to be compared with. Importing it draws from numpy's global
generator, and loading a game overwrites ``sys.argv``; both are put back.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from agentgym.envs.alfworld.engine.pddl import Fact
from agentgym.errors import MissingPackageError, UsageError
from agentgym.io.optional import install_command


class TextWorldEngine:
    """Plays one game at a time in TextWorld."""

    def __init__(self) -> None:
        """Make TextWorld's environment."""
        textworld = _import("textworld")
        pddl = _import("textworld.envs.pddl")
        names = _import("alfworld.agents.environment.alfred_tw_env")
        infos = textworld.EnvInfos(won=True, admissible_commands=True)
        self._env = names.AlfredDemangler(pddl.PddlEnv(infos))
        self._state: Any = None

    def start(self, domain: str, grammar: str, problem: str) -> str:
        """Load a game and return its first observation; a goal that no action decides is a `UsageError`."""
        game: Mapping[str, str] = {"pddl_domain": domain, "grammar": grammar, "pddl_problem": problem}
        with _restored_arguments():
            try:
                self._env.load(game)
            except KeyError as error:
                if error.args != ("val1",):
                    raise
                raise UsageError(
                    "TextWorld cannot play a game whose goal always holds or can never be reached"
                ) from error
        return self.restart()

    def restart(self) -> str:
        """Begin the loaded game again and return its first observation."""
        with _restored_arguments():
            self._state = self._env.reset()
        return str(self._state.feedback)

    def step(self, command: str) -> str:
        """Send a command and return the answer."""
        self._state, _, _ = self._env.step(command)
        return str(self._state.feedback)

    @property
    def commands(self) -> tuple[str, ...]:
        """The admissible commands, sorted."""
        return tuple(self._state["admissible_commands"])

    @property
    def won(self) -> bool:
        """Whether the goal holds."""
        return bool(self._state["won"])

    @property
    def score(self) -> int | None:
        """1 when the game is won, else 0; None before the first step, when TextWorld gives none."""
        score = self._state.get("score")
        return None if score is None else int(score)

    def facts(self) -> set[Fact]:
        """Return every fact of the state, but for the planner's own axioms."""
        return {
            (fact.name, *(variable.name for variable in fact.arguments))
            for fact in self._state["_facts"]
            if not fact.name.startswith("new-axiom@")
        }


def installed_logic() -> Path | None:
    """Return the folder of the domain and the grammar in the installed ALFWorld package, if there is one."""
    found = find_spec("alfworld")  # importing it would make a folder in the user's cache
    return None if found is None or found.origin is None else Path(found.origin).parent / "data"


def _import(name: str) -> ModuleType:
    state = np.random.get_state()  # noqa: NPY002 (kept as it was)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module(name)
    except ImportError as error:
        how = f"{install_command('alfworld')} (Python before 3.13)"
        raise MissingPackageError(f"{name.partition('.')[0]} is not installed: {how}") from error
    finally:
        np.random.set_state(state)  # noqa: NPY002


@contextmanager
def _restored_arguments() -> Iterator[None]:
    arguments = sys.argv
    try:
        yield
    finally:
        sys.argv = arguments
