"""Every recorded step of the original, again: what the report says is what the tests find."""

import copy
import json
import os
from pathlib import Path

import pytest

from benchmarks.parity import webshop
from benchmarks.parity.webshop import COMPARED, compare, markdown, read_episodes


def recordings():
    """Return the folder of the recordings, beside the data."""
    return Path(os.environ["AGENTGYM_DATA"]).parent / "golden"


@pytest.mark.assets
def test_nothing_differs_from_the_recordings():
    report = compare(recordings())
    assert report["mismatches"] == dict.fromkeys(COMPARED, 0), report["examples"]
    assert report["weights that differ"] == 0
    assert (report["episodes"], report["steps"]) == (40, 368)
    assert set(report["steps by mode"]) == {"text", "text_rich"}
    assert (report["goals"], report["products with goals"], report["contents of goals"]) == (6910, 415, 6901)
    committed = Path(webshop.__file__).with_suffix(".md").read_text(encoding="utf-8")
    tables = [[row for row in text.splitlines() if row[:1] == "|"] for text in (markdown(report), committed)]
    assert tables[0] == tables[1]


@pytest.mark.assets
@pytest.mark.parametrize("key", ["obs", "clickables", "has_search_bar", "reward", "done"])
def test_a_difference_is_found(key, monkeypatch):
    episodes = copy.deepcopy(read_episodes(recordings())[:2])
    step = episodes[1]["steps"][-1]
    other = {"obs": "x", "clickables": [], "has_search_bar": True, "reward": 0.123, "done": not step["done"]}
    step[key] = other[key]
    monkeypatch.setattr(webshop, "read_episodes", lambda folder: episodes)
    report = compare(recordings())
    names = dict(zip(("obs", "clickables", "has_search_bar", "reward", "done"), COMPARED, strict=True))
    assert report["mismatches"] == {name: int(name == names[key]) for name in COMPARED}
    assert report["examples"][0][0] == names[key]


def test_missing_recordings_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"no recordings .*webshop_reference\.jsonl\.gz: name their folder"):
        read_episodes(tmp_path)


def test_the_committed_report_has_no_mismatch():
    report = json.loads(Path(webshop.__file__).with_suffix(".json").read_text(encoding="utf-8"))
    assert report["mismatches"] == dict.fromkeys(COMPARED, 0)
