"""Answers are found once, whoever asks."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from agentgym.envs.webshop.engine.taggers import Tagger, TextMemo, stored_nouns
from agentgym.errors import UsageError


class Splitter:
    """Splits texts, and counts them."""

    def __init__(self):
        self.asked = []

    def __call__(self, text):
        self.asked.append(text)
        return tuple(text.split())


def test_an_answer_is_found_once(tmp_path):
    splitter = Splitter()
    for _ in range(2):
        memo = TextMemo(tmp_path / "folder" / "memo.sqlite", splitter)
        for text in ("red lamp", "", "caf\u00e9 \ud83d", "red lamp"):
            assert memo(text) == tuple(text.split())
    assert splitter.asked == ["red lamp", "", "caf\u00e9 \ud83d"]


def test_threads_share_it(tmp_path):
    memo = TextMemo(tmp_path / "memo.sqlite", Splitter())
    texts = [f"word{i % 7} lamp" for i in range(60)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(memo, texts)) == [tuple(text.split()) for text in texts]


def test_something_else_is_not_overwritten(tmp_path):
    (tmp_path / "memo.sqlite").write_text("not a table, but a text that is long enough to be looked at" * 20)
    with pytest.raises(UsageError, match=r"cannot keep answers in .*memo\.sqlite"):
        TextMemo(tmp_path / "memo.sqlite", Splitter())


def test_only_models_are_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    plain, model = Tagger("words", "1", Splitter()), Tagger("spacy:some", "3.8, some 1", Splitter())
    assert stored_nouns(plain) is plain.nouns
    for version in ("3.8, some 1", "3.8, some 2"):
        for _ in range(2):
            assert stored_nouns(model._replace(version=version))("red lamp") == ("red", "lamp")
    assert len(model.nouns.asked) == 2
    assert len(list((tmp_path / "webshop").glob("nouns-*.sqlite"))) == 2
