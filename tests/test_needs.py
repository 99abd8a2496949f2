"""Marks of tests: they follow imports, name what is there, and leave out no file that has a chosen test."""

import subprocess
import sys

import pytest

from tests.needs import LISTED, ROOT, absent, imported, marks, may_have

TESTS = sorted((ROOT / "tests").rglob("test_*.py"))


def test_who_imports_torch_is_marked_however_far_the_import_is():
    algorithms = {path.stem for path in (ROOT / "agentgym/algos").glob("*.py") if "torch" in marks(path)}
    assert {"loss", "process"} <= algorithms
    assert "grpo" not in algorithms
    helper = ROOT / "tests/algos/test_steppo.py"
    assert "torch" in imported(helper)
    assert "torch" in marks(ROOT / "docs/algorithms/losses.md")  # an example on a page imports it
    assert "torch" not in marks(ROOT / "tests/sokoban/test_engine.py")
    users = [path for path in TESTS if "\nimport torch\n" in path.read_text(encoding="utf-8")]
    assert len(users) > 30
    assert [path for path in users if "torch" not in marks(path)] == []


@pytest.mark.parametrize("mark", LISTED)
def test_what_is_listed_is_there(mark):
    for name in LISTED[mark]:
        file, _, test = name.partition("::")
        assert (ROOT / file).exists(), name
        assert not test or f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), name
    assert list(LISTED[mark]) == sorted(LISTED[mark])


def test_the_environment_of_developers_has_every_extra_but_those_of_other_targets():
    assert absent() <= {"docs", "inspect", "ray", "vllm"}


@pytest.mark.parametrize(
    ("name", "expression", "kept"),
    [
        ("tests/test_make.py", "contract and not slow", True),
        ("tests/test_words.py", "contract and not slow", False),
        ("tests/test_make.py", "not contract", False),
        ("tests/retrieval/test_pyserini.py", "java and not torch", True),  # set in the file itself
        ("tests/sokoban/test_engine.py", "torch or house", False),
        ("tests/training/test_loop.py", "not slow and not torch", False),
        ("tests/cli/test_hints.py", "torch", True),  # one of its tests
        ("tests/cli/test_hints.py", "not torch", True),  # the others
        ("tests/cli/test_hints.py", "", True),
        ("docs/gymnasium.md", "contract", True),
    ],
)
def test_files_are_left_out_only_where_no_test_of_theirs_can_be_chosen(name, expression, kept):
    assert may_have(ROOT / name, expression) == kept


def test_a_run_by_a_mark_has_the_tests_of_the_mark():
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "pettingzoo",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    files = {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}
    assert {"agentgym/envs/sotopia/pettingzoo.py", "tests/sotopia/test_pettingzoo.py"} <= files, done.stdout
    assert len(files) < 5
