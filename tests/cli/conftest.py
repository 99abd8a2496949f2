"""The command line in this process, with a small environment registered."""

import gymnasium
import pytest

from agentgym.cli import main
from tests.suite_texts import env_table, suite_text

ENV = "toys/Corridor-v0"
SUITE = suite_text("toys", env_table(ENV, 7, split="train"), seed=3, attempts=2)


@pytest.fixture(scope="session", autouse=True)
def _corridor():
    gymnasium.register(
        ENV,
        entry_point="tests.corridor:CorridorEnv",
        vector_entry_point="tests.corridor:CorridorVectorEnv",
    )


@pytest.fixture
def cli(capsys, monkeypatch, tmp_path):
    """Return a function that runs a command: exit code, standard output, standard error."""
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))

    def run(*words, stdin=""):
        lines = iter(stdin.splitlines())

        def read(prompt=""):
            try:
                return next(lines)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr("builtins.input", read)
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def suite(tmp_path):
    path = tmp_path / "toys.toml"
    path.write_text(SUITE)
    return path


@pytest.fixture
def refused(cli):
    """Return a function that runs a command and returns its one-line complaint."""

    def run(*words, stdin=""):
        code, _, complaint = cli(*words, stdin=stdin)
        assert code == 2
        assert complaint.startswith("agentgym: ")
        assert complaint.count("\n") == 1
        assert "Traceback" not in complaint
        return complaint

    return run
