"""The vector base class over the plain form: exact shapes, masks, groups and refusals.

That every form equals single environments is the conformance kit's to check (`test_checking`).
"""

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

from agentgym import UnicodeText, UsageError
from agentgym.vector.batching import (
    batch_observations,
    batch_space,
    info_column,
    merge_columns,
    merge_observations,
    replace_rows,
    spread,
    take,
    unbatch_observations,
)
from tests.corridor import CorridorEnv, CorridorVectorEnv


def corridors(n=3, mode=AutoresetMode.DISABLED, tasks=None, **options):
    envs = CorridorVectorEnv(n, autoreset_mode=mode, **options)
    envs.reset(seed=0, options={"tasks": tasks} if tasks else None)
    return envs


def test_what_reset_returns():
    envs = CorridorVectorEnv(2)
    observations, infos = envs.reset(options={"tasks": ["corridor3", "corridor2"]})
    assert observations == ("cell 0 of 3", "cell 0 of 2")
    kinds = {key: column.dtype.kind for key, column in infos.items()}
    assert {key: kind for key, kind in kinds.items() if not key.startswith("_")} == {
        "task_id": "O",
        "task_type": "O",
        "turn": "i",
        "state_hash": "O",
        "admissible_actions": "O",
        "action_is_valid": "b",
        "won": "b",
        "score": "f",
        "progress": "f",
        "cell": "i",
    }
    assert all(infos[f"_{key}"].tolist() == [True, True] for key in infos if not key.startswith("_"))
    assert infos["admissible_actions"].tolist() == [("right", "fall")] * 2


def test_what_step_returns():
    envs = corridors(2, tasks=["corridor1", "corridor3"])
    observations, rewards, terminations, truncations, _ = envs.step(["right", "left"])
    assert observations == ("cell 1 of 1", "cell 0 of 3; not accepted")
    assert (rewards.dtype, terminations.dtype, truncations.dtype) == (np.float64, np.bool_, np.bool_)
    assert rewards[1] == -0.5
    assert terminations.tolist() == [True, False]
    assert truncations.tolist() == [False, False]


def test_an_int_seeds_slots_in_a_row():
    envs = CorridorVectorEnv(3)
    _, together = envs.reset(seed=5)
    _, one_by_one = envs.reset(seed=[5, 6, 7])
    assert together["task_id"].tolist() == one_by_one["task_id"].tolist()


def test_next_step_spends_a_step_on_the_reset():
    envs = corridors(2, AutoresetMode.NEXT_STEP, tasks=["corridor1", "corridor8"])
    envs.step(["right", "right"])
    observations, rewards, terminations, _, infos = envs.step(["fall", "right"])
    assert observations[0].startswith("cell 0 of ")
    assert observations[1] == "cell 2 of 8"
    assert (rewards[0], terminations[0], infos["turn"].tolist()) == (0.0, False, [0, 2])


def test_same_step_gives_the_end_and_the_new_start():
    envs = corridors(2, AutoresetMode.SAME_STEP, tasks=["corridor1", "corridor8"])
    observations, rewards, terminations, _, infos = envs.step(["right", "right"])
    assert terminations.tolist() == [True, False]
    assert rewards[0] > 0
    assert observations[0].startswith("cell 0 of ")
    assert infos["final_obs"].tolist() == ["cell 1 of 1", None]
    assert infos["_final_obs"].tolist() == [True, False]
    assert infos["final_info"]["won"].tolist() == [True, False]
    assert infos["final_info"]["_won"].tolist() == [True, False]
    assert infos["turn"].tolist() == [0, 1]


def test_disabled_waits_for_a_reset():
    envs = corridors(3, tasks=["corridor1", "corridor8", "corridor1"])
    envs.step(["right"] * 3)
    with pytest.raises(ResetNeeded, match="the episode in slot 0 is over: reset it first"):
        envs.step(["right"] * 3)
    envs.step_at([1], ["right"])
    _, infos = envs.reset(options={"reset_mask": np.array([True, False, True])})
    assert infos["_turn"].tolist() == [True, False, True]
    assert infos["turn"].tolist() == [0, 0, 0]
    assert envs.step(["fall"] * 3)[4]["turn"].tolist() == [1, 3, 1]


def test_a_mask_needs_slots_that_have_begun():
    with pytest.raises(ResetNeeded, match="slot 1 has never been reset"):
        (envs := CorridorVectorEnv(2)).reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(ResetNeeded, match="slot 0 plays no task yet"):  # nothing has changed
        envs.snapshot(0)


