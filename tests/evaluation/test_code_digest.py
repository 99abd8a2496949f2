"""The digest that verdicts are filed under covers whatever a replay uses, and nothing else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym.agents.table import AGENTS
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import load_suite
from agentgym.evaluation.verify import code_digest
from agentgym.evaluation.verify.code_digest import PACKAGE, code_files, dependencies, suite_code_sha256
from agentgym.registration import ENVIRONMENTS
from tests.suite_texts import RANDOM, env_table, suite_text, write_suite

AGENT_KINDS = ("random", "oracle", "rules")


def files_of(suite: str, agents: tuple[str, ...] = AGENT_KINDS) -> set[str]:
    found = code_files([f"agentgym/{suite}-v0"], agents)
    return {path.relative_to(PACKAGE).as_posix() for path in found}


def test_each_suite_has_its_own_environment_and_the_core():
    webshop, sokoban = files_of("WebShop"), files_of("Sokoban")
    assert {"envs/webshop/env.py", "envs/webshop/engine/visit.py"} <= webshop - sokoban
    assert {"envs/sokoban/env.py", "envs/sokoban/vector.py"} <= sokoban - webshop
    for both in ("core/hashing.py", "evaluation/verify/verification.py", "registration.py", "__init__.py"):
        assert both in webshop & sokoban


def test_pages_and_the_command_line_are_in_none():
    for name in ENVIRONMENTS:
        found = {path.relative_to(PACKAGE).parts[0] for path in code_files([name], tuple(AGENTS))}
        assert not found & {"site", "cli", "bridges"}


def test_data_files_come_with_the_modules_beside_them():
    whole = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*") if path.is_file()}
    beside = {name for name in whole if name.startswith("envs/sokoban/") and "__pycache__" not in name}
    assert any(not name.endswith(".py") for name in beside)
    assert {name for name in beside if not name.endswith(".py")} <= files_of("Sokoban")


def test_only_the_suites_own_agents_count():
    assert "envs/webshop/rules.py" not in files_of("Sokoban")
    assert "envs/webshop/rules.py" in files_of("Sokoban", ("shopper",))
    assert not any(name.startswith("training/") for name in files_of("Sokoban"))
    assert "inference/policy/agent.py" in files_of("Sokoban", ("model",))


def test_completed_names_stand_for_every_module_they_may_complete_to():
    engines = {path.stem for path in (PACKAGE / "retrieval" / "engines").glob("*.py")} - {"__init__"}
    found = dependencies(["agentgym.retrieval.opening"])
    assert {f"agentgym.retrieval.engines.{engine}" for engine in engines} <= found


@pytest.mark.parametrize(
    ("changed", "webshop", "sokoban"),
    [
        ("site/page.css", False, False),
        ("site/page.py", False, False),
        ("envs/webshop/env.py", True, False),
        ("envs/webshop/goals.json", True, False),
        ("core/hashing.py", True, True),
    ],
)
def test_a_change_reaches_the_suites_that_use_it(tmp_path, monkeypatch, changed, webshop, sokoban):
    package = tmp_path / "agentgym"
    sources = {
        "__init__.py": "",
        "core/__init__.py": "",
        "core/hashing.py": "",
        "site/__init__.py": "",
        "site/page.py": "import agentgym.core.hashing",
        "site/page.css": "",
        "evaluation/verify/verification.py": "def verify():\n    from agentgym.core import hashing",
        "envs/__init__.py": "",
        "envs/webshop/__init__.py": "",
        "envs/webshop/env.py": "",
        "envs/webshop/goals.json": "",
        "envs/sokoban/env.py": "",
        "envs/sokoban/vector.py": "",
    }
    for name, text in sources.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    monkeypatch.setattr(code_digest, "PACKAGE", package)

    def digests() -> list[str]:
        for cached in (code_digest.code_sha256, code_digest._used, code_digest._package_files):
            cached.cache_clear()
        return [
            code_digest.code_sha256(frozenset({f"agentgym/{name}-v0"})) for name in ("WebShop", "Sokoban")
        ]

    before = digests()
    with (package / changed).open("a") as file:
        file.write("\n1\n")
    after = digests()
    for cached in (code_digest.code_sha256, code_digest._used, code_digest._package_files):
        cached.cache_clear()
    assert [old != new for old, new in zip(before, after, strict=True)] == [webshop, sokoban]


SUITE = suite_text(
    "few",
    env_table("agentgym/Sokoban-v0", 1),
    env_table("agentgym/PaperSearch-v0", 1),
    agents=(RANDOM,),
    seed=7,
    floor="",
    oracle="",
)
"""A suite that opens an index of retrieval too, by a name that is put together."""

IMPORTED = """\
import json, sys
from pathlib import Path
from agentgym.evaluation.verify.verification import verify_run
assert verify_run(Path(sys.argv[1])).ok
print(json.dumps(sorted(name for name in sys.modules if name.split(".")[0] == "agentgym")))
"""


def test_whatever_a_replay_imports_is_in_it(tmp_path, monkeypatch):
    """In a process of its own, which has imported nothing else."""
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    path = write_suite(tmp_path, SUITE)
    (folder,) = run_bench(path, tmp_path / "results")
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, folder], capture_output=True, text=True, check=True
    )
    known = {
        _module(path) for path in code_files(["agentgym/Sokoban-v0", "agentgym/PaperSearch-v0"], ["random"])
    }
    imported = set(json.loads(done.stdout))
    assert {"agentgym.envs.sokoban.env", "agentgym.retrieval.opening"} <= imported <= known


def test_the_agent_that_played_counts_beside_the_suites_own(tmp_path):
    path = tmp_path / "few.toml"
    path.write_text(SUITE)
    suite = load_suite(path)
    assert suite_code_sha256(suite, "random") != suite_code_sha256(suite, "model")


def _module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
