"""Questions that ``subsets.toml`` lists: the same store from a sample and from the published file."""

import json
from pathlib import Path

import pytest

from agentgym.data.importing import import_data
from agentgym.envs.multihop.data.importer import open_questions
from agentgym.envs.multihop.sources import HOTPOTQA, MUSIQUE, TWOWIKI
from agentgym.errors import MissingDataError
from tests.multihop import copies
from tests.multihop.copies import DEV
from tests.official import forms

pytestmark = pytest.mark.usefixtures("own_places")


def quiet(done, total):
    pass


def write_published(path, form, sample):
    """Write a dev file that has the sample's rows in reverse order, and further rows."""
    rows = [form(json.loads(line)) for line in sample.read_text(encoding="utf-8").splitlines()]
    key = "_id" if "_id" in rows[0] else "id"
    further = [{**row, key: f"{row[key]}-x", "question": f"{row['question']} Really?"} for row in rows[:30]]
    copies.write(path, [*further, *reversed(rows)])
    if path.name == "dev.json":
        copies.write(path.with_name("id_aliases.json"), [])


@pytest.mark.assets
@pytest.mark.parametrize(
    ("source", "name", "passages", "file", "form"),
    [
        (HOTPOTQA, "dev-200", 1_971, DEV, forms.hotpot),
        (TWOWIKI, "dev-120", 958, "dev.json", forms.twowiki),
        (MUSIQUE, "dev-200", 3_141, "musique_ans_v1.0_dev.jsonl", forms.musique),
    ],
)
def test_a_sample_and_the_published_file_give_one_store(
    source, name, passages, file, form, tmp_path, monkeypatch, real_data
):
    dataset = f"{source.name}/{name}"
    with monkeypatch.context() as patch:
        patch.setenv("AGENTGYM_DATA", real_data)
        ours = open_questions(dataset)
    write_published(
        tmp_path / source.folder / file, form, Path(real_data) / source.folder / "questions.jsonl"
    )
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path))
    unpacked = open_questions(dataset)
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "data"))
    import_data(source, tmp_path / source.folder, progress=quiet)
    imported = open_questions(dataset)
    for store in (ours, unpacked, imported):
        store.verify()
        assert store.splits == {"dev": int(name.partition("-")[2])}
        assert len(store.passages) == passages
        assert (store.sha256, store.passages.sha256) == (ours.sha256, ours.passages.sha256)


def test_a_part_of_the_published_file_lacks_questions(hotpotqa, tmp_path, monkeypatch):
    import_data(HOTPOTQA, hotpotqa, progress=quiet)
    assert len(open_questions("hotpotqa/distractor")) == 3
    hotpotqa.rename(tmp_path / "hotpotqa")
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"has 0 of the 200 questions of dev-200: get the whole"):
        open_questions("hotpotqa/dev-200")
