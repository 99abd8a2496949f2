"""Docstrings: the public surface documents its parameters, the rest stays short."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from agentgym.registration import ENVIRONMENTS, class_of
from tools.build_site import public_surface

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = sorted(public_surface())

SECTIONS = re.compile(r"^ *(Args|Returns|Raises|Yields):$", re.MULTILINE)
DELEGATED = re.compile(r"\b(as|see) `")
"""Another function documents the parameters."""

MAX_SHARE = 0.06
"""Of the docstrings outside of the public surface, those with such a section."""

Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def named(tree: ast.AST, outer: str) -> Iterator[tuple[str, Documented]]:
    """Yield classes, functions and methods by qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Documented):
            yield f"{outer}.{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from named(node, f"{outer}.{node.name}")


def package() -> Iterator[tuple[str, Documented]]:
    """Yield the package's classes, functions and methods; of a property its first definition."""
    for path in sorted((ROOT / "agentgym").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        yield from named(ast.parse(path.read_text(encoding="utf-8")), module)


@cache
def nodes() -> dict[str, Documented]:
    """Return what `package` yields, by name."""
    found: dict[str, Documented] = {}
    for name, node in package():
        found.setdefault(name, node)
    return found


def on_surface(name: str) -> bool:
    """Return whether a name is public, or a public member of a class that is."""
    home, _, last = name.rpartition(".")
    return name in PUBLIC or (home in PUBLIC and (not last.startswith("_") or last == "__init__"))


def undocumented(node: Documented) -> list[str]:
    """Return the parameters that the docstring of a function with three or more does not name."""
    text = ast.get_docstring(node) or ""
    if isinstance(node, ast.ClassDef) or DELEGATED.search(text):
        return []
    parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    names = [each.arg for each in parameters if each.arg not in ("self", "cls")]
    return [name for name in names if len(names) > 2 and not re.search(rf"\b{name}\b", text)]


def test_the_public_surface_is_there_and_documented():
    assert [name for name in PUBLIC if name not in nodes()] == []
    lacking = {}
    for name, node in nodes().items():
        if on_surface(name):
            lacking[name] = undocumented(node) if ast.get_docstring(node) else ["docstring"]
    assert {name: what for name, what in lacking.items() if what} == {}


def test_constructors_of_environments_list_their_options():
    inits = {class_of(env_id).__init__ for env_id in ENVIRONMENTS}
    names = [f"{init.__module__}.{init.__qualname__}" for init in inits]
    assert [name for name in names if "\nArgs:\n" not in (ast.get_docstring(nodes()[name]) or "")] == []


def test_sections_are_rare_elsewhere():
    rest = {name: ast.get_docstring(node) for name, node in nodes().items() if not on_surface(name)}
    with_sections = [name for name, text in rest.items() if text and SECTIONS.search(text)]
    share = len(with_sections) / sum(bool(text) for text in rest.values())
    assert share <= MAX_SHARE, f"{share:.1%} of the docstrings beside docs/public_names.txt have sections"


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("Play.", ["env", "seed", "steps"]),
        ("Play ``steps`` of an env.\n\nArgs:\n    seed: of it.", []),
        ("Play; arguments as `make`.", []),
    ],
)
def test_parameters_that_a_docstring_leaves_out(text, lacking):
    node = ast.parse(f'def play(self, env, seed, *, steps):\n    """{text}"""').body[0]
    assert undocumented(node) == lacking
