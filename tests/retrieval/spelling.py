"""An encoder without a model: vectors of letters and their pairs, the same on any machine."""

from itertools import pairwise

import numpy as np

from agentgym.retrieval.inner_products import normalised

DIMENSIONS = 64


class Spelling:
    """Counts pairs of letters; keeps what it was asked."""

    def __init__(self, weights="letters", broken=""):
        self.text_parameters = {"encoder": "spelling", "weights_sha256": weights, "query_prefix": ""}
        self.parameters = {"dimensions": DIMENSIONS, "max_length": 1000}
        self.calls = []
        self._broken = broken

    def encode_queries(self, texts):
        self.calls.append(list(texts))
        return self._encode(texts)

    def encode_passages(self, texts):
        return self._encode(texts)

    def _encode(self, texts):
        counts = np.zeros((len(texts), DIMENSIONS), np.float32)
        for row, text in enumerate(texts):
            letters = [ord(letter) for letter in text[:1000].lower() if letter.isalnum()]
            for first, second in pairwise(letters):
                counts[row, (31 * first + second) % DIMENSIONS] += 1
            if self._broken and self._broken in text:
                counts[row, 3] = np.nan
        return normalised(counts)
