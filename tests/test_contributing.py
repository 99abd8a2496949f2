"""The files that CONTRIBUTING.md lists for a measure, a column, an agent and a command are all it takes."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.suite_texts import ORACLE, RANDOM, env_table, suite_text

ROOT = Path(__file__).resolve().parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

AGENT = '''"""The agent ``first``: always the first admissible action."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.core.types import Completion, Policy, Request
from agentgym.vector.core import AgentVectorEnv


def make_first(envs: AgentVectorEnv) -> Policy:
    """Make the agent ``first``."""
    return FirstPolicy()


class FirstPolicy:
    """The first admissible action of every turn."""

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Choose an action per request."""
        return [Completion(next(iter(request.admissible_actions), "")) for request in requests]
'''

COMMAND = '''"""``agentgym hello NAME``: greet somebody."""

from __future__ import annotations

import argparse
import sys

from agentgym.cli.commands import COMMANDS
from agentgym.cli.parser import Commands, Parser, add_command


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    parser = add_command(commands, "hello", run, about=COMMANDS["hello"], example="agentgym hello Ada")
    parser.add_argument("name", metavar="NAME")


def run(arguments: argparse.Namespace) -> int:
    """Print the greeting."""
    sys.stdout.write(f"Hello, {arguments.name}.\\n")
    return 0
'''

MEASURE = {
    "agentgym/envs/ezpoints/env.py": [
        (
            "    def _state(self) -> Tokens:\n",
            "    def _measures(self) -> dict[str, float]:\n"
            '        return {"tokens": float(len(self._tokens))}\n\n',
        )
    ],
    "agentgym/envs/ezpoints/suite.py": [
        (
            "from agentgym.core.suite_spec import PromptDefaults",
            "import math\n\nfrom agentgym.core.suite_spec import Measure\n",
        ),
        (
            "    tools=(Tool(",
            '    measures=(Measure(name="tokens", about="tokens written", bounds=(0, math.inf)),),\n',
        ),
    ],
}
"""By file: the lines before which others go."""

COLUMN = {
    "agentgym/core/suite_spec.py": [('    "score", "success", "invalid",', '    "returns",\n')],
    "agentgym/evaluation/board/scoring.py": [
        ("    ends: Mapping[str, int]\n", '    returns: Estimate\n    """Sum of an episode\'s rewards."""\n'),
        (
            "            ends=dict(",
            "            returns=t_interval(\n"
            "                self.values(lambda episode: episode.episode_return).mean(axis=(0, 2)),\n"
            "                (-np.inf, np.inf),\n"
            "            ),\n",
        ),
    ],
    "agentgym/evaluation/board/tables.py": [
        ('    head += ["Tokens / success"] * tokens', '    head += ["Return"]\n'),
        (
            "            cells += [_one_decimal(result.tokens_per_success)] * tokens\n",
            "            cells += [_one_decimal(result.returns)]\n",
        ),
    ],
    "agentgym/evaluation/board/exports.py": [],  # its version is raised
}

IN_TABLE = {
    "agentgym/agents/table.py": [
        (
            '    "random-strings": AgentEntry(\n',
            '    "first": AgentEntry("agentgym.agents.first:make_first", "first action", repeatable=True),\n',
        )
    ],
    "docs/trust.md": [("`walkthrough`) are always re-run", "`first`, ")],
}

IN_LIST = {
    "agentgym/cli/commands.py": [('}\n"""Description of each command', '    "hello": "Greet somebody.",\n')],
}


