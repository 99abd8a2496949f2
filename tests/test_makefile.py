"""The Makefile: it is short, its targets are what pages name, and each of them can be planned."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE)
PEERS = sorted(path.stem for path in (ROOT / "tools" / "peers").glob("*.txt"))
QUOTED = re.compile(r"`make ([^`\n]+)`")
STAGE = re.compile(r"^ *(?:stage \d+|make) ([^#\n]+)", re.MULTILINE)
BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)

FOR_USERS = ("install", "test", "bench", "train-demo", "leaderboard", "docs", "check")


def texts():
    """Yield the files that may name targets; the changelog names those of old."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in tracked.splitlines():
        path = ROOT / name
        read = path.suffix in (".md", ".py", ".sh", ".toml", ".yaml", ".yml") or name == ".ci/run"
        if read and name != "CHANGELOG.md" and path.is_file():
            yield name, path.read_text(encoding="utf-8")


def named(name, text):
    """Return the targets that a file names, without settings such as ``SUITE=quick``."""
    scripts = [text] if name == ".ci/run" else BLOCK.findall(text) if name.endswith(".md") else []
    calls = QUOTED.findall(text) + [call for script in scripts for call in STAGE.findall(script)]
    words = {
        word
        for call in calls
        for word in call.partition("&&")[0].split()
        if re.fullmatch(r"[a-z.][\w./-]*", word)
    }
    return {word for word in words if "make" not in word}


def planned(*words):
    return subprocess.run(["make", "-n", *words], cwd=ROOT, capture_output=True, text=True)


def test_it_is_short_and_names_no_file_of_tests():
    assert len(MAKEFILE.splitlines()) <= 180
    assert re.findall(r"test_(?!\*)\w+\.py", MAKEFILE) == []


def test_every_target_that_is_named_is_there():
    known = {*TARGETS, *re.findall(r"^(runs/\S+):", MAKEFILE, re.MULTILINE)}
    known |= {f".venv-{peer}/.installed" for peer in PEERS} | {".venv/.installed-docs"}
    for name, text in texts():
        assert named(name, text) <= known, name


def test_the_stages_of_ci_are_targets():
    """Those that run two at a time; `test_every_target_that_is_named_is_there` reads the others."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").replace("\\\n", " ")
    (stages,) = re.findall(r"printf '%s\\n' (.*?) \|", script)
    assert set(re.findall(r"[a-z]+(?:-[a-z]+)*", stages)) <= set(TARGETS)


def test_help_shows_first_what_users_need():
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    first, _, rest = done.stdout.partition("\nFor those who change agentgym:\n")
    assert re.findall(r"^  make (\S+)", first, re.MULTILINE)[0] == "help"
    assert set(FOR_USERS) <= set(re.findall(r"^  make (\S+)", first, re.MULTILINE))
    shown = set(re.findall(r"^  (?:make )?([a-z-]+) ", first + "\n" + rest, re.MULTILINE))
    assert shown == set(TARGETS) - {"core-tests"}


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_can_be_planned(target):
    done = planned(target)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_s_environment_is_made_of_commands_of_pip(peer):
    lines = (ROOT / "tools" / "peers" / f"{peer}.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    commands = [line.split() for line in lines.splitlines() if not line.startswith("#")]
    assert {words[0] for words in commands} <= {"install", "uninstall"}
    assert (
        f'tools/peer.sh "python" {peer}' in planned("-B", f".venv-{peer}/.installed", "PYTHON=python").stdout
    )


@pytest.mark.parametrize("script", sorted((ROOT / "tools").glob("*.sh")), ids=lambda path: path.name)
def test_a_script_is_understood(script):
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0


def test_the_workflow_runs_the_whole_check():
    workflow = (ROOT / ".github" / "workflows" / "check.yml").read_text(encoding="utf-8")
    assert "\n      - run: .ci/run\n" in workflow
    oldest = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert re.findall(r"^ {12}(\d\.\d+)$", workflow, re.MULTILINE)[-1] == oldest[1]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
