"""Regret and the board of estimators through the command line."""

import json
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / "benchmarks" / "runs" / "demo" / "random-65e5d599f8e1.run.xz"
QUICK = RUN.parents[1] / "quick" / "random-d8ded440f2da.run.xz"


def test_the_regret_of_a_run(cli):
    code, out, _ = cli("credit", "run", QUICK, "--env", "EZPoints unseen")
    assert code == 0
    head, *_, won_or_lost, lost = out.splitlines()
    assert " ".join(head.split()) == "episode ended steps shortest regret of belief undone decisive step"
    assert lost.startswith("lost: ")
    assert "mean regret" in won_or_lost + lost


def test_the_figures_of_every_step(cli):
    code, out, _ = cli("credit", "run", QUICK, "--env", "EZPoints unseen", "--json")
    assert code == 0
    for episode in json.loads(out):
        known, left = episode["known"], episode["left"]
        assert len(left) == len(known) + 1 == len(episode["undone"]) + 1
        for before, after, regret in zip(left, left[1:], known, strict=False):
            if before[0] is not None:
                assert regret[0] == (None if after[0] is None else 1 + after[0] - before[0])
        assert (episode["decisive"] is None) == episode["won"]


def test_steps_are_viewed_with_their_regret(cli):
    code, out, _ = cli("view", RUN, "--episode", 1, "--delay", 0, "--regret")
    assert code == 0
    assert out.count("steps to a win: ") == 1 + out.count("of belief ") > 1


def test_a_page_of_an_episode_has_its_regret(cli, tmp_path):
    for name, more in (("with", ["--regret"]), ("without", [])):
        assert cli("view", RUN, "--episode", 1, "--export", tmp_path / f"{name}.html", *more)[0] == 0
    assert (tmp_path / "with.html").read_text() != (tmp_path / "without.html").read_text()


def test_a_site_has_regret_where_asked(cli, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    (results / Path(RUN).name).write_bytes(Path(RUN).read_bytes())
    sizes = []
    for name, more in (("with", ["--regret"]), ("without", [])):
        assert cli("site", "build", results, "--out", tmp_path / name, *more)[0] == 0
        sizes.append(sum(path.stat().st_size for path in (tmp_path / name / "data").glob("*/[0-9]*.js")))
    assert sizes[0] > sizes[1] > 0


def test_a_run_without_shortest_ways(cli):
    code, _, err = cli("credit", "run", QUICK, "--env", "SOTOPIA")
    assert code == 2
    assert err.startswith("agentgym: sotopia: no shortest way to a win can be proven")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", 39], "ezpoints has tasks for 38 seeds: lower --seeds"),
        (["--algorithm", "../mine.py:OWN"], "../mine.py:OWN: run from the folder of the file"),
        (["--group-size", 1], "--group-size at least 2"),
    ],
)
def test_what_the_board_cannot_do(cli, arguments, message):
    code, _, err = cli("credit", "board", "ezpoints", *arguments)
    assert code == 2
    assert message in err


def test_a_board_has_a_row_an_estimator_and_one_of_the_truth(cli):
    code, out, _ = cli("credit", "board", "ezpoints", "--algorithm", "grpo", "ppo", "--seeds", "1")
    assert code == 0
    lines = out.splitlines()
    assert lines[1].split()[:3] == ["rank", "algorithm", "learned"]
    assert lines[2].split()[1] == "exact"
    assert sorted(line.split()[1] for line in lines[2:]) == ["exact", "grpo", "ppo", "ppo", "ppo"]
