from pathlib import Path

import pytest

from agentgym.data.directory import cache_directory, data_directory, find
from agentgym.envs.sokoban.suite import BOXOBAN
from agentgym.errors import MissingDataError, UsageError


def test_variables_win_over_the_user_directories(monkeypatch, tmp_path):
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    assert data_directory() == tmp_path / "data"
    assert cache_directory() == tmp_path / "cache"
    monkeypatch.delenv("AGENTGYM_DATA")
    monkeypatch.delenv("AGENTGYM_CACHE")
    assert data_directory() != cache_directory()
    assert data_directory().name == cache_directory().name == "agentgym"


def test_a_home_directory_is_expanded(monkeypatch):
    monkeypatch.setenv("AGENTGYM_DATA", "~/somewhere")
    assert data_directory() == Path.home() / "somewhere"


def test_find_returns_what_is_there(monkeypatch, tmp_path):
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path))
    (tmp_path / "sokoban" / "medium").mkdir(parents=True)
    assert find("sokoban/medium") == tmp_path / "sokoban" / "medium"


def test_missing_data_say_what_to_run(monkeypatch, tmp_path):
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match="agentgym data import boxoban PATH") as caught:
        find("sokoban/medium/valid", BOXOBAN)
    assert str(tmp_path) in str(caught.value)
    with pytest.raises(MissingDataError, match="set AGENTGYM_DATA to the folder that has 'elsewhere'"):
        find("elsewhere/file.txt")


@pytest.mark.parametrize("name", ["", "/etc", "../x", "sokoban/../../x"])
def test_names_stay_inside_the_directory(name):
    with pytest.raises(UsageError, match="data directory"):
        find(name)
