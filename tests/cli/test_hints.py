"""Errors that name the right remedy, in one line."""

import json

import pytest

from agentgym.endpoint.spec import EndpointSpec
from agentgym.endpoint.transport import _read_key
from agentgym.errors import UsageError
from agentgym.registration import open_env, open_vector
from tests.cli.terminal import Terminal


@pytest.mark.parametrize(
    ("typed", "meant"), [("Sokoban", "Sokoban"), ("hotpotqa", "HotpotQA"), ("Sokobn", "Sokoban"), ("Go", "")]
)
def test_an_id_without_namespace_and_version(refused, typed, meant):
    complaint = refused("play", typed)
    assert f"unknown id {typed!r}" in complaint
    assert (f"did you mean 'agentgym/{meant}-v0'?" in complaint) == bool(meant)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("bnech",), "there is no command 'bnech' (did you mean 'bench'?); see `agentgym --help`"),
        (("data", "lst"), "there is no command 'lst' (did you mean 'list'?); see `agentgym data --help`"),
        (
            ("bench", "nofile.toml"),
            "there is no suite file nofile.toml: name an existing file, or one of demo, ",
        ),
    ],
)
def test_a_command_or_file_that_is_not_there(refused, words, line):
    assert line in refused(*words)


def test_an_agent_of_ones_own_joins_a_shipped_suite(cli, refused, tmp_path):
    words = ("bench", "starter", "--env", "EZPoints", "--limit", "2", "--out", tmp_path, "--agent")
    code, *shown = cli(*words, "examples.own_agent:make", "--option", "memory=3")
    (folder,) = tmp_path.glob("starter-EZPoints-first2/examples.own_agent-make-*")
    agent = json.loads((folder / "run.json").read_text())["agent"]
    assert (agent["kind"], agent["options"]) == ("examples.own_agent:make", {"memory": 3})
    assert code == 0, shown
    assert "module examples.own_agent has no 'mke' (did you mean 'make'?)" in refused(
        *words, "examples.own_agent:mke"
    )
    assert "a Markdown page: name a file that ends in .md" in refused(
        *words, "rules", "--leaderboard", tmp_path / "board.txt"
    )
    assert not list(tmp_path.glob("*/rules-*"))  # nothing was played
    assert "option memory must be a whole number, got 'abc'" in refused(
        *words, "examples.own_agent:make", "--option", "memory=abc"
    )


@pytest.mark.parametrize("command", ["view", "judge", "verify"])
def test_a_run_that_is_not_there(refused, command):
    assert "cannot read nope/run.json: No such file or directory; name the folder of a run" in refused(
        command, "nope"
    )


def test_a_training_run_that_is_not_there(refused):
    assert "cannot read runs/nope: No such file or directory; name a training run's folder" in refused(
        "train", "--resume", "runs/nope"
    )


def test_a_submission_that_is_not_there(cli, refused):
    name = "nope.submission.zip"
    said = f"there is no file {name}: name one that `agentgym submit pack` wrote\n"
    assert cli("submit", "check", name) == (1, f"{name}: {said}", "")
    assert refused("view", name, "--episode", "1") == f"agentgym: {said}"


def test_a_key_that_is_not_there(monkeypatch, refused):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    spec = EndpointSpec("http://localhost:9/v1", "m", key_env="NO_SUCH_KEY")
    with pytest.raises(UsageError, match=r"variable NO_SUCH_KEY, or name none \(--key-env"):
        _read_key(spec)
    words = ("bench", "quick", "--endpoint", "http://localhost:9/v1", "--model", "m", "--key-env", "nokey")
    assert "key_env (--key-env) is the name of an environment variable" in refused(*words)


def test_actions_without_numbers(cli):
    _, out, _ = cli("play", "agentgym/EZPoints-v0", stdin="1\n")
    assert "no action '1' here: choose one of 5, 7, +, *, =\n" in out
    with Terminal("play", "agentgym/EZPoints-v0") as terminal:
        assert "type an action, Tab completes" in terminal.wait_for("\n> ")
    with Terminal("play", "agentgym/ALFWorld-v0", "--seed", 3) as terminal:
        assert "type an action or its number, Tab" in terminal.wait_for("\n> ")


@pytest.mark.parametrize("opened", [open_env, lambda *a, **k: open_vector(a[0], 2, **k)])
def test_options_that_are_not_in_options(opened):
    with pytest.raises(UsageError, match=r"options=\{'dim_room': ...\}; agentgym\.make(_vec)? takes them as"):
        opened("agentgym/Sokoban-v0", dim_room=(7, 7))
    opened("agentgym/Sokoban-v0", options={"dim_room": (7, 7)}).close()


def test_a_part_of_a_suite_is_tied_packed_and_checked(cli, tmp_path):
    """The archive of a suite that no package ships comes with the suite, where ``check`` looks for it."""
    code, out, _ = cli("bench", "starter", "--env", "EZPoints", "--limit", "2", "--out", tmp_path)
    assert code == 0
    assert "A rank with = is a tie: 2 tasks cannot show a difference between these agents." in out
    (folder,) = tmp_path.glob("starter-EZPoints-first2/rules-*")
    code, out, _ = cli("submit", "pack", folder, "--out", tmp_path / "submissions")
    assert code == 0
    assert "starter-EZPoints-first2.toml (the suite, which does not ship with agentgym: send it too)" in out
    (archive,) = tmp_path.glob("submissions/starter-EZPoints-first2/*.zip")
    code, out, _ = cli("submit", "check", archive)
    assert code == 0, out
