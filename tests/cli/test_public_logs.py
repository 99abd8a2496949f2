"""Logs as others publish them: their dialects, the list of public ones, and rows that say what they are."""

import copy
import hashlib
import json
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from agentgym.data.fetching import Fetcher
from agentgym.errors import UsageError
from agentgym.evaluation.board.leaderboard import build_leaderboard
from agentgym.evaluation.imports import react, sources
from agentgym.evaluation.imports.dialects import DIALECTS, read_log
from agentgym.evaluation.imports.importing import LogSource, import_log
from agentgym.evaluation.imports.sources import PublicLog, fetch_log, public_names
from agentgym.evaluation.suites import suite_file
from agentgym.evaluation.suites.suite import SuiteEnv, load_suite
from agentgym.evaluation.verify.verification import verify_run
from benchmarks.bridges import logs
from benchmarks.bridges.logs import FEW_GAMES, played, replayed

ENV = SuiteEnv(FEW_GAMES, "ALFWorld", "valid_seen", tasks=0)
WRITERS = {
    "knowagent": logs.as_knowagent,
    "adapt": logs.as_adapt,
    "conversations": logs.as_conversations,
    "tales": logs.as_tales,
    "react-viewer": logs.as_react_viewer,
    "self-improvement": logs.as_self_improvement,
}
ALL = WRITERS | {"react": logs.as_react, "verl-agent": logs.as_verl_agent, "jsonl": logs.as_jsonl}
STATED = {"knowagent", "adapt", "tales", "react-viewer"}
"""Dialects that state who won."""


@pytest.fixture(scope="module")
def games():
    return played(FEW_GAMES, "rules", tasks=4, options={"split": "valid_seen"})


def imported(folder: Path, text: str, dialect: str, **stated: str):
    path = folder / f"{dialect}.json"
    path.write_text(text, encoding="utf-8")
    return import_log(LogSource(path, dialect, "theirs", "A et al.", **stated), ENV, folder / "results")


@pytest.mark.parametrize("dialect", WRITERS)
def test_a_published_form_is_played_without_a_difference(dialect, games, tmp_path):
    run = imported(tmp_path, WRITERS[dialect](games), dialect)
    steps = sum(len(game["steps"]) for game in games)
    assert (run.mismatches, run.not_found, run.episodes, run.steps) == ((), (), 4, steps)
    last = 0 if dialect == "self-improvement" else 4  # which logs what is seen before each action
    assert run.compared["observation"] == steps + last
    assert run.compared.get("success", 0) == (4 if dialect in STATED else 0)
    assert (run.won, verify_run(run.folder).ok) == (4, True)


@pytest.mark.parametrize("dialect", WRITERS)
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_changed_action_or_observation_is_found_at_its_step(dialect, step, games, tmp_path):
    for key, value in (("action", "fly away"), ("observation", "A wall.")):
        changed = copy.deepcopy(games)
        changed[1]["steps"][step - 1][key] = value
        assert len(changed[1]["steps"]) > step
        found = imported(tmp_path, WRITERS[dialect](changed), dialect).mismatches[0]
        assert (found.step, found.quantity) == (step, "observation")


@pytest.mark.parametrize("dialect", sorted(STATED))
def test_a_false_win_is_found(dialect, games, tmp_path):
    lost = [games[0] | {"success": False, "steps": games[0]["steps"]}, *games[1:]]
    assert [one.quantity for one in imported(tmp_path, WRITERS[dialect](lost), dialect).mismatches] == [
        "success"
    ]


@pytest.mark.parametrize(("own", "wrong"), [*permutations(ALL, 2)])
def test_a_wrong_dialect_s_message_names_the_right_one(own, wrong, games, tmp_path):
    path = tmp_path / "log.json"
    path.write_text(ALL[own](games), encoding="utf-8")
    with pytest.raises(UsageError) as refused:
        read_log(path, wrong, ())
    assert str(refused.value) == f"{path} is not of the dialect {wrong}: use --dialect {own}"


def test_a_file_that_no_dialect_reads_keeps_its_own_message(tmp_path):
    path = tmp_path / "log.json"
    path.write_text('{"timestamp": "2026", "results": []}')
    for dialect in DIALECTS:
        with pytest.raises(UsageError, match=r"^[^\n]+$") as refused:
            read_log(path, dialect, ())
        assert "--dialect" not in str(refused.value)


def test_react_reads_adapt_s_traces_as_text(games, tmp_path):
    record = json.loads(logs.as_adapt(games))["pick_and_place"][games[0]["task"]]
    text = f"{record['problem']}\n>{record['trace']}"
    run = imported(tmp_path, text, "react")
    assert (run.mismatches, run.steps) == ((), len(games[0]["steps"]))


