"""OpenEnv's own client and checks against our server: `make .venv-openenv/.installed` installs it."""

import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from agentgym.registration import open_env
from benchmarks.bridges.server import shops
from benchmarks.bridges.server_parity import PEER, compare
from tests.serving.playing import serving

ROOT = Path(__file__).resolve().parents[2]
PYTHON = os.environ.get("OPENENV_PYTHON", str(ROOT / ".venv-openenv" / "bin" / "python"))

pytestmark = [pytest.mark.peer, pytest.mark.slow]


def openenv(*words, **options):
    """Run something where OpenEnv is installed; return what it prints."""
    done = subprocess.run([PYTHON, *words], capture_output=True, text=True, cwd=ROOT, **options)
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout


@pytest.mark.parametrize("suite", ["VisualSokoban", "WebShop", "HotpotQA"])
def test_openenvs_client_plays_recorded_episodes(suite):
    ours, theirs = compare(f"agentgym/{suite}-v0", 8, PYTHON)
    assert (ours.differences, theirs.differences) == (0, 0)
    assert (theirs.client, theirs.episodes) == ("OpenEnv", 8)
    assert theirs.won >= 4


def test_openenvs_own_checks_pass():
    with serving(sessions=4) as server:
        report = json.loads(openenv(str(PEER), "validate", server.url))
    assert [each["id"] for each in report["running"] if not each["passed"]] == []
    assert len(report["running"]) >= 6
    assert report["graded"] == {
        "runtime.observation_schema": "pass",
        "runtime.reward_well_formed": "pass",
        "runtime.state_contract": "pass",
    }


def test_the_example_plays_what_it_would_play_here():
    with serving(sessions=4) as server:
        lines = openenv("examples/openenv_client.py", server.url).splitlines()
    env, rng = open_env("agentgym/Sokoban-v0"), random.Random(0)
    assert len(lines) == 3
    for seed, line in enumerate(lines):
        _, info = env.reset(seed=seed)
        total, ended = 0.0, False
        while not ended:
            _, reward, terminated, truncated, info = env.step(rng.choice(info["admissible_actions"]))
            total, ended = total + reward, terminated or truncated
        assert line == f"seed {seed}: return {total:.1f}, state {info['state_hash']}"


def test_512_sessions_of_webshop_fit_into_400_mb():
    memory = shops()
    assert memory["empty_mib"] < memory["mib"] < 400e6 / 2**20
