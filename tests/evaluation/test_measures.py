"""Measures from the environment to the page: recorded, recomputed, chosen, with their intervals."""

import csv
import io
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from agentgym.cli import main
from agentgym.core.types import Completion, EndReason, Policy, Request
from agentgym.errors import UsageError
from agentgym.evaluation.board.boards import Board, Row, make_boards
from agentgym.evaluation.board.exports import as_csv, as_json, latex, schema
from agentgym.evaluation.board.published import Published
from agentgym.evaluation.board.tables import markdown
from agentgym.evaluation.log.results import ABORTED, latest
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import load_suite
from agentgym.evaluation.verify.submissions import verify_below
from agentgym.evaluation.verify.verification import verify_run
from agentgym.vector.core import AgentVectorEnv
from tests.evaluation.making import write_complete
from tests.suite_texts import ORACLE, RANDOM, env_table, suite_text, write_suite

HERE = "tests.evaluation.test_measures"

SUITE = suite_text(
    "measured",
    env_table(
        "tests/MeasuredCorridor-v0",
        10,
        label="Corridor",
        measures=["left", "moves", "near", "slips"],
        kwargs={"max_steps": 60},
    ),
    env_table("tests/Corridor-v0", 4, label="Ice", kwargs={"slip": 0.6}),
    agents=(
        RANDOM,
        ORACLE,
        *({"name": name, "kind": f"{HERE}:make_{name}"} for name in ("quitter", "nearly")),
    ),
    seed=3,
    attempts=2,
)


class Quitter:
    """Walks to the door, and errs there, or at once."""

    def __init__(self, steps: int, reason: EndReason):
        self.steps, self.reason = steps, reason

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        return [
            Completion("right", error=self.reason if "1" in self.left(request) else None)
            for request in requests
        ]

    def left(self, request: Request) -> str:
        at, length = (int(word.rstrip(".")) for word in str(request.observation).split()[3::2])
        return "1" if length - at == 1 or request.turn >= self.steps else ""


def make_quitter(envs: AgentVectorEnv) -> Policy:
    return Quitter(0, "agent_error")


def make_nearly(envs: AgentVectorEnv) -> Policy:
    return Quitter(100, "context_limit")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the suite's file and its results."""
    root = tmp_path_factory.mktemp("measured")
    run_bench(write_suite(root, SUITE), root / "results", num_envs=7)
    return root


@pytest.fixture(scope="module")
def board(played: Path) -> Board:
    return board_of(played)


def board_of(root: Path) -> Board:
    allow = [f"{HERE}:{name}" for name in ("make_quitter", "make_nearly")]
    (board,), unranked = make_boards(verify_below(root / "results", allow=allow))
    assert not unranked + list(board.unranked)
    return board


def folder_of(root: Path, name: str) -> Path:
    (folder,) = (root / "results" / "measured").glob(f"{name}-*")
    return folder


def rows_of(board: Board) -> dict[str, Row]:
    return {row.name: row for row in board.rows}


@pytest.mark.parametrize("name", ["quitter", "nearly"])
def test_an_agent_that_errs_leads_no_column(board: Board, name: str) -> None:
    """Not even one that stood at the door: each measure has its worse bound."""
    rows = rows_of(board)
    for column in board.columns["Corridor"]:
        value = rows[name].envs["Corridor"].measures[column.name].value
        others = [row.envs["Corridor"].measures[column.name].value for row in board.rows if row.name != name]
        if column.better == "higher":
            assert value == column.bounds[0] <= min(others)
        elif column.better == "lower":
            assert value == column.bounds[1] >= max(others)
        else:
            assert column.at_error is None
    assert rows["oracle"].envs["Corridor"].measures["left"].value < 0.3


def test_what_was_spent_before_an_error_counts(played: Path, board: Board) -> None:
    episodes = read_episodes(folder_of(played, "nearly"))
    moves = [e.measures["moves"] for e in episodes if e.env == "Corridor" and e.measures]
    assert moves == [float(e.length) for e in episodes if e.env == "Corridor"]
    assert {e.end_reason for e in episodes} & set(ABORTED)
    found = rows_of(board)["nearly"].envs["Corridor"].measures["moves"]
    assert found.value == sum(moves) > 0
    assert rows_of(board)["quitter"].envs["Corridor"].measures["moves"].value == 0.0


def test_a_column_is_a_mean_or_a_sum_with_its_interval(played: Path, board: Board) -> None:
    for name, row in rows_of(board).items():
        episodes = [e for e in latest(read_episodes(folder_of(played, name))) if e.env == "Corridor"]
        assert row.envs["Ice"].measures == {}
        for column in board.columns["Corridor"]:
            found = row.envs["Corridor"].measures[column.name]
            values = [e.measures[column.name] for e in episodes if e.measures is not None]
            total = sum(values) if column.total else sum(values) / len(values)
            assert found.value == pytest.approx(total)
            assert found.low <= found.value <= found.high
            assert found.method in ("wilson", "t")
    assert rows_of(board)["random"].envs["Corridor"].measures["near"].low >= 0.0


