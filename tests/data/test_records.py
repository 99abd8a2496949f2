"""A file of records is whole or not there."""

import numpy as np
import pytest

from agentgym.data.recordfile import RecordFile, RecordWriter
from agentgym.errors import UsageError


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "some.records"
    with RecordWriter(path) as writer:
        starts = [writer.add(record) for record in (b"one", b"", b"three")]
        columns = {"starts": np.array(starts), "names": np.array([b"a", b"bb", b"ccc"]), "none": np.empty(0)}
        writer.finish(columns, {"about": 3})
    return path


def test_records_and_columns_come_back(path):
    file = RecordFile(path)
    starts = file.columns["starts"].tolist()
    assert [file.read(start, size) for start, size in zip(starts, (3, 0, 5), strict=True)] == [
        b"one",
        b"",
        b"three",
    ]
    assert file.columns["names"].tolist() == [b"a", b"bb", b"ccc"]
    assert (len(file.columns["none"]), file.about) == (0, {"about": 3})


def test_what_is_not_finished_is_not_there(tmp_path):
    def interrupted():
        with RecordWriter(tmp_path / "some.records") as writer:
            writer.add(b"one")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda raw: b"", "it is empty"),
        (lambda raw: b"x" + raw[1:], "it does not begin as one of this version"),
        (lambda raw: raw[:-40] + b"#" + raw[-39:], "its table is not what was written"),
        (lambda raw: raw[:-1], "its table is not what was written"),
    ],
)
def test_damage(path, damage, reason):
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UsageError, match=rf"is incomplete \({reason}"):
        RecordFile(path)


def test_no_file(tmp_path):
    with pytest.raises(UsageError, match=r"cannot open .*none\.records: No such file"):
        RecordFile(tmp_path / "none.records")
