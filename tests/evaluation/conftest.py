"""A small suite on a small environment, run once."""

import shutil
from pathlib import Path

import pytest

from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.verify import submissions
from tests.evaluation import corridor

SUITE = """\
name = "small"
version = "1"
seed = 7
attempts = 2

[[env]]
id = "tests/Corridor-v0"
label = "Corridor"
split = "test"
tasks = 12
by_type = true

[[env]]
id = "tests/Corridor-v0"
label = "Ice"
split = "test"
tasks = 10
kwargs = { slip = 0.6, max_steps = 6 }

[[agent]]
name = "random"
kind = "random"

[[agent]]
name = "oracle"
kind = "oracle"
"""


@pytest.fixture(scope="session", autouse=True)
def _corridor() -> None:
    corridor.register()


@pytest.fixture
def unboxed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Examine runs in this process, where a test has changed the package."""

    def call(function, *arguments, files, writes, trusted, limits, **named):  # type: ignore[no-untyped-def]
        return function(*arguments, **named)

    monkeypatch.setattr(submissions, "boxed", call)


@pytest.fixture
def suite_file(tmp_path: Path) -> Path:
    path = tmp_path / "suites" / "small.toml"
    path.parent.mkdir()
    path.write_text(SUITE)
    return path


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the suite's file and its finished results."""
    root = tmp_path_factory.mktemp("bench")
    (root / "suites").mkdir()
    (root / "suites" / "small.toml").write_text(SUITE)
    run_bench(root / "suites" / "small.toml", root / "results", num_envs=5)
    return root


@pytest.fixture
def run_folder(finished: Path, tmp_path: Path) -> Path:
    """Return a private copy of the oracle's run, with the suite's file above it."""
    shutil.copytree(finished, tmp_path / "copy")
    (folder,) = (tmp_path / "copy" / "results" / "small").glob("oracle-*")
    return folder
