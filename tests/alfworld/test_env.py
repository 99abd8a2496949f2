"""The environment: what it shows, accepts, counts and refuses."""

import pickle

import pytest

from agentgym.envs.alfworld.engine.scene import trace
from agentgym.envs.alfworld.env import REJECTED, ALFWorldEnv
from agentgym.envs.alfworld.tasks import TASK_TYPES
from agentgym.errors import MissingDataError, UsageError


def walkthrough(env, family, number=0):
    """Start the n-th game of a family and return the commands that win it."""
    task = [task for task in env.tasks[:60] if task.type == family][number]
    env.reset(options={"task": task.id})
    return task.content.read().walkthrough


@pytest.fixture
def copies(tmp_path, monkeypatch):
    """Return a folder with three good games, as upstream lays them out."""
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    names = ("pick_and_place_simple-Mug-None-Shelf-1", "look_at_obj_in_light-Pen-None-DeskLamp-2")
    for number, task in enumerate(ALFWorldEnv().tasks[:3]):
        path = tmp_path / "games" / "train" / names[number % 2] / f"trial_{number}" / "game.tw-pddl"
        path.parent.mkdir(parents=True)
        path.write_text(task.content.read().to_json())
    return tmp_path / "games"


def damage(folder, old, new):
    path = folder / "train" / "look_at_obj_in_light-Pen-None-DeskLamp-2" / "trial_1" / "game.tw-pddl"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def start_every_game(**options):
    env = ALFWorldEnv(**options)
    for task in env.tasks:
        env.reset(options={"task": task.id})
    return env


@pytest.mark.parametrize("family", TASK_TYPES)
def test_a_walkthrough_wins(family):
    env = ALFWorldEnv()
    commands = walkthrough(env, family)
    progress = [0.0]
    for command in commands:
        assert command in env.admissible_actions()
        _, reward, terminated, truncated, info = env.step(command)
        progress.append(info["progress"])
        assert (reward == 1.0) == terminated == info["won"] == (info["score"] == 1.0)
        assert not truncated
    assert terminated
    assert info["progress"] == 1.0
    assert len(set(progress)) > 1
    assert info["task_type"] == family
    assert info["admissible_actions"] == ()


def test_the_account_follows_the_episode():
    env, plain = ALFWorldEnv(observation="augmented"), ALFWorldEnv()
    commands = walkthrough(env, "clean")
    start, info = env.restore(env.snapshot())
    assert start.endswith("\nLocation: middle of a room. Items in hand (status): nothing.")
    assert (info["location"], info["held"], info["moved"]) == ("middle of a room", "nothing", ())
    walkthrough(plain, "clean")
    statuses = []
    for command in commands:
        shown, _, _, _, info = env.step(command)
        text, _, _, _, other = plain.step(command)
        assert info == other
        line = f"Location: {info['location']}. Items in hand (status): {info['held']}."
        if info["moved"]:
            line += f" Moved items: {', '.join(info['moved'])}."
        assert shown == f"{text}\n{line}"
        statuses.append(info["held"])
    thing = next(held for held in statuses if held != "nothing").partition("(")[0]
    assert list(dict.fromkeys(statuses)) == ["nothing", f"{thing}(unprocessed)", f"{thing}(cleaned)"]
    assert info["moved"] == (f"{thing}(cleaned) to {info['location']}",)


@pytest.mark.parametrize(
    ("command", "place", "moved"),
    [
        ("go to cabinet 1", "cabinet 1", ""),
        ("put mug 1 in/on shelf 2", "", "mug 1(heated) to shelf 2"),
        ("move mug 1 to shelf 2", "", "mug 1(heated) to shelf 2"),
        ("take mug 1 from shelf 2", "", ""),
        ("clean mug 1 with sinkbasin 1", "", ""),
    ],
)
def test_what_commands_leave_in_the_account(command, place, moved):
    assert trace(command, "mug 1(heated)") == (place, moved)


def test_the_goal_is_the_tasks_sentence():
    env = ALFWorldEnv()
    observation, info = env.reset(seed=4)
    assert observation.rstrip().endswith(info["goal"])
    assert ":" not in info["goal"]


