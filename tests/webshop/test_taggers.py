"""Taggers: what they find, and what is said when one is not there."""

import sys

import pytest

from agentgym.envs.webshop.engine.taggers import make_tagger
from agentgym.envs.webshop.env import WebShopEnv
from agentgym.errors import UsageError
from tests.webshop.corner import corner_shop


def test_words_are_the_default_and_leave_closed_classes_out():
    tagger = make_tagger("words")
    assert (tagger.id, tagger.version) == ("words", "1")
    assert tagger.nouns("Men\u2019s 2-in-1 Shirt with the Über-Cool Logo, Shirt x 3") == (
        "men", "shirt", "über", "cool", "logo", "shirt",
    )  # fmt: skip
    assert tagger.nouns("") == tagger.nouns("for the 12") == ()
    assert corner_shop().tagger == tagger


def test_blank_en_is_spacy_s_tokenizer_without_its_stop_words():
    import spacy

    tagger = make_tagger("blank-en")
    assert (tagger.id, tagger.version) == ("blank-en", f"spacy {spacy.__version__}")
    assert tagger.nouns("Men's T-Shirt, Regular use of e.g. CO2-free, back Dyes dyes") == (
        "men", "t", "shirt", "regular", "use", "free", "dyes", "dyes",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("word", r"unknown tagger 'word' \(did you mean 'words'\?\); choose words, blank-en or spacy:MODEL"),
        ("blank_en", r"did you mean 'blank-en'"),
        ("spacy", r"unknown tagger 'spacy'"),
        (3, r"unknown tagger '3'|tagger must be a string, got 3"),
        ("spacy:en_no_such", r"needs the spaCy model 'en_no_such': run python -m spacy download en_no_such"),
    ],
)
def test_a_tagger_that_is_not_there_is_an_error(name, message):
    with pytest.raises(UsageError, match=message) as caught:
        make_tagger(name)
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match=message):
        WebShopEnv(tagger=name)


@pytest.mark.parametrize("name", ["blank-en", "spacy:en_core_web_sm"])
def test_without_spacy_the_error_says_so(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(UsageError, match=f"tagger '{name}' needs spaCy: pip install spacy"):
        make_tagger(name)


def test_a_spacy_model_counts_nouns_and_proper_nouns(tmp_path):
    """Of any model there is: here one that tags by rule, saved to a folder."""
    import spacy

    model = spacy.blank("en")
    ruler = model.add_pipe("attribute_ruler")
    ruler.add([[{"LOWER": "lamp"}]], {"POS": "NOUN"})
    ruler.add([[{"LOWER": "acme"}]], {"POS": "PROPN"})
    ruler.add([[{"LOWER": "red"}]], {"POS": "ADJ"})
    model.to_disk(tmp_path)
    tagger = make_tagger(f"spacy:{tmp_path}")
    assert tagger.nouns("Acme red Lamp lamp") == ("acme", "lamp", "lamp")
    assert tagger.version.startswith(f"spacy {spacy.__version__}, ")


def test_worlds_of_different_taggers_are_told_apart():
    words, blank = corner_shop(), corner_shop(tagger="blank-en")
    assert blank.manifest["tagger"] == "blank-en"
    assert blank.key != words.key
    envs = [WebShopEnv(dataset=world, split="upstream-test", goals="human") for world in (words, blank)]
    assert envs[0].tasks.manifest_sha256 != envs[1].tasks.manifest_sha256
    assert envs[0].tasks.ids == envs[1].tasks.ids
    envs[0].reset(seed=0)
    with pytest.raises(ValueError, match="cannot restore"):
        envs[1].restore(envs[0].snapshot())


def test_the_built_in_tasks_name_their_tagger():
    words, blank = WebShopEnv(split="test"), WebShopEnv(split="test", tagger="blank-en")
    assert (words.tasks.manifest["tagger"], words.tasks.manifest["tagger_version"]) == ("words", "1")
    assert blank.tasks.manifest["tagger"] == "blank-en"
    assert words.tasks.manifest_sha256 != blank.tasks.manifest_sha256
    assert words.tasks[0] is blank.tasks[0]
    assert WebShopEnv(split="test").tasks is words.tasks
