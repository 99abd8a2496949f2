"""The generated games: that they are what they say, can be done, and play alike in the real engine."""

import pickle
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from agentgym.core.hashing import sha256_json
from agentgym.core.tasks import split_of
from agentgym.envs.alfworld.builtin.catalogue import OPENABLE, ROOMS
from agentgym.envs.alfworld.builtin.generator import DIFFICULTIES, FAMILIES, generate, settings
from agentgym.envs.alfworld.builtin.layouts import HELD_OUT, KNOWN, SIZES, layouts
from agentgym.envs.alfworld.builtin.names import ids, names
from agentgym.envs.alfworld.builtin.tasks import BuiltinGame, builtin_tasks, language
from agentgym.envs.alfworld.engine.game import Game, display_names
from agentgym.envs.alfworld.engine.grammar import parse_grammar
from agentgym.envs.alfworld.planner.planner import Planner
from agentgym.envs.alfworld.source import load_game
from agentgym.errors import UsageError

SPLITS = ("train", "valid_seen", "valid_unseen")

COMMANDS = re.compile(
    r"look|inventory|help|(go to|open|close|examine|use) \w+ \d+"
    r"|take \w+ \d+ from \w+ \d+|move \w+ \d+ to \w+ \d+|(clean|heat|cool|slice) \w+ \d+ with \w+ \d+"
)

IDLE = {"look", "inventory", "help", "examinereceptacle", "examineobject", "closeobject", "sliceobject"}
"""Actions that bring no goal nearer."""


def play(game, state, commands):
    """Return the state after some commands and what they were answered."""
    answers = []
    for command in commands:
        operation = game.operations(state)[command]
        state = game.apply(state, operation)
        answers.append(game.feedback(operation, state))
    return state, answers


# ---- layouts and names ----------------------------------------------------------------------------


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
@pytest.mark.parametrize("room", ROOMS)
def test_layouts_of_a_room_are_all_different_and_within_its_limits(room, difficulty):
    found = layouts(room, difficulty)
    assert len({layout.signature for layout in found}) == len(found) == KNOWN + HELD_OUT
    low, high = SIZES[difficulty]
    for layout in found:
        kinds = Counter(piece.kind for piece in layout.pieces)
        assert low <= kinds.total() <= high
        limits = {**Counter(ROOMS[room].essentials), **ROOMS[room].extras}
        assert kinds.keys() >= set(ROOMS[room].essentials)
        assert all(count <= limits[kind] for kind, count in kinds.items())
        locations = {piece.location for piece in layout.pieces}
        assert locations == set(range(1, len(locations) + 1))


def test_some_furniture_shares_a_location_and_some_does_not():
    shared = [len(group) for group in (g for x in layouts("kitchen", "hard") for g in x.signature)]
    assert 0.1 < sum(size > 1 for size in shared) / len(shared) < 0.5


