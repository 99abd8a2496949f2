"""Code that a run, a suite or an archive names is not imported by what reads files of other people."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.agents.table import find_agent
from agentgym.errors import UntrustedReferenceError
from agentgym.evaluation.log.results import Excluded
from agentgym.evaluation.log.runfiles import read_episodes, read_run, write_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.evaluation.verify.archives import open_run
from agentgym.evaluation.verify.packed import pack_run
from agentgym.io.optional import import_named, load_reference, only_trusted
from agentgym.registration import open_env
from tests.evaluation.making import write_complete
from tests.suite_texts import env_table, suite_text, write_suite

ROOT = str(Path(__file__).parents[2])

EVIL = """\
from pathlib import Path
Path(__file__).with_name("IMPORTED").touch()
"""

SUITE = suite_text("theirs", env_table("agentgym/EZPoints-v0", 2), seed=1)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Return a folder with runs whose files name ``evil``, which lies beside each and in the folder."""
    suite = write_suite(tmp_path, SUITE)
    folders = run_bench(suite, tmp_path / "results")
    for number, folder in enumerate(folders):
        run, episodes = read_run(folder), read_episodes(folder)
        packed = pack_run(open_run(folder), tmp_path / "packed")
        assert packed.exists()
        if number:  # an agent of theirs, said not to play
            agent = SuiteAgent("evil", "evil:make")
            gap = Excluded("EZPoints", "does not play it")
            write_complete(folder, replace(run, agent=agent, left_out=(gap,)), [])
        else:  # an environment of theirs
            env = replace(run.envs[0].env, id="evil:Evil-v0")
            write_complete(folder, replace(run, envs=(replace(run.envs[0], env=env),)), episodes)
    suite.write_text(SUITE.replace("agentgym/EZPoints-v0", "evil:Evil-v0"))
    for folder in (tmp_path, *folders, suite.parent):
        (folder / "evil.py").write_text(EVIL)
    return tmp_path


def commands(folder: Path) -> list[list[str]]:
    runs = [str(path) for path in sorted((folder / "results" / "theirs").iterdir())]
    packed = [str(path) for path in sorted((folder / "packed" / "theirs").iterdir())]
    found = [["verify", run] for run in (*runs, *packed)]
    found += [["verify", run, "--rerun"] for run in runs]
    found += [["view", run, "--episode", "1"] for run in (*runs, *packed)]
    found += [["leaderboard", "build", name, "--out", "page.md"] for name in ("results", "packed")]
    return [*found, ["leaderboard", "pack", *runs, "--out", "again"]]


def test_no_module_that_a_file_names_is_imported(theirs: Path) -> None:
    script = (
        "import sys, os\n"
        "sys.path = [p for p in sys.path if p]\n"  # as the console script has it
        "from agentgym.cli import main\n"
        "for words in eval(sys.argv[1]):\n"
        "    code = main(words)\n"
        "    print(words[0], code)\n"
        "assert 'evil' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, repr(commands(theirs))],
        cwd=theirs,
        capture_output=True,
        text=True,
        check=False,
        env={
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "AGENTGYM_CACHE": str(theirs / "cache"),
            "PATH": "",
        },
    )
    assert done.returncode == 0, done.stderr
    assert not list(theirs.rglob("IMPORTED"))
    assert "Traceback" not in done.stderr
    assert "give --allow evil:NAME if you trust it" in done.stderr
    assert done.stdout.count("claimed: ") + done.stdout.count("refused: ") >= 2


def test_what_the_user_allows_is_imported(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(theirs)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with only_trusted():
        with pytest.raises(UntrustedReferenceError, match="module 'evil' is named by a file"):
            import_named("evil")
        with pytest.raises(UntrustedReferenceError):
            load_reference("json:loads")
        assert load_reference("json:loads", trusted=True)
        assert load_reference("agentgym.io.optional:load")
        assert str(theirs) not in sys.path
    with only_trusted(["evil:make"]):
        assert import_named("evil")
    assert (theirs / "IMPORTED").exists()
    sys.modules.pop("evil")


def test_a_run_that_names_an_installed_environment_is_read(theirs: Path) -> None:
    """The allowance ends with the command."""
    with only_trusted():
        pass
    assert load_reference("json:loads")
    folder = next((theirs / "results" / "theirs").iterdir())
    write_run(folder, read_run(folder))


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("agentgym/Sotopia-v0", {"judge": "agentgym.cli:main"}),
        ("agentgym/Sotopia-v0", {"partner": "agentgym.cli:main"}),
        ("agentgym/PaperSearch-v0", {"selector": "agentgym.io.optional:import_module"}),
    ],
)
def test_what_is_no_judge_or_selector_of_ours_is_not_called(env_id: str, options: dict[str, str]) -> None:
    with only_trusted(), pytest.raises(UntrustedReferenceError, match=r"give --allow agentgym[.\w]+:NAME"):
        open_env(env_id, options=options)
    with only_trusted(), pytest.raises(UntrustedReferenceError, match="is not imported"):
        find_agent("agentgym.cli:main")
