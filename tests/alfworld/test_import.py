"""Games come out of folders and archives whole, or with the name of the file that is damaged."""

import io
import json
import os
import tarfile
import zipfile

import pytest

from agentgym.data.importing import find_damage, import_data, read_manifest
from agentgym.data.recordfile import RecordWriter
from agentgym.envs.alfworld.builtin.tasks import builtin_tasks
from agentgym.envs.alfworld.data import importer
from agentgym.envs.alfworld.data.gamestore import GameStoreWriter, game_id, open_store
from agentgym.envs.alfworld.data.importer import open_games
from agentgym.envs.alfworld.data.trials import TYPES, Harvest, Trial, read_trials
from agentgym.envs.alfworld.engine.gametext import GameText
from agentgym.envs.alfworld.engine.grounding import ground_problem
from agentgym.envs.alfworld.engine.packing import problem_digest, unpack
from agentgym.envs.alfworld.engine.pddl import parse_domain
from agentgym.errors import MissingDataError, UsageError
from agentgym.registration import data_source

SEEN = "valid_seen/pick_and_place_simple-Mug-None-Shelf-3/trial_1"
TRAIN = "train/look_at_obj_in_light-Book-None-DeskLamp-301/trial_7"


def quiet(done, total):
    pass


def game(number=0, **changes):
    table = {
        "pddl_domain": "(define (domain one))",
        "grammar": 'action PutObject { template :: "put {o} in/on {r}"; }',
        "pddl_problem": f"(define (problem p{number}))",
        "solvable": True,
    }
    return json.dumps(table | changes)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    return tmp_path


def folder(root, games):
    for place, text in games.items():
        path = root / place / "game.tw-pddl"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        (path.parent / "initial_state.pddl").write_text("not read")
    return root


def tar(path, games, mode="w:xz"):
    with tarfile.open(path, mode) as archive:
        for place, text in games.items():
            for name, data in (("game.tw-pddl", text.encode()), ("initial_state.pddl", b"not read")):
                item = tarfile.TarInfo(f"{place}/{name}")
                item.size = len(data)
                archive.addfile(item, io.BytesIO(data))
    return path


def names(store):
    return [entry.name for entry in store.entries]


GAMES = {f"{SEEN}{k}": game(k) for k in range(3)} | {TRAIN: game(9)}


@pytest.mark.parametrize("form", ["folder", "tar.xz", "tar.gz", "zip"])
def test_every_form_holds_the_same_games(home, form):
    origin = home / f"copy.{form}"
    if form == "folder":
        folder(origin, GAMES)
    elif form == "zip":
        with zipfile.ZipFile(origin, "w") as archive:
            for place, text in GAMES.items():
                archive.writestr(f"json_2.1.1/{place}/game.tw-pddl", text)
    else:
        tar(origin, GAMES, f"w:{form[-2:]}")
    seen = []
    entries = import_data(
        data_source("alfworld"), origin, progress=lambda done, total: seen.append((done, total))
    )
    assert {name: entry.records for name, entry in entries.items()} == {
        "train.games": 1,
        "valid_seen.games": 3,
    }
    assert seen[-1][0] == seen[-1][1] > 0
    store = open_games("official", "valid_seen")
    assert names(store) == [f"{SEEN}{k}" for k in range(3)]
    for number in range(3):
        text = GameText.parse(game(number), "x")
        assert store.read(number) == text
        assert store.entries[number].id == game_id(text)
    assert store.entries[0].type == "pick"
    assert store.entries[0].facts == {"object": "Mug", "target": "Shelf", "scene": "3"}
    assert list(find_damage(data_source("alfworld"), progress=quiet)) == []
    assert not (home / "cache").exists()


def test_equal_texts_are_stored_once(home):
    path = home / "train.games"
    with GameStoreWriter(path) as writer:
        for number in range(50):
            writer.add(Trial(f"train/{number}", "train", "", GameText("d" * 9999, "g", "p", None, True), {}))
        writer.finish()
    assert path.stat().st_size < 2000
    assert open_store(path).read(49).domain == "d" * 9999


def test_a_second_import_keeps_the_other_splits(home):
    import_data(data_source("alfworld"), tar(home / "a.tar.xz", {TRAIN: game(1)}), progress=quiet)
    import_data(data_source("alfworld"), tar(home / "b.tar.xz", {f"{SEEN}0": game(2)}), progress=quiet)
    assert sorted(read_manifest(data_source("alfworld"))) == ["train.games", "valid_seen.games"]
    import_data(data_source("alfworld"), tar(home / "c.tar.xz", {TRAIN: game(3)}), progress=quiet)
    assert open_games("official", "train").read(0) == GameText.parse(game(3), "x")
    assert list(find_damage(data_source("alfworld"), progress=quiet)) == []


