import pytest

from agentgym.envs.sokoban.rules import GreedyPushPolicy, read_board
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from tests.policy_requests import request, steps_of

MOVES = ("up", "down", "left", "right")


def answer(*observations, actions=MOVES):
    *past, seen = observations
    history = steps_of((observation, actions, "up", True) for observation in past)
    asked = request(observation=seen, admissible_actions=actions, history=history)
    return GreedyPushPolicy().act([asked])[0].action


ROOM = "#######\n#@    #\n# $.  #\n#  $ .#\n#######"


def test_the_board_is_read_from_any_observation():
    assert read_board(ROOM) == ROOM.encode()
    assert (
        read_board({"text": f"Nothing happened: this action is not possible here.\n{ROOM}"}) == ROOM.encode()
    )


def test_a_push_into_a_corner_is_avoided():
    assert answer("######\n#  . #\n# $@ #\n#    #\n######") != "left"


@pytest.mark.parametrize(("actions", "move"), [(MOVES, "right"), (("push up", "push right"), "push right")])
def test_moves_go_by_the_names_of_the_action_set(actions, move):
    assert answer("######\n#@ $.#\n######", actions=actions) == move


def test_a_layout_is_not_gone_through_twice():
    """Without a past the box is pushed on to the target; where that has been done, another way is taken."""
    empty = "#       #\n"
    here, there = (
        f"#########\n{empty}{empty}{row}\n{empty}{empty}#########" for row in ("# @$  . #", "#  @$ . #")
    )
    assert answer(here) == "right"
    assert answer(here, there) == "right"
    assert answer(there, here) != "right"


def test_a_lost_board_gets_an_answer():
    assert answer("#####\n#$ .#\n# @ #\n#####") == "up"
    assert answer("#####\n#$ .#\n# @ #\n#####", actions=()) == ""


@pytest.mark.parametrize(
    ("env_id", "options", "least"),
    [
        ("agentgym/Sokoban-v0", {}, 0.95),
        ("agentgym/Sokoban-v0", {"num_boxes": 2}, 0.85),
        ("agentgym/Sokoban-v0", {"num_boxes": 2, "dim_room": [7, 7], "actions": "full"}, 0.85),
        ("agentgym/VisualSokoban-v0", {"effective_only": True}, 0.95),
    ],
)
def test_most_built_in_levels_are_won(env_id, options, least):
    envs = open_vector(env_id, 32, split="test", options=options)
    worker = RolloutWorker(envs, GreedyPushPolicy(), env_id=env_id)
    played = list(worker.run(EpisodeSpec(task, 0, 0) for task in envs.tasks.ids[:100]))
    assert sum(trajectory.won for trajectory in played) / len(played) >= least
