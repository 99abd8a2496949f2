"""What visitors play is recorded as runs, and the command that serves them."""

import re
import socket

from agentgym.cli import main
from agentgym.errors import UsageError
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.suites.suite import load_suite
from agentgym.evaluation.verify.verification import verify_run
from agentgym.serving.http_server import SiteServer
from tests.serving.conftest import Visit


def test_recordings_verify(serve, tmp_path, capsys):
    """Episodes of several splits, a bought and a missed one, a task played twice, one never ended."""
    said = []
    _, server = serve(record=tmp_path, options={"max_steps": 4, "noise": 0.5}, say=said.append, seed=11)
    visitor = Visit(server)
    visitor.get("/")
    assert list(tmp_path.iterdir()) == []
    visitor.search("shoe")
    visitor.click(next(text for text in visitor.page.choices() if text.startswith("B1")))
    _, text = visitor.click("Buy Now")
    assert "This episode has been recorded" in text
    (first,) = tmp_path.glob("webshop-*/human")
    assert verify_run(first).ok
    done = read_episodes(first)[0]
    visitor.begin(task=done.task_id)
    for query in "abc":
        visitor.search(query)
    assert "Not recorded: you have played this task before." in visitor.search("d")[1]
    visitor.begin(split="valid")
    for query in "abcd":
        visitor.search(query)
    visitor.post("/next")
    visitor.search("never ended")
    visitor.begin(split="test")
    for query in "abcd":
        visitor.search(query)
    episodes, run = read_episodes(first), read_run(first)
    assert [(one.env, one.length) for one in episodes] == [
        ("WebShop test", 3), ("WebShop valid", 4), ("WebShop test", 4),
    ]  # fmt: skip
    assert (run.agent.kind, run.agent.name) == ("human", "human")
    assert all(one.model_seconds > 0 and one.env_seconds > 0 for one in episodes)
    verdict = verify_run(first)
    assert (verdict.ok, verdict.badge, verdict.episodes, verdict.steps) == (True, "replayed", 3, 11)
    assert len(said) == 4
    assert said[0].startswith(f"visitor 1: task {done.task_id}, 3 steps, score ")
    assert sum("recorded in" in line for line in said) == 3
    suite = next((tmp_path / "suites").iterdir())
    assert load_suite(suite).env[0].tasks == (episodes[0].task_id, episodes[2].task_id)
    assert main(["verify", str(first)]) == 0
    forged = (first / "episodes.jsonl").read_text().replace("search[a]", "search[b]", 1)
    (first / "episodes.jsonl").write_text(forged)
    assert main(["verify", str(first)]) == 1


def test_agents_play_what_a_person_played(serve, tmp_path, capsys):
    _, server = serve(record=tmp_path, options={"max_steps": 2})
    visitor = Visit(server)
    visitor.get("/")
    for _ in range(2):
        visitor.search("shoe")
        visitor.search("lamp")
        visitor.post("/next")
    (suite,) = (tmp_path / "suites").iterdir()
    assert main(["bench", str(suite), "--out", str(tmp_path), "--verify"]) == 0
    assert main(["leaderboard", "build", str(tmp_path), "--out", str(tmp_path / "board.md")]) == 0
    board = (tmp_path / "board.md").read_text()
    assert all(name in board for name in ("human", "oracle", "random"))


def test_a_full_disk_is_said(serve, tmp_path, monkeypatch):
    _, server = serve(record=tmp_path, options={"max_steps": 1})
    visitor = Visit(server)
    visitor.get("/")

    def full(path, text):
        raise UsageError(f"cannot write {path}: No space left on device")

    monkeypatch.setattr("agentgym.evaluation.log.recordings.replace_file", full)
    response, text = visitor.search("lamp")
    assert response.status == 400
    assert "No space left on device" in text


def test_the_command_says_what_is_wrong(capsys, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = ["serve", "webshop", "--port", str(port)]
        assert main(words) == 2
        assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    for words, message in (
        (["--split", "tset"], "did you mean 'test'?"),
        (["--option", "tager=words"], "did you mean 'tagger'?"),
        (["--option", "split=test"], "use --split"),
        (["--port", "70000"], "ports end at 65535"),
        (["--allow-host", "http://x"], "cannot allow host 'http://x': give a name without scheme"),
        (["--record", str(tmp_path / "file" / "x")], "cannot make folder"),
    ):
        assert main(["serve", "webshop", *words]) == 2
        assert message in capsys.readouterr().err


def test_the_command_serves_until_it_is_interrupted(monkeypatch, capsys):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(SiteServer, "serve_forever", interrupted)
    assert main(["serve", "webshop", "--port", "0"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"WebShop is open at http://127\.0\.0\.1:[1-9]\d*/", said)
