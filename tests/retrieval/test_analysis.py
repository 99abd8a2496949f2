"""Terms are those of Lucene's English analyser; the expected ones were made by Lucene 9.9."""

import pytest

from agentgym.retrieval.analysis import STOP_WORDS, Analyser

STEMS = {
    "caresses": "caress",
    "ponies": "poni",
    "relational": "relat",
    "hopping": "hop",
    "hoping": "hope",
    "us": "us",
    "xs": "xs",
    "technology": "technolog",
    "technologies": "technolog",
    "apologys": "apolog",
    "logy": "logi",
    "assembly": "assembl",
    "assemblies": "assembl",
    "incredibly": "incred",
    "bly": "bly",
    "trekking": "trek",
    "revved": "rev",
    "grokking": "grok",
    "falling": "fall",
    "buzzing": "buzz",
    "a__ing": "a_",
}


@pytest.mark.parametrize(("word", "stem"), STEMS.items())
def test_stems(word, stem):
    assert Analyser().terms(word) == [stem]


def test_possessives_and_stop_words_go_first():
    analyser = Analyser()
    assert analyser.terms("The women's shoes and it's men\u2019s, not bosses'") == [
        "women",
        "shoe",
        "men",
        "boss",
    ]
    assert len(STOP_WORDS) == 33
    assert analyser.terms(" ".join(STOP_WORDS)) == []


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr("agentgym.retrieval.analysis._MAX_CACHED", 3)
    analyser = Analyser()
    assert analyser.terms("dogs cats birds fishes dogs") == ["dog", "cat", "bird", "fish", "dog"]
    assert len(analyser) <= 3