@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("difficulty", DIFFICULTIES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_several_layouts_at_every_difficulty(family, difficulty, held_out):
    places = settings(family, difficulty, held_out)
    assert sum(map(len, places.values())) >= (HELD_OUT if held_out else KNOWN)
    assert ("kitchen" in places) == (family != "look")
    numbers = {layout.number for fit in places.values() for layout in fit}
    assert all((number >= KNOWN) == held_out for number in numbers)


def test_names_are_those_that_the_engine_derives_from_ids():
    kinds = ["bathtubbasin", "cabinet", *["drawer"] * 12, "sinkbasin", "shelf", "shelf"]
    derived = display_names(ids(kinds))
    assert [derived[name] for name in ids(kinds)] == names(kinds)


# ---- tasks ----------------------------------------------------------------------------------------


def test_ids_are_all_different_and_every_task_belongs_to_its_split():
    seen = {}
    for split in SPLITS:
        tasks = builtin_tasks(split)
        assert len(tasks) == {"train": 10_000}.get(split, 1_000)
        for index, task in enumerate(tasks):
            assert seen.setdefault(task.id, (split, index)) == (split, index)
            held_out = task.metadata["layout"] >= KNOWN
            assert held_out == task.content.held_out == (split == "valid_unseen")
            assert held_out or (split_of(task.id) == "train") == (split == "train")
    counts = Counter(task.type for task in builtin_tasks("valid_unseen"))
    assert set(counts) == set(FAMILIES)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_tasks_are_the_same_in_another_process():
    wanted = {split: [task.id for task in builtin_tasks(split)[:40]] for split in SPLITS}
    program = (
        "from agentgym.envs.alfworld.builtin.tasks import builtin_tasks as b\n"
        f"print({{s: [t.id for t in b(s)[39::-1]][::-1] for s in {SPLITS}}})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(wanted)


def test_tasks_never_change():
    first = {split: [task.id for task in builtin_tasks(split)[:100]] for split in SPLITS}
    assert sha256_json(first) == "107ed564259365fea12d806cf0d8d1998aca2fe890bd2661614ce818436f979f"


def test_listing_tasks_compiles_no_game(monkeypatch):
    def refuse(*_):
        raise AssertionError("compiled")

    monkeypatch.setattr(Game, "__init__", refuse)
    assert len({task.id for task in builtin_tasks("train", types=("cool",))[:50]}) == 50


def test_a_difficulty_and_families_select_tasks_of_the_whole_split():
    whole = {task.id for task in builtin_tasks("valid_seen")}
    parts = [{task.id for task in builtin_tasks("valid_seen", difficulty=d)} for d in DIFFICULTIES]
    assert set.union(*parts) == whole
    assert sum(map(len, parts)) == len(whole)
    chosen = builtin_tasks("valid_seen", difficulty="hard", types=("heat", "look"))
    assert {(task.metadata["difficulty"], task.type) for task in chosen} == {
        ("hard", "heat"),
        ("hard", "look"),
    }
    assert {task.id for task in chosen} <= parts[2]
    assert chosen.manifest_sha256 != builtin_tasks("valid_seen", difficulty="hard").manifest_sha256


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "test"}, "unknown split 'test'"),
        ({"split": "train", "difficulty": "hardest"}, "did you mean 'hard'"),
        ({"split": "train", "types": ("pick3",)}, "unknown task type 'pick3' (did you mean 'pick"),
    ],
)
def test_unknown_choices_are_refused(arguments, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        builtin_tasks(**arguments)


def test_a_game_is_named_in_few_bytes():
    game = builtin_tasks("valid_unseen")[5].content
    assert pickle.loads(pickle.dumps(game)) == game
    assert len(pickle.dumps(game)) < 200
    assert game.name == f"builtin/unseen/5.{game.attempt}"


def test_harder_tasks_are_larger_and_better_hidden():
    tasks = [builtin_tasks("valid_seen", difficulty=d)[:60] for d in DIFFICULTIES]
    for fact in ("receptacles", "objects", "hidden"):
        means = [np.mean([task.metadata[fact] for task in some]) for some in tasks]
        assert means == sorted(means)
        assert means[0] < means[2]


# ---- solvability ----------------------------------------------------------------------------------


@pytest.mark.parametrize("split", SPLITS)
def test_every_walkthrough_wins_and_no_shorter_part_of_it_does(split):
    for task in builtin_tasks(split)[:90]:
        text = task.content.read()
        game = Game(text.domain, text.grammar, text.problem)
        state = game.initial
        progress = [game.progress(state)]
        for command in text.walkthrough:
            assert not game.won(state)
            state, _ = play(game, state, [command])
            progress.append(game.progress(state))
        assert game.won(state)
        assert progress[0] < 1.0 == progress[-1]
        assert len(text.walkthrough) == task.metadata["optimal_steps"] <= 20


@pytest.mark.parametrize("family", FAMILIES)
def test_no_way_is_shorter_than_the_walkthrough(family):
    for difficulty, count in (("easy", 6), ("medium", 1)):
        for task in builtin_tasks("train", difficulty=difficulty, types=(family,))[:count]:
            thing = task.content.script().household.quest.thing
            found = shortest(load_game(task.content), thing, limit=task.metadata["optimal_steps"])
            assert found == task.metadata["optimal_steps"], task.source_id


def shortest(game, thing, *, limit):
    """Return the length of a shortest way to win, breadth first.

    Things of other kinds stay where they are: neither hand nor goal has use for them.
    """

    def useful(operation):
        if operation.schema in IDLE:
            return False
        carries = operation.schema in ("pickupobject", "putobject")
        return not carries or any(name.startswith(f"{thing}_bar_") for name in operation.objects)

    layer, seen = [game.initial], {game.physical(game.initial)}
    for length in range(limit + 1):
        if any(map(game.won, layer)):
            return length
        following = []
        for state in layer:
            for operation in game.operations(state).values():
                if useful(operation):
                    after = game.apply(state, operation)
                    key = game.physical(after)
                    if key not in seen:
                        seen.add(key)
                        following.append(after)
        layer = following
    return None


@pytest.mark.parametrize("split", SPLITS)
def test_the_planner_wins_from_the_start_and_from_anywhere_play_leads(split):
    rng = np.random.default_rng(5)
    for task in builtin_tasks(split)[:18]:
        game = load_game(task.content)
        state = game.initial
        for _ in range(12):
            if game.won(state):
                break
            choices = game.choices(state)
            command = choices.commands[rng.integers(len(choices.commands))]
            state = game.apply(state, game.find(choices, command))
        for start in (game.initial, state):
            plan = Planner(game).plan(start)
            assert plan is not None
            end = start
            for operation in plan:
                end = game.apply(end, operation)
            assert game.won(end)


def test_nothing_wanted_starts_where_it_belongs():
    for number in range(300):
        household = generate(number, 0, held_out=False)
        quest, pieces = household.quest, household.layout.pieces
        wanted = [item for item in household.items if item.kind == quest.thing]
        assert len(wanted) >= quest.needed
        assert all(pieces[item.piece].kind != quest.target for item in wanted)
        shut = sum(pieces[item.piece].kind in OPENABLE for item in wanted)
        assert household.hidden == (len(wanted) - shut < quest.needed)


# ---- what one reads -------------------------------------------------------------------------------


def test_a_game_reads_so():
    game = load_game(BuiltinGame(5, 0, False))
    assert game.intro() == (
        "-= Housework =-\n\nYou stand in a bathroom. Around you, you see a cabinet 1, "
        "a cart 1, a countertop 1, a sidetable 1, a sinkbasin 1, and a toilet 1.\n\n"
        "Your task is to: find two tissuebox and leave both at the same countertop."
    )
    commands = [
        "inventory",
        "go to toilet 1",
        "take tissuebox 3 from toilet 1",
        "inventory",
        "examine tissuebox 3",
        "look",
        "go to cabinet 1",
        "open cabinet 1",
        "close cabinet 1",
        "go to countertop 1",
        "move tissuebox 3 to countertop 1",
        "examine countertop 1",
    ]
    _, answers = play(game, game.initial, commands)
    assert answers == [
        "Your hands are empty.",
        "You arrive at toilet 1. At the toilet 1, you see a tissuebox 3, a tissuebox 2, and a tissuebox 1.",
        "You take the tissuebox 3 from the toilet 1.",
        "In your hand, you have a tissuebox 3.",
        "You see nothing unusual about the tissuebox 3.",
        "You stand at a toilet 1.",
        "You arrive at cabinet 1. The cabinet 1 is closed, so what it holds is out of sight.",
        "You pull the cabinet 1 open. In the open cabinet 1, you see nothing.",
        "You shut the cabinet 1.",
        "You arrive at countertop 1. At the countertop 1, you see a handtowel 1.",
        "You leave the tissuebox 3 at the countertop 1.",
        "At the countertop 1, you see a handtowel 1, and a tissuebox 3.",
    ]


def test_a_thing_tells_what_was_done_to_it():
    game = load_game(BuiltinGame(3, 0, False))
    state, _ = play(game, game.initial, ["go to sinkbasin 1", "take egg 2 from sinkbasin 1"])
    said = []
    for command in ("clean egg 2 with sinkbasin 1", "go to microwave 1", "heat egg 2 with microwave 1"):
        state, _ = play(game, state, [command])
        said.append(play(game, state, ["examine egg 2"])[1][0])
    state, _ = play(game, state, ["go to fridge 1", "cool egg 2 with fridge 1"])
    said.append(play(game, state, ["examine egg 2"])[1][0])
    assert said == [
        "The egg 2 is clean.",
        "The egg 2 is clean.",
        "The egg 2 is clean, hot.",
        "The egg 2 is clean, cold.",
    ]


def test_a_lamp_can_be_switched_off_again():
    game = load_game(BuiltinGame(1, 0, False))
    state, _ = play(game, game.initial, ["go to sidetable 1"])
    lit, answers = play(game, state, ["use desklamp 1", "use desklamp 1"])
    assert answers == ["Click: the desklamp 1 is on.", "Click: the desklamp 1 is off."]
    assert game.physical(lit) == game.physical(state)


def test_a_knife_slices_what_is_in_reach():
    game = load_game(BuiltinGame(257, 0, False))
    commands = ["go to countertop 1", "take knife 2 from countertop 1", "go to fridge 1"]
    state, _ = play(game, game.initial, commands)
    assert "slice bread 1 with knife 2" not in game.choices(state).commands  # behind the door
    state, answers = play(game, state, ["open fridge 1", "slice bread 1 with knife 2"])
    assert answers[1] == "You cut the bread 1 into slices with the knife 2."
    back = [
        "go to countertop 1",
        "move knife 2 to countertop 1",
        "go to fridge 1",
        "take bread 1 from fridge 1",
    ]
    state, _ = play(game, state, back)
    assert play(game, state, ["examine bread 1"])[1] == ["The bread 1 is sliced."]


@pytest.mark.parametrize("split", SPLITS)
def test_commands_are_those_of_published_games_and_looking_changes_nothing(split):
    rng = np.random.default_rng(0)
    for task in builtin_tasks(split)[:36]:
        game = load_game(task.content)
        state = game.initial
        for _ in range(25):
            choices = game.choices(state)
            assert all(COMMANDS.fullmatch(command) for command in choices.commands), choices.commands
            command = choices.commands[rng.integers(len(choices.commands))]
            after = game.apply(state, game.find(choices, command))
            if command in ("look", "inventory", "help") or command.startswith("examine"):
                assert game.physical(after) == game.physical(state)
            elif not command.startswith(("clean", "heat", "cool", "slice")):  # these may be done again
                assert game.physical(after) != game.physical(state)
            state = after


# ---- the real engine ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.peer
def test_games_play_alike_in_textworld():
    from agentgym.envs.alfworld.engine.textworld import TextWorldEngine

    engine = TextWorldEngine()
    rng = np.random.default_rng(11)
    for turn in range(9):  # every family, split and difficulty
        text = builtin_tasks(SPLITS[turn % 3])[25 * turn].content.read()
        game = Game(text.domain, text.grammar, text.problem)
        assert engine.start(text.domain, text.grammar, text.problem) == game.intro()
        state, walk = game.initial, list(text.walkthrough)
        for _ in range(12):
            choices = game.choices(state)
            assert choices.commands == engine.commands
            assert game.facts(state) == engine.facts()
            assert game.won(state) == engine.won
            if game.won(state):
                break
            deeds = [
                c for c in choices.commands if game.operations(state)[c].schema not in IDLE | {"gotolocation"}
            ]
            pool = deeds if deeds and rng.random() < 0.5 else choices.commands
            command = walk.pop(0) if turn % 2 and walk else pool[rng.integers(len(pool))]
            operation = game.find(choices, command)
            state = game.apply(state, operation)
            assert engine.step(command) == game.feedback(operation, state)


@pytest.mark.slow
@pytest.mark.peer
def test_no_sentence_is_taken_from_the_published_grammar():
    from agentgym.envs.alfworld.engine.textworld import installed_logic

    def sentences(grammar):
        texts = (x.text for rule in parse_grammar(grammar).rules.values() for x in rule)
        plain = (re.sub(r"\[.*?\]|\{.*?\}|#.*?#", "X", text) for text in texts)
        found = (" ".join(x.split()).lower() for text in plain for x in re.split(r"[.!?:\n]|\\n", text))
        return {sentence for sentence in found if len(sentence.split()) > 2}

    folder = installed_logic()
    assert folder is not None
    published = sentences((folder / "alfred.twl2").read_text("utf-8"))
    assert len(published) > 20
    assert sentences(language().grammar) & published == {"you arrive at x"}  # what agents look for