@pytest.mark.parametrize(
    "mask", [[True, False], np.array([1, 0]), np.array([True]), np.array([False, False])]
)
def test_masks_are_numpy_bools_that_select_something(mask):
    with pytest.raises(UsageError, match="reset_mask"):
        corridors(2).reset(options={"reset_mask": mask})


def test_partial_steps_take_any_order():
    envs = corridors(4, tasks=["corridor8"] * 4)
    envs.step_at([2], ["right"])
    observations, rewards, _, _, infos = envs.step_at([3, 0, 2], ["left", "right", "right"])
    assert observations == ("cell 0 of 8; not accepted", "cell 1 of 8", "cell 2 of 8")
    assert rewards[0] == -0.5
    assert infos["turn"].tolist() == [1, 1, 2]
    assert not any(key.startswith("_") for key in infos)
    assert [envs.snapshot(i).turn for i in range(4)] == [1, 0, 2, 1]


def test_a_partial_step_over_all_slots_in_another_order_ends_the_right_ones():
    envs = corridors(3, tasks=["corridor1", "corridor8", "corridor8"])
    envs.step_at([2, 1, 0], ["right"] * 3)
    envs.step_at([1, 2], ["right"] * 2)
    with pytest.raises(ResetNeeded, match="slot 0 is over"):
        envs.step_at([0], ["right"])


def test_partial_resets_refill_slots():
    envs = corridors(3, tasks=["corridor1", "corridor8", "corridor1"])
    envs.step(["right"] * 3)
    observations, infos = envs.reset_at([2, 0], ["corridor5", "corridor4"], [7, None])
    assert observations == ("cell 0 of 5", "cell 0 of 4")
    assert infos["turn"].tolist() == [0, 0]
    assert envs.step(["right"] * 3)[0] == ("cell 1 of 4", "cell 2 of 8", "cell 1 of 5")


def test_partial_steps_under_same_step_keep_their_ends():
    envs = corridors(3, AutoresetMode.SAME_STEP, tasks=["corridor1", "corridor8", "corridor1"])
    _, _, terminations, _, infos = envs.step_at([1, 2], ["right", "right"])
    assert terminations.tolist() == [False, True]
    assert infos["final_obs"].tolist() == [None, "cell 1 of 1"]
    assert infos["final_info"][0] is None
    assert infos["final_info"][1]["won"] is True


def test_groups_start_alike():
    envs = CorridorVectorEnv(4)
    _, infos = envs.reset(options={"tasks": ["corridor3", "corridor2"] * 2})
    hashes = infos["state_hash"].tolist()
    assert hashes[:2] == hashes[2:]
    assert hashes[0] != hashes[1]


def test_a_group_that_starts_apart_is_refused():
    class Slippery(CorridorVectorEnv):
        def _reset_slots(self, slots, tasks, seeds):
            starts = super()._reset_slots(slots, tasks, seeds)
            starts.infos["state_hash"][-1] = "f" * 32
            return starts

    with pytest.raises(
        UsageError, match="members of the group of task 'corridor3' start from different states"
    ):
        Slippery(2).reset(options={"tasks": ["corridor3"] * 2})


def test_copies_go_on_alike():
    envs = corridors(3, tasks=["corridor8", "corridor2", "corridor3"])
    envs.step(["right", "right", "left"])
    observation, info = envs.copy(0, 2)
    assert (observation, info["turn"]) == ("cell 1 of 8", 1)
    observations, rewards, *_ = envs.step(["right", "fall", "right"])
    assert observations[0] == observations[2]
    assert rewards[0] == rewards[2]


def test_a_restored_end_is_an_end():
    envs = corridors(2, tasks=["corridor1", "corridor8"])
    envs.step(["right", "right"])
    envs.copy(0, 1)
    with pytest.raises(ResetNeeded, match="slot 1 is over"):
        envs.step_at([1], ["right"])


def test_restore_begins_a_slot():
    envs, fresh = corridors(2), CorridorVectorEnv(2, autoreset_mode="Disabled")
    for i in range(2):
        fresh.restore(i, envs.snapshot(i))
    assert fresh.step(["fall"] * 2)[1].tolist() == [-1.0, -1.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 0}, "num_envs must be at least 1"),
        ({"autoreset_mode": "sometimes"}, "unknown autoreset_mode 'sometimes'; choose one of 'NextStep'"),
        ({"max_steps": 3, "max_episode_steps": 4}, "differ: give one"),
        ({"split": "tests"}, "did you mean 'test'"),
    ],
)
def test_bad_constructor_values(options, message):
    with pytest.raises(UsageError, match=message):
        CorridorVectorEnv(**options)


