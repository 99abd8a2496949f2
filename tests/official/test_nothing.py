"""From nothing: an empty home, one command, and rows of an official suite that are verified."""

import json
import lzma
import os
from pathlib import Path

import pytest

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
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in tmp_path.glob("runs/**/run.json")]
    packed = [lzma.decompress(path.read_bytes()) for path in (ROOT / "benchmarks" / "runs" / suite).iterdir()]
    committed = [json.loads(content.partition(b"\n")[0])["run"] for content in packed]
    assert identities(runs) == identities(committed)
    assert {name for name in identities(runs) if name in board} == identities(runs).keys()


def identities(runs):
    """Return what was asked and what came of it, by agent."""
    return {run["agent"]["name"]: (run["request_id"], run["result_id"]) for run in runs}
