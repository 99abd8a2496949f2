"""A task that a split does not have is refused at once, and the shipped tables of ids are current."""

import numpy as np
import pytest

from agentgym import UsageError
from agentgym.core.tasks import IdTable, save_id_tables
from agentgym.envs.alfworld.builtin import idfile as alfworld_ids
from agentgym.envs.alfworld.builtin import tasks as alfworld
from agentgym.envs.webshop.builtin import idfile as webshop_ids
from agentgym.envs.webshop.builtin import tasks as webshop
from agentgym.envs.webshop.builtin.catalogue import SIZE
from agentgym.envs.webshop.builtin.goals import DIFFICULTIES
from agentgym.registration import open_env
from tests.pace import within

UNKNOWN = (
    "00000000000000000000000000000105",
    "f" * 30 + "5f",
    "F" * 32,
    "nowhere",
    "",
    "builtin/seen/3.77",
    "builtin/seen/03.0",
    "builtin/unseen/9999999.0",
    "builtin/0/seen/easy/999999999",
    "builtin/0/unseen/easy/1",
    "builtin/0/seen/simple/1",
    "6x6-1#" + "9" * 5_000,
    "6x6-1#" + "9" * 19,
    "x" * 100_000,
)


def refusal(env, key):
    with pytest.raises(UsageError, match="no task") as refused:
        env.reset(options={"task": key})
    return str(refused.value)


@pytest.mark.parametrize(
    "suite", ["EZPoints", "Sokoban", "ALFWorld", "WebShop", "HotpotQA", "MuSiQue", "PaperSearch", "Sotopia"]
)
def test_an_unknown_task_is_refused_at_once(suite):
    """Once, all tasks of the split were generated first: 18 s on ALFWorld."""
    env = open_env(f"agentgym/{suite}-v0")
    for key in UNKNOWN:
        assert len(within(1_000, refusal, env, key)) < 300


@pytest.mark.parametrize("split", alfworld.SIZES)
def test_alfworld_s_table_is_current(split):
    table = alfworld.id_table(split)
    assert table is not None, "generator or language changed: run agentgym.envs.alfworld.builtin.idfile"
    assert len(table.prefixes) == alfworld.SIZES[split]
    numbers = np.arange(0, alfworld.SIZES[split], 7)
    made = alfworld_ids.make(split, numbers.tolist())
    np.testing.assert_array_equal(table.prefixes[numbers], made.prefixes)
    np.testing.assert_array_equal(table.candidates[numbers], made.candidates)


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_webshop_s_tables_are_current(difficulty):
    for split in webshop.SIZES:
        made = webshop_ids.make(split, difficulty)
        shipped = IdTable.load(webshop.ID_FILE, f"{split}/{difficulty}", webshop.stamp())
        assert shipped is not None, "generator or catalogue changed: run agentgym.envs.webshop.builtin.idfile"
        np.testing.assert_array_equal(shipped.prefixes, made.prefixes)
        np.testing.assert_array_equal(shipped.candidates, made.candidates)


@pytest.mark.parametrize(
    ("module", "split", "options"),
    [
        (alfworld, "valid_seen", {}),
        (alfworld, "valid_seen", {"difficulty": "hard"}),
        (alfworld, "valid_unseen", {"types": tuple(alfworld.FAMILIES)[:1]}),
        (webshop, "test", {"difficulty": "medium"}),
        (webshop, webshop.UNSEEN, {}),
        (webshop, "valid", {"size": 2_000, "count": 40}),
        (webshop, "valid", {"count": webshop.SIZES["valid"] + 3}),
    ],
    ids=[
        "alfworld",
        "alfworld-hard",
        "alfworld-family",
        "webshop-medium",
        "webshop-unseen",
        "small-shop",
        "more",
    ],
)
def test_every_task_is_found_by_both_its_names(module, split, options):
    tasks = module.builtin_tasks(split, **options)
    for index in (0, 1, len(tasks) // 2, len(tasks) - 1):
        task = tasks[index]
        assert tasks.find(task.id) == tasks.find(task.source_id) == task
        assert task.id[:-1] not in tasks
    other = "easy" if tasks.manifest["difficulty"] else None
    if other:  # a task of the split that is left out here
        left_out = module.builtin_tasks(tasks.split, difficulty=other)[0]
        assert left_out.id not in tasks
        assert left_out.source_id not in tasks


def test_an_outdated_table_is_left_aside(tmp_path, monkeypatch):
    """Then ids are those that the generator gives."""
    path = tmp_path / "ids.npz"
    save_id_tables(path, {"valid_unseen": IdTable.of(["0" * 32], [0])}, "an earlier version")
    monkeypatch.setattr(alfworld, "ID_FILE", path)
    alfworld.id_table.cache_clear()
    try:
        assert alfworld.id_table("valid_unseen") is None
        family = next(iter(alfworld.FAMILIES))
        tasks = alfworld.BuiltinGames("valid_unseen", "hard", [family])
        assert tasks.find(tasks[2].id) == tasks[2]
        assert "0" * 32 not in tasks
    finally:
        alfworld.id_table.cache_clear()


def test_the_usual_shop_is_the_one_with_tables():
    assert webshop.builtin_tasks("train")._tables is not None
    assert webshop.builtin_tasks("test", generator=1)._tables is not None
    assert webshop.builtin_tasks("train", generator=1)._tables is None
    assert webshop.builtin_tasks("test", size=SIZE, seed=1)._tables is None
