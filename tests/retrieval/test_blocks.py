"""A build counts blocks that survive a kill, in one process or several, and always makes the same index."""

import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from agentgym.errors import UsageError
from agentgym.io.files import sole_writer
from agentgym.retrieval.corpus.naming import IdColumn
from agentgym.retrieval.engines.bm25 import blocks, build_bm25, counting, open_bm25
from agentgym.retrieval.engines.bm25.postings import ARRAYS

CORPUS = [(f"D{i:03}", f"word{i % 7} word{i % 3} other{i} other{i // 2}") for i in range(300)]


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The files of the index, built in one go."""
    folder = tmp_path_factory.mktemp("whole") / "index"
    build_bm25(CORPUS, corpus="drawn", folder=folder)
    return content(folder)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 1000)


def broken_off(documents, after):
    yield from documents[:after]
    raise KeyboardInterrupt


def test_a_build_that_was_broken_off_resumes(tmp_path, monkeypatch, small_blocks, whole):
    folder = tmp_path / "index"
    with pytest.raises(KeyboardInterrupt):
        build_bm25(broken_off(CORPUS, 200), corpus="drawn", folder=folder)
    (spool,) = tmp_path.iterdir()
    done = len(list(spool.iterdir()))
    assert done >= 4
    counted = []
    real = blocks.count_block
    monkeypatch.setattr(blocks, "count_block", lambda *given: counted.append(1) or real(*given))
    build_bm25(CORPUS, corpus="drawn", folder=folder)
    resumed = len(counted)
    build_bm25(CORPUS, corpus="drawn", folder=tmp_path / "again")
    assert len(counted) - resumed == resumed + done
    shutil.rmtree(tmp_path / "again")
    assert content(folder) == whole
    assert list(tmp_path.iterdir()) == [folder]


def test_another_corpus_takes_no_block_of_the_first(tmp_path, small_blocks):
    folder = tmp_path / "index"
    with pytest.raises(KeyboardInterrupt):
        build_bm25(broken_off(CORPUS, 200), corpus="drawn", folder=folder)
    other = [(id, text.replace("word1", "word2") if id == "D000" else text) for id, text in CORPUS[1:]]
    index = build_bm25(other, corpus="drawn", folder=folder)
    again = build_bm25(other, corpus="drawn")
    assert {name: getattr(index._postings, name).tolist() for name in ARRAYS} == {
        name: getattr(again._postings, name).tolist() for name in ARRAYS
    }
    assert list(tmp_path.iterdir()) == [folder]


KILLED = """
import sys, time
from pathlib import Path
from agentgym.retrieval.engines.bm25 import blocks
from agentgym.retrieval.engines.bm25 import build_bm25
from tests.retrieval.test_blocks import CORPUS
blocks.BLOCK = 1000
def slowly():
    for number, document in enumerate(CORPUS):
        if number == 200:
            print("ready", flush=True)
            time.sleep(600)
        yield document
