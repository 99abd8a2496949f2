import subprocess
import sys

import pytest

from agentgym.envs.alfworld.builtin.tasks import builtin_tasks
from agentgym.envs.alfworld.memory import RoomMemory
from agentgym.envs.alfworld.prior import GAMES, chance, count, load
from agentgym.envs.alfworld.rules import ExplorerPolicy, HouseholdGoal, parse_goal
from agentgym.errors import UsageError
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from tests.policy_requests import request, steps_of


@pytest.mark.parametrize(
    ("sentence", "goal"),
    [
        ("put a book in sofa.", ("book", "sofa", "", 1)),
        ("put some book on sidetable.", ("book", "sidetable", "", 1)),
        ("find two book and put them in desk.", ("book", "desk", "", 2)),
        ("put two alarmclock in dresser.", ("alarmclock", "dresser", "", 2)),
        ("put a clean butterknife in countertop.", ("butterknife", "countertop", "clean", 1)),
        ("heat some apple and put it in diningtable.", ("apple", "diningtable", "heat", 1)),
        ("cool some apple and put it in countertop.", ("apple", "countertop", "cool", 1)),
        ("put a cool apple in garbagecan.", ("apple", "garbagecan", "cool", 1)),
        ("look at alarmclock under the desklamp.", ("alarmclock", "desklamp", "", 1)),
        ("examine the bowl with the desklamp.", ("bowl", "desklamp", "", 1)),
        ("switch on a desklamp while holding a pen.", ("pen", "desklamp", "", 1)),
        ("inspect a remotecontrol by the light of a desklamp.", ("remotecontrol", "desklamp", "", 1)),
        ("find a statue and leave it at an ottoman.", ("statue", "ottoman", "", 1)),
        ("find two tissuebox and leave both at the same countertop.", ("tissuebox", "countertop", "", 2)),
        ("gather two lettuce at one countertop.", ("lettuce", "countertop", "", 2)),
        ("wash an apple, then bring it to a countertop.", ("apple", "countertop", "clean", 1)),
        ("warm up an egg, then bring it to a fridge.", ("egg", "fridge", "heat", 1)),
        ("chill an egg, then bring it to a microwave.", ("egg", "microwave", "cool", 1)),
        ("bring a cold egg to a microwave.", ("egg", "microwave", "cool", 1)),
    ],
)
def test_goals_are_read(sentence, goal):
    assert parse_goal(sentence) == HouseholdGoal(*goal)


@pytest.mark.parametrize(
    "sentence", ["put a hot sliced apple in fridge.", "tidy up.", "heat and cool an egg, put it in fridge."]
)
def test_other_goals_are_refused(sentence):
    with pytest.raises(UsageError, match=r"cannot read the goal '[^\n]+$"):
        parse_goal(sentence)


def asking(*turns, goal="put a hot egg in garbagecan."):
    """Build a request from (observation, admissible actions, action, valid) of each turn, the last undone."""
    *past, (seen, actions) = turns
    extra = {"goal": goal}
    return request(observation=seen, admissible_actions=actions, history=steps_of(past), extra=extra)


ROOM = ("go to fridge 1", "go to garbagecan 1", "go to microwave 1", "look")
AT_FRIDGE = ("examine fridge 1", "go to garbagecan 1", "go to microwave 1", "look", "open fridge 1")
OPENED = (
    "close fridge 1",
    "examine fridge 1",
    "go to garbagecan 1",
    "go to microwave 1",
    "take egg 1 from fridge 1",
)
LOADED = ("cool egg 1 with fridge 1", "examine egg 1", "go to garbagecan 1", "go to microwave 1")


def test_memory_is_what_has_been_seen():
    first = ("You see a fridge 1.", ROOM, "go to fridge 1", True)
    rejected = ("The fridge 1 is closed.", AT_FRIDGE, "take egg 9 from fridge 1", False)
    second = ("Nothing happens.", AT_FRIDGE, "open fridge 1", True)
    third = (
        "You open the fridge 1. In it, you see a egg 1, and a cup 2.",
        OPENED,
        "take egg 1 from fridge 1",
        True,
    )
    memory = RoomMemory.of(asking(first, rejected, second, third, ("You take it.", LOADED)))
    assert memory.held == "egg 1"
    assert memory.at == {"cup 2": "fridge 1"}
    assert memory.searched == {"fridge 1"}
    assert memory.receptacles == {"fridge 1", "garbagecan 1", "microwave 1"}


