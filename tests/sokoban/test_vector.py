import tracemalloc

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.sokoban.arrays import BoardBatch
from agentgym.envs.sokoban.builtin.bank import load
from agentgym.envs.sokoban.builtin.generator import Config
from agentgym.envs.sokoban.engine import ACTIONS, REWARDS, play
from agentgym.envs.sokoban.env import SokobanEnv, VisualSokobanEnv
from agentgym.envs.sokoban.level import Level
from agentgym.envs.sokoban.vector import SokobanVectorEnv, VisualSokobanVectorEnv
from agentgym.vector.serial import SerialVectorEnv

MIXED = """; 0
#####
#@$.#
#####

; 1
########
#*  .$@#
#      #
########

; 2
  ####
###  ####
#@ $ . .#
#  $    #
#########
"""


class SerialText(SerialVectorEnv):
    env_class = SokobanEnv


class SerialVisual(SerialVectorEnv):
    env_class = VisualSokobanEnv


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    path = tmp_path_factory.mktemp("levels") / "mixed.xsb"
    path.write_text(MIXED)
    return str(path)


def assert_same(left, right, path="returned"):
    assert type(left) is type(right), path
    if isinstance(left, dict):
        assert list(left) == list(right), path
        for key in left:
            assert_same(left[key], right[key], f"{path}[{key!r}]")
    elif isinstance(left, tuple):
        assert len(left) == len(right), path
        for k, (a, b) in enumerate(zip(left, right, strict=True)):
            assert_same(a, b, f"{path}[{k}]")
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype, path
        assert left.shape == right.shape, path
        if left.dtype == object:
            for k, (a, b) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
                assert_same(a, b, f"{path}[{k}]")
        else:
            assert left.tobytes() == right.tobytes(), path
    else:
        assert left == right, path


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize(
    "kind", ["text", "visual", "full", "effective", "upstream", "mixed", "mixed pictures"]
)
def test_arrays_equal_environments_one_by_one(mode, kind, mixed):
    options = {
        "text": {},
        "visual": {"tile_size": "tiny", "num_boxes": 2},
        "full": {"actions": "full", "reward": "sparse"},
        "effective": {"effective_only": True},
        "upstream": {"parity": "gym-sokoban", "dataset": mixed},
        "mixed": {"dataset": mixed},
        "mixed pictures": {"dataset": mixed},
    }[kind]
    native, serial = (SokobanVectorEnv, SerialText)
    if kind in ("visual", "mixed pictures"):
        native, serial = (VisualSokobanVectorEnv, SerialVisual)
    forms = [form(5, autoreset_mode=mode, max_steps=9, **options) for form in (native, serial)]
    assert_same(*(form.reset(seed=3) for form in forms))
    names = [*ACTIONS[options.get("actions", "agent")], None]
    rng = np.random.default_rng(1)
    for _ in range(60):
        chosen = tuple(
            "sing" if names[k] is None else names[k].name for k in rng.integers(len(names), size=5)
        )
        returned = [form.step(chosen) for form in forms]
        assert_same(*returned)
        over = returned[0][2] | returned[0][3]
        if mode is AutoresetMode.DISABLED and over.any():
            assert_same(*(form.reset(options={"reset_mask": over}) for form in forms))
    for slot in range(5):
        assert forms[0].snapshot(slot) == forms[1].snapshot(slot)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_partial_steps_resets_and_restores_equal(data):
    forms = [
        form(4, autoreset_mode="Disabled", max_steps=6, num_boxes=2)
        for form in (SokobanVectorEnv, SerialText)
    ]
    seed = data.draw(st.integers(0, 99))
    assert_same(*(form.reset(seed=seed) for form in forms))
    saved = [form.snapshot(0) for form in forms]
    slots_of = st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True)
    actions_of = st.sampled_from(["up", "down", "left", "right", "", "UP"])
    for _ in range(data.draw(st.integers(1, 12), label="beats")):
        running = np.flatnonzero(~forms[0]._over).tolist()
        match data.draw(st.sampled_from(["step", "reset", "restore"])):
            case "step" if running:
                slots = data.draw(st.lists(st.sampled_from(running), min_size=1, unique=True))
                actions = [data.draw(actions_of) for _ in slots]
                assert_same(*(form.step_at(slots, actions) for form in forms))
            case "restore":
                slot = data.draw(st.integers(0, 3))
                assert_same(*(form.restore(slot, snap) for form, snap in zip(forms, saved, strict=True)))
            case _:
                slots = data.draw(slots_of)
                assert_same(*(form.reset_at(slots) for form in forms))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_array_rules_are_the_engines(data):
    config = data.draw(st.sampled_from([Config(6, 6, 1), Config(7, 7, 2)]))
    kind = data.draw(st.sampled_from(["agent", "full"]))
    bank = load(config, "test")
    rows = data.draw(st.lists(st.integers(0, len(bank.boards) - 1), min_size=1, max_size=5))
    batch = BoardBatch(len(rows), bank.boards.shape[1] + 3, ACTIONS[kind], REWARDS["native"], max_steps=50)
    batch.load_from(bank, np.arange(len(rows)), np.array(rows))
    levels = [Level.of_board(bank.boards[row].tobytes()) for row in rows]
    boards, players = [bytearray(level.board) for level in levels], [level.player for level in levels]
    moves_of = st.lists(st.integers(0, len(ACTIONS[kind])), min_size=len(rows), max_size=len(rows))
    for _ in range(data.draw(st.integers(1, 30))):
        numbers = data.draw(moves_of)
        effective = batch.effective()
        steps = batch.step(np.array(numbers))
        for i, number in enumerate(numbers):
            action = (*ACTIONS[kind], None)[number]
            delta = 0 if action is None else action.rows * (config.width + 1) + action.columns
            move = play(boards[i], players[i], delta, action is not None and action.pushes)
            players[i] = move.player
            assert (batch.board(i), batch.player(i)) == (bytes(boards[i]), move.player)
            assert (steps.moved[i], steps.pushed[i]) == (move.moved, move.pushed)
            assert action is None or effective[i, number] == move.moved


def test_a_batch_handed_out_is_not_changed_later():
    envs = VisualSokobanVectorEnv(2, tile_size="tiny")
    returned = [envs.reset(seed=0), *(envs.step(("up", "left")) for _ in range(4))]
    envs = VisualSokobanVectorEnv(2, tile_size="tiny")
    for k, before in enumerate(returned):
        assert_same(before, envs.reset(seed=0) if k == 0 else envs.step(("up", "left")))


def test_a_thousand_episodes_take_little_memory():
    def hold(num):
        envs = SokobanVectorEnv(num)
        envs.reset(seed=0)
        envs.step(("up",) * num)
        return envs

    hold(1)  # what all episodes share is made once
    tracemalloc.start()
    one = hold(1)
    small, _ = tracemalloc.get_traced_memory()
    many = hold(1024)
    large, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert one.num_envs + many.num_envs == 1025
    assert (large - small) - small <= 20e6


def test_groups_start_alike():
    envs = SokobanVectorEnv(4, autoreset_mode="Disabled")
    task = envs.tasks[11].source_id
    texts, infos = envs.reset(options={"tasks": [task] * 4})
    assert len(set(texts)) == len(set(infos["state_hash"])) == 1
