"""Search-R1's questions, which are published as Parquet."""

import json
import sys

import pyarrow
import pytest
from pyarrow import parquet

from agentgym.data.importing import find_damage, import_data
from agentgym.envs.multihop.data.importer import open_questions
from agentgym.envs.multihop.sources import SEARCHQA
from agentgym.errors import MissingPackageError, UsageError
from tests.multihop import copies

pytestmark = pytest.mark.usefixtures("own_places")

ONE_LINE = r"^[^\n]{20,500}$"


def quiet(done, total):
    pass


ROWS = [
    ("test_0", "Who wrote it?", ["Bo Lind", "B. Lind"], "nq"),
    ("test_0", "Where is Ulm Vale?", ["Moor"], "hotpotqa"),
    ("test_1", "Who sang it?", ["Ada"], "bamboogle"),
]


def search_r1(path, rows=ROWS, **changes):
    """Write questions with the columns that Search-R1's have."""
    ids, questions, answers, sources = zip(*rows, strict=True)
    columns = {
        "id": ids,
        "question": questions,
        "golden_answers": answers,
        "data_source": sources,
        "prompt": [[{"content": f"Answer the given question. {text}", "role": "user"}] for text in questions],
        "ability": ["fact-reasoning"] * len(ids),
        "reward_model": [{"ground_truth": {"target": each}, "style": "rule"} for each in answers],
        "extra_info": [{"index": number, "split": path.stem} for number in range(len(ids))],
        "metadata": [None] * len(ids),
    }
    kept = {name: values for name, values in (columns | changes).items() if values is not None}
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table(kept), path, row_group_size=2)
    return path


@pytest.mark.parametrize("below", ["", "nq_hotpotqa_train"])
def test_parquet_of_search_r1_is_imported(below, tmp_path):
    copy = tmp_path / "copy"
    search_r1(copy / below / "test.parquet")
    search_r1(copy / below / "train.parquet", [("train_0", "When was it?", ["1900"], "nq")])
    copies.write(copy / "nq" / "test.jsonl", [{"id": "t", "question": "Why?", "golden_answers": ["So"]}])
    entries = import_data(SEARCHQA, copy, progress=quiet)
    assert {name: entry.records for name, entry in entries.items()} == {
        "nq.questions": 1,
        "nq_hotpotqa_train.questions": 4,
    }
    store = open_questions("searchqa/nq_hotpotqa_train")
    assert store.splits == {"test": 3, "train": 1}
    first = store.question("test", 0)
    assert (first.source_id, first.question, first.answer) == ("nq/test_0", "Who wrote it?", "Bo Lind")
    assert (first.aliases, first.type) == (("B. Lind",), "nq")
    assert list(find_damage(SEARCHQA, progress=quiet)) == []


def test_parquet_alone_is_a_set_by_its_path(tmp_path):
    assert open_questions(str(search_r1(tmp_path / "test.parquet"))).splits == {"test": 3}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_source": None}, "has no column 'data_source'"),
        ({"question": [1, 2, 3]}, "row 0: field 'question'"),
        ({"golden_answers": [["a"], [], ["b"]]}, "row 1: field 'golden_answers'"),
        ({"golden_answers": [["a"], None, ["b"]]}, "row 1: field 'golden_answers'"),
        ({"id": None}, "has no column 'id'"),
    ],
)
def test_parquet_of_something_else_is_one_line(changes, message, tmp_path):
    path = search_r1(tmp_path / "copy" / "test.parquet", **changes)
    with pytest.raises(UsageError, match=ONE_LINE) as caught:
        import_data(SEARCHQA, path.parent, progress=quiet)
    assert message in str(caught.value)


def test_damaged_parquet_is_one_line(tmp_path):
    path = search_r1(tmp_path / "copy" / "test.parquet")
    whole = path.read_bytes()
    for damaged in (b"", b"PAR1", whole[:-9], whole[: len(whole) // 2], json.dumps(ROWS).encode(), b"x" * 99):
        path.write_bytes(damaged)
        with pytest.raises(UsageError, match=ONE_LINE):
            import_data(SEARCHQA, path.parent, progress=quiet)


def test_a_missing_pyarrow_names_the_extra(tmp_path, monkeypatch):
    path = search_r1(tmp_path / "copy" / "test.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingPackageError, match=r"Search-R1's questions needs pyarrow: pip install"):
        import_data(SEARCHQA, path.parent, progress=quiet)
