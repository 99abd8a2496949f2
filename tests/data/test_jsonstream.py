"""Files are read value by value, and what is wrong with one is told with its line."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.data import jsonstream
from agentgym.data.jsonstream import read_entries, read_records
from agentgym.errors import UsageError

texts = st.text(st.characters(codec="utf-8"), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts, lambda each: st.lists(each, max_size=3)
)
records = st.lists(st.dictionaries(texts, values, max_size=4), max_size=8)


@pytest.fixture(params=[3, 1 << 20])
def chunk(request, monkeypatch):
    monkeypatch.setattr(jsonstream, "CHUNK", request.param)


def written(tmp_path, text):
    path = tmp_path / "file.json"
    path.write_text(text, encoding="utf-8")
    return path


@settings(max_examples=40)
@given(records, st.sampled_from([None, 1]), st.integers(2, 40))
def test_arrays_and_lines_come_back(tmp_path_factory, records, indent, chunk):
    folder = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonstream, "CHUNK", chunk)
        array = written(folder, json.dumps(records, indent=indent, ensure_ascii=False))
        assert [record for _, record in read_records(array)] == records
        lines = written(folder, "\n".join(json.dumps(record) for record in records))
        assert [record for _, record in read_records(lines)] == records


@given(
    st.dictionaries(texts, st.dictionaries(texts, values, max_size=3) | st.lists(values)), st.integers(1, 40)
)
def test_entries_come_back(tmp_path_factory, table, chunk):
    folder = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonstream, "CHUNK", chunk)
        path = written(folder, json.dumps(table, ensure_ascii=False))
        assert {key: value for _, key, value in read_entries(path)} == table


@pytest.mark.usefixtures("chunk")
def test_places(tmp_path):
    path = written(tmp_path, '[\n{"a": 1},\n\n{"a":\n 2}, {"a": 3}\n]\n')
    assert [where for where, _ in read_records(path)] == [f"{path}:{line}" for line in (2, 4, 5)]
    path = written(tmp_path, '{"x": {},\n"y": [\n]\n}')
    assert [where for where, _, _ in read_entries(path)] == [f"{path}:1", f"{path}:2"]


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[\n{"a": 1},\n{"a": ', r"file\.json:3: not whole JSON \(.*, got '\{"),
        ('[\n{"a": 1},', r"file\.json:2: expected a JSON object, got the end of the file"),
        ('[{"a": 1}\n{"a": 1}]', r"file\.json:2: expected ',', got '\{"),
        ("[\n7]", r"file\.json:2: expected a JSON object, got '7"),
        ('{"a": 1}\nno', r"file\.json:2: expected a JSON object, got 'n"),
        ('[{"a": 1}]\nmore', r"file\.json:2: expected a JSON object, got 'm"),
        ('[{"a": nul}]', r"file\.json:1: not whole JSON \(Expecting value\)"),
    ],
)
def test_broken_records(tmp_path, text, message):
    with pytest.raises(UsageError, match=message):
        list(read_records(written(tmp_path, text)))


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", r"file\.json:1: expected '\{', got '\["),
        ('{"a": 1}', r"file\.json:1: expected a JSON object or list, got '1"),
        ('{"a" {}}', r"file\.json:1: expected ':', got '\{"),
        ('{"a": {}', r"file\.json:1: expected ',', got the end of the file"),
        ('{"a": {}, ', r"file\.json:1: expected a JSON string, got the end of the file"),
        ("", r"file\.json:1: expected '\{', got the end of the file"),
    ],
)
def test_broken_entries(tmp_path, text, message):
    with pytest.raises(UsageError, match=message):
        list(read_entries(written(tmp_path, text)))


def test_a_value_that_never_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonstream, "CHUNK", 10)
    monkeypatch.setattr(jsonstream, "MAX_RECORD_LENGTH", 50)
    with pytest.raises(UsageError, match="not whole JSON"):
        list(read_records(written(tmp_path, '[{"a": "' + "x" * 1000)))


def test_no_text(tmp_path):
    path = tmp_path / "file.json"
    path.write_bytes(b'[{"a": "\xff"}]')
    with pytest.raises(UsageError, match=r"file\.json:1 or below: not UTF-8 text"):
        list(read_records(path))
    with pytest.raises(UsageError, match=r"cannot read .*none\.json: No such file"):
        list(read_records(tmp_path / "none.json"))


def test_bytes_read_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonstream, "CHUNK", 4)
    path = written(tmp_path, json.dumps([{"a": "\u00e9" * 3_000}] * 3))
    seen = []
    list(read_records(path, seen.append))
    assert seen == sorted(seen)
    assert seen[-1] == path.stat().st_size
    assert len(set(seen)) > 3