@pytest.mark.parametrize("command", ["", "   ", "dance", "go to nowhere 1", "Look", "look " * 3000, "\ud800"])
def test_unknown_commands_change_nothing(command):
    env = ALFWorldEnv()
    env.reset(seed=1)
    before = env.snapshot().state
    observation, reward, terminated, _, info = env.step(command)
    assert (observation, reward, terminated, info["action_is_valid"]) == (REJECTED, 0.0, False, False)
    assert env.snapshot().state == before
    assert info["turn"] == 1


def test_blanks_around_a_command_do_not_matter():
    env = ALFWorldEnv()
    env.reset(seed=1)
    assert env.is_admissible("  look\n")
    assert env.step("  look\n")[4]["action_is_valid"]


def test_help_can_be_hidden():
    shown, hidden = ALFWorldEnv(), ALFWorldEnv(show_help=False)
    for env in (shown, hidden):
        env.reset(seed=2)
    assert set(shown.admissible_actions()) - set(hidden.admissible_actions()) == {"help"}
    assert not hidden.is_admissible("help")
    assert not hidden.step("help")[4]["action_is_valid"]
    assert shown.step("help")[4]["action_is_valid"]
    assert shown.state_hash() == hidden.state_hash()


def test_options_leave_hashes_alone():
    envs = [ALFWorldEnv(), ALFWorldEnv(observation="augmented", show_help=False, task_types=["heat"])]
    task = next(task for task in envs[0].tasks if task.type == "heat")
    hashes = []
    for env in envs:
        env.reset(options={"task": task.id})
        hashes.append([env.state_hash()])
        for command in task.content.read().walkthrough:
            hashes[-1].append(env.step(command)[4]["state_hash"])
    assert hashes[0] == hashes[1]
    assert len(set(hashes[0])) > 3


def test_a_snapshot_holds_the_account():
    env = ALFWorldEnv(observation="augmented")
    commands = walkthrough(env, "pick2")
    middle = commands.index(next(command for command in commands if command.startswith(("put", "move")))) + 1
    for command in commands[:middle]:
        shown = env.step(command)
    snapshot = pickle.loads(pickle.dumps(env.snapshot()))
    assert len(pickle.dumps(snapshot)) < 3000
    other = ALFWorldEnv(observation="augmented")
    observation, info = other.restore(snapshot)
    assert (observation, info) == (shown[0], shown[4])
    assert len(info["moved"]) == 1
    for command in commands[middle:]:
        assert env.step(command) == (last := other.step(command))
    assert last[4]["won"]
    assert len(last[4]["moved"]) == 2


