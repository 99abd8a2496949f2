"""Made-up passages of any number, with the lengths and the word frequencies of HotpotQA's sample.

A passage has the length of one in the sample, and words drawn from all of the sample's; words that the sample
has once give way to made-up rare ones, so that the vocabulary grows with the corpus as it does in texts.
Drawn words go together by chance, unlike those of texts, which makes it harder to leave documents out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from agentgym.io.paths import data_directory
from agentgym.retrieval.analysis import Analyser
from agentgym.retrieval.engines.bm25.blocks import store_block
from agentgym.retrieval.engines.bm25.counting import CountedBlock
from agentgym.retrieval.engines.bm25.merging import BlockSource
from agentgym.retrieval.engines.bm25.postings import term_digest
from agentgym.retrieval.words import words

SEED = 12
TOGETHER = 4_096
BLOCK = 1 << 16
_ODD_NUMBER = 0x9E3779B97F4A7C15
RARE = 20_000_000
"""Made-up rare words there are; the n-th comes 1 / n as often as the first."""


def sample() -> list[tuple[str, str]]:
    """Return ids and texts of HotpotQA's sample."""
    lines = (data_directory() / "hotpotqa" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [(str(row["id"]), f"{row['title']} {row['text']}") for row in rows]


def made_up(count: int) -> Iterator[tuple[str, str]]:
    """Yield ids and texts of passages."""
    texts = [words(text) for _, text in sample()]
    lengths = np.array([len(text) for text in texts])
    counted = Counter(word for text in texts for word in text)
    known = [word for word, times in counted.items() if times > 1]
    numbers = {word: number for number, word in enumerate(known)}
    stream = np.array([numbers.get(word, -1) for text in texts for word in text])
    for first in range(0, count, TOGETHER):
        rng = np.random.default_rng((SEED, first))
        sizes = lengths[rng.integers(0, len(lengths), min(TOGETHER, count - first))]
        drawn = stream[rng.integers(0, len(stream), int(sizes.sum()))].tolist()
        rare = iter(np.exp(rng.random(drawn.count(-1)) * np.log(RARE)).astype(np.int64).tolist())
        spelled = [known[number] if number >= 0 else f"rare{next(rare)}" for number in drawn]
        ends = np.cumsum(sizes).tolist()
        for place, (end, size) in enumerate(zip(ends, sizes.tolist(), strict=True)):
            yield f"{first + place:08}", " ".join(spelled[end - size : end])


def counted_blocks(count: int, spool: Path) -> Iterator[BlockSource]:
    """Yield blocks of such passages whose terms are drawn and counted at once, without texts."""
    analyser = Analyser()
    texts = [words(text) for _, text in sample()]
    lengths = np.array([len(text) for text in texts])
    counted = Counter(word for text in texts for word in text)
    numbers: dict[str, int] = {}
    number_of = {
        word: -1 if not analyser[word] else numbers.setdefault(analyser[word], len(numbers))
        for word, times in counted.items()
        if times > 1
    }
    stream = np.array([number_of.get(word, -2) for text in texts for word in text])
    digests = np.fromiter(map(term_digest, numbers), np.uint64, len(numbers))
    for first in range(0, count, BLOCK):
        rng = np.random.default_rng((SEED, first))
        sizes = lengths[rng.integers(0, len(lengths), min(BLOCK, count - first))]
        drawn = stream[rng.integers(0, len(stream), int(sizes.sum()))]
        rare = drawn == -2
        drawn[rare] = len(digests) + np.exp(rng.random(int(rare.sum())) * np.log(RARE)).astype(np.int64)
        documents = np.repeat(np.arange(len(sizes)), sizes)[drawn >= 0]
        yield store_block(_counted(drawn[drawn >= 0], documents, len(sizes), digests), spool / str(first))


def _counted(
    drawn: npt.NDArray[np.int64],
    documents: npt.NDArray[np.int64],
    count: int,
    digests: npt.NDArray[np.uint64],
) -> CountedBlock:
    """Return the block of drawn terms and their documents."""
    terms, places = np.unique(drawn, return_inverse=True)
    known = terms < len(digests)
    # any numbers far apart do for words that nobody asks for
    named = np.where(
        known, digests[np.where(known, terms, 0)], terms.astype(np.uint64) * np.uint64(_ODD_NUMBER)
    )
    order = np.argsort(named)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    keys = (rank[places] << 32) | documents
    keys.sort()
    begins = np.flatnonzero(np.diff(keys, prepend=-1))
    return CountedBlock(
        terms=named[order],
        checks=terms[order],
        sizes=np.bincount(keys[begins] >> 32, minlength=len(order)),
        documents=keys[begins].astype(np.int32),
        counts=np.diff(begins, append=len(keys)).astype(np.int32),
        lengths=np.bincount(documents, minlength=count).astype(np.int32),
    )


def questions(count: int) -> list[str]:
    """Return different questions of HotpotQA."""
    path = data_directory() / "hotpotqa" / "dev_questions_7405.jsonl"
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return list(dict.fromkeys(row["question"] for row in rows))[:count]


def five_words(queries: list[str]) -> list[str]:
    """Return five words of each query, none a stop word, or as many as it has."""
    analyser = Analyser()
    rng = np.random.default_rng(SEED)
    found = []
    for query in queries:
        kept = [word for word in words(query) if analyser[word]]
        found.append(" ".join(rng.choice(kept, min(5, len(kept)), replace=False).tolist()))
    return found
