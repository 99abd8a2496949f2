import dataclasses
from contextlib import closing

import pytest

from agentgym.envs.alfworld.memory import RoomMemory, recall, recall_briefly
from agentgym.envs.alfworld.rules import ExplorerPolicy
from agentgym.envs.alfworld.task_memory import recall_for_task
from agentgym.errors import UsageError
from agentgym.prompts import load_template
from agentgym.prompts.rendering import render
from agentgym.prompts.settings import Prompting
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from tests.policy_requests import request, steps_of

ROOM = ("go to drawer 1", "go to drawer 2", "go to fridge 1", "go to table 1", "look")
AT_TABLE = ("examine table 1", "take egg 2 from table 1", "take mug 1 from table 1", *ROOM[:3])
HOLDING = ("examine egg 2", "examine table 1", "move egg 2 to table 1", *ROOM[:3])
AT_FRIDGE = ("cool egg 2 with fridge 1", "examine egg 2", "open fridge 1", *ROOM[:2], ROOM[3])


def asking(*turns, **changes):
    """Build a request from (observation, admissible actions, action, valid) of each turn, the last undone."""
    *past, (seen, actions) = turns
    own = {"turn": len(past), "history": steps_of(past)}
    return request(observation=seen, admissible_actions=actions, **own | changes)


PLAYED = (
    ("A kitchen.", ROOM, "go to table 1", True),
    ("You arrive. You see a egg 2, and a mug 1.", AT_TABLE, "take egg 2 from table 1", True),
    ("You take it.", HOLDING, "go to drawer 9", False),  # not accepted: nothing is learned
    ("Nothing happens.", HOLDING, "go to fridge 1", True),
    ("You arrive. It is closed.", AT_FRIDGE, "cool egg 2 with fridge 1", True),
    ("You cool it.", AT_FRIDGE),
)


def test_what_is_remembered_is_told():
    assert recall(asking(*PLAYED)).splitlines() == [
        "in table 1: mug 1",
        "empty: none",
        "unknown: drawer 1 2 fridge 1",
        "held: egg 2 cool",
        "here: fridge 1 closed",
    ]
    assert recall_briefly(asking(*PLAYED), "put a cool egg in fridge.").splitlines() == [
        "seen: table 1 mug",
        "unknown: drawer 1 2 fridge 1",
        "held: egg 2 cool",
        "here: fridge 1 closed",
        "named: egg held fridge here",
    ]


MOVED = (
    *PLAYED[:2],
    ("You take it.", HOLDING, "move egg 2 to table 1", True),
    ("You move it.", AT_TABLE, "take mug 1 from table 1", True),
    ("You take it.", ("move mug 1 to table 1", *ROOM[:3])),
)


def test_things_that_were_moved_are_told_apart():
    def named(*turns):
        return recall_briefly(asking(*turns), "put egg and mug in fridge.").splitlines()[-1]

    assert named(MOVED[0], MOVED[1][:2]) == "named: egg seen here mug seen here fridge away"
    assert named(*MOVED) == "named: egg moved here mug held fridge away"
    away = (*MOVED[:-1], (*MOVED[-1], "go to fridge 1", True), ("It is closed.", AT_FRIDGE))
    assert named(*away) == "named: egg moved table 1 mug held fridge here"
    again = (*MOVED[:3], (*MOVED[3][:2], "take egg 2 from table 1", True), ("You take it.", HOLDING))
    assert named(*again) == "named: egg held mug seen here fridge away"


def test_memory_for_a_task_tells_what_the_task_names_and_what_was_tried():
    assert recall_for_task(asking(*PLAYED), "put a cool egg in fridge.").splitlines() == [
        "unknown:drawer 1 2,fridge 1",
        "held: egg 2 cool",
        "here: fridge 1 closed",
        "tried: none",
        "named: egg held fridge here",
    ]
    closed = ("It is closed.", ("open fridge 1", *ROOM[:2], ROOM[3]))
    turns = (*MOVED[:-1], (*MOVED[-1], "go to fridge 1", True), closed)
    assert recall_for_task(asking(*turns), "put egg and mug in fridge.").splitlines()[-2:] == [
        "tried: fridge 1",
        "named: egg moved 2 table 1 mug held fridge here",
    ]