def test_react_knows_masked_and_left_out_locations():
    ours = "You arrive at loc 12. The safe 1 is closed."
    assert react.agrees("You arrive at the location. The safe 1 is closed.", ours)
    assert react.agrees("The safe 1 is closed.", ours)
    assert not react.agrees("You arrive at loc 13. The safe 1 is closed.", ours)
    assert not react.agrees("You arrive at the location. The safe 1 is open.", ours)
    assert not react.agrees("You arrive at the location. The safe 1 is closed.", "The safe 1 is closed.")


def test_purchases_of_adapt_are_played_by_the_number_of_their_goal(tmp_path):
    env = SuiteEnv("agentgym/WebShop-v0", "WebShop", "test", tasks=0, metric="score")
    game = logs.open_env("agentgym/WebShop-v0", split="test")
    bought = played("agentgym/WebShop-v0", "oracle", options={"split": "test"})
    numbered = [one | {"task": game.tasks.find(one["task"]).source_id} for one in bought]
    numbers = [one["task"].rpartition("/")[2] for one in numbered]
    path = tmp_path / "log.json"
    path.write_text(
        logs.as_adapt_purchases([one | {"task": n} for one, n in zip(bought, numbers, strict=True)])
    )
    episodes = read_log(path, "adapt", ())
    assert [one.task for one in episodes] == numbers
    actions = [[step["action"].lower() for step in one["steps"]] for one in bought]
    assert [[step.action for step in one.steps] for one in episodes] == actions
    named = json.loads(path.read_text())
    assert all("think[" in one["action_history"][0] for one in named.values())
    again = [
        replayed(game, one["task"], [s.action for s in e.steps])
        for one, e in zip(bought, episodes, strict=True)
    ]
    assert [one["score"] for one in again] == [one.score for one in episodes]
    assert env.metric == "score"


def test_rows_of_several_models_are_one_line(games, tmp_path):
    rows = logs.as_tales(games).replace("a-model", "b-model", 1)
    path = tmp_path / "rows.jsonl"
    path.write_text(rows)
    with pytest.raises(UsageError, match=r"rows of 2 agents \(a-model \(zero-shot\), b-model"):
        read_log(path, "tales", ())


@pytest.mark.parquet
def test_rows_are_read_from_parquet(games, tmp_path):
    import pyarrow
    from pyarrow import parquet

    rows = [json.loads(line) for line in logs.as_tales(games).splitlines()]
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert len(read_log(path, "tales", ())) == 4
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UsageError, match="not a complete Parquet file"):
        read_log(path, "tales", ())


def test_part_of_a_panel_is_not_ranked_with_the_whole(games, tmp_path):
    whole = {"panel": "few", "panel_sha256": "0" * 64}
    first = imported(tmp_path, logs.as_knowagent(games), "knowagent")
    assert "the whole panel valid_seen of 4 tasks" in json.loads(first.report.read_text())["panel"]
    part = imported(tmp_path, logs.as_knowagent(games[:3]), "knowagent", public="theirs", **whole)
    assert "a part of valid_seen, 3 of 4 tasks" in json.loads(part.report.read_text())["panel"]
    assert part.folder.parent.name.startswith("import-")
    boards = build_leaderboard(tmp_path / "results", tmp_path / "LEADERBOARD.md", allow=[FEW_GAMES]).boards
    assert [len(board.rows) for board in boards] == [1, 1]
    page = (tmp_path / "LEADERBOARD.md").read_text()
    assert "replayed from a public log: A et al.; a part of valid_seen, 3 of 4 tasks" in page
    assert "imported: A et al.; the whole panel valid_seen of 4 tasks" in page


def test_a_named_panel_makes_one_suite_of_several_logs(games, tmp_path):
    ids = sorted(game["task"] for game in games[:3])
    order = [task.id for task in logs.open_env(FEW_GAMES, split="valid_seen").tasks if task.id in ids]
    sha256 = hashlib.sha256(json.dumps(order, separators=(",", ":")).encode()).hexdigest()
    panel = {"panel": "few", "panel_sha256": sha256, "public": "theirs"}
    one = imported(tmp_path, logs.as_knowagent(games[:3]), "knowagent", **panel)
    other = imported(tmp_path, logs.as_adapt(games[2::-1]), "adapt", **panel)
    assert one.folder == other.folder == tmp_path / "results" / "few" / "theirs"
    assert "the whole panel few of 3 tasks" in json.loads(one.report.read_text())["panel"]


def listed(log: PublicLog, folder: Path, monkeypatch) -> None:
    text = "".join(
        f"{key} = {json.dumps(getattr(log, key))}\n"
        for key in PublicLog.__dataclass_fields__
        if key != "options"
    )
    (folder / "sources.toml").write_text(f"[log.theirs]\n{text}")
    monkeypatch.setattr(sources, "SOURCES", folder / "sources.toml")


