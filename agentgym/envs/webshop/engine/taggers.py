"""Taggers: the nouns of a title, for the kind of product.

Scores depend on the tagger, so it is always explicit: ``words`` (the default) needs nothing installed,
``blank-en`` and ``spacy:MODEL`` need spaCy, and the second also the model. WebShop uses a spaCy model:
``en_core_web_lg`` at the time of its paper, ``en_core_web_sm`` now. A tagger that is not there is an error;
none is ever put in its place.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from agentgym.core.hashing import content_id
from agentgym.data.directory import cache_directory
from agentgym.errors import UsageError, nearest
from agentgym.io.files import make_folder
from agentgym.io.paths import CACHE_VARIABLE

DEFAULT = "words"

NOUNS = ("NOUN", "PROPN")
"""Universal parts of speech that count."""

SPACY = "spacy:"
"""Prefix of a tagger's name that is followed by the name of a spaCy model."""

Nouns: TypeAlias = tuple[str, ...]


class Tagger(NamedTuple):
    """A way to find the nouns of a title, and its version."""

    id: str
    """Name by which it was opened."""
    version: str
    """Version of everything that decides its nouns."""
    nouns: Callable[[str], Nouns]
    """Function that returns the nouns of a title in lower case, in order, repetitions included."""


def make_tagger(name: str) -> Tagger:
    """Return a tagger by name: ``words``, ``blank-en`` or ``spacy:MODEL``.

    Example:
        >>> make_tagger("words").nouns("100% Cotton T-Shirt for the Gym, Set of 2 Shirts")
        ('cotton', 'shirt', 'gym', 'set', 'shirts')
    """
    name = str(name)  # options come from suites and the command line
    if name == "words":
        return Tagger(name, "1", _words)
    if name == "blank-en":
        return _blank()
    if name.startswith(SPACY):
        return _model(name)
    known = ("words", "blank-en", "spacy:en_core_web_sm")
    raise UsageError(f"unknown tagger {name!r}{nearest(name, known)}; choose words, blank-en or spacy:MODEL")


def stored_nouns(tagger: Tagger) -> Callable[[str], Nouns]:
    """Return the function that finds a title's nouns; a model's results are cached on disk."""
    if not tagger.id.startswith(SPACY):
        return tagger.nouns
    name = content_id((tagger.id, tagger.version))[:16]
    return TextMemo(cache_directory() / "webshop" / f"nouns-{name}.sqlite", tagger.nouns)


_LETTERS = re.compile(r"[^\W\d_]{2,}")
"""Two letters or more, of any script."""

_APOSTROPHES = re.compile(r"[\u2019']s\b|[\u2019'](?=\w)")

_CLOSED = """
a about above across after against all along also am among an and any are around as at away back be
because been before behind being below beneath beside between beyond both but by can could did do does
down during each either else etc even ever every few for from had has have he her here hers him his how
if in inside into is it its just least less many may me might more most much must my near neither no nor
not now of off often on once one only onto or other our out outside over own per perhaps quite rather
same several shall she should since so some such than that the their them then there these they this
those though through throughout thus to too toward towards two under until up upon us very via was we
well were what when where whether which while who whom whose why will with within without would yet you
your
"""
"""Articles, pronouns, prepositions, conjunctions, auxiliaries, adverbs of place, time and degree."""

_OTHER_WORDS = frozenset(_CLOSED.split())


def _words(title: str) -> Nouns:
    """Return the words of a title that are not of a closed class."""
    plain = _APOSTROPHES.sub(" ", title.lower())
    return tuple(word for word in _LETTERS.findall(plain) if word not in _OTHER_WORDS)


def _blank() -> Tagger:
    """Return the tagger of WebShop's published recordings, which stands in for a model.

    Its nouns are the alphabetic tokens of spaCy's English tokenizer that are not its stop words.
    """
    spacy = _spacy("blank-en")
    pipeline = _english(spacy)

    def nouns(title: str) -> Nouns:
        return tuple(
            token.text.lower() for token in pipeline.make_doc(title) if token.is_alpha and not token.is_stop
        )

    return Tagger("blank-en", f"spacy {spacy.__version__}", nouns)


@cache
def _english(spacy: Any) -> Any:
    """Return spaCy's English pipeline without a model: one for all worlds, since making it takes long."""
    return spacy.blank("en")


def _model(name: str) -> Tagger:
    """Return a spaCy model, with what names and categorises entities left out: nouns need neither."""
    spacy = _spacy(name)
    model = name.removeprefix(SPACY)
    try:
        pipeline = spacy.load(model, exclude=["ner", "parser"])
    except OSError:
        raise UsageError(
            f"tagger {name!r} needs the spaCy model {model!r}: run python -m spacy download {model}"
        ) from None

    def nouns(title: str) -> Nouns:
        return tuple(token.text.lower() for token in pipeline(title) if token.pos_ in NOUNS)

    return Tagger(name, f"spacy {spacy.__version__}, {model} {pipeline.meta['version']}", nouns)


def _spacy(name: str) -> Any:
    try:
        return import_module("spacy")
    except ModuleNotFoundError as error:
        if error.name != "spacy":
            raise
        raise UsageError(f"tagger {name!r} needs spaCy: pip install spacy") from None


WAIT = 60.0
"""Seconds to wait for another process that writes."""


class TextMemo:
    """A function of a text that asks the disk before it computes. Safe in threads and after a fork.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "words.sqlite"
        >>> TextMemo(path, lambda text: tuple(text.split()))("two words")
        ('two', 'words')
        >>> TextMemo(path, lambda text: ())("two words")
        ('two', 'words')
    """

    def __init__(self, path: Path, compute: Callable[[str], tuple[str, ...]]):
        """Cache the results of ``compute`` in a file that belongs to this function alone."""
        self._path = path
        self._compute = compute
        try:
            make_folder(path.parent)
            with closing(self._open()) as table, table:
                table.execute("CREATE TABLE IF NOT EXISTS answers (text TEXT PRIMARY KEY, answer TEXT)")
        except sqlite3.Error as error:
            raise self._refusal(error) from error

    def __call__(self, text: str) -> tuple[str, ...]:
        """Return the answer."""
        key = json.dumps(text)  # SQLite refuses half of a surrogate pair, which JSON files may have
        row = self._execute("SELECT answer FROM answers WHERE text = ?", (key,))
        if row is not None:
            return tuple(json.loads(row[0]))
        answer = self._compute(text)
        self._execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, json.dumps(answer)))
        return answer

    def _execute(self, statement: str, values: tuple[str, ...]) -> tuple[str] | None:
        try:
            with closing(self._open()) as table, table:
                return table.execute(statement, values).fetchone()  # type: ignore[no-any-return]
        except sqlite3.Error as error:
            raise self._refusal(error) from error

    def _refusal(self, error: sqlite3.Error) -> UsageError:
        return UsageError(
            f"cannot keep answers in {self._path} ({error}): free space, delete it, or set "
            f"{CACHE_VARIABLE} to a folder that can be written"
        )

    def _open(self) -> sqlite3.Connection:
        """Open the file: for each question anew, since connections live in one thread and process."""
        return sqlite3.connect(self._path, timeout=WAIT)