@pytest.fixture
def checkout(tmp_path):
    """Return a copy of what the commands below read."""
    ignored = shutil.ignore_patterns("__pycache__", "results")
    for name in ("agentgym", "docs", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    for name in (
        "pyproject.toml",
        "tests/conftest.py",
        "tests/needs.py",
        "tests/suite_texts.py",
        "tests/cli/conftest.py",
        "tests/cli/test_main.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def insert(checkout, changes):
    """Put lines before others."""
    for name, edits in changes.items():
        path = checkout / name
        for anchor, lines in edits:
            text = path.read_text(encoding="utf-8")
            assert text.count(anchor) == 1, (name, anchor)
            path.write_text(text.replace(anchor, lines + anchor), encoding="utf-8")


def run(checkout, *words):
    """Run Python in the copy; return what it printed."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=checkout,
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": str(checkout),
            "AGENTGYM_CACHE": str(checkout / "cache"),
            "PYTEST_ADDOPTS": "",
            "OMP_NUM_THREADS": "1",
        },
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    return done.stdout


def board(checkout, agent="random-strings", **keys):
    """Bench the suite in the copy; return the page of its board, with single spaces."""
    cards, agents = (
        env_table("agentgym/EZPoints-v0", 3, **keys),
        (RANDOM, ORACLE, {"name": "new", "kind": agent}),
    )
    (checkout / "small.toml").write_text(suite_text("small", cards, agents=agents, seed=1, attempts=1))
    run(checkout, "-m", "agentgym", "bench", "small.toml", "--leaderboard", "results/LEADERBOARD.md")
    page = (checkout / "results" / "LEADERBOARD.md").read_text(encoding="utf-8")
    return re.sub(" +", " ", page)


def csv_measures(checkout):
    with (checkout / "results" / "LEADERBOARD.csv").open(newline="") as lines:
        return {line["measure"] for line in csv.DictReader(lines)}


def touched(heading):
    """Return the files that a section's table lists, but tests and what is optional or written."""
    section = CONTRIBUTING.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| (.*) \|$", section, re.MULTILINE)
    return {
        name
        for name, what in rows
        if not (name.startswith("tests/") or what.startswith(("optional", "written by")))
    }


def test_a_measure_is_two_files(checkout):
    assert touched("A measure") == {"agentgym/envs/NAME/env.py", "agentgym/envs/NAME/suite.py"}
    insert(checkout, MEASURE)
    page = board(checkout, measures=["tokens"])
    assert "| Environment | Agent | tokens |" in page
    assert "- *tokens*: tokens written (higher is better)." in page
    assert "tokens" in csv_measures(checkout)


def test_a_column_is_four_files(checkout):
    assert touched("A column") == set(COLUMN)
    insert(checkout, COLUMN)
    exports = checkout / "agentgym" / "evaluation" / "board" / "exports.py"
    text = exports.read_text(encoding="utf-8")
    (version,) = re.findall(r"^SCHEMA = (\d+)$", text, re.MULTILINE)
    raised = int(version) + 1
    exports.write_text(text.replace(f"SCHEMA = {version}\n", f"SCHEMA = {raised}\n"), encoding="utf-8")
    run(checkout, "-m", "tools.data_dictionary")
    assert re.search(r"^\| Environment \| Agent \|.*\| Return \|", board(checkout), re.MULTILINE)
    assert "returns" in csv_measures(checkout)
    boards = json.loads((checkout / "results" / "LEADERBOARD.json").read_text())
    schema = json.loads((checkout / "docs" / "schemas" / f"leaderboard-{raised}.json").read_text())
    jsonschema.validate(boards, schema)
    assert "returns" in boards["boards"][0]["rows"][0]["envs"]["EZPoints"]


def test_an_agent_is_a_module_a_line_and_its_name_on_a_page(checkout):
    assert touched("An agent") == {"agentgym/agents/NAME.py", *IN_TABLE}
    insert(checkout, IN_TABLE)
    (checkout / "agentgym" / "agents" / "first.py").write_text(AGENT)
    page = board(checkout, agent="first")
    assert re.search(r"^\| [^|]* \| new \|.*\| re-run \|$", page, re.MULTILINE)


def test_a_command_is_a_module_and_a_line(checkout):
    assert touched("A command") == {"agentgym/cli/NAME.py", *IN_LIST}
    insert(checkout, IN_LIST)
    (checkout / "agentgym" / "cli" / "hello.py").write_text(COMMAND)
    assert run(checkout, "-m", "agentgym", "hello", "Ada") == "Hello, Ada.\n"
    tests = run(
        checkout, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/cli/test_main.py", "-k", "hello"
    )
    assert "1 passed" in tests
