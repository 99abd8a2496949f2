"""The commands of README.md, docs and tutorials: which are executed, where, and what the others need."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agentgym.cli.commands import make_parser

ROOT = Path(__file__).resolve().parents[2]
TABLE = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "trainers" / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts),
]
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(
    r"(?:[A-Z_]+=\S+ )?(?:agentgym [a-z-]|make$|make |pip |python |torchrun |curl |vllm |printf )"
)
NEEDS_DATA = {"docs/tutorials/evaluate-alfworld.md"}


def commands(page):
    """Return the commands of a page, a line each, without comments."""
    found, pending = [], ""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    text = "\n".join(text for language, text in blocks if language in ("", "bash", "sh"))
    for line in text.replace("\\\n", " ").splitlines():
        pending = f"{pending} {line}" if pending else line.strip().removeprefix("$ ")
        if not COMMAND.match(pending):
            pending = ""
            continue
        try:
            shlex.split(pending, comments=True)
        except ValueError:  # a quotation that goes on
            continue
        found.append(re.sub(r"\s+", " ", re.sub(r"\s+#.*$", "", pending)).strip())
        pending = ""
    return found


def known_by(page, command):
    """Return how a command is known to work: executed, elsewhere, needs or nothing."""
    if page.relative_to(ROOT).as_posix() in TABLE["executed"]:
        return "executed"
    return next(
        (kind for kind in ("elsewhere", "needs") if any(re.fullmatch(p, command) for p in TABLE[kind])), ""
    )


def wheel_commands():
    """Return what `make test-wheel` executes, in its order."""
    found = dict.fromkeys(command for page in PAGES for command in commands(page))
    return [command for p in TABLE["wheel"] for command in found if re.fullmatch(p, command)]


def test_every_command_is_executed_or_says_what_it_needs(capsys):
    found = [(page, command) for page in PAGES for command in commands(page)]
    kinds = [known_by(page, command) for page, command in found]
    unknown = [
        f"{page.name}: {command}" for (page, command), kind in zip(found, kinds, strict=True) if not kind
    ]
    assert unknown == [], "say in tests/examples/commands.toml what executes it, or what it needs"
    counts = {kind: kinds.count(kind) for kind in ("executed", "elsewhere", "needs")}
    with capsys.disabled():
        sys.stdout.write(
            f"\n{len(kinds)} commands in the documentation: {counts['executed']} executed as they stand, "
            f"{counts['elsewhere']} by other tests, {counts['needs']} need what is not here\n"
        )


@pytest.mark.parametrize("kind", ["wheel", "elsewhere", "needs"])
def test_every_line_of_the_table_is_of_use(kind):
    all_commands = [command for page in PAGES for command in commands(page)]
    unused = [p for p in TABLE[kind] if not any(re.fullmatch(p, command) for command in all_commands)]
    assert unused == []
    if kind == "elsewhere":
        assert [path for path in TABLE[kind].values() if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_is_understood(page):
    for line in commands(page):
        words = shlex.split(line.removesuffix("&"))
        if "agentgym" in words and "pip" not in words and "-m" not in words[: words.index("agentgym")][:-1]:
            arguments = words[words.index("agentgym") + 1 :]
            assert callable(make_parser().parse_args(arguments).run), line


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.assets] * (name in NEEDS_DATA)) for name in TABLE["executed"]],
)
def test_a_tutorial_runs_to_its_end(name, tmp_path):
    execute(commands(ROOT / name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["README.md", "docs/quickstart.md"])
def test_a_first_page_runs_to_its_end(name, tmp_path):
    """`make test-core` runs it on the Python that it is given; what it installs is there."""
    recipe = "agentgym bench quick --out benchmarks/results --leaderboard benchmarks/results/LEADERBOARD.md"
    chosen = [
        recipe if line == "make bench" else line
        for line in commands(ROOT / name)
        if known_by(ROOT / name, line) == "elsewhere" and not line.startswith(("pip ", "make official "))
    ]
    assert chosen
    execute(chosen, tmp_path)


def execute(typed, tmp_path):
    """Execute commands in a folder with the examples, without a terminal; a line that ends in & serves."""
    for folder in ("examples", "indexes"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    lines = []
    for line in typed:
        lines.append(line)
        if line.endswith("&"):
            port = re.search(r"--port (\d+)", line)[1]
            lines.append(f"for i in $(seq 600); do (: > /dev/tcp/127.0.0.1/{port}) && break; sleep 0.2; done")
    script = "\n".join(["set -ex -o pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", *lines])
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "AGENTGYM_CACHE": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
