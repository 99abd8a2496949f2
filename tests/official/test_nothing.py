"""From nothing: an empty home, one command, and rows of an official suite that are verified."""

import os
from pathlib import Path

import pytest

from agentgym.evaluation.verify.archives import open_run
from tests.official.copies import Copies
from tests.official.host import Host
from tests.official.machines import ROOT, Machine
from tests.official.tables import rewritten, write

pytestmark = [pytest.mark.assets, pytest.mark.slow]

DATA = Path(os.environ.get("AGENTGYM_DATA", "")).absolute()


@pytest.mark.parametrize("suite", ["official-webshop-small", "official-alfworld-seen-game"])
def test_one_command_plays_an_official_suite(suite, tmp_path):
    """The rows are those that are committed: the same episodes, results and data."""
    copies = Copies(DATA, products=None, games=None, splits=("valid_seen",))
    with Host(copies.of) as host:
        machine = Machine(tmp_path, write(tmp_path / "sources.toml", rewritten(copies.of, host.address)))
        done = machine.run("bench", suite, "--download", "--out", "runs", "--leaderboard", "board.md")
    assert done.returncode == 0, done.stderr
    board = (tmp_path / "board.md").read_text(encoding="utf-8")
    runs = outcomes(path.parent for path in tmp_path.glob("runs/**/run.json"))
    assert runs == outcomes((ROOT / "benchmarks" / "runs" / suite).iterdir())
    assert all(name in board for name in runs)


def outcomes(paths):
    """Return what was asked and what came of it, by agent: hash chains change with the schema of states."""
    opened = [open_run(path) for path in paths]
    assert len(opened) >= 3
    return {run.log.agent.name: (run.log.request_id, sorted(map(played, run.results))) for run in opened}


def played(sample):
    return sample.task_id, sample.won, sample.score, sample.length, sample.episode_return