def test_a_closed_place_is_not_searched_and_an_open_one_beside_it_is():
    near = ("examine countertop 1", "examine drawer 1", "go to fridge 1", "open drawer 1")
    memory = RoomMemory.of(asking(("You see nothing.", near)))
    assert memory.searched == {"countertop 1"}


def test_what_is_carried_is_treated_and_then_delivered():
    def answer(*commands, history=()):
        return ExplorerPolicy().act([asking(*history, ("", commands))])[0].action

    taken = [("", OPENED, "take egg 1 from fridge 1", True)]
    assert answer(*LOADED, history=taken) == "go to microwave 1"
    heated = [
        *taken,
        ("", ("heat egg 1 with microwave 1", "go to garbagecan 1"), "heat egg 1 with microwave 1", True),
    ]
    assert answer("go to garbagecan 1", "go to fridge 1", history=heated) == "go to garbagecan 1"
    for put in ("put egg 1 in/on garbagecan 1", "move egg 1 to garbagecan 1"):
        assert answer("examine garbagecan 1", "go to fridge 1", put, history=heated) == put


def test_what_can_be_searched_at_hand_costs_less():
    """A drawer where one stands needs one command, another one two."""
    actions = ("examine drawer 2", "go to drawer 1", "open drawer 2")
    seen = [("", ("go to drawer 1", "go to drawer 2", "go to shelf 1"), "go to shelf 1", True)]
    asked = asking(*seen, ("You arrive. You see nothing.", actions), goal="put a pencil in desk.")
    assert ExplorerPolicy().act([asked])[0].action == "open drawer 2"


def test_a_room_that_has_been_searched_in_vain_is_looked_at():
    asked = asking(("", ("examine shelf 1", "inventory", "look")), goal="put a pen in desk.")
    assert ExplorerPolicy().act([asked])[0].action == "look"


def share_won(split, tasks, **options):
    envs = open_vector("agentgym/ALFWorld-v0", 16, split=split, options=options)
    worker = RolloutWorker(envs, ExplorerPolicy(), env_id="agentgym/ALFWorld-v0")
    played = list(worker.run(EpisodeSpec(task, 0, 0) for task in envs.tasks.ids[:tasks]))
    assert not any(trajectory.invalid_count for trajectory in played)
    return sum(trajectory.won for trajectory in played) / len(played)


@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
@pytest.mark.parametrize("observation", ["plain", "augmented"])
def test_built_in_games_are_won(split, observation):
    envs = open_vector("agentgym/ALFWorld-v0", 1, split=split)
    assert len({task.type for task in envs.tasks[:48]}) == 6
    assert share_won(split, 48, observation=observation) >= 0.97


@pytest.mark.assets
@pytest.mark.parametrize("dialect", ["game", "current"])
def test_published_games_are_won_in_both_dialects(dialect):
    assert share_won("valid_seen", 140, dataset="official", dialect=dialect, show_help=False) >= 0.97


def test_the_prior_is_what_built_in_train_games_give():
    tasks = builtin_tasks("train")
    some = count(tasks[:300])
    counted = load()["builtin"]
    for thing, places in some.items():
        for place, (holding, of_all) in places.items():
            assert 0 < holding <= counted[thing][place][0]
            assert of_all <= counted[thing][place][1] <= GAMES * 8
    assert chance("nothing like it", "shelf") == chance("pen", "nothing like it")


def test_counts_are_of_what_a_game_says():
    task = builtin_tasks("train")[0]
    counts = count([task])
    facts = task.content.read().problem
    for thing, places in counts.items():
        assert f"{thing}_bar_01".lower() in facts.lower()
        assert all(1 <= holding <= of_all for holding, of_all in places.values())


@pytest.mark.slow
@pytest.mark.assets
def test_the_shipped_prior_can_be_counted_anew():
    command = [sys.executable, "-m", "agentgym.envs.alfworld.prior", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "prior.toml is what the train games give\n")
