import subprocess
import sys

import numpy as np
import pytest

from agentgym.core.tasks import DEFAULT_SIZES, split_of
from agentgym.envs.sokoban.builtin import bank
from agentgym.envs.sokoban.builtin.generator import Config, generate
from agentgym.envs.sokoban.level import Level
from agentgym.envs.sokoban.solver import solve
from agentgym.envs.sokoban.tasks import BankTaskSet, builtin_tasks
from agentgym.errors import UsageError


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    monkeypatch.setattr(bank, "CACHED_SIZES", {"train": 12, "valid": 2, "test": 2})
    bank.load.cache_clear()
    yield tmp_path
    bank.load.cache_clear()


@pytest.mark.parametrize("config", bank.SHIPPED, ids=lambda c: c.name)
@pytest.mark.parametrize("split", DEFAULT_SIZES)
def test_the_shipped_bank_is_what_the_generator_makes(config, split):
    levels = bank.load(config, split)
    assert len(levels.boards) == DEFAULT_SIZES[split]
    for i in range(0, len(levels.boards), 97):
        level = generate(config, int(levels.candidates[i]))
        assert level.board == levels.boards[i].tobytes()
        assert level.player == levels.players[i]
        assert len(solve(level.board)) == levels.optimal[i]


@pytest.mark.parametrize("config", bank.SHIPPED, ids=lambda c: c.name)
def test_splits_are_disjoint_and_follow_from_the_content(config):
    seen = set()
    for split, size in DEFAULT_SIZES.items():
        ids = builtin_tasks(split, config, stream=False).ids
        assert len(set(ids)) == size
        assert {split_of(task_id) for task_id in ids} == {split}
        assert not seen & set(ids)
        seen |= set(ids)


def test_a_bank_holds_the_first_levels_of_its_split():
    config = bank.SHIPPED[0]
    ids, number = [], 0
    while len(ids) < 50:
        level = generate(config, number)
        number += 1
        if level is not None:
            task_id = bank.content_id(level.text)
            if split_of(task_id) == "train" and task_id not in ids:
                ids.append(task_id)
    assert builtin_tasks("train", config, stream=False).ids[:50] == ids


@pytest.mark.slow
def test_the_whole_shipped_file_can_be_made_anew():
    command = [sys.executable, "-m", "agentgym.envs.sokoban.builtin.bank", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "equals what the generator makes" in done.stderr


def test_another_configuration_is_made_once_and_kept(cache, monkeypatch):
    config = Config(5, 6, 1)
    first = bank.load(config, "train")
    assert first.boards.shape == (12, 5 * 7 - 1)
    (path,) = cache.rglob("*.npz")
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    bank.load.cache_clear()
    monkeypatch.setattr(bank, "make", lambda config: pytest.fail("made a second time"))
    again = bank.load(config, "train")
    for name in ("boards", "players", "optimal", "candidates"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
    for board in first.boards:
        Level.parse(board.tobytes().decode().split("\n"))


def test_a_level_too_hard_to_solve_has_no_optimal_length(cache, monkeypatch):
    monkeypatch.setattr(bank, "MAX_NODES", 2)
    assert 0 in bank.load(Config(5, 6, 1), "train").optimal
    tasks = BankTaskSet("train", bank.load(Config(5, 6, 1), "train"))
    known = [task.metadata.get("optimal_moves") for task in tasks]
    assert known.count(None) == (bank.load(Config(5, 6, 1), "train").optimal == 0).sum() > 0


def test_a_damaged_cache_file_is_named(cache):
    bank.load(Config(5, 6, 1), "test")
    (path,) = cache.rglob("*.npz")
    path.write_bytes(path.read_bytes()[:100])
    bank.load.cache_clear()
    with pytest.raises(UsageError, match=r"is damaged.*delete it") as caught:
        bank.load(Config(5, 6, 1), "test")
    assert str(path) in str(caught.value)


def test_a_cache_that_cannot_be_written_says_so_and_leaves_nothing(cache, monkeypatch):
    def no_space(file, **columns):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", no_space)
    with pytest.raises(UsageError, match=r"No space left.*AGENTGYM_CACHE"):
        bank.load(Config(5, 6, 1), "train")
    assert [p for p in cache.rglob("*") if p.is_file()] == []


def test_a_configuration_without_levels_is_given_up(cache, monkeypatch):
    monkeypatch.setattr(bank, "generate", lambda config, candidate: None)
    monkeypatch.setattr(bank, "MAX_REJECTED", 50)
    with pytest.raises(UsageError, match="take a larger dim_room or fewer num_boxes"):
        bank.load(Config(5, 6, 1), "train")


def test_progress_is_drawn_on_a_terminal_only(monkeypatch, capsys):
    with bank._progress("levels", 2) as advance:
        advance()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with bank._progress("levels", 2) as advance:
        advance()
        advance()
    assert "levels" in capsys.readouterr().err
