"""At a real terminal: drawing in place, keys, pictures, Ctrl-C."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.cli.terminal import COLUMNS, ROWS, Terminal, plain
from tests.suite_texts import env_table, suite_text
from tests.waiting import wait_until

SOKOBAN = ("play", "agentgym/Sokoban-v0", "--split", "test", "--seed", 7)
LEFT, UP, BACKSPACE, CTRL_C, CTRL_D = "\x1b[D", "\x1b[A", "\x7f", "\x03", "\x04"
SECOND_PAGE, FIRST_PAGE = "\x1b[?1049h", "\x1b[?1049l"


def test_keys_act_at_once_and_the_board_stays_in_place():
    with Terminal(*SOKOBAN) as terminal:
        screen = terminal.wait_for("\n> ")
        assert "# $###\n#   @#" in screen
        assert "$ box  . target  * box on target" in screen
        assert "Push every box onto a target" in screen
        assert "state " not in screen
        terminal.type(LEFT)
        assert "#  @ #" in terminal.wait_for("turn 1 of 120")
        terminal.type("w")
        terminal.wait_for("turn 2 of 120")
        terminal.type(BACKSPACE)
        assert "#  @ #" in terminal.wait_for("turn 1 of 120")
        terminal.type("zzz\r")
        assert "turn 1 of 120" in terminal.wait_for("no action 'zzz' here")
        terminal.type(":hash\r")
        terminal.wait_for("state ")
        terminal.type(":help\r")
        terminal.wait_for(":force TEXT")
        terminal.type(":quit\r")
        assert terminal.end() == 0
        before, _, after = terminal.written.rpartition(FIRST_PAGE)
        assert before.count(SECOND_PAGE) == 1
        assert "turn 1 of 120" in plain(after)
        assert plain(after).count("######") == 2  # the board once, not a log of them


def test_the_quickstart_shows_what_is_drawn():
    with Terminal(*SOKOBAN) as terminal:
        screen = terminal.wait_for("\n> ")
    drawn = "\n".join(line.rstrip() for line in screen.split("\n"))
    page = (Path(__file__).parents[2] / "docs" / "quickstart.md").read_text()
    assert f"$ agentgym {' '.join(map(str, SOKOBAN))}\n{drawn}\n```" in page


def test_the_board_is_coloured():
    with Terminal(*SOKOBAN) as terminal:
        terminal.wait_for("\n> ")
        assert "\x1b[1;93m$\x1b[0m" in terminal.written
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_what_is_typed_ahead_does_not_reach_the_shell():
    with Terminal(*SOKOBAN) as terminal:
        terminal.wait_for("\n> ")
        terminal.type(":quit\rrm -r precious\r")
        assert terminal.end() == 0
        assert terminal.unread() == b""
        assert terminal.settings_now() == terminal.settings


def test_watching_draws_in_place():
    with Terminal(*SOKOBAN, "--agent", "oracle", "--delay", "0.02") as terminal:
        terminal.type("ls\r")
        assert terminal.end() == 0
        assert terminal.written.count("\x1b[H\x1b[2K") == 19
        before, _, after = terminal.written.rpartition(FIRST_PAGE)
        assert before.count(SECOND_PAGE) == 1
        assert "success after 18 steps" in plain(after)
        assert "ls" not in plain(after)
        assert terminal.unread() == b""
        assert terminal.settings_now() == terminal.settings


def test_words_are_whole_and_nothing_ambiguous_is_played():
    with Terminal("play", "agentgym/ALFWorld-v0", "--seed", 3) as terminal:
        rows = terminal.wait_for("\n> ").split("\n")
        assert len(rows) <= ROWS
        assert max(map(len, rows)) <= COLUMNS
        observation = " ".join(rows[1:]).split()
        assert {"drawer", "shelf", "cabinet"} & set(observation)
        terminal.type("go to\r")
        assert "turn 0 of" in terminal.wait_for("'go to' could mean: go to ")
        terminal.type("zzz\r")
        assert "turn 0 of" in terminal.wait_for("no action 'zzz' here")
        terminal.type("1\r")
        assert "Your task is to:" in terminal.wait_for("turn 1 of")  # only the first observation says it
        terminal.type(":q\r")
        assert terminal.end() == 0


def test_long_observations_are_cut_and_printed_when_asked():
    with Terminal("play", "agentgym/WebShop-v0", "--seed", 3) as terminal:
        terminal.wait_for("\n> ")
        terminal.type("search[red shoe]\r")
        screen = terminal.wait_for("more lines; :all prints them")
        assert len(screen.split("\n")) <= ROWS
        terminal.type(":all\r")
        terminal.wait_for("Enter continues")
        whole = plain(terminal.written.rpartition(FIRST_PAGE)[2])
        assert len(whole.split("\n")) > ROWS
        assert "more lines" not in whole
        terminal.type("\r")
        terminal.wait_for("more lines; :all prints them")
        terminal.type(":q\r")
        assert terminal.end() == 0


def test_pictures_are_half_blocks():
    words = ("play", "agentgym/VisualSokoban-v0", "--split", "test", "--seed", 7)
    with Terminal(*words) as terminal:
        screen = terminal.wait_for("\n> ")
        assert "[image" not in screen
        assert screen.count("▀") == 32 * 16
        assert "\x1b[38;2;" in terminal.written
        assert len(screen.split("\n")) <= ROWS
    with Terminal(*words, COLORTERM="", TERM="xterm") as terminal:  # 16 colours
        screen = terminal.wait_for("\n> ")
        assert "[image, 96 x 96]" in screen
    with Terminal(*words, TERM="dumb") as terminal:  # cannot move its cursor
        terminal.wait_for("\n> ")
        assert "\x1b[H" not in terminal.written
        assert "[image, 96 x 96]" in plain(terminal.written)


def test_ids_are_whole_at_80_columns():
    with Terminal("envs") as terminal:
        assert terminal.end() == 0
        lines = plain(terminal.written).splitlines()
        assert "agentgym/VisualSokoban-v0  120 steps, enumerated actions" in lines
        assert "  builtin: train (10,000), valid (1,000), test (1,000)" in lines
        assert max(map(len, lines)) <= COLUMNS


def test_ctrl_c_while_playing_is_one_line():
    for agent in ("human", "oracle"):
        with Terminal(*SOKOBAN, "--agent", agent, "--delay", "30") as terminal:
            terminal.wait_for("turn 0 of 120")
            terminal.type(CTRL_C)
            assert terminal.end() == 130
            after = plain(terminal.written.rpartition(FIRST_PAGE)[2])
            assert after.split("\n") == ["", "agentgym: interrupted", ""]
            assert terminal.settings_now() == terminal.settings


INTERRUPTER = """
import os, signal, sys
class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"] and self in sys.meta_path:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupter())
"""


@pytest.mark.parametrize(
    ("place", "program"),
    [
        ("numpy", "module"),
        ("numpy", "script"),
        ("gymnasium", "script"),
        ("agentgym.env", "module"),
        ("agentgym.cli.parser", "script"),
        ("agentgym.registration", "module"),
        ("rich.console", "module"),
        ("rich.console", "script"),
    ],
)
def test_ctrl_c_while_importing_is_one_line(tmp_path, program, place):
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTER)
    script = tmp_path / "agentgym"
    script.write_text("import sys\nfrom agentgym.cli import main\nsys.exit(main())\n")
    command = ["-m", "agentgym"] if program == "module" else [str(script)]
    paths = [str(tmp_path), os.getcwd(), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, *command, "play", "agentgym/Sokoban-v0"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "INTERRUPT_AT": place},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (130, "agentgym: interrupted\n")


def importing(program, out):
    return "numpy" in Path(f"/proc/{program.pid}/maps").read_text()


def playing(program, out):
    return any(out.rglob("episodes.jsonl"))


def test_ctrl_c_at_any_moment_of_a_benchmark_is_one_line(tmp_path):
    suite = tmp_path / "long.toml"
    boxes = env_table("agentgym/Sokoban-v0", 10_000, split="train")
    suite.write_text(suite_text("long", boxes, seed=0, attempts=1))
    for number, begun in enumerate((importing, playing)):
        program = subprocess.Popen(
            [sys.executable, "-m", "agentgym", "bench", suite, "--out", tmp_path / str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(partial(begun, program, tmp_path / str(number)))
        program.send_signal(signal.SIGINT)
        _, err = program.communicate(timeout=300)
        assert program.returncode == 130
        kept = ": what has ended is kept, and the same command plays the rest"
        assert err.splitlines()[-1] in ("agentgym: interrupted", f"agentgym: interrupted{kept}")
        assert "Traceback" not in err


def test_importing_the_package_leaves_ctrl_c_alone():
    code = "import agentgym, signal; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    assert subprocess.run([sys.executable, "-c", code], timeout=300).returncode == 0
