"""Building: the same twice, never half, nothing of what was removed, nothing that was not played again."""

import csv
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.cli import main
from agentgym.errors import UsageError
from agentgym.evaluation.log.results import EPISODES_FILE
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.suites.suite import AgentCard, SuiteAgent
from agentgym.site.build import build_site
from agentgym.site.folder import new_folder
from tests.evaluation.making import write_complete

KEY = "sk-ant-api03-Abcdefghijklmnop_qrstuvwx"


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def text_of(folder):
    return b"".join(contents(folder).values()).decode()


@pytest.fixture
def results(made_site, tmp_path):
    """A private copy of the results, with their suite."""
    shutil.copytree(made_site.root / "suites", tmp_path / "suites")
    return Path(shutil.copytree(made_site.results, tmp_path / "results"))


def run_of(results, name):
    (folder,) = (results / "pages").glob(f"{name}-*")
    return folder


def add_agent(results, agent, source="random"):
    """Add a run of another agent, with the episodes of one that is there."""
    run = replace(read_run(run_of(results, source)), agent=agent)
    folder = results / "pages" / "added"
    folder.mkdir()
    return write_complete(folder, run, read_episodes(run_of(results, source)))


def test_a_site_is_the_same_when_it_is_built_twice_and_forgets_what_is_removed(made_site, results, tmp_path):
    build_site(results, tmp_path / "site")
    assert contents(tmp_path / "site") == contents(made_site.folder)
    gone = read_run(run_of(results, "rules")).request_id[:12]
    assert gone in text_of(tmp_path / "site")
    shutil.rmtree(run_of(results, "rules"))
    build_site(results, tmp_path / "site")
    assert not list((tmp_path / "site").rglob(f"*{gone}*"))
    assert gone not in text_of(tmp_path / "site")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_every_link_leads_somewhere(made_site):
    for page in made_site.folder.glob("*.html"):
        for target in re.findall(r'(?:href|src|data-src)="([^"]*)"', page.read_text()):
            if not target.startswith(("data:", "#")):
                assert not target.startswith(("/", "..", "http")), (page.name, target)
                assert (made_site.folder / target.partition("#")[0]).is_file(), (page.name, target)


def test_downloads_are_the_boards_own_files(made_site):
    table = json.loads((made_site.folder / "board-1.json").read_text())
    (board,) = table["boards"]
    assert [row["name"] for row in board["rows"]] == ["oracle", "rules", "random"]
    lines = list(csv.DictReader((made_site.folder / "board-1.csv").read_text().splitlines()))
    scores = {
        line["agent"]: line["value"] for line in lines if line["measure"] == "score" and not line["type"]
    }
    assert scores.keys() == {"oracle", "rules", "random"}
    assert "\\begin{tabular}" in (made_site.folder / "board-1.tex").read_text()


def test_the_command_on_a_runs_page_executes_it_again(made_site, monkeypatch, capsys):
    page = next(made_site.folder.glob("run-*.html")).read_text()
    (command,) = re.findall(r'<pre class="command" tabindex="0">(.*?)</pre>', page)
    program, *words = shlex.split(command)
    assert program == "agentgym"
    monkeypatch.chdir(made_site.root)
    assert main(words) == 0
    assert "12 episodes" in capsys.readouterr().out


def test_one_changed_action_marks_its_episode_and_takes_the_row_off_the_board(results, tmp_path):
    folder = run_of(results, "rules")
    lines = read_episodes(folder)
    place = next(i for i, e in enumerate(lines) if e.env == "Sokoban, easy" and e.length > 2)
    turn = {"up": "down", "down": "up", "left": "right", "right": "left"}
    changed = replace(lines[place], actions=(turn[lines[place].actions[0]], *lines[place].actions[1:]))
    write_complete(folder, read_run(folder), [*lines[:place], changed, *lines[place + 1 :]])
    built = build_site(results, tmp_path / "site")
    assert [row.name for row in built.boards[0].rows] == ["oracle", "random"]
    (differing,) = built.differing
    assert differing.endswith("at step 1")
    page = (tmp_path / "site" / f"run-{read_run(folder).request_id[:12]}.html").read_text()
    assert "Not ranked." in page
    assert f'/{place + 1}/1">Sokoban, easy' in page
    assert "differs at step 1" in page
    board = (tmp_path / "site" / "board-1.html").read_text()
    assert "refused: " in board


def test_a_changed_copy_never_takes_the_name_of_its_original(results, tmp_path):
    source = run_of(results, "oracle")
    copy = results / "pages" / "aaa-first"
    shutil.copytree(source, copy)
    episodes = (copy / EPISODES_FILE).read_bytes()
    (copy / EPISODES_FILE).write_bytes(episodes.replace(b'"won":true', b'"won":false', 1))
    built = build_site(results, tmp_path / "site")
    assert "oracle" in [row.name for row in built.boards[0].rows]
    own = (tmp_path / "site" / f"run-{read_run(source).request_id[:12]}.html").read_text()
    assert "Not ranked." not in own
    assert "its board</a> at rank 1=, a tie." in own
    assert len(list((tmp_path / "site").glob("run-*.html"))) == 4


def test_a_planted_key_is_in_no_file(results, tmp_path):
    card = AgentCard(contact=f"write to {KEY}", training_data=f"api_key = '{KEY}'")
    agent = SuiteAgent("keyed", "scripted", {"path": "actions.jsonl", "note": KEY}, parser=KEY, card=card)
    add_agent(results, agent)
    build_site(results, tmp_path / "site")
    text = text_of(tmp_path / "site")
    assert "keyed" in text
    assert "[redacted: API key]" in text
    assert KEY not in text


def test_a_build_that_is_killed_leaves_the_old_site(made_site, tmp_path):
    site = tmp_path / "site"
    shutil.copytree(made_site.folder, site)
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom agentgym.site.folder import new_folder\n"
        "with new_folder(Path(sys.argv[1])) as folder:\n"
        "    (folder / 'index.html').write_text('half')\n"
        "    print('writing', flush=True)\n    time.sleep(600)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(site)], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"writing\n"
    with pytest.raises(UsageError, match="another process"), new_folder(site):
        raise AssertionError
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert contents(site) == contents(made_site.folder)
    with new_folder(site) as folder:
        assert list(folder.iterdir()) == []
        (folder / "index.html").write_text("whole")
    assert [path.name for path in site.iterdir()] == ["index.html"]
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_what_fails_leaves_the_old_site(made_site, tmp_path):
    site = tmp_path / "site"
    shutil.copytree(made_site.folder, site)

    def fails():
        with new_folder(site) as folder:
            (folder / "index.html").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert contents(site) == contents(made_site.folder)


def test_a_folder_of_something_else_is_not_overwritten(made_site, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match="is not a site"):
        build_site(made_site.results, tmp_path / "home")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        build_site(made_site.results, tmp_path / "file")
    assert (tmp_path / "home" / "letter.txt").read_text() == "dear"


def test_training_runs_that_are_not_there_are_one_line(results, tmp_path):
    with pytest.raises(UsageError, match=r"there is no folder .*nowhere: name one with training runs"):
        build_site(results, tmp_path / "site", runs=tmp_path / "nowhere")


def test_the_command_builds_and_says_what_is_not_ranked(results, tmp_path, capsys):
    (run_of(results, "rules") / EPISODES_FILE).write_bytes(b"")
    assert main(["site", "build", str(results), "--out", str(tmp_path / "site")]) == 0
    said = capsys.readouterr().out
    assert "not ranked: rules" in said
    assert "written to" in said