def test_families_and_difficulties_are_chosen():
    env = ALFWorldEnv(task_types=["cool", "look"], difficulty="easy")
    chosen = env.tasks[:20]
    assert {task.type for task in chosen} == {"cool", "look"}
    assert {task.metadata["difficulty"] for task in chosen} == {"easy"}
    assert {task.type for task in ALFWorldEnv(task_types="pick2").tasks[:5]} == {"pick2"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "natve"}, "did you mean 'native'"),
        ({"observation": "full"}, "unknown observation 'full'; choose one of plain, augmented"),
        ({"dialect": "old"}, "unknown dialect 'old'"),
        ({"on_error": "ignore"}, "unknown on_error 'ignore'"),
        ({"task_types": ["picks"]}, "did you mean 'pick'"),
        ({"task_types": ()}, "task_types names none"),
        ({"task_types": 3}, "task_types must be a list of task types, got 3"),
        ({"split": "valid"}, "unknown split 'valid'"),
        ({"split": "valid_train"}, "unknown split 'valid_train'"),
        ({"difficulty": "impossible"}, "unknown difficulty"),
        ({"dataset": "official", "difficulty": "easy"}, "difficulty goes with dataset='builtin'"),
        ({"dataset": "official", "split": "test"}, "unknown split 'test'"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        ALFWorldEnv(**options)


def test_a_folder_of_games_is_played(copies):
    env = ALFWorldEnv(dataset=str(copies))
    assert len(env.tasks) == 3
    assert env.tasks[0].source_id == "train/look_at_obj_in_light-Pen-None-DeskLamp-2/trial_1"
    assert env.tasks[0].metadata["walkthrough_steps"] == len(env.tasks[0].content.read().walkthrough)
    env.reset(options={"task": env.tasks[2].source_id})
    for command in env.tasks[2].content.read().walkthrough:
        *_, info = env.step(command)
    assert info["won"]
    env.tasks.verify()
    with pytest.raises(MissingDataError, match="no game of split 'valid_seen'"):
        ALFWorldEnv(dataset=str(copies), split="valid_seen")
    assert len(ALFWorldEnv(dataset=str(copies), task_types=["look"]).tasks) == 1


def test_a_snapshot_of_other_games_is_refused(copies):
    theirs, ours = ALFWorldEnv(dataset=str(copies)), ALFWorldEnv()
    theirs.reset(seed=0)
    with pytest.raises(ValueError, match="cannot restore a snapshot"):
        ours.restore(theirs.snapshot())


@pytest.mark.parametrize(("old", "new"), [('"solvable": true}', ""), ("(:init", "(:inits")])
def test_a_bad_game_stops_the_set_unless_told_to_skip_it(copies, old, new):
    damage(copies, old, new)
    options = {"dataset": str(copies), "max_steps": 5}
    name = r"look_at_obj_in_light-Pen-None-DeskLamp-2/trial_1/game\.tw-pddl: "
    with pytest.raises(UsageError, match=name):
        start_every_game(**options)
    with pytest.warns(UserWarning, match=rf"games: left out 1 that cannot be played: .*{name}"):
        env = start_every_game(**options, on_error="skip")
    assert len(env.tasks) == 2
    (failure,) = env.tasks.failures
    assert "trial_1" in failure.reason


@pytest.mark.assets
def test_published_games_are_played():
    env = ALFWorldEnv(dataset="official", split="valid_seen")
    assert len(env.tasks) == 140
    env.tasks.verify()
    twin = ALFWorldEnv(dataset="alfworld/official", split="valid_seen")
    assert twin.tasks.manifest_sha256 == env.tasks.manifest_sha256
    task = env.tasks[0]
    assert task.metadata["scene"].isdecimal()
    _, info = env.reset(options={"task": task.source_id})
    assert info["task_id"] == task.id


@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
def test_games_that_are_not_there_are_one_line(split, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match="agentgym data import alfworld PATH"):
        ALFWorldEnv(dataset="official", split=split)


@pytest.mark.assets
@pytest.mark.peer
@pytest.mark.parametrize("dialect", ["game", pytest.param("current", marks=pytest.mark.slow)])
def test_the_real_engine_plays_the_same_episode(dialect):
    options = {"dataset": "official", "split": "valid_seen", "dialect": dialect, "observation": "augmented"}
    native, real = ALFWorldEnv(**options), ALFWorldEnv(**options, engine="textworld")
    task = native.tasks.ids[5]
    assert native.reset(options={"task": task}) == real.reset(options={"task": task})
    snapshots = [(native.snapshot(), real.snapshot())]
    for turn in range(8):
        actions = native.admissible_actions()
        action = "dance" if turn == 3 else actions[(7 * turn + 1) % len(actions)]
        assert native.step(action) == real.step(action)
        snapshots.append((native.snapshot(), real.snapshot()))
    for ours, theirs in snapshots[::-3]:
        assert native.restore(ours) == real.restore(theirs)
    with pytest.raises(ValueError, match="cannot restore a snapshot"):
        real.restore(snapshots[0][0])


@pytest.mark.assets
def test_dialects_have_hashes_of_their_own():
    hashes = set()
    for dialect in ("game", "current"):
        env = ALFWorldEnv(dataset="official", split="valid_seen", dialect=dialect)
        hashes.add(env.reset(seed=0)[1]["state_hash"])
    assert len(hashes) == 2
