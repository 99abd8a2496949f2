"""What holds for every command: help, exit codes, and one line for bad input."""

import errno
import os
import re
import subprocess
import sys

import pytest

import agentgym
from agentgym.cli import main
from agentgym.cli.commands import make_parser
from agentgym.cli.parser import Commands
from agentgym.errors import UsageError
from tests.suite_texts import env_table, suite_text, write_suite


def commands_of(parser, *words):
    """Yield the commands of a parser and those within it, as words; without one that flags stand for."""
    groups = [action for action in parser._actions if isinstance(action, Commands)]
    for name, command in groups[0].choices.items() if groups else ():
        if name != parser.implied[0]:
            yield (*words, name)
            yield from commands_of(command, *words, name)


COMMANDS = list(commands_of(make_parser()))


def run_program(*words, **options):
    command = [sys.executable, "-m", "agentgym", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


@pytest.mark.parametrize("words", [(), *COMMANDS], ids=" ".join)
def test_help_has_an_example(cli, words):
    code, out, _ = cli(*words, "--help")
    assert code == 0
    assert f"example: agentgym {' '.join(words)}".strip() in " ".join(out.split())


def test_no_words_at_all_print_the_help(cli):
    assert cli() == cli("--help")
    assert cli()[0] == 0


def test_help_names_only_what_exists(cli):
    _, out, _ = cli("--help")
    listed = re.findall(r"^    ([a-z]+) ", out, re.MULTILINE)
    assert {"play", "bench", "site"} <= set(listed)
    for word in listed:
        assert cli(word, "--help")[0] == 0


def test_version(cli):
    assert cli("--version") == (0, f"agentgym {agentgym.__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("pla",), "there is no command 'pla' (did you mean 'play'?); see `agentgym --help`"),
        (("xyzzy",), "invalid choice: 'xyzzy'"),
        (("data",), "required: COMMAND; see `agentgym data --help`"),
        (("play",), "required: ENV; see `agentgym play --help`"),
        (("play", "x", "--sed", "3"), "unrecognized arguments: --sed 3"),
        (
            ("play", "x", "--seed", "three"),
            "argument --seed: a seed is a whole number of at least 0, got 'three'",
        ),
        (("view", "x", "--step", "1"), "name the episode with --episode ID: `agentgym view x` lists them"),
        (("leaderboard", "build"), "required: RESULTS"),
    ],
)
def test_malformed_commands(refused, words, complaint):
    assert complaint in refused(*words)


def test_debug_adds_the_traceback(cli):
    for words in (["--debug", "play", "nope"], ["play", "nope", "--debug"]):
        code, _, err = cli(*words)
        assert code == 2
        assert "Traceback (most recent call last)" in err
        assert err.splitlines()[-1].startswith("agentgym: ")


def failing_with(error, monkeypatch):
    def fail(arguments):
        raise error

    monkeypatch.setattr("agentgym.cli.envs.run", fail)


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (UsageError("two\nlines"), "agentgym: two lines\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "/x/run.json"),
            "/x/run.json: No space left on device",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "/x: Permission denied"),
    ],
)
def test_bad_input_is_one_line(refused, monkeypatch, error, complaint):
    failing_with(error, monkeypatch)
    assert complaint in refused("envs")


def test_interruption(cli, monkeypatch):
    failing_with(KeyboardInterrupt(), monkeypatch)
    assert cli("envs") == (130, "", "agentgym: interrupted\n")


def test_defects_are_not_hidden(monkeypatch):
    failing_with(ZeroDivisionError("a defect"), monkeypatch)
    with pytest.raises(ZeroDivisionError):
        main(["envs"])


def test_the_program_exits_with_the_code():
    refused = run_program("play", "agentgym/EZPonts-v0")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("agentgym: ")
    assert "did you mean 'agentgym/EZPoints-v0'?" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_reader_that_goes_away_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    program = subprocess.Popen(
        [sys.executable, "-m", "agentgym", "play", "agentgym/EZPoints-v0", "--agent", "random"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    _, err = program.communicate(timeout=300)
    assert program.returncode == 1
    assert err == ""


TOY = suite_text("toy", env_table("agentgym/EZPoints-v0", 2, label="EZ"), seed=3)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_the_work_is_done_where_streams_are_closed(closed, tmp_path):
    def run(*words):
        command = ["sh", "-c", f'exec "$0" -m agentgym "$@" {closed}', sys.executable, *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    suite, results = write_suite(tmp_path, TOY), tmp_path / "results"
    for words in (("bench", suite, "--out", results), ("leaderboard", "build", results), ("envs",)):
        done = run(*words)
        assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert "oracle" in (results / "LEADERBOARD.md").read_text()
    assert run("nonsense").returncode == 2


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from agentgym.cli import main; main(['--help']);"
        "sys.exit(any(name.split('.')[0] in ('rich', 'torch') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300).returncode == 0


def test_an_error_s_text_does_not_steer_the_terminal(refused):
    assert "\\x1b[2J" in refused("bench", "\x1b[2J\x07.toml")


def test_a_suite_is_benched_in_an_installation_without_torch(tmp_path):
    words = ["bench", "starter", "--env", "EZPoints", "--limit", "2", "--out", str(tmp_path)]
    code = f"import sys; sys.modules['torch'] = None; from agentgym.cli import main;sys.exit(main({words}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
