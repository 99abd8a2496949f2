import pytest

from agentgym.evaluation.suites import datasets
from agentgym.registration import ARRAY_ENVIRONMENTS, ENVIRONMENTS, class_of, open_env


def test_every_environment_is_listed_with_its_splits(cli, monkeypatch):
    def opened(*_, **__):
        raise AssertionError("an environment is opened, which takes a second")

    monkeypatch.setattr(datasets, "open_env", opened)
    code, out, err = cli("envs")
    assert (code, err) == (0, "")
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("agentgym/")]
    assert listed == [*sorted(ENVIRONMENTS), *ARRAY_ENVIRONMENTS]
    assert "  builtin: train (193), valid (30), test (17), unseen_pairs (64)\n" in out


@pytest.mark.parametrize(("columns", "widest"), [("", 100), ("60", 60)])
def test_lines_are_as_wide_as_the_place(cli, monkeypatch, columns, widest):
    monkeypatch.setenv("COLUMNS", columns)
    _, out, _ = cli("envs")
    assert widest - 20 < max(map(len, out.splitlines())) <= widest


@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_sizes_that_are_known_beforehand_are_those_of_the_splits(env_id):
    game = class_of(env_id)
    assert tuple(game.split_sizes) in ((), game.splits)  # an environment of one's own may leave it out
    for split, size in game.split_sizes.items():
        assert len(open_env(env_id, split=split).tasks) == size


def test_official_data_sets_are_listed_present_or_missing(cli, tmp_path):
    (tmp_path / "data" / "sokoban" / "medium" / "valid").mkdir(parents=True)
    _, out, _ = cli("envs")
    (medium,) = {line.strip() for line in out.splitlines() if "boxoban/medium" in line}
    (hard,) = {line.strip() for line in out.splitlines() if "boxoban/hard" in line}
    assert medium.split(maxsplit=1)[1] == "train, valid"
    assert "missing: agentgym data download boxoban" in hard