def test_the_published_rules_leave_games_out(home):
    pick = "train/pick_and_place_simple-Mug-None-Shelf"
    games = {
        f"{pick}-1/t": game(1),
        f"{pick}-2/t": game(2, solvable=False),
        "train/pick_and_place_simple-AppleSliced-None-Shelf-3/t": "not even read",
        "train/pick_and_place_with_movable_recep-Mug-Pot-Shelf-4/t": game(4),
        "train/stack_and_nap-Mug-None-Shelf-5/t": game(5),
    }
    harvest = Harvest()
    trials = list(read_trials([tar(home / "a.tar", games, "w")], harvest, progress=quiet))
    assert [trial.name for trial in trials] == [f"{pick}-1/t"]
    assert harvest.failures == []
    assert harvest.left_out == {
        "not marked as solvable": 1,
        "with movable receptacles or sliced objects": 2,
        "of the family stack_and_nap": 1,
    }


def test_a_recording_tells_the_family_where_the_folder_does_not(home):
    root = folder(home / "mine", {"a": game(1), "b": game(2), "c": game(3)})
    (root / "a" / "traj_data.json").write_text(json.dumps({"task_type": "pick_two_obj_and_place"}))
    (root / "b" / "traj_data.json").write_text("{")
    store = open_games(str(root), "train")
    assert [entry.type for entry in store.entries] == ["pick2", "", ""]
    (failure,) = store.failures
    assert "b/traj_data.json: no JSON with a 'task_type'" in failure.reason


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (game()[:-20], "not JSON: "),
        ("[]", "a game is a JSON object"),
        (game(grammar=None), "'grammar' is missing"),
        (game(pddl_domain=" "), "'pddl_domain' is missing"),
        (game(pddl_problem=3), "'pddl_problem' is missing"),
        (game(walkthrough="look"), "'walkthrough' is not a list of commands"),
    ],
)
def test_a_damaged_game_is_named(home, text, message):
    origin = folder(home / "copy", {**GAMES, f"{SEEN}5": text})
    with pytest.raises(UsageError, match=rf"trial_15/game\.tw-pddl: {message}"):
        import_data(data_source("alfworld"), origin, progress=quiet)
    assert not (home / "data").exists() or os.listdir(home / "data") == []
    store = open_games(str(origin), "valid_seen")
    assert len(store.entries) == 3
    assert message in store.failures[0].reason


def test_bytes_that_are_no_text_are_named():
    with pytest.raises(UsageError, match=r"x: not UTF-8 text \(byte 1\)"):
        GameText.parse(b'"\xff"', "x")


@pytest.mark.parametrize("form", ["tar.xz", "tar.gz", "zip"])
def test_an_archive_cut_short_is_named(home, form):
    path = home / f"valid_seen.{form}"
    games = {f"{SEEN}{k}": game(k, padding=os.urandom(3000).hex()) for k in range(40)}
    if form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for place, text in games.items():
                archive.writestr(f"{place}/game.tw-pddl", text)
    else:
        tar(path, games, f"w:{form[-2:]}")
    path.write_bytes(path.read_bytes()[:-20_000])
    with pytest.raises(UsageError, match=f"valid_seen.{form} cannot be read as an archive"):
        import_data(data_source("alfworld"), path, progress=quiet)
    assert f"valid_seen.{form} cannot be read" in open_games(str(path), "valid_seen").failures[0].reason


def test_games_are_imported_when_they_are_used_first(home, monkeypatch):
    (home / "data" / "alfworld").mkdir(parents=True)
    archive = tar(home / "data" / "alfworld" / "json_2.1.1_valid_seen.tar.xz", {f"{SEEN}1": game(1)})
    tar(home / "data" / "alfworld" / "json_2.1.1_train.tar.xz", {TRAIN: "damaged, but not asked for"})
    store = open_games("official", "valid_seen")
    assert names(store) == [f"{SEEN}1"]
    assert store.path.is_relative_to(home / "cache")
    monkeypatch.setattr(importer, "read_trials", lambda *args, **options: pytest.fail("read again"))
    assert open_games("official", "valid_seen") is store
    monkeypatch.undo()
    monkeypatch.setenv("AGENTGYM_DATA", str(home / "data"))
    monkeypatch.setenv("AGENTGYM_CACHE", str(home / "cache"))
    tar(archive, {f"{SEEN}1": game(1), f"{SEEN}2": game(2)})
    assert len(open_games("official", "valid_seen").entries) == 2


def test_where_games_may_lie(home):
    root = folder(home / "json_2.1.1", GAMES)
    for place, split, count in (
        (root, "valid_seen", 3),
        (root, "train", 1),
        (root / "valid_seen", "valid_seen", 3),
        (home, "valid_seen", 3),
        (root / TRAIN, "train", 1),
        (root / TRAIN / "game.tw-pddl", "train", 1),
    ):
        assert len(open_games(str(place), split).entries) == count
    with pytest.raises(UsageError, match=r": unknown split 'valid_unseen'.*; choose one of train"):
        open_games(str(root / TRAIN), "valid_unseen")
    with pytest.raises(MissingDataError, match="no game of split 'valid_unseen'"):
        open_games(str(root), "valid_unseen")
    with pytest.raises(MissingDataError, match="no games at 'nowhere'"):
        open_games("nowhere", "train")
    with pytest.raises(MissingDataError, match="agentgym data import alfworld PATH"):
        open_games("official", "valid_unseen")
    (home / "empty").mkdir()
    with pytest.raises(MissingDataError, match="no game of split"):
        open_games(str(home / "empty"), "train")


