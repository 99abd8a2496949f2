"""Digest of the code that a verdict depends on, found in the source without importing any of it.

A replay imports the verifier, the suite's environments and the agents that play again. What these import,
inside functions and for types too, is followed module by module, and so is every module that a string names.
Registries name more than one suite opens: of these, only the suite's own entries are followed.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

from agentgym.agents.table import AGENTS
from agentgym.evaluation.suites.suite import Suite
from agentgym.registration import ENVIRONMENTS

PACKAGE = Path(__file__).parents[2]

VERIFIER = ("agentgym.evaluation.verify.verification", "agentgym.evaluation.verify.packed")
"""Modules that replay runs, and that unpack them by replaying."""

REGISTRIES = ("agentgym.registration", "agentgym.agents.table")
"""Modules whose strings name everything that can be opened, not only their own dependencies."""

_REFERENCE = re.compile(r"[\w.]+(:\w+)?")


@cache
def code_sha256(environments: frozenset[str] = frozenset(), agents: frozenset[str] = frozenset()) -> str:
    """Return the sha256 of the files that a replay of these environments and agents depends on, by path.

    ``environments``: ids; ``agents``: kinds. Those of other packages add no file.
    """
    digest = hashlib.sha256()
    for path in code_files(environments, agents):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(PACKAGE).as_posix()} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def suite_code_sha256(suite: Suite, agent: str) -> str:
    """Return the `code_sha256` of a suite, its agents included, and of the agent of a run, by kind."""
    kinds = {agent, *(each.kind for each in suite.agent)}
    return code_sha256(frozenset(env.id for env in suite.env), frozenset(kinds))


def code_files(environments: Collection[str], agents: Collection[str]) -> list[Path]:
    """Return the files of `code_sha256`: modules, and the other files of their folders, such as levels."""
    references = [text for name in environments if name in ENVIRONMENTS for text in ENVIRONMENTS[name]]
    for kind in agents:
        entry = AGENTS.get(kind)
        references += (entry.factory, entry.facts, entry.check, entry.unplayable) if entry else (kind,)
    modules, data = _package_files()
    found = {
        modules[name] for name in dependencies((*VERIFIER, *(ref.partition(":")[0] for ref in references)))
    }
    parts = {_part(path) for path in found}
    return sorted((*found, *(path for path in data if _part(path) in parts)))


def dependencies(roots: Collection[str]) -> set[str]:
    """Return these modules of the package, and those that they import or name, directly or through others."""
    found: set[str] = set()
    pending = [name for name in roots if name in _package_files()[0]]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += _used(name)
    return found


@cache
def _used(module: str) -> frozenset[str]:
    """Return the modules that a module imports or names, and its package, which is imported first."""
    modules = _package_files()[0]
    package = module.rpartition(".")[0]
    used = {package}
    for node in ast.walk(ast.parse(modules[module].read_bytes())):
        if isinstance(node, ast.Import):
            used.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            used.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and module not in REGISTRIES:
            used.update(_named(node.value, package))
    return frozenset(used & modules.keys())


def _named(text: str, package: str) -> Iterator[str]:
    """Yield the modules that a string may name: ``module``, ``module:attribute``, ``f"package.{name}"``."""
    if _REFERENCE.fullmatch(text):
        name = text.partition(":")[0]
        yield from (name, f"{package}.{name}")
        if text[-1] == "." and text[:-1] in _package_files()[0]:
            yield from (module for module in _package_files()[0] if module.startswith(text))


@cache
def _package_files() -> tuple[dict[str, Path], tuple[Path, ...]]:
    """Return the package's modules by name, and its other files."""
    modules, data = {}, []
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix == ".py":
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        elif path.is_file() and "__pycache__" not in path.parts:
            data.append(path)
    return modules, tuple(data)


def _part(path: Path) -> tuple[str, ...]:
    """Return the folder of the package that a file is in; each environment's counts as one."""
    parts = path.relative_to(PACKAGE).parts[:-1]
    return parts[: 2 if parts[:1] == ("envs",) else 1]
