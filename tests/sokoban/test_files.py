import pytest

from agentgym.envs.sokoban.data.files import locate, read
from agentgym.envs.sokoban.env import SokobanEnv
from agentgym.errors import MissingDataError, UsageError

BOXOBAN = "; 0\n#####\n#@$.#\n#####\n\n; 1\n######\n#@ $.#\n######\n"
SLC = """<?xml version="1.0" encoding="ISO-8859-1"?>
<!DOCTYPE SokobanLevels SYSTEM "SokobanLev.dtd">
<SokobanLevels><Title>Two</Title><LevelCollection>
<Level Id="a" Width="5" Height="3"><L>#####</L><L>#@$.#</L><L>#####</L></Level>
<Level Id="b"><L>  ####</L><L>###  #</L><L>#@$ .#</L><L>######</L></Level>
</LevelCollection></SokobanLevels>
"""


def texts(path):
    return [(source, level.text) for source, level in read(path)]


def test_boxoban_files(tmp_path):
    path = tmp_path / "000.txt"
    path.write_text(BOXOBAN)
    assert texts(path) == [
        ("000.txt#0", "#####\n#@$.#\n#####"),
        ("000.txt#1", "######\n#@ $.#\n######"),
    ]


def test_xsb_collections_with_titles_outsides_and_other_floor_signs(tmp_path):
    path = tmp_path / "two.xsb"
    path.write_text("First\n\n  ####\n###--#\n#@$_.#\n######\nAuthor: someone\n\n#####\n#+$ #\n#####\n")
    assert texts(path) == [
        ("two.xsb#0", "  ####\n###  #\n#@$ .#\n######"),
        ("two.xsb#1", "#####\n#+$ #\n#####"),
    ]


def test_slc_collections(tmp_path):
    path = tmp_path / "two.slc"
    path.write_text(SLC)
    assert texts(path) == [
        ("two.slc#0", "#####\n#@$.#\n#####"),
        ("two.slc#1", "  ####\n###  #\n#@$ .#\n######"),
    ]


def test_a_folder_is_read_in_order_of_name(tmp_path):
    (tmp_path / "b.txt").write_text("#####\n#@$.#\n#####\n")
    (tmp_path / "a.xsb").write_text("######\n#@ $.#\n######\n")
    (tmp_path / "notes.md").write_text("not levels")
    assert [source for source, _ in read(tmp_path)] == ["a.xsb#0", "b.txt#0"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.txt",
            "; 0\n#####\n#@$.#\n#####\n\n; 1\n#####\n#@$$#\n#####\n",
            "a.txt, line 7: .*boxes as targets",
        ),
        ("a.txt", "#####\n#@$x#\n#####\n", "a.txt, line 1: unknown symbol 'x'"),
        ("a.txt", "nothing here\n", "a.txt holds no level"),
        ("a.txt", "", "a.txt holds no level"),
        ("a.slc", "<SokobanLevels><Level>", "a.slc, line 1: not well-formed"),
        ("a.slc", "<a><Level><L>#####</L><L>#@ .#</L><L>#####</L></Level></a>", "a.slc, level 1: .*boxes"),
        ("a.slc", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "a.slc: document types with entities"),
    ],
)
def test_bad_files_name_the_file_and_the_line(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(UsageError, match=message) as caught:
        list(read(path))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xff\xfe\x00#")
    with pytest.raises(UsageError, match=r"cannot read levels from .*a\.txt"):
        list(read(path))


def test_names_lead_into_the_data_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for split in ("train", "valid"):
        folder = tmp_path / "sokoban" / "medium" / split
        folder.mkdir(parents=True)
        (folder / "000.txt").write_text(BOXOBAN)
    for name in ("boxoban/medium", "medium", str(tmp_path / "sokoban" / "medium")):
        assert locate(name, "valid") == (tmp_path / "sokoban" / "medium" / "valid", True)
    assert locate("boxoban/medium/valid", "train") == (tmp_path / "sokoban" / "medium" / "valid", False)
    with pytest.raises(UsageError, match="boxoban/medium: unknown split 'test'; choose one of train, valid"):
        locate("boxoban/medium", "test")
    with pytest.raises(MissingDataError, match="agentgym data import boxoban"):
        locate("boxoban/hard", "test")
    with pytest.raises(MissingDataError, match="check the path"):
        locate("nowhere.xsb", "test")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no level file"):
        locate("empty", "train")


def test_an_environment_plays_a_file(tmp_path):
    path = tmp_path / "mine.xsb"
    path.write_text(BOXOBAN + "\n; 2\n#####\n#@$.#\n#####\n")
    env = SokobanEnv(dataset=str(path))
    assert [task.source_id for task in env.tasks] == ["mine.xsb#0", "mine.xsb#1", "mine.xsb#2"]
    assert env.tasks.ids[2] == env.tasks.ids[0] + "-2"
    text, info = env.reset(options={"task": "mine.xsb#1"})
    assert text == "######\n#@ $.#\n######"
    assert info["task_type"] == "3x6-1"
    assert env.step("right")[0] == "######\n# @$.#\n######"
    _, reward, terminated, truncated, info = env.step("right")
    assert (reward, terminated, truncated) == (-0.1 + 1 + 10, True, False)
    assert (info["won"], info["score"], info["progress"]) == (True, 1.0, 1.0)


def test_a_file_is_one_set(tmp_path):
    path = tmp_path / "mine.xsb"
    path.write_text(BOXOBAN)
    for split in ("train", "mine"):
        assert SokobanEnv(dataset=str(path), split=split).tasks.split == "mine"
    with pytest.raises(UsageError, match="one set of levels and has no split 'test'"):
        SokobanEnv(dataset=str(path), split="test")


def test_manifests_do_not_depend_on_where_the_files_are(tmp_path):
    hashes = set()
    for folder in ("here", "there"):
        split = tmp_path / folder / "mine" / "test"
        split.mkdir(parents=True)
        (split / "000.txt").write_text(BOXOBAN)
        hashes.add(SokobanEnv(dataset=str(split.parent), split="test").tasks.manifest_sha256)
    assert len(hashes) == 1


@pytest.mark.assets
def test_boxoban_loads_whole():
    env = SokobanEnv(dataset="boxoban/unfiltered", split="test")
    assert len(env.tasks) == 1000
    assert env.tasks[999].source_id == "000.txt#999"
    assert {(task.content.height, task.content.width, task.content.boxes) for task in env.tasks} == {
        (10, 10, 4)
    }
