"""The wheel holds agentgym whole and nothing else, and the ignore file cannot take parts of it away."""

import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

import agentgym

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel_files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of the files in the wheel, built from this checkout without a network."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_holds_only_agentgym(wheel_files: set[str]):
    roots = {PurePosixPath(name).parts[0] for name in wheel_files}
    (metadata,) = (root for root in roots if root.endswith(".dist-info"))
    assert metadata == f"agentgym_suite-{agentgym.__version__}.dist-info"
    assert roots == {"agentgym", metadata}
    assert f"{metadata}/licenses/LICENSE" in wheel_files


def test_wheel_holds_every_file_of_agentgym(wheel_files: set[str]):
    on_disk = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "agentgym").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    in_wheel = {name for name in wheel_files if name.startswith("agentgym/")}
    assert in_wheel == on_disk
    assert "agentgym/py.typed" in in_wheel


def test_every_folder_with_code_is_a_subpackage(wheel_files: set[str]):
    folders = {str(PurePosixPath(name).parent) for name in wheel_files if name.endswith(".py")}
    assert {f"{folder}/__init__.py" for folder in folders} <= wheel_files


def test_ignore_patterns_are_anchored():
    lines = (ROOT / ".gitignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert patterns
    assert [pattern for pattern in patterns if not pattern.startswith("/")] == ["__pycache__/"]


def test_constraints_pin_exactly():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert lines
    assert [line for line in lines if line.count("==") != 1 or "*" in line] == []