def test_what_an_import_refuses(home):
    with pytest.raises(UsageError, match="nothing says which split a/b belongs to"):
        import_data(data_source("alfworld"), folder(home / "mine", {"a/b": game()}), progress=quiet)
    import_data(data_source("alfworld"), folder(home / "copy", GAMES), progress=quiet)
    with pytest.raises(UsageError, match="has been imported before"):
        import_data(data_source("alfworld"), home / "data" / "alfworld", progress=quiet)


def test_a_damaged_store_is_named(home):
    import_data(data_source("alfworld"), folder(home / "copy", GAMES), progress=quiet)
    path = home / "data" / "alfworld" / "train.games"
    whole = path.read_bytes()
    for damaged in (b"", b"x" + whole[1:], whole[:-1], whole[:-40] + b"x" * 10 + whole[-30:]):
        path.write_bytes(damaged)
        with pytest.raises(UsageError, match=r"train\.games is incomplete"):
            open_store(path)
    path.write_bytes(whole[:20] + b"xxxx" + whole[24:])
    with pytest.raises(UsageError, match=r"train\.games is not a complete store of games"):
        open_store(path)
    assert list(find_damage(data_source("alfworld"), progress=quiet)) == [f"{path} is not what was imported"]


def test_a_game_damaged_in_a_store_is_named(home):
    origin = folder(home / "copy", {f"{SEEN}{k}": game(k) for k in range(2)})
    import_data(data_source("alfworld"), origin, progress=quiet)
    path = home / "data" / "alfworld" / "valid_seen.games"
    store = open_store(path)
    start = int(store._file.columns["starts"][store.entries[1].problem])
    whole = path.read_bytes()
    path.write_bytes(whole[:start] + b"xxxx" + whole[start + 4 :])
    damaged = open_store(path)
    assert damaged.read(0) == GameText.parse(game(0), "x")
    with pytest.raises(UsageError, match=f"not a complete store of games .{SEEN}1"):
        damaged.read(1)


def test_a_store_of_an_older_version_is_imported_again(home, monkeypatch):
    origin = tar(home / "valid_seen.tar.xz", {f"{SEEN}1": game(1)})
    monkeypatch.setattr(importer, "FORMAT", "games 1")
    old = open_games(str(origin), "valid_seen").path
    monkeypatch.undo()
    monkeypatch.setenv("AGENTGYM_CACHE", str(home / "cache"))
    old.write_bytes(b"agentgym games 1\n and what an older version wrote")
    store = open_games(str(origin), "valid_seen")
    assert store.path != old
    assert names(store) == [f"{SEEN}1"]
    with pytest.raises(UsageError, match=r"does not begin as one of this version.*import the data again"):
        open_store(old)


def test_records_of_another_kind_are_no_store(home):
    path = home / "x.games"
    with RecordWriter(path) as writer:
        writer.finish({}, {"about": "something else"})
    with pytest.raises(
        UsageError, match=r"x\.games is not a store of games of this version.*import the data again"
    ):
        open_store(path)


def test_a_store_keeps_what_its_problems_come_to(home):
    text = builtin_tasks("train")[0].content.read()
    import_data(data_source("alfworld-2.1.3"), folder(home / "copy", {TRAIN: text.to_json()}), progress=quiet)
    read = open_games("alfworld-2.1.3/official", "train").read(0)
    assert read == text
    known = unpack(read.grounded[problem_digest(text.domain, text.problem)])
    found = ground_problem(parse_domain(text.domain), text.problem)
    assert (known.fluents, known.static, known.goal) == (found.fluents, found.static, found.goal)
    assert set(known.start) == set(found.start)
    assert (known.objects.type_of, known.objects.members) == (found.objects.type_of, found.objects.members)


@pytest.mark.assets
@pytest.mark.parametrize(
    ("split", "count"), [("valid_seen", 140), ("valid_train", 199), ("valid_unseen", 134)]
)
def test_the_published_splits_have_their_size(split, count):
    store = open_games("official", split)
    assert len(store.entries) == count
    assert {entry.type for entry in store.entries} == set(TYPES.values())
    assert not store.failures


@pytest.mark.assets
@pytest.mark.slow
def test_the_training_split_has_its_size():
    store = open_games("official", "train")
    assert len(store.entries) == 3553
    seen = {entry.id for entry in open_games("official", "valid_seen").entries}
    assert not seen & {entry.id for entry in store.entries}
