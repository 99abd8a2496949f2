"""Ours beside what the official scripts gave: recorded by ``python -m benchmarks.parity.qa``."""

import json

import pytest

from agentgym.core.hashing import sha256_json
from agentgym.envs.multihop import scoring
from benchmarks.parity import qa
from benchmarks.parity.qa_pairs import COUNT, draw_pairs


@pytest.fixture(scope="module")
def pairs():
    return draw_pairs()


@pytest.fixture(scope="module")
def report():
    return json.loads(qa.OUT.read_text(encoding="utf-8"))


def test_the_pairs_are_the_recorded_ones(pairs, report):
    assert len(pairs) == report["pairs"] == COUNT == 2_000
    assert sha256_json(pairs) == report["pairs_sha256"]


def test_nothing_differs_from_the_recorded_scores(pairs, report):
    ours = qa.score_all(pairs)
    assert qa.differences(ours, qa.read_recorded()) == dict.fromkeys(qa.SCRIPTS, 0)
    assert qa.totals(ours) == {name: row["totals"] for name, row in report["scripts"].items()}


def test_the_committed_report_has_no_difference(report):
    assert [row["differences"] for row in report["scripts"].values()] == [0, 0, 0]
    assert [row["totals that differ"] for row in report["scripts"].values()] == [0, 0, 0]
    assert [row["numbers"] for row in report["scripts"].values()] == [24_000, 32_000, 6_000]
    assert qa.markdown(report) == qa.OUT.with_suffix(".md").read_text(encoding="utf-8")


def test_the_pairs_reach_the_odd_corners():
    recorded = qa.read_recorded()
    twowiki = dict(zip(qa.NUMBERS["twowiki"], recorded["twowiki"].T, strict=True))
    assert (twowiki["evi_recall"] > 100).any()  # two names of one triple count twice
    hotpotqa = dict(zip(qa.NUMBERS["hotpotqa"], recorded["hotpotqa"].T, strict=True))
    assert ((hotpotqa["em"] == 1) & (hotpotqa["f1"] == 0)).any()  # two empty answers
    assert ((hotpotqa["sp_em"] == 1) & (hotpotqa["sp_f1"] == 0)).any()
    for column in ("f1", "sp_f1", "joint_f1"):
        assert len(set(hotpotqa[column])) > 10


@pytest.mark.parametrize(
    ("name", "changed", "sets"),
    [
        ("CLOSED_ANSWERS", frozenset(), {"hotpotqa", "twowiki"}),
        ("_ARTICLES", scoring.re.compile(r"\b(?:an|the)\b"), {"hotpotqa", "twowiki", "musique"}),
        ("_WITHOUT_PUNCTUATION", {ord("."): None}, {"hotpotqa", "twowiki", "musique"}),
        ("_in_lower_case", list, {"twowiki"}),
        ("_written_out", lambda gold: [(gold.subjects[0], gold.relation, gold.objects[0])], {"twowiki"}),
    ],
)
def test_a_difference_is_found(pairs, monkeypatch, name, changed, sets):
    monkeypatch.setattr(scoring, name, changed)
    found = qa.differences(qa.score_all(pairs[:500]), {k: v[:500] for k, v in qa.read_recorded().items()})
    assert {key for key, count in found.items() if count} == sets


def test_a_missing_script_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"no hotpot_evaluate_v1\.py in .*: put the official scripts there"):
        qa.find_scripts(tmp_path)
