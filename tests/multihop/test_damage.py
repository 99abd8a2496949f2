"""Question sets that are damaged, or were not what they should be."""

import json

import pytest

from agentgym.data.importing import find_damage, import_data
from agentgym.data.recordfile import RecordWriter
from agentgym.envs.multihop.data.importer import open_questions
from agentgym.envs.multihop.data.questions import StoredQuestion
from agentgym.envs.multihop.data.questionstore import QuestionStore, open_store
from agentgym.envs.multihop.data.records import MAX_PASSAGES
from agentgym.envs.multihop.sources import HOTPOTQA, MUSIQUE
from agentgym.errors import UsageError
from tests.multihop import copies
from tests.multihop.copies import DEV

pytestmark = pytest.mark.usefixtures("own_places")


def quiet(done, total):
    pass


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"_id": 5}, r"field '_id': expected a string, got 5"),
        ({"_id": ""}, r"field '_id': an id has 1 to 200 characters, not 0"),
        ({"question": None}, r"field 'question': expected a string, got null"),
        ({"answer": ["x"]}, r"field 'answer': expected a string"),
        ({"context": {}}, r"field 'context': expected a list, got \{\}"),
        (
            {"context": [["T", "text"]]},
            r"field 'context': expected \[title, \[sentence, ...\]\], got \[\"T\"",
        ),
        ({"context": [["T", [1]]]}, r"field 'context': expected \[title"),
        (
            {"context": [["T", []]] * (MAX_PASSAGES + 1)},
            r"field 'context': has 1,001 passages, more than 1,000",
        ),
        ({"supporting_facts": [["T"]]}, r"field 'supporting_facts': expected \[title, number\]"),
        ({"supporting_facts": 1}, r"field 'supporting_facts': expected a list"),
        ({"evidences": [["a", "b"]]}, r"field 'evidences': expected triples of strings"),
        (
            {"evidences": [["a", "b", "c"]], "evidences_id": [["a", "b", "c"]] * 2},
            r"field 'evidences_id': has 2 triples, and evidences 1",
        ),
    ],
)
def test_a_wrong_field_is_named(copy, changes, problem):
    copies.write(copy / DEV, [copies.hotpot("h0"), copies.hotpot(**changes)])
    with pytest.raises(UsageError, match=rf"{DEV}:1: {problem}") as caught:
        import_data(HOTPOTQA, copy, progress=quiet)
    assert "\n" not in str(caught.value)
    assert not (copy.parent / "data" / "hotpotqa").exists()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"answerable": "yes"}, "field 'answerable': expected true or false"),
        ({"paragraphs": [{"title": "T"}]}, "field 'paragraphs': field 'paragraph_text': is missing"),
        ({"answer_aliases": [1]}, "field 'answer_aliases': expected a list of strings"),
        (
            {"question_decomposition": [{"question": "q", "answer": "a", "paragraph_support_idx": 3}]},
            "field 'question_decomposition': field 'paragraph_support_idx': is not a place of a paragraph: 3",
        ),
    ],
)
def test_a_wrong_field_of_musique_is_named(copy, changes, problem):
    copies.write(copy / "musique_ans_v1.0_dev.jsonl", [copies.musique(**changes)])
    with pytest.raises(UsageError, match=problem):
        import_data(MUSIQUE, copy, progress=quiet)


def test_a_file_cut_short_is_refused(hotpotqa):
    text = (hotpotqa / DEV).read_text()
    (hotpotqa / DEV).write_text(text[: len(text) // 2])
    with pytest.raises(UsageError, match=rf"{DEV}:1: not whole JSON"):
        import_data(HOTPOTQA, hotpotqa, progress=quiet)


@pytest.mark.parametrize("ending", ["questions", "passages"])
def test_damage_is_found(hotpotqa, tmp_path, ending):
    import_data(HOTPOTQA, hotpotqa, progress=quiet)
    path = tmp_path / "data" / "hotpotqa" / f"distractor.{ending}"
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"Ada Moor") : raw.index(b"Ada Moor") + 3] = b"Ida"
    path.write_bytes(raw)
    assert list(find_damage(HOTPOTQA, progress=quiet)) == [f"{path} is not what was imported"]
    with pytest.raises(UsageError):
        QuestionStore(path.with_suffix(".questions")).verify()


def test_passages_of_another_store_are_refused(hotpotqa, tmp_path):
    import_data(HOTPOTQA, hotpotqa, progress=quiet)
    other = copies.write(tmp_path / "other" / DEV, [copies.hotpot(context=[copies.LIND])])
    store = open_questions(str(other))
    place = tmp_path / "data" / "hotpotqa" / "distractor.passages"
    place.write_bytes(store.path.with_suffix(".passages").read_bytes())
    with pytest.raises(
        UsageError, match=r"distractor\.passages is not of distractor\.questions: delete both"
    ):
        QuestionStore(place.with_suffix(".questions"))


@pytest.mark.parametrize("record", [b"{}", b"[1]", b"not", b"\xff", json.dumps([1] * 12).encode()])
def test_a_damaged_record_is_refused(record):
    with pytest.raises((ValueError, TypeError)):
        StoredQuestion.unpack(record)


def test_a_store_of_another_version_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"cannot open the questions .*x\.questions"):
        open_store(tmp_path / "x.questions")
    with RecordWriter(tmp_path / "x.questions") as writer:
        writer.finish({}, {"format": "questions/0"})
    with pytest.raises(UsageError, match="not a store of questions of this version: delete it and import"):
        open_store(tmp_path / "x.questions")