def test_what_was_tried_is_told_until_something_becomes_known():
    def tried(*commands):
        turns = [("You arrive. It is closed.", AT_FRIDGE, command, True) for command in commands]
        return recall_for_task(asking(*turns, ("You arrive.", AT_FRIDGE))).splitlines()[3]

    assert tried("go to drawer 1") == "tried: drawer 1"
    assert tried("go to drawer 1", "go to table 1", "go to drawer 1") == "tried: drawer 1 table 1"
    assert tried("please go on", "open fridge 1") == "tried: open fridge 1"  # only commands are repeated
    seen = ("You open it. In it, you see a egg 2.", AT_FRIDGE)
    opened = asking(("It is closed.", AT_FRIDGE, "open fridge 1", True), seen)
    assert recall_for_task(opened).splitlines()[3] == "tried: none"


@pytest.mark.parametrize("tell", [recall, recall_briefly, recall_for_task])
def test_memory_is_a_function_of_past_observations_and_actions_alone(tell):
    told = tell(asking(*PLAYED))
    steps = asking(*PLAYED).history
    others = tuple(
        dataclasses.replace(step, state_hash="1", next_state_hash="2", reward=1.0, terminated=True)
        for step in steps
    )
    extra = {"goal": "put a mug in fridge.", "location": "drawer 1", "held": "mug 1", "moved": ("x",)}
    changed = asking(
        *PLAYED,
        history=others,
        extra=extra,
        task_id="u",
        task_type="heat",
        state_hash="3",
        seed=8,
        episode=5,
        rollout=2,
        snapshot=lambda: pytest.fail("memory looks at the game"),
    )
    assert tell(changed) == told
    seen_less = asking(("A kitchen.", ROOM))
    assert "mug" not in tell(seen_less)  # nor is anything known before it was seen


class Listener:
    """Plays as the explorer does, and keeps what it is asked."""

    def __init__(self):
        self.asked = []

    def act(self, requests):
        self.asked += requests
        return ExplorerPolicy().act(requests)


@pytest.mark.parametrize(
    ("wording", "tell"),
    [
        ("alfworld-memory", lambda request, _: recall(request)),
        ("alfworld-memory-terse", recall_briefly),
        ("alfworld-memory-task", recall_for_task),
    ],
)
def test_prompts_tell_the_memory_instead_of_past_turns(wording, tell):
    template = load_template(wording, "bare")
    player = Listener()
    with closing(open_vector("agentgym/ALFWorld-v0", 2, split="valid_unseen", options={})) as envs:
        worker = RolloutWorker(envs, player, env_id="")
        list(worker.run(EpisodeSpec(task, 0, 0) for task in envs.tasks.ids[:2]))
    last = player.asked[-1]
    assert last.turn > 2
    text = render(template, template.fields(last, history=5)).text
    assert last.extra["goal"] in text
    assert tell(last, last.extra["goal"]) in text
    assert (last.admissible_actions[0] in text) is (wording == "alfworld-memory")
    assert last.history[0].observation.splitlines()[-1] not in text.replace(last.extra["goal"], "")
    assert RoomMemory.of(last).searched


def test_without_a_list_of_actions_the_choice_is_constrained():
    settings = {"wording": "alfworld-memory-terse", "answer": "bare"}
    assert Prompting(**settings, choice="constrained").template.lists_actions is False
    with pytest.raises(UsageError, match="does not list the possible actions: use choice 'constrained'"):
        Prompting(**settings, choice="free")


def test_own_wordings_extend_a_memory_but_name_no_code(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text('id = "own"\nversion = 1\nextends = "alfworld-memory"\n')
    assert load_template(str(own), "bare").fields is load_template("alfworld-memory", "bare").fields
    own.write_text('id = "own"\nversion = 1\nextends = "terse"\nfields = "os:system"\n')
    with pytest.raises(UsageError, match="names fields, which are code: extend a built-in wording"):
        load_template(str(own), "bare")
