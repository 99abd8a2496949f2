"""Keep the settings of public code as data: ``make check-recipes CHECKOUTS=FOLDER``.

A recipe cites ``REPOSITORY: PATH``; `trainers/sources.toml` names each repository's commit. This reads the
cited files of checkouts, ``FOLDER/REPOSITORY``, at these commits, and writes their keys and values to
``tests/recipes/code/REPOSITORY.toml``: facts, not code. A key of a script is one of the launch it ends in; of
a YAML file its dotted path; of Python a constant or a default, or a function, of which the sha256 is kept.
``make check-recipes`` holds every line of the recipes against these files and needs no checkout.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from agentgym.recipes.reader import (
    Recipe,
    algorithms_with_recipes,
    find_recipe,
    public_sources,
    recipe_names,
    recipes_of,
    root,
)
from tools.launch_script import launch

FACTS = Path("tests/recipes/code")
"""Folder of the facts, a file a repository."""

PLACE = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)@(?P<commit>[0-9a-f]{8}):(?P<path>[^:]+):(?P<key>.+)")
"""Source of a setting that comes from public code."""

_LONGEST = 80
"""Characters of a Python value that is kept; of a longer one the digest is."""

Facts = dict[str, str]
"""Values by key, as they are written in the file."""


def at_commit(folder: Path, commit: str) -> Callable[[str], str]:
    """Return what reads a file of a checkout at a commit; of a folder that is no repository, as it is."""

    def read(path: str) -> str:
        if not (folder / ".git").exists() and not (folder / "HEAD").exists():
            return (folder / path).read_text(encoding="utf-8")
        shown = ["git", "-C", str(folder), "show", f"{commit}:{path}"]
        return subprocess.run(shown, check=True, capture_output=True, text=True).stdout

    return read


def facts_of(path: str, read: Callable[[str], str]) -> Facts:
    """Return the keys and values of a file.

    Raises:
        ValueError: a kind of file that has none.
    """
    kind = PurePosixPath(path).suffix
    if kind in (".sh", ".slurm"):
        return launch(path, read)
    if kind == ".yaml":
        import yaml

        return dict(_leaves(yaml.safe_load(read(path))))
    if kind == ".py":
        text = read(path)
        return dict(_python(ast.parse(text).body, text))
    raise ValueError(f"{path}: no keys are read of such a file: cite a script, a YAML file or Python")


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{path}.{number}" if path else str(number))
    else:
        yield path, value if isinstance(value, str) else json.dumps(value)


def _python(body: list[ast.stmt], text: str, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield constants, defaults of arguments, and the digest of each function and other value."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _python(node.body, text, f"{path}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path}{node.name}", _digest(node, text)
            positional = [*node.args.posonlyargs, *node.args.args]
            last = positional[len(positional) - len(node.args.defaults) :]
            pairs = [*zip(last, node.args.defaults, strict=True)]
            pairs += [(a, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d]
            for argument, default in pairs:
                yield f"{path}{node.name}.{argument.arg}", _value(default, text)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    yield f"{path}{target.id}", _value(node.value, text)


def _value(node: ast.expr, text: str) -> str:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        return _digest(node, text)
    # words are their authors': a digest tells whether they changed
    return repr(value) if len(repr(value)) <= _LONGEST else _digest(node, text)


def _digest(node: ast.AST, text: str) -> str:
    source = ast.get_source_segment(text, node) or ""
    return f"sha256:{hashlib.sha256(source.encode()).hexdigest()[:16]}"


def all_recipes() -> Iterator[Recipe]:
    """Yield every recipe, those for any environment among them."""
    yield from map(find_recipe, recipe_names())
    yield from filter(None, (recipes_of(name).general for name in algorithms_with_recipes()))


def cited() -> dict[str, set[str]]:
    """Return the files that recipes cite, by repository."""
    found: dict[str, set[str]] = defaultdict(set)
    for recipe in all_recipes():
        for setting in recipe.settings.values():
            if place := PLACE.fullmatch(setting.source):
                found[place["repository"]].add(place["path"])
    return found


def file_of(repository: str) -> Path:
    """Return the file of a repository's facts."""
    return FACTS / f"{repository.replace('/', '-')}.toml"


def as_toml(repository: str, commit: str, facts: Mapping[str, Facts]) -> str:
    """Return the facts of a repository as TOML: a table a file."""
    lines = [f"repository = {_text(repository)}\n", f"commit = {_text(commit)}\n"]
    for file, keys in sorted(facts.items()):
        lines.append(f"\n[{_text(file)}]\n")
        lines += [f"{_text(key)} = {_text(value)}\n" for key, value in sorted(keys.items())]
    return "".join(lines)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def main() -> None:
    """Write the facts of every repository whose checkout is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", type=Path, help="folder of checkouts, each by its name in sources.toml")
    folder = parser.parse_args().checkouts
    files = cited()
    for name, code in public_sources(root() / "sources.toml").code.items():
        if not (folder / name).exists():
            sys.stderr.write(f"{name}: not in {folder}: its facts stay as they are\n")
            continue
        read = at_commit(folder / name, code.commit)
        facts = {path: facts_of(path, read) for path in sorted(files[name])}
        file_of(name).write_text(as_toml(name, code.commit, facts), encoding="utf-8")


if __name__ == "__main__":
    main()
