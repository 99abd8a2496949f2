"""A question with its gold answers, the passages it comes with and where the answer is supported."""

from __future__ import annotations

import html
import json
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from agentgym.core.hashing import content_id
from agentgym.envs.multihop.scoring import Evidence


class SubQuestion(NamedTuple):
    """One hop of a question, as MuSiQue's decompositions have it."""

    question: str
    """Text of the hop; ``#1`` in it stands for the answer of the first hop."""
    answer: str
    passage: int | None
    """Number of the passage that supports the answer; None where none of the question's own does."""


class StoredQuestion(NamedTuple):
    """A question. Passages are numbers into the passages of the store that it is read from."""

    id: str
    """Task id: `question_id` of its content, ``-n`` for the n-th duplicate in its split."""
    source_id: str
    """Upstream's id; ``SPLIT/NUMBER``, counted from 0, where upstream has none."""
    question: str
    answer: str
    aliases: tuple[str, ...] = ()
    """Other texts that count as the answer; of 2WikiMultihopQA sorted, aliases and demonyms of the entity."""
    type: str = ""
    """Type upstream, such as ``bridge``; of MuSiQue the shape of the question's hops, such as ``3hop1``."""
    level: str = ""
    """HotpotQA's ``easy``, ``medium`` or ``hard``; else empty."""
    passages: tuple[int, ...] = ()
    """Passages of its own, in upstream's order, supporting ones and distractors; each once. May be empty."""
    supporting: tuple[int, ...] = ()
    """Numbers, among `passages`, of those that support the answer."""
    facts: tuple[tuple[str, int], ...] = ()
    """Supporting facts, title and number of the sentence, where upstream has them."""
    evidences: tuple[Evidence, ...] = ()
    """2WikiMultihopQA's triples; empty where there are none, and there is then no score of evidence."""
    decomposition: tuple[SubQuestion, ...] = ()

    @property
    def gold_titles(self) -> frozenset[str]:
        """Titles of the supporting facts, which identify supporting passages of another corpus."""
        return frozenset(title for title, _ in self.facts)

    def pack(self) -> bytes:
        """Return it as the bytes of a record."""
        return json.dumps(list(self), ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "surrogatepass"
        )

    @classmethod
    def unpack(cls, record: bytes) -> StoredQuestion:
        """Parse a question's record; `ValueError` where it is none."""
        values = json.loads(record.decode("utf-8", "surrogatepass"))
        if not isinstance(values, list) or len(values) != len(cls._fields):
            raise ValueError(f"a question has {len(cls._fields)} fields")
        *texts, passages, supporting, facts, evidences, decomposition = values
        id, source_id, question, answer, aliases, kind, level = texts
        return cls(
            id,
            source_id,
            question,
            answer,
            tuple(aliases),
            kind,
            level,
            tuple(passages),
            tuple(supporting),
            tuple((title, sentence) for title, sentence in facts),
            tuple(Evidence(tuple(heads), relation, tuple(tails)) for heads, relation, tails in evidences),
            tuple(SubQuestion(*hop) for hop in decomposition),
        )


def plain_title(title: str) -> str:
    """Return the one form of a title that data sets write in several: composed, with its signs themselves.

    Example:
        >>> plain_title("Simon &amp; Garfunkel"), plain_title("Cafe" + chr(0x301))
        ('Simon & Garfunkel', 'Café')
    """
    return unicodedata.normalize("NFC", html.unescape(title))


def question_id(
    question: str,
    answer: str,
    aliases: Sequence[str],
    passages: Sequence[tuple[str, str]],
    gold: Sequence[int],
) -> str:
    """Return the 32 hex digits that name a question by its content.

    ``passages``: title and text of its own passages, each once; ``gold``: places in ``passages`` of the
    supporting ones.
    """
    return content_id((question, answer, aliases, passages, gold))
