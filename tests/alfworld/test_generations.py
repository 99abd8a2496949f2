"""The two generations of the published games are told apart by their words, and are two data sources."""

import io
import json
import os
import random
import shutil
import tarfile
import zipfile
from itertools import islice
from pathlib import Path

import pytest

from agentgym.data.importing import find_damage, import_data, is_present
from agentgym.envs.alfworld.data.gamestore import GameStoreWriter
from agentgym.envs.alfworld.data.importer import open_games
from agentgym.envs.alfworld.data.trials import GAME, Harvest, Trial, read_trials
from agentgym.envs.alfworld.engine.dialects import FILES, MOVE, PUT, current_logic, in_dialect, putting_words
from agentgym.envs.alfworld.engine.gametext import GameText
from agentgym.envs.alfworld.env import ALFWorldEnv
from agentgym.envs.alfworld.oracle import first_plan
from agentgym.errors import MissingDataError, UsageError
from agentgym.io.paths import data_directory
from agentgym.registration import data_source

SHARED = Path(os.environ.get("AGENTGYM_DATA", "")) / "alfworld"
OLD, NEW = data_source("alfworld"), data_source("alfworld-2.1.3")
TASK = "pick_and_place_simple-Mug-None-Shelf-3"
WORDS = {
    PUT: 'action PutObject { template :: "put {o} in/on {r}"; } "rhs": "{o.name} (in/on the {r.name})"',
    MOVE: 'action PutObject { template :: "move {o} to {r}"; } "rhs": "{o.name} (in/on the {r.name})"',
    "": 'action Drop { template :: "drop {o}"; }',
}


def quiet(done, total):
    pass


def game(words, number=0):
    table = {"pddl_domain": "(define (domain d))", "grammar": WORDS[words]}
    return json.dumps({**table, "pddl_problem": f"(define (problem p{number}))", "solvable": True})