def test_slots_share_the_tasks():
    envs = CorridorVectorEnv(5)
    assert all(env.tasks is envs.tasks for env in envs.envs)


def test_rendering_shows_every_slot_and_moves_none():
    envs = corridors(2, tasks=["corridor3", "corridor2"], render_mode="ansi")
    before = [envs.snapshot(i) for i in range(2)]
    assert envs.render() == ("cell 0 of 3", "cell 0 of 2")
    assert [envs.snapshot(i) for i in range(2)] == before
    assert corridors(2).render() is None


# ---- columns ---------------------------------------------------------------------------------------------

IMAGES = [{"text": f"t{i}", "image": np.full((2, 2, 3), i, np.uint8)} for i in range(4)]


def test_observations_batch_and_come_apart():
    batch = batch_observations(IMAGES)
    assert batch["text"] == ("t0", "t1", "t2", "t3")
    assert batch["image"].shape == (4, 2, 2, 3)
    for one, other in zip(unbatch_observations(batch, 4), IMAGES, strict=True):
        assert one["text"] == other["text"]
        assert np.array_equal(one["image"], other["image"])


def test_batched_spaces_hold_batches():
    image = gymnasium.spaces.Box(0, 255, (2, 2, 3), np.uint8)
    single = gymnasium.spaces.Dict({"text": UnicodeText(), "image": image})
    assert batch_observations(IMAGES) in batch_space(single, 4)
    assert batch_observations(IMAGES[:3]) not in batch_space(single, 4)


def test_parts_are_taken_and_merged():
    batch = batch_observations(IMAGES)
    where = np.array([3, 1])
    rest = np.array([0, 2])
    merged = merge_observations([(where, take(batch, where)), (rest, take(batch, rest))], 4)
    assert merged["text"] == batch["text"]
    assert np.array_equal(merged["image"], batch["image"])
    assert merge_columns([(where, np.array([3.0, 1.0])), (rest, np.array([0.0, 2.0]))], 4).tolist() == [
        0,
        1,
        2,
        3,
    ]


@pytest.mark.parametrize(
    ("values", "kind"),
    [([True, False], "b"), ([1, 2], "i"), ([0.5, 1.0], "f"), (["a", "b"], "O"), ([(), ()], "O")],
)
def test_columns_have_gymnasium_s_types(values, kind):
    column = info_column(values)
    assert (column.dtype.kind, column.shape, column.tolist()) == (kind, (2,), values)


def test_tuples_of_one_length_stay_tuples():
    assert info_column([("a", "b"), ("c", "d")]).shape == (2,)


def test_spreading_leaves_the_rest_empty():
    assert spread(info_column(["a"]), [1], 3).tolist() == [None, "a", None]
    assert spread(info_column([5]), [1], 3).tolist() == [0, 5, 0]


def test_rows_are_replaced():
    batch = {"text": ("a", "b"), "image": np.zeros((2, 3)), "fixed": np.zeros((2, 1))}
    batch["fixed"].flags.writeable = False
    rows = {"text": ("c",), "image": np.ones((1, 3)), "fixed": np.ones((1, 1))}
    found = replace_rows(batch, np.array([1]), rows)
    assert found["text"] == ("a", "c")
    assert found["image"] is batch["image"]  # not copied
    assert (found["image"][:, 0].tolist(), found["fixed"][:, 0].tolist()) == ([0, 1], [0, 1])
    assert not batch["fixed"].any()


def test_a_reset_in_the_same_step_keeps_what_an_info_is(monkeypatch):
    """A value that is None where an episode begins, and a number afterwards."""
    plain = CorridorEnv._extra_info
    monkeypatch.setattr(
        CorridorEnv, "_extra_info", lambda self: {**plain(self), "late": 0.5 if self._turn else None}
    )
    envs = corridors(2, AutoresetMode.SAME_STEP, tasks=["corridor1", "corridor8"])
    *_, ended, _, infos = envs.step(["right", "right"])
    assert ended.tolist() == [True, False]
    assert infos["late"].tolist() == [None, 0.5]
    assert infos["final_info"]["late"][0] == 0.5
