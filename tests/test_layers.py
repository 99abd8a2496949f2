"""The shape of the code: layers without cycles, short files and functions, one name for one thing."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = sorted((ROOT / "agentgym").rglob("*.py"))
CODE = [
    *PACKAGE,
    *(path for folder in ("benchmarks", "examples", "tools") for path in (ROOT / folder).rglob("*.py")),
]
TESTS = sorted((ROOT / "tests").rglob("*.py"))

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
DUMPING_GROUNDS = {"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
LOOSE_ENDS = re.compile(
    r"\bTODO\b|\bFIXME\b|\bXXX\b|NotImplementedError|\bplaceholder\b|not implemented yet|doctest: \+SKIP"
)
EMPTY_TESTS = re.compile(r"assert True\b|\bxfail\b|\bskip\(")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(tree: ast.AST, outer: str = "") -> Iterator[tuple[str, Function]]:
    """Yield the functions below a node by qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):  # holds none, and most of a tree is of them
            continue
        named = isinstance(node, Function | ast.ClassDef)
        inner = f"{outer}.{node.name}" if named else outer
        if isinstance(node, Function):
            yield inner, node
        yield from functions(node, inner)


def public_types(tree: ast.Module) -> Iterator[str]:
    """Yield the public classes and type aliases that a module defines."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            yield ast.unparse(node.target)


def test_layers():
    lint_imports = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([lint_imports, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_files_and_functions_are_short():
    long = []
    for path in CODE + TESTS:
        text = path.read_text(encoding="utf-8")
        if len(text.splitlines()) > MAX_FILE_LINES:
            long.append(name_of(path))
        for name, node in functions(ast.parse(text)):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                long.append(f"{name_of(path)}: {name} has {lines} lines")
    assert long == []


def test_qualified_names_tell_methods_apart():
    tree = ast.parse("class A:\n  def f(self): ...\nclass B:\n  def f(self):\n    def g(): ...")
    assert [name for name, _ in functions(tree)] == [".A.f", ".B.f", ".B.f.g"]


def test_a_public_type_has_its_name_for_itself():
    homes: dict[str, list[str]] = {}
    for path in PACKAGE:
        for name in public_types(ast.parse(path.read_text(encoding="utf-8"))):
            if not name.startswith("_"):
                homes.setdefault(name, []).append(name_of(path))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_modules_are_named_after_what_is_in_them():
    assert [
        name_of(path) for path in CODE if DUMPING_GROUNDS & set(path.relative_to(ROOT).with_suffix("").parts)
    ] == []


def test_code_has_no_loose_ends():
    assert [name_of(path) for path in CODE if LOOSE_ENDS.search(path.read_text(encoding="utf-8"))] == []


def test_tests_test():
    others = [path for path in TESTS if path != Path(__file__)]
    assert [name_of(path) for path in others if EMPTY_TESTS.search(path.read_text(encoding="utf-8"))] == []
