"""Question sets are read from the zip archives that they are published in."""

import hashlib
import zipfile

import pytest

from agentgym.data.importing import find_damage, import_data, is_present
from agentgym.envs.multihop.data import layouts
from agentgym.envs.multihop.data.importer import open_questions
from agentgym.envs.multihop.sources import HOTPOTQA, MUSIQUE, TWOWIKI
from agentgym.errors import UsageError
from tests.multihop import copies
from tests.multihop.copies import DEV

pytestmark = pytest.mark.usefixtures("own_places")

ONE_LINE = r"^[^\n]{20,500}$"


def quiet(done, total):
    pass


def packed(path, folder, below):
    """Zip a folder as people on macOS do: below a folder, with a shadow of each file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{below}/", b"")
        for file in sorted(folder.iterdir()):
            archive.write(file, f"{below}/{file.name}")
            archive.writestr(f"__MACOSX/{below}/._{file.name}", b"\0\5\26\7")
    return path


@pytest.fixture
def twowiki(tmp_path):
    folder = tmp_path / "unpacked" / "data_ids_april7"
    copies.write(folder / "dev.json", [copies.twowiki()])
    copies.write(folder / "train.json", [copies.twowiki("w2", question="Who is it?")])
    empty = {"answer": "", "answer_id": None, "evidences": [], "evidences_id": [], "supporting_facts": []}
    copies.write(folder / "test.json", [copies.twowiki("w3", **empty)])
    copies.write(folder / "id_aliases.json", copies.ALIASES)
    return folder


@pytest.fixture
def musique(tmp_path):
    folder = tmp_path / "unpacked" / "data"
    for name in ("ans", "full"):
        for split in ("train", "dev"):
            changes = {"id": f"2hop__{split}", "question": f"Who in {split}?"}
            copies.write(folder / f"musique_{name}_v1.0_{split}.jsonl", [copies.musique(**changes)])
    copies.write(folder / "dev_test_singlehop_questions_v1.0.json", [{"id": "other"}])
    return folder


@pytest.mark.parametrize(
    ("source", "name", "set_name"),
    [(TWOWIKI, "data_ids_april7.zip", "official"), (MUSIQUE, "musique_v1.0.zip", "ans")],
    ids=["twowiki", "musique"],
)
@pytest.mark.parametrize("form", ["archive", "folder with the archive", "by hand"])
def test_an_archive_holds_what_its_folder_holds(source, name, set_name, form, request, tmp_path, monkeypatch):
    folder = request.getfixturevalue(source.name)
    expected = import_data(source, folder.parent, progress=quiet)
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "other"))
    home = tmp_path / "other" / source.folder if form == "by hand" else tmp_path / "got"
    path = packed(home / name, folder, folder.name)
    if form == "by hand":
        assert is_present(source, set_name)
        store = open_questions(f"{source.name}/{set_name}")
        assert {split: size for split, size in store.splits.items() if size} == {"dev": 1, "train": 1}
    else:
        seen = []
        origin = path if form == "archive" else home
        found = import_data(source, origin, progress=lambda done, total: seen.append((done, total)))
        assert found == expected
        assert seen[-1][0] == seen[-1][1] > 0
        assert open_questions(str(path)).splits == open_questions(f"{source.name}/{set_name}").splits
    assert list(find_damage(source, progress=quiet)) == []


def test_an_archive_beside_what_was_in_it_is_refused(twowiki):
    packed(twowiki.parent / "data_ids_april7.zip", twowiki, twowiki.name)
    with pytest.raises(UsageError, match="are one part of the set 'official': name the folder of one"):
        import_data(TWOWIKI, twowiki.parent, progress=quiet)


@pytest.mark.parametrize("damage", ["cut", "encrypted", "empty", "nested"])
def test_a_damaged_archive_is_one_line(damage, twowiki, tmp_path):
    path = packed(tmp_path / "got" / "data_ids_april7.zip", twowiki, twowiki.name)
    whole = path.read_bytes()
    if damage == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "encrypted":
        flagged = bytearray(whole)
        for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            at = flagged.find(mark)
            while at >= 0:
                flagged[at + place] |= 1
                at = flagged.find(mark, at + 4)
        path.write_bytes(flagged)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            if damage == "nested":
                archive.writestr("data_ids_april7.zip", whole)
    for origin in (path, path.parent):
        with pytest.raises(UsageError, match=ONE_LINE):
            import_data(TWOWIKI, origin, progress=quiet)
    assert not is_present(TWOWIKI, "official")


def test_a_look_alike_is_named(hotpotqa, twowiki, tmp_path, monkeypatch):
    """Its size or the beginning of its sha256 tells: those of real ones are of files that are not here."""
    assert layouts.LOOKALIKES[DEV][:2] == (61_065_698, "e3da074d")
    for file in (hotpotqa / DEV, twowiki / "dev.json"):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:8]
        size = file.stat().st_size if file.name == DEV else None
        monkeypatch.setitem(layouts.LOOKALIKES, file.name, (size, digest, layouts.LOOKALIKES[file.name][2]))
    with pytest.raises(UsageError, match=r"is another text of HotpotQA's dev split, of 61 MB"):
        import_data(HOTPOTQA, hotpotqa, progress=quiet)
    path = packed(tmp_path / "got" / "data.zip", twowiki, "data")
    for origin in (twowiki, path):
        with pytest.raises(UsageError, match=r"older data\.zip, whose questions are others: get data_ids"):
            import_data(TWOWIKI, origin, progress=quiet)