build_bm25(slowly(), corpus="drawn", folder=Path(sys.argv[1]))
"""


def test_a_killed_build_resumes(tmp_path, small_blocks, whole):
    command = [sys.executable, "-c", KILLED, str(tmp_path / "index")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": os.getcwd()}
    ) as build:
        assert build.stdout.readline() == b"ready\n"
        os.kill(build.pid, signal.SIGKILL)
    (spool,) = tmp_path.iterdir()
    assert len(list(spool.iterdir())) > 3
    build_bm25(CORPUS, corpus="drawn", folder=tmp_path / "index")
    assert content(tmp_path / "index") == whole
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_processes_make_the_same_index(tmp_path, small_blocks, whole):
    build_bm25(CORPUS, corpus="drawn", folder=tmp_path / "index", processes=2)
    assert content(tmp_path / "index") == whole
    with pytest.raises(UsageError, match="ask for processes >= 1, not 0"):
        build_bm25(CORPUS, corpus="drawn", processes=0)


def kill_itself(texts, folder):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_counting_process_that_ends_is_named(tmp_path, monkeypatch, small_blocks):
    monkeypatch.setattr(blocks, "_count_and_store", kill_itself)
    with pytest.raises(UsageError, match=r"a process that counts terms was killed.*build again, it resumes"):
        build_bm25(CORPUS, corpus="drawn", folder=tmp_path / "index", processes=2)
    assert list(tmp_path.iterdir()) == []


def test_two_builds_at_once(tmp_path, small_blocks, whole):
    spool = tmp_path / ".index.building"
    spool.mkdir()
    with sole_writer(spool):
        build_bm25(CORPUS, corpus="drawn", folder=tmp_path / "index")
        assert list(spool.iterdir()) == []
    assert content(tmp_path / "index") == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == [".index.building", "index"]


@pytest.mark.parametrize("name", [*ARRAYS, "layout"])
def test_files_that_are_cut_or_missing(tmp_path, name):
    folder = tmp_path / "index"
    build_bm25([*CORPUS, ("E", "word1 " * 400)], corpus="drawn", folder=folder)
    path = folder / ("layout.json" if name == "layout" else f"{name}.npy")
    raw = path.read_bytes()
    for damaged in (raw[:-3], raw[: len(raw) // 2], b""):
        path.write_bytes(damaged)
        with pytest.raises(UsageError, match=r"is not a complete index|is damaged") as caught:
            open_bm25(folder)
        assert "\n" not in str(caught.value)
    path.unlink()
    with pytest.raises(UsageError, match="is not a complete index"):
        open_bm25(folder)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("name", ["firsts", "starts"])
def test_places_outside_the_files_are_refused(tmp_path, name, backend):
    folder = tmp_path / "index"
    build_bm25(CORPUS, corpus="drawn", folder=folder)
    array = np.load(folder / f"{name}.npy")
    array[:-1] = array[:-1] + 10**9
    np.save(folder / f"{name}.npy", array)
    index = open_bm25(folder, backend=backend)
    with pytest.raises(UsageError, match=r"the index of 'drawn' is damaged: delete its folder"):
        index.search("word1 word2", 5)


def test_a_folder_of_another_format(tmp_path):
    folder = tmp_path / "index"
    build_bm25(CORPUS[:3], corpus="drawn", folder=folder)
    (folder / "layout.json").write_text('{"format": 3, "bits": 14}')
    with pytest.raises(UsageError, match=r"has the format 3, not 2: delete it and build it again"):
        open_bm25(folder)
    (folder / "layout.json").unlink()
    with pytest.raises(UsageError, match=r"has an old format .*: delete it and build it again"):
        open_bm25(folder)


def test_two_terms_of_one_digest(monkeypatch, small_blocks, tmp_path):
    monkeypatch.setattr(counting, "term_digest", lambda term: 7 if term.startswith("word") else hash_of(term))
    with pytest.raises(UsageError, match="two terms have one 64-bit digest"):
        build_bm25([("A", "word1 word2")], corpus="drawn")
    with pytest.raises(UsageError, match="two terms have one 64-bit digest"):
        build_bm25([("A", "word1 " * 200), ("B", "word2")], corpus="drawn", folder=tmp_path / "index")


def hash_of(term):
    return 1000 + int(term.removeprefix("other"))


def test_ids_stand_in_the_order_of_their_bytes():
    rng = np.random.default_rng(0)
    drawn = {"".join(rng.choice(list("ab\u00e9\0"), rng.integers(0, 40))) for _ in range(2000)}
    drawn |= {"a" * i for i in range(60)} | {"a" * 8 + "\0" * i for i in range(20)}
    ids = list(drawn)
    column = IdColumn()
    for id in ids:
        column.add(id)
    assert [ids[number] for number in column.order()] == sorted(ids, key=str.encode)
    column.add(ids[7])
    with pytest.raises(UsageError, match=r"two documents have the id .*: give each its own"):
        column.order()
    assert len(column) == len(ids) + 1


def test_ids_of_any_length(tmp_path):
    long = "x" * 100_000
    index = build_bm25([("b", "red"), (long, "red"), ("", "red"), ("\u5546", "red")], corpus="ids")
    assert index.ids(index.search("red", 9).documents) == ["", "b", long, "\u5546"]
