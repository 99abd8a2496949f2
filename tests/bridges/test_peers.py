"""Doors of other projects: what is compared, the table of the record, and OpenEnv's own entry points."""

import json
import subprocess

import pytest

from benchmarks.bridges import peers
from benchmarks.bridges.server_parity import Recorded
from tests.serving.test_openenv import PYTHON

HERE = [peer for peer in peers.PEERS if peer.venv == "openenv"]


def test_the_table_is_that_of_the_record():
    made = json.loads(peers.RESULTS.read_text(encoding="utf-8"))
    assert peers.PAGE.read_text(encoding="utf-8") == peers.page(made), "run `make doors`"
    assert not any(sum(row["differences"].values()) for row in made["rows"])
    bridges = (peers.ROOT / "docs" / "bridges.md").read_text(encoding="utf-8")
    assert f"All {sum(row['episodes'] for row in made['rows'])} episodes" in bridges
    played = {row["title"] for row in made["rows"]}
    assert played.isdisjoint(made["missing"])
    assert played | made["missing"].keys() == {peer.title for peer in peers.PEERS}
    assert {row["env"] for row in made["rows"]} == set(peers.SUITES)


def test_what_a_door_shows_is_compared_and_what_it_does_not_is_not_counted():
    rows = [["a", "", None, False, "h0", 0, False], ["b", "", 0.5, True, "h1", 1, True]]
    episode = peers.PeerEpisode(Recorded(0, ["go"], rows), "Go.", [("go", {})])

    def found(*last, opening="Go.", total=None):
        return [{"rows": [[None, None, False, "h0"], list(last)], "opening": opening, "total": total}]

    same = peers.compare([episode], found("b", 0.5, True, "h1"))
    assert same["compared"] == {
        "text": 1, "reward": 1, "end": 2, "state hash": 2, "opening": 1, "sum of rewards": 0
    }  # fmt: skip
    assert set(same["differences"].values()) == {0}
    for other, name in (
        (found("B", 0.5, True, "h1"), "text"),
        (found("b", 0.25, True, "h1"), "reward"),
        (found("b", 0.5, False, "h1"), "end"),
        (found("b", 0.5, True, "h0"), "state hash"),
        (found("b", 0.5, True, "h1", opening="Stop."), "opening"),
        (found("b", 0.5, True, "h1", total=0.0), "sum of rewards"),
    ):
        differences = peers.compare([episode], other)["differences"]
        assert [key for key, count in differences.items() if count] == [name]
    with pytest.raises(ValueError, match="shorter"):
        peers.compare([episode], [{"rows": [["a", None, False, "h0"]], "opening": None, "total": None}])


def test_a_line_has_its_versions_and_what_was_not_run_is_named():
    row = {
        "title": "Theirs", "versions": {"theirs": "1.0"}, "episodes": 2, "steps": 1_500,
        "compared": {"text": 2, "reward": 1_500, "opening": 0}, "differences": {"reward": 1, "opening": 0},
    }  # fmt: skip
    made = {
        "date": "2026-01-02", "suites": ["agentgym/Sokoban-v0"], "newest": {"theirs": "1.1"},
        "missing": {"Others": "python9 is not here"}, "rows": [row, row],
    }  # fmt: skip
    text = peers.block(made)
    assert "| Theirs | theirs 1.0 | theirs 1.1 | reward | 4 | 3,000 | 2 |" in text
    assert "2026-01-02" in text
    assert "Not run: Others: python9 is not here." in text


@pytest.mark.peer
@pytest.mark.slow
def test_openenvs_entry_points_and_the_mcp_sdk_play_whole_episodes():
    rows = list(peers.run(HERE, ["agentgym/Sokoban-v0"], 2))
    assert [row["door"] for row in rows] == ["openenv", "openenv-tools", "openenv-class", "mcp"]
    for row in rows:
        assert set(row["differences"].values()) == {0}, row
        assert row["compared"]["reward"] == row["steps"] > 20
        assert row["compared"]["state hash"] >= row["steps"]
        assert row["compared"]["opening"] == 2


CLASS = """
from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction

import agentgym.bridges.openenv as bridge
from agentgym.errors import UsageError

assert bridge.Sokoban is bridge.Sokoban and bridge.Sokoban.__name__ == "Sokoban"
try:
    bridge.Sokobn
except AttributeError as error:
    print(error)
env, other = bridge.Sokoban(), bridge.Sokoban()
assert env._service is other._service
try:
    env.step(bridge.AgentAction(action="up"))
except UsageError as error:
    print(error)
try:
    env.reset(sed=4)
except UsageError as error:
    print(error)
first, same = env.reset(seed=4, episode_id="mine"), other.reset(seed=4)
assert first.instructions == same.instructions and first.text in first.instructions
assert (first.done, first.reward, env.state.episode_id) == (False, None, "mine")
(tool,) = env.step(ListToolsAction()).tools
called = env.step(CallToolAction(tool_name=tool.name, arguments={"direction": "left"}))
typed = other.step(bridge.AgentAction(action="left"))
assert called.metadata["state_hash"] == typed.metadata["state_hash"] and called.reward == typed.reward == -0.1
assert env.step(CallToolAction(tool_name="jump")).error.error_type == "tool_not_found"
assert (env.state.step_count, other.state.step_count) == (1, 1)
env.close()
assert len(other._service.sessions) == 1
few = bridge.environment_class("agentgym/EZPoints-v0", sessions=1, split="test")
one, two = few(), few()
one.reset(seed=0)
try:
    two.reset(seed=0)
except UsageError as error:
    print(error)
one.close()
assert two.reset(seed=0).metadata["turn"] == 0
"""


@pytest.mark.peer
@pytest.mark.slow
def test_the_class_is_openenvs_environment():
    done = subprocess.run([PYTHON, "-c", CLASS], capture_output=True, text=True, cwd=peers.ROOT)
    assert done.returncode == 0, done.stderr[-2_000:]
    unknown, nameless, misspelt, full = done.stdout.splitlines()
    assert unknown == "agentgym.bridges.openenv has no 'Sokobn'"
    assert nameless.startswith("name a session: reset begins one")
    assert "unknown key 'sed' (did you mean 'seed'?)" in misspelt
    assert "1 sessions" in full
