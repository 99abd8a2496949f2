"""The selector that compares vectors: of the query, and of title and abstract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from agentgym.core.hashing import sha256_json
from agentgym.core.queries import AnswerKind, UnansweredError
from agentgym.envs.papersearch.data.corpus import PaperCorpus
from agentgym.envs.papersearch.engine.selectors import MAX_CACHED_PAPERS, MAX_CACHED_QUERIES
from agentgym.envs.papersearch.topics import Topic
from agentgym.retrieval.encoders import TextEncoder

TOLERANCE = 1e-3
"""Largest difference of one encoder's scores on two machines."""

_MIN_NORM = 1e-12
"""Length that a vector is divided by at least: one without length is like no other."""


class EncoderSelector:
    """The cosine of both vectors, 0 where it is negative."""

    def __init__(self, corpus: PaperCorpus, encoder: TextEncoder):
        """Encode each text once, at its first use."""
        self._corpus = corpus
        self._encoder = encoder
        self._queries: dict[str, npt.NDArray[np.float64]] = {}
        self._papers: dict[int, npt.NDArray[np.float64]] = {}
        self.kind = AnswerKind(
            f"selector encoder {encoder_digest(encoder)}", "recomputable", tolerance=TOLERANCE
        )

    def question(self, topic: Topic, number: int) -> tuple[str, int]:
        """Return the query and the paper's number."""
        return topic.query, number

    def answer(self, questions: Sequence[Any]) -> list[float]:
        """Encode what is new, in one call each for queries and papers, and compare."""
        _keep(self._queries, [q for q, _ in questions], MAX_CACHED_QUERIES, self._encoder.encode_queries)
        _keep(self._papers, [number for _, number in questions], MAX_CACHED_PAPERS, self._encode_papers)
        return [_cosine(self._queries[query], self._papers[number]) for query, number in questions]

    def _encode_papers(self, numbers: Sequence[int]) -> npt.NDArray[np.floating[Any]]:
        return self._encoder.encode_passages([self._corpus.paper(number).contents for number in numbers])

    def agrees(self, recorded: Any, computed: Any) -> bool:
        """Return whether both are numbers within the tolerance."""
        return type(recorded) is float and abs(recorded - computed) <= self.kind.tolerance


def encoder_digest(encoder: TextEncoder) -> str:
    """Return 16 hex digits over all that an encoder's vectors depend on."""
    return sha256_json({"text": dict(encoder.text_parameters), "numbers": dict(encoder.parameters)})[:16]


def _keep(cache: dict[Any, Any], keys: Sequence[Any], most: int, encode: Any) -> None:
    """Encode the keys that are not cached; the oldest are evicted."""
    new = [key for key in dict.fromkeys(keys) if key not in cache]
    if new:
        vectors = np.asarray(encode(new), np.float64)
        if not np.isfinite(vectors).all():
            raise UnansweredError("the encoder made a vector that is no vector of finite numbers")
        for key in list(cache)[: max(0, len(cache) + len(new) - most)]:
            if key not in keys:
                del cache[key]
        cache.update(
            zip(
                new,
                vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _MIN_NORM),
                strict=True,
            )
        )


def _cosine(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> float:
    return min(max(float(left @ right), 0.0), 1.0)
