"""Passages come back as they were written, from memory and from files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core.types import Passage
from agentgym.data.recordfile import RecordWriter
from agentgym.errors import UsageError
from agentgym.retrieval.corpus.passages import PassageFile, PassageList, documents, write_passages
from agentgym.retrieval.engines.bm25 import build_bm25

WORLD = [
    Passage("p1", "Vasa", "A ship that sank in 1628.\nIt was raised in 1961."),
    Passage("p0", "", ""),
    Passage("\u5546", "\u5546\u9b45 [x]", "\u2764\ufe0f text"),
]

lines = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=20)
drawn = st.lists(
    st.builds(Passage, lines.filter(bool), lines, st.text(st.characters(codec="utf-8"), max_size=40)),
    unique_by=lambda passage: passage.id,
    max_size=8,
)


@pytest.fixture
def path(tmp_path):
    write_passages(tmp_path / "passages.records", WORLD, corpus="world")
    return tmp_path / "passages.records"


@given(drawn)
def test_what_was_written_is_read(tmp_path_factory, passages):
    path = tmp_path_factory.getbasetemp() / "drawn.records"
    store = write_passages(path, passages, corpus="drawn")
    assert list(store) == passages
    assert [store.title(number) for number in range(len(store))] == [each.title for each in passages]
    assert (store.corpus, store.sha256) == ("drawn", PassageList(passages).sha256)
    store.verify()


def test_both_forms_agree(path):
    stores = PassageFile(path), PassageList(WORLD)
    for store in stores:
        assert (len(store), list(store), store[0], store.title(2)) == (3, WORLD, WORLD[0], WORLD[2].title)
        for number in (-1, 3):
            with pytest.raises(IndexError, match=f"there are 3 passages, and none has the number {number}"):
                store[number]
            with pytest.raises(IndexError):
                store.title(number)
        assert build_bm25(documents(store), corpus="world").manifest.corpus_sha256 == store.sha256


def test_contents_tell_title_and_text_apart():
    joined, split = Passage("p", "a", "b c"), Passage("p", "a b", "c")
    assert PassageList([joined]).sha256 != PassageList([split]).sha256


@pytest.mark.parametrize(
    ("passages", "message"),
    [
        ([Passage("p", "two\nlines", "")], "has a title of several lines"),
        ([Passage("", "", "")], "has an empty id"),
        ([Passage("p", "x" * 70_000, "")], "an id or title of more than 65,535 bytes"),
        ([Passage("p", "", "\ud800")], "has a lone surrogate"),
        ([WORLD[0], WORLD[1], WORLD[0]], "two documents have the id 'p1': give each its own"),
    ],
)
def test_passages_that_are_refused(tmp_path, passages, message):
    with pytest.raises(UsageError, match=message):
        write_passages(tmp_path / "passages.records", passages, corpus="world")
    assert list(tmp_path.iterdir()) == []
    if len(passages) == 1:
        with pytest.raises(UsageError, match=message):
            PassageList(passages)


def test_damage(path):
    raw = path.read_bytes()
    with pytest.raises(UsageError, match=r"cannot open .*nothing"):
        PassageFile(path.with_name("nothing"))
    for damaged in (b"", raw[:10], raw[:25], raw[:-1], raw[40:]):
        path.write_bytes(damaged)
        with pytest.raises(UsageError, match=r"is not a complete file of passages|is incomplete"):
            PassageFile(path)
    path.write_bytes(raw.replace(b"1628", b"1682"))
    with pytest.raises(UsageError, match=r"holds passages of sha256 .*: build it again"):
        PassageFile(path).verify()
    path.write_bytes(raw.replace(b"1628", b"16\xff8"))
    with pytest.raises(UsageError, match="is damaged at passage 0: build it again"):
        PassageFile(path)[0]


def test_another_kind_of_record_file(tmp_path):
    for about in (
        {},
        {"format": "other/1"},
        {"format": "passages/1", "corpus": "", "sha256": "", "count": 1},
    ):
        with RecordWriter(tmp_path / "file") as writer:
            writer.finish({}, about)
        with pytest.raises(UsageError, match="is not a complete file of passages"):
            PassageFile(tmp_path / "file")
