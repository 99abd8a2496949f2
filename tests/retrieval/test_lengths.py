"""Lengths are kept as Lucene keeps them: SmallFloat.intToByte4 of Lucene 9.9 made the numbers."""

import numpy as np

from agentgym.retrieval.engines.bm25.lengths import LENGTHS, encode_lengths


def test_literal_numbers():
    lengths = np.array([0, 1, 23, 39, 40, 41, 42, 55, 56, 57, 100, 107, 108, 1000, 100_000, 2**31 - 1])
    kept = [0, 1, 23, 39, 40, 40, 42, 54, 56, 56, 96, 104, 104, 984, 98328, 2013265944]
    assert LENGTHS[encode_lengths(lengths)].tolist() == kept


def test_kept_lengths_ascend_and_are_kept():
    assert np.all(np.diff(LENGTHS) > 0)
    assert encode_lengths(LENGTHS).tolist() == list(range(256))