def archive(path, games):
    """Write games as upstream's archive has them: below a folder of the generation's name."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for number, text in enumerate(games):
            file.writestr(f"{path.name[:10]}/valid_seen/{TASK}/trial_{number}/{GAME}", text)
            file.writestr(f"__MACOSX/valid_seen/{TASK}/trial_{number}/._{GAME}", b"\0")
    return path


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    return tmp_path


def manifest(source):
    return json.loads((data_directory() / source.folder / "manifest.json").read_text())


def test_the_words_of_both_grammars_list_what_is_in_or_on_a_place():
    assert [putting_words(grammar) for grammar in WORDS.values()] == [PUT, MOVE, ""]
    assert putting_words(WORDS[PUT] + WORDS[MOVE]) == ""


@pytest.mark.parametrize(("source", "words", "other"), [(OLD, PUT, MOVE), (NEW, MOVE, PUT)])
def test_a_source_takes_the_games_of_its_generation_alone(home, source, words, other):
    wrong = NEW if source is OLD else OLD
    path = archive(home / "json_2.1.x_tw-pddl.zip", [game(words), game(words, 1)])
    import_data(source, path, progress=quiet)
    assert manifest(source)["generation"] == source.generation
    assert list(find_damage(source, progress=quiet)) == []
    before = (home / "data" / source.folder / "manifest.json").read_bytes()
    for origin in (
        archive(home / "json_2.1.y_tw-pddl.zip", [game(other)]),
        archive(home / "mixed_2.1_tw-pddl.zip", [game(words), game(other, 1)]),
        archive(home / "no_2.1_tw-pddl.zip", [game("")]),
        home,  # all of them
    ):
        with pytest.raises(UsageError, match=r"^[^\n]{20,400}$") as caught:
            import_data(source, origin, progress=quiet)
        if "no_2.1" not in origin.name:
            assert f"agentgym data import {wrong.name} PATH" in str(caught.value)
            assert wrong.generation in str(caught.value)
    assert (home / "data" / source.folder / "manifest.json").read_bytes() == before
    assert not (home / "data" / wrong.folder).exists()


def test_two_archives_of_the_same_games_are_refused(home):
    (home / "both").mkdir()
    for name in ("json_2.1.2_tw-pddl.zip", "json_2.1.3_tw-pddl.zip"):
        archive(home / "both" / name, [game(MOVE)])
    with pytest.raises(UsageError, match=rf"{TASK}/trial_0 is there twice: name one copy"):
        import_data(NEW, home / "both", progress=quiet)


@pytest.mark.parametrize("form", ["archive", "store of an older version"])
def test_what_was_put_there_by_hand_is_not_played_as_another_generation(home, form):
    folder = home / "data" / "alfworld"
    folder.mkdir(parents=True)
    path = archive(folder / "json_2.1.3_tw-pddl.zip", [game(MOVE)])
    if form != "archive":
        with GameStoreWriter(folder / "valid_seen.games") as writer:
            writer.add(Trial("a/b", "valid_seen", "pick", GameText.parse(game(MOVE), "x"), {}))
            writer.finish()
        path.unlink()
    with pytest.raises(UsageError, match=r"agentgym data import alfworld-2\.1\.3 PATH"):
        ALFWorldEnv(dataset="official", split="valid_seen")


def test_a_folder_of_two_generations_is_not_guessed_at(home):
    for generation in ("json_2.1.1", "json_2.1.3"):
        path = home / "own" / generation / "valid_seen" / TASK / "t" / GAME
        path.parent.mkdir(parents=True)
        path.write_text(game(MOVE))
    with pytest.raises(UsageError, match="are one split of two copies: name the folder of one"):
        open_games(str(home / "own"), "valid_seen")


def test_a_missing_generation_names_its_command(home):
    assert not is_present(NEW, "official")
    with pytest.raises(MissingDataError, match=r"agentgym data import alfworld-2\.1\.3 PATH"):
        ALFWorldEnv(dataset="alfworld-2.1.3/official", split="valid_seen")


@pytest.mark.assets
def test_games_of_both_generations_are_imported_and_played(home):
    """Real games, and the same with the newest pair in them, as json_2.1.3_tw-pddl.zip has them."""
    found = read_trials([SHARED / "json_2.1.1_valid_seen.tar.xz"], Harvest(), progress=quiet)
    trials = list(islice((trial for trial in found if trial.type == "pick"), 2))
    copy = home / "copy"
    copy.mkdir()
    archive(copy / "json_2.1.1_tw-pddl.zip", [trial.text.to_json() for trial in trials])
    shutil.copytree(SHARED / "logic", copy / "logic")
    entries = import_data(OLD, copy, progress=quiet)
    assert list(entries) == ["valid_seen.games", *(f"logic/{name}" for name in FILES)]
    assert list(find_damage(OLD, progress=quiet)) == []
    newest = [in_dialect(trial.text, "current") for trial in trials]  # by the pair that was imported
    path = archive(home / "json_2.1.3_tw-pddl.zip", [text.to_json() for text in newest])
    import_data(NEW, path, progress=quiet)
    shutil.rmtree(home / "data" / "alfworld" / "logic")
    for dataset, putting in (("official", "put "), ("alfworld-2.1.3/official", "move ")):
        env = ALFWorldEnv(dataset=dataset, split="valid_seen", show_help=False)
        assert env.tasks.manifest["dataset"] == dataset
        task = env.tasks[0]
        _, info = env.reset(options={"task": task.id})
        played = [operation.command for operation in first_plan(task.content, "game")]
        for action in played:
            assert action in info["admissible_actions"]
            _, _, terminated, _, info = env.step(action)
        assert terminated
        assert played[-1].startswith(putting)


def test_the_older_pair_is_not_taken_for_the_newest(home):
    copy = home / "copy"
    (copy / "logic").mkdir(parents=True)
    for name in FILES:
        (copy / "logic" / name).write_text(WORDS[PUT])
    archive(copy / "json_2.1.1_tw-pddl.zip", [game(PUT)])
    assert list(import_data(OLD, copy, progress=quiet)) == ["valid_seen.games"]
    shutil.copytree(copy / "logic", home / "data" / "alfworld" / "logic")
    with pytest.raises(UsageError, match="logic holds the older pair, which says `put X in/on Y`"):
        current_logic()


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("json_2.1.1_tw-pddl.tar.gz", archive),  # a zip archive by another name
        ("json_2.1.1_tw-pddl.zip", lambda path, games: packed_tar(path, games)),
    ],
)
def test_an_archive_is_told_by_its_content(home, name, pack):
    import_data(OLD, pack(home / name, [game(PUT), game(PUT, 1)]), progress=quiet)
    assert len(open_games("official", "valid_seen").entries) == 2


def packed_tar(path, games):
    with tarfile.open(path, "w:gz") as file:
        for number, text in enumerate(games):
            item = tarfile.TarInfo(f"valid_seen/{TASK}/trial_{number}/{GAME}")
            item.size = len(text)
            file.addfile(item, io.BytesIO(text.encode()))
    return path


@pytest.mark.parametrize("seed", range(4))
def test_damage_anywhere_in_an_archive_is_one_line(home, seed):
    whole = archive(home / "json_2.1.1_tw-pddl.zip", [game(PUT, number) for number in range(3)]).read_bytes()
    draws = random.Random(seed)
    for number in range(60):
        raw = bytearray(whole)
        for _ in range(draws.choice((1, 1, 4, 40))):
            raw[draws.randrange(-150, len(raw)) % len(raw)] = draws.randrange(256)
        path = home / f"{number}.zip"
        path.write_bytes(raw[: draws.choice((len(raw), draws.randrange(len(raw))))])
        try:
            import_data(OLD, path, progress=quiet)
        except UsageError as error:
            message = str(error)
        else:
            message = "imported"
        assert "\n" not in message