def test_a_public_log_is_fetched_by_its_digest_and_played(games, tmp_path, cli, monkeypatch):
    raw = logs.as_knowagent(games).encode()
    known = PublicLog.named("knowagent-d0")
    log = replace(
        known, path="logs/few.jsonl", size=len(raw), sha256=hashlib.sha256(raw).hexdigest(), env=FEW_GAMES,
        split="valid_seen", options={}, panel="", panel_sha256="",
    )  # fmt: skip
    listed(log, tmp_path, monkeypatch)
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "data"))
    mirror = tmp_path / "checkouts" / "theirs"
    mirror.mkdir(parents=True)
    (mirror / "renamed.jsonl").write_bytes(raw[:-2] + b"  ")
    words = ("import", "--source", "theirs", "--mirror", mirror, "--only-mirror", "--out", tmp_path / "out")
    code, shown, err = cli(*words)
    assert (code, "its sha256 is" in err, err.count("\n")) == (2, True, 1)
    (mirror / "renamed.jsonl").write_bytes(raw)
    code, shown, err = cli(*words)
    assert code == 0, err
    assert "reported: 134 of 510 won; replayed: 4 of 4 won" in shown
    assert "licence: Apache-2.0" in shown
    (mirror / "renamed.jsonl").unlink()
    assert (
        fetch_log("theirs", log, Fetcher(str(mirror), only_mirror=True)).read_bytes() == raw
    )  # from the cache
    data = tmp_path / "data" / "logs"
    data.mkdir(parents=True)
    (data / "any name").write_bytes(raw)
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "other"))
    assert fetch_log("theirs", log, Fetcher(str(mirror), only_mirror=True)) == data / "any name"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--source", "knowagent-d9"), "unknown public log 'knowagent-d9' (did you mean 'knowagent-d1'?)"),
        (("--source", "knowagent-d0", "--env", "x"), "--source says everything but --out: leave out env"),
        (("--source", "knowagent-d0", "--option", "a=1"), "leave out option"),
        (("log.jsonl",), "name a log and its --dialect, or a public log with --source"),
        (
            ("log.jsonl", "--dialect", "reakt", "--env", "x"),
            "unknown dialect 'reakt' (did you mean 'react'?)",
        ),
    ],
)
def test_bad_words_are_one_line(cli, words, message):
    code, _, err = cli("import", *words)
    assert (code, message in err, err.count("\n")) == (2, True, 1)


def test_every_listed_log_names_what_it_needs():
    assert len(public_names()) == 7
    for name in public_names():
        log = PublicLog.named(name)
        assert log.dialect in DIALECTS
        assert len(log.commit) == 40
        assert log.file.urls[0].startswith(
            f"https://raw.githubusercontent.com/{log.repository}/{log.commit}/"
        )
        env, suite = log.played
        assert (suite is None) == (log.suite == "")
        assert env.split in ("train", "valid_seen", "valid_unseen", "upstream-test")


def test_the_committed_suite_is_the_panel_of_knowagent_s_logs():
    suite = load_suite(Path("benchmarks/suites/knowagent-alfworld-train.toml"))
    tasks = suite.env[0].tasks
    sha256 = hashlib.sha256(json.dumps(tasks, separators=(",", ":")).encode()).hexdigest()
    assert (len(tasks), sha256) == (510, PublicLog.named("knowagent-d1").panel_sha256)
    assert load_suite(suite_file("official-alfworld-unseen-game")).env[0].tasks == 134


@pytest.mark.assets
@pytest.mark.slow
def test_adapt_s_published_file_has_the_107_wins_that_its_authors_report(tmp_path):
    log = PublicLog.named("adapt-alfworld")
    path = fetch_log("adapt-alfworld", log, Fetcher())
    env, suite = log.played
    run = import_log(log.source("adapt-alfworld", path), env, tmp_path, suite=suite)
    assert (run.episodes, run.steps, run.won, run.mismatches) == (134, 1456, 107, ())
    assert run.compared == {"observation": 1590, "success": 134}
    table = json.loads(path.read_text())
    cut = [(kind, game) for kind in table if kind != "overall" for game in table[kind]]
    for kind, game in cut:  # without the first actions of subtasks, 20 won games are lost
        trace = table[kind][game]["trace"]
        table[kind][game]["trace"] = "\n>".join(
            part for part in trace.split("\n>") if not part.strip(" ").startswith("\n") or not part.strip()
        )
    (tmp_path / "cut.json").write_text(json.dumps(table))
    source = replace(log.source("adapt-alfworld", tmp_path / "cut.json"), agent="cut")
    assert import_log(source, env, tmp_path, suite=suite).won == 87


@pytest.mark.assets
@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps", "won"), [("knowagent-d0", 8991, 134), ("knowagent-d1", 8948, 182)])
def test_knowagent_s_published_files_are_of_one_panel(name, steps, won, tmp_path):
    log = PublicLog.named(name)
    run = import_log(log.source(name, fetch_log(name, log, Fetcher())), log.played[0], tmp_path)
    assert (run.episodes, run.steps, run.won, run.mismatches) == (510, steps, won, ())
    assert run.folder == tmp_path / "knowagent-alfworld-train" / log.agent
