"""``docs/packages.md``: every package has an extra and a test, and the container installs what is there."""

import ast
import re
import shlex
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGE = (ROOT / "docs" / "packages.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if "::" in line]
PACKAGES = [
    "gymnasium",
    "textworld",
    "alfworld",
    "pyserini",
    "faiss-gpu",
    "sentence-transformers",
    "torch",
    "vllm",
]


def requirements(extra):
    """Yield the packages of an extra, those of extras within it too; of the empty name the core's."""
    for text in PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]:
        inner = re.fullmatch(r"agentgym-suite\[(.+)\]", text)
        if inner:
            for part in inner[1].split(","):
                yield from requirements(part)
        else:
            yield text


def test_every_package_has_its_row():
    assert [row[0] for row in ROWS] == PACKAGES


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_test_exists_and_the_extra_brings_the_package(row):
    package, _, install, test = row
    path, _, name = test.strip("`").partition("::")
    functions = {
        node.name for node in ast.parse((ROOT / path).read_text()).body if isinstance(node, ast.FunctionDef)
    }
    assert name in functions
    extra = re.fullmatch(r"`pip install (?:\.|'\.\[(.+)\]')`", install)[1] or ""
    assert any(text.startswith(package) for text in requirements(extra))


def test_the_two_packages_of_faiss_are_in_no_extra_together():
    for extra in PROJECT["optional-dependencies"]:
        assert sum(text.startswith("faiss-") for text in requirements(extra)) <= 1, extra
    plain, gpu = ({*requirements(name)} for name in ("retrieval", "retrieval-gpu"))
    assert {text.partition(">")[0] for text in plain ^ gpu} == {"faiss-cpu", "faiss-gpu-cu12"}


def test_only_what_is_tried_is_claimed():
    pythons = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if "Python :: 3." in text]
    assert pythons == ["3.11", "3.12", "3.13"]
    assert "Operating System :: POSIX :: Linux" in PROJECT["classifiers"]


def test_the_container_copies_what_is_there_and_runs_a_command():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert {"pyproject.toml", "agentgym", "trainers", PROJECT["readme"], *PROJECT["license-files"]} <= set(
        copied
    )
    assert all((ROOT / name).exists() for name in copied)
    (command,) = (ast.literal_eval(line.removeprefix("CMD ")) for line in lines if line.startswith("CMD "))
    assert shlex.join(command) == "agentgym bench quick"