def test_tables_and_exports_show_each_chosen_measure(board: Board) -> None:
    page = " ".join(markdown([board], Published()).split())
    assert "| Environment | Agent | left | moves (steps, sum) | near % | slips |" in page
    assert "- *left*: share of the way left (lower is better)." in page
    assert "- *moves*: steps played (spent, neither is better)." in page
    lines = list(csv.DictReader(io.StringIO(as_csv([board]))))
    shown = {(line["agent"], line["measure"]) for line in lines if line["environment"] == "Corridor"}
    for row in board.rows:
        assert {(row.name, name) for name in ("left", "moves", "near", "slips")} <= shown
    table = json.loads(as_json([board], Published()))
    jsonschema.validate(table, schema())
    (column,) = (c for c in table["boards"][0]["columns"]["Corridor"] if c["name"] == "moves")
    assert column["bounds"] == [0.0, None]
    text = latex([board])
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 2
    assert r"near \%" in text


def test_columns_change_nothing_that_is_played(played: Path, tmp_path: Path) -> None:
    """Digests, requests and files are those of the suite without them, or with others."""
    suite = load_suite(played / "suites" / "measured.toml")
    for columns in ((), ("near",)):
        other = replace(suite, env=tuple(replace(env, measures=columns) for env in suite.env[:1]))
        assert other.sha256 == replace(suite, env=suite.env[:1]).sha256
    assert "measures" not in (folder_of(played, "oracle") / "run.json").read_text()
    path = tmp_path / "suites" / "measured.toml"
    path.parent.mkdir()
    path.write_text(SUITE.replace('measures = ["left", "moves", "near", "slips"]\n', ""))
    (folder,) = run_bench(path, tmp_path / "results", agents=["oracle"])
    again, before = read_run(folder), read_run(folder_of(played, "oracle"))
    assert (again.request_id, again.result_id) == (before.request_id, before.result_id)


def test_an_unknown_column_is_one_line_that_names_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "measured.toml"
    path.write_text(SUITE.replace('"near"', '"nera"'))
    with pytest.raises(UsageError, match=r"no measure 'nera'.*choose from near, left, slips, moves$"):
        run_bench(path, tmp_path / "out")
    path.write_text(SUITE.replace("tasks = 4\n", 'tasks = 4\nmeasures = ["near"]\n'))
    with pytest.raises(UsageError, match="environment 'Ice': no measure 'near'; it has none"):
        run_bench(path, tmp_path / "out")
    path.write_text(SUITE.replace('"near"', '"left"'))
    with pytest.raises(UsageError, match="two measures are named 'left'"):
        load_suite(path)


FORGED = {
    "raised": ({"near": 1.0}, "otherwise: measure 'near'"),
    "lowered": ({"left": 0.0}, "otherwise: measure 'left'"),
    "one bit": ({"near": 2.0**-52}, "otherwise: measure 'near'"),
    "unspent": ({"moves": -0.0}, "otherwise: measure 'moves'"),
    "another": ({"charm": 1.0}, "has the measures ['charm', 'left', 'moves', 'near', 'slips']"),
}


@pytest.mark.parametrize("change", FORGED)
def test_a_forged_measure_is_named(played: Path, tmp_path: Path, change: str) -> None:
    shutil.copytree(played, tmp_path / "copy")
    folder = folder_of(tmp_path / "copy", "random")
    values, problem = FORGED[change]

    episodes = read_episodes(folder)
    lost = next(n for n, e in enumerate(episodes) if e.env == "Corridor" and not e.won and n)
    episodes[lost] = replace(episodes[lost], measures={**(episodes[lost].measures or {}), **values})
    write_complete(folder, read_run(folder), episodes)
    for rerun in (False, None):
        verdict = verify_run(folder, rerun=rerun)
        assert not verdict.ok
        assert any(problem in str(found) for found in verdict.problems), verdict.problems


def test_a_later_measure_is_not_held_against_a_run(
    played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run keeps the measures that its environment had; the new column has a dash."""
    shutil.copytree(played, tmp_path / "copy")
    for name in ("random", "oracle"):
        folder = folder_of(tmp_path / "copy", name)
        earlier = [
            replace(e, measures={k: v for k, v in (e.measures or {}).items() if k != "slips"})
            for e in read_episodes(folder)
        ]
        write_complete(folder, read_run(folder), earlier)
        for rerun in (False, None):
            assert verify_run(folder, rerun=rerun).problems == ()
    found = rows_of(board_of(tmp_path / "copy"))["oracle"].envs["Corridor"].measures
    assert found.keys() == {"left", "moves", "near"}


def test_view_shows_the_measures_of_an_episode(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(played, "oracle")
    episode = next(e for e in read_episodes(folder) if e.env == "Corridor")
    assert main(["view", str(folder), "--episode", episode.id, "--delay", "0"]) == 0
    assert f"measures: left 0, moves {episode.length}, near 1, slips" in capsys.readouterr().out
