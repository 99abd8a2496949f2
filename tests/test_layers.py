"""The shape of the code: layers without cycles, short files and functions, and no loose ends."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CODE = sorted(path for folder in ("agentgym", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
DUMPING_GROUNDS = {"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
LOOSE_ENDS = re.compile(
    r"\bTODO\b|\bFIXME\b|\bXXX\b|NotImplementedError|\bplaceholder\b|not implemented yet|doctest: \+SKIP"
)
EMPTY_TESTS = re.compile(r"assert True\b|\bxfail\b|\bskip\(")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_layers():
    lint_imports = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([lint_imports, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("path", CODE + TESTS, ids=name_of)
def test_file_is_short(path: Path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_FILE_LINES
    functions = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_FUNCTION_LINES} == {}


@pytest.mark.parametrize("path", CODE, ids=name_of)
def test_module_is_named_after_what_is_in_it(path: Path):
    assert not DUMPING_GROUNDS & set(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("path", CODE, ids=name_of)
def test_code_has_no_loose_ends(path: Path):
    assert LOOSE_ENDS.findall(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", [path for path in TESTS if path != Path(__file__)], ids=name_of)
def test_tests_test(path: Path):
    assert EMPTY_TESTS.findall(path.read_text(encoding="utf-8")) == []
