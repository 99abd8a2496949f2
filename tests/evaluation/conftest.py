"""A small suite on a small environment, run once."""

import shutil
from pathlib import Path

import pytest

from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.verify import submissions
from tests.evaluation import corridor
from tests.suite_texts import env_table, suite_text, write_suite

SUITE = suite_text(
    "small",
    env_table("tests/Corridor-v0", 12, by_type=True),
    env_table("tests/Corridor-v0", 10, label="Ice", kwargs={"slip": 0.6, "max_steps": 6}),
    seed=7,
    attempts=2,
)


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
    return write_suite(tmp_path, SUITE)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the suite's file and its finished results."""
    root = tmp_path_factory.mktemp("bench")
    run_bench(write_suite(root, SUITE), root / "results", num_envs=5)
    return root


@pytest.fixture
def run_folder(finished: Path, tmp_path: Path) -> Path:
    """Return a private copy of the oracle's run, with the suite's file above it."""
    shutil.copytree(finished, tmp_path / "copy")
    (folder,) = (tmp_path / "copy" / "results" / "small").glob("oracle-*")
    return folder
