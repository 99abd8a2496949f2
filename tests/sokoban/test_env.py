import pickle

import gymnasium
import numpy as np
import pytest

import agentgym  # noqa: F401
from agentgym.checking import check_agent_env, check_agent_vector_env
from agentgym.envs.sokoban.env import REJECTED, SokobanEnv, VisualSokobanEnv
from agentgym.envs.sokoban.vector import SokobanVectorEnv, VisualSokobanVectorEnv
from agentgym.errors import UsageError
from tests.policy_requests import request, request_of

LEVELS = "; 0\n#######\n#@ $ .#\n#######\n\n; 1\n#######\n#* $ .#\n#@    #\n#######\n"
OPTIONS = {
    "full": {"actions": "full", "reward": "sparse"},
    "effective": {"effective_only": True},
    "effective full": {"effective_only": True, "actions": "full", "num_boxes": 2},
    "upstream": {"parity": "gym-sokoban", "num_boxes": 2},
    "stream": {"stream": True, "split": "valid"},
    "two boxes": {"dim_room": (7, 7), "num_boxes": 2, "split": "test", "tile_size": "tiny"},
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "two.xsb"
    path.write_text(LEVELS)
    return str(path)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_option_keeps_the_contract(options):
    check_agent_env(lambda **more: SokobanEnv(**{**options, **more}))
    check_agent_vector_env(lambda num_envs, **more: SokobanVectorEnv(num_envs, **{**options, **more}))


@pytest.mark.parametrize("name", ["upstream", "two boxes"])
def test_drawn_boards_keep_the_contract_too(name):
    """Under the options that a picture is drawn by; the game below it is that of the other class."""
    options = OPTIONS[name]
    check_agent_env(lambda **more: VisualSokobanEnv(**{**options, **more}))
    check_agent_vector_env(lambda num_envs, **more: VisualSokobanVectorEnv(num_envs, **{**options, **more}))


def test_levels_of_several_sizes_keep_the_contract(tmp_path):
    levels = LEVELS + "\n; 2\n  ####\n###  ####\n#@ $ . .#\n#  $    #\n#########\n"
    for split, text in {
        "train": levels,
        "valid": LEVELS.replace(" .", "."),
        "test": LEVELS.replace("@ ", "@"),
    }.items():
        (tmp_path / split).mkdir()
        (tmp_path / split / "some.xsb").write_text(text)
    base = {"dataset": str(tmp_path)}
    for single, vector in (
        (SokobanEnv, SokobanVectorEnv),
        (VisualSokobanEnv, VisualSokobanVectorEnv),
    ):
        check_agent_env(lambda single=single, **more: single(**{**base, **more}))
        check_agent_vector_env(lambda num_envs, vector=vector, **more: vector(num_envs, **{**base, **more}))


def play(env, actions, task="two.xsb#0"):
    env.reset(options={"task": task})
    return [env.step(action) for action in actions]


def test_native_rewards(file):
    steps = play(SokobanEnv(dataset=file), ["up", "right", "right", "right"])
    assert [step[1] for step in steps] == [-0.1, -0.1, -0.1, -0.1 + 1 + 10]
    assert [step[2] for step in steps] == [False, False, False, True]
    assert steps[-1][0] == "#######\n#   @*#\n#######"
    off_and_on = play(SokobanEnv(dataset=file), ["up"], "two.xsb#1")
    assert off_and_on[0][1] == -0.1


def test_sparse_rewards(file):
    steps = play(SokobanEnv(dataset=file, reward="sparse"), ["left", "right", "right", "right"])
    assert [step[1] for step in steps] == [0.0, 0.0, 0.0, 10.0]


def test_progress_and_losing_a_box(file):
    env = SokobanEnv(dataset=file)
    _, info = env.reset(options={"task": "two.xsb#1"})
    assert (info["progress"], info["won"], info["deadlock"]) == (0.5, False, False)
    env.step("right")
    *_, info = env.step("up")  # the box goes nowhere: the wall is behind it
    assert info["progress"] == 0.5


def test_upstreams_count_starts_at_zero_and_is_part_of_the_state(file):
    ours, upstream = SokobanEnv(dataset=file), SokobanEnv(dataset=file, parity="gym-sokoban")
    assert [step[1] for step in play(ours, ["left", "left"], "two.xsb#1")] == [-0.1, -0.1]
    _, first = upstream.reset(options={"task": "two.xsb#1"})
    _, reward, *_, second = upstream.step("left")
    assert reward == -0.1 + 1
    assert first["state_hash"] != second["state_hash"]
    assert "boxes counted on targets: 1" in upstream.state_text()
    assert upstream.step("left")[1] == -0.1


def test_a_snapshot_taken_with_the_other_parity_pays_as_the_environment_does(file):
    upstream = SokobanEnv(dataset=file, parity="gym-sokoban")
    upstream.reset(options={"task": "two.xsb#1"})
    single = SokobanEnv(dataset=file)
    single.restore(upstream.snapshot())
    slots = SokobanVectorEnv(1, dataset=file)
    slots.restore(0, upstream.snapshot())
    assert single.step("left")[1] == slots.step(["left"])[1][0] == -0.1


def test_deadlocks_are_reported_and_stay(tmp_path):
    path = tmp_path / "a.xsb"
    path.write_text("#######\n#     #\n# $@ .#\n#######\n")
    env = SokobanEnv(dataset=str(path))
    assert env.reset()[1]["deadlock"] is False
    assert env.step("left")[4]["deadlock"] is True
    snapshot = env.snapshot()
    assert env.step("right")[4]["deadlock"] is True
    assert SokobanEnv(dataset=str(path)).restore(snapshot)[1]["deadlock"] is True


def test_a_rejected_action_says_so_and_costs_a_step(file):
    env = SokobanEnv(dataset=file)
    board, before = env.reset(options={"task": "two.xsb#0"})
    text, reward, terminated, truncated, info = env.step("fly")
    assert text == REJECTED + board
    assert (reward, terminated, truncated) == (-0.1, False, False)
    assert (info["action_is_valid"], info["turn"]) == (False, 1)
    assert info["state_hash"] == before["state_hash"]
    assert env.step("up")[0] == board  # accepted, though a wall is there


def test_effective_only_accepts_what_changes_the_board(file):
    env = SokobanEnv(dataset=file, effective_only=True)
    _, info = env.reset(options={"task": "two.xsb#0"})
    assert info["admissible_actions"] == ("right",)
    *_, info = env.step("up")
    assert info["action_is_valid"] is False
    assert env.step("right")[4]["admissible_actions"] == ("left", "right")


def test_full_actions_push_or_only_move(file):
    env = SokobanEnv(dataset=file, actions="full")
    _, info = env.reset(options={"task": "two.xsb#0"})
    assert len(info["admissible_actions"]) == 9
    texts = [step[0] for step in play(env, ["push right", "move right", "no operation", "push right"])]
    rows = [text.split("\n")[1] for text in texts]
    assert rows == ["# @$ .#", "# @$ .#", "# @$ .#", "#  @$.#"]


def test_text_and_picture_share_states(file):
    text, visual = (
        SokobanEnv(dataset=file),
        VisualSokobanEnv(dataset=file, tile_size="tiny", render_mode="ansi"),
    )
    for seed in range(3):
        a, info_a = text.reset(seed=seed)
        b, info_b = visual.reset(seed=seed)
        assert (a, info_a) == (b["text"], info_b)
    seen, info = visual.restore(text.snapshot())
    assert seen["image"].shape == (4, 7, 3)
    assert info["state_hash"] == text.state_hash()


def test_rendering(file, capsys):
    env = SokobanEnv(dataset=file, render_mode="rgb_array")
    env.reset(options={"task": "two.xsb#1"})
    assert env.render().shape == (64, 112, 3)
    ansi = SokobanEnv(dataset=file, render_mode="ansi")
    text, _ = ansi.reset(seed=0)
    assert ansi.render() == text
    assert capsys.readouterr().out == ""
    human = SokobanEnv(dataset=file, render_mode="human")
    first, _ = human.reset(options={"task": "two.xsb#0"})
    second, *_ = human.step("right")
    assert human.render() is None
    assert capsys.readouterr().out == f"{first}\n\n{second}\n\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "tran"}, "unknown split 'tran'.*did you mean 'train'"),
        ({"dim_room": (3, 3)}, "dim_room must be"),
        ({"dim_room": 6}, "dim_room is"),
        ({"dim_room": (6, 6.5)}, "dim_room is"),
        ({"num_boxes": 9}, "num_boxes must be"),
        ({"num_boxes": "1"}, "num_boxes must be a whole number"),
        ({"num_boxes": True}, "num_boxes must be a whole number"),
        ({"actions": "all"}, "unknown actions 'all'"),
        ({"actions": ["agent"]}, r"unknown actions \['agent'\]"),
        ({"effective_only": "no"}, "effective_only must be true or false, got 'no'"),
        ({"stream": 1}, "stream must be true or false"),
        ({"reward": "dense"}, "unknown reward 'dense'"),
        ({"parity": "gym"}, "unknown parity 'gym'"),
        ({"tile_size": 8}, "tile_size"),
        ({"render_mode": "rgb"}, "unknown render_mode"),
        ({"dataset": "/nowhere/levels.xsb"}, "check the path"),
        ({"dataset": ""}, "dataset is 'builtin', a path or a name, not empty"),
        ({"dataset": 3}, "dataset must be a string, got 3"),
        ({"max_steps": 0}, "max_steps"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, message):
    for make in (SokobanEnv, VisualSokobanEnv, SokobanVectorEnv):
        with pytest.raises(UsageError, match=message) as caught:
            make(**options)
        assert "\n" not in str(caught.value)


def test_streams_need_the_generator(file):
    with pytest.raises(UsageError, match="stream=True goes with"):
        SokobanEnv(dataset=file, stream=True)


def test_misspelt_options_are_errors():
    for make in (SokobanEnv, VisualSokobanEnv, SokobanVectorEnv, VisualSokobanVectorEnv):
        with pytest.raises(UsageError, match="unknown option 'num_box' "):
            make(num_box=1)


@pytest.mark.parametrize("options", [{}, {"actions": "full"}, {"num_boxes": 2}], ids=str)
def test_the_oracle_wins_in_fewest_moves(options):
    env = SokobanEnv(split="test", **options)
    oracle = env.oracle()
    for task in env.tasks[:20]:
        observation, info = env.reset(options={"task": task.id})
        for turn in range(task.metadata["optimal_moves"]):
            asked = request_of(env, info, turn=turn, observation=observation)
            observation, _, terminated, _, info = env.step(oracle.act([asked])[0].action)
        assert terminated
        assert info["won"]


def test_the_oracle_goes_on_where_nothing_helps(tmp_path):
    path = tmp_path / "lost.xsb"
    path.write_text("######\n#$ @.#\n#    #\n######\n")
    env = SokobanEnv(dataset=str(path))
    env.reset()
    asked = request(admissible_actions=env.admissible_actions(), snapshot=env.snapshot)
    assert [c.action for c in env.oracle().act([asked, asked])] == ["up", "up"]


def test_tasks_and_specs_can_be_pickled():
    env = gymnasium.make("agentgym/VisualSokoban-v0", dim_room=(7, 7), num_boxes=2)
    spec = pickle.loads(pickle.dumps(env.spec))
    env.reset(seed=1)
    again = gymnasium.make(spec)
    again.reset(seed=1)
    assert again.unwrapped.state_hash() == env.unwrapped.state_hash()
    assert pickle.loads(pickle.dumps(env.unwrapped.snapshot())) == env.unwrapped.snapshot()


def test_boards_of_a_vector_slot_and_an_environment_swap_by_snapshot():
    single, vector = SokobanEnv(num_boxes=2), SokobanVectorEnv(3, num_boxes=2)
    single.reset(seed=9)
    vector.reset(seed=0)
    text, info = vector.restore(1, single.snapshot())
    assert text == single.render() or text == single.state_text().split("\n", 1)[1]
    assert info == single.restore(vector.snapshot(1))[1]
    rng = np.random.default_rng(0)
    for name in rng.choice(["up", "down", "left", "right"], size=30):
        text, reward, *_ = single.step(str(name))
        texts, rewards, *_ = vector.step_at([1], [str(name)])
        assert (texts[0], rewards[0]) == (text, reward)
