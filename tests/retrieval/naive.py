"""BM25 as its formula is written, document by document: what the index is compared with."""

import math
from collections import Counter

import numpy as np

from agentgym.retrieval.analysis import Analyser
from agentgym.retrieval.engines.bm25.lengths import LENGTHS


def rank(documents, query, k, k1=0.9, b=0.4):
    """Return ids and scores of the best documents."""
    analyser = Analyser()
    counts = [(id, Counter(analyser.terms(text))) for id, text in documents]
    filled = [count for _, count in counts if count]
    if not filled:
        return [], []
    f4 = np.float32
    average = f4(sum(count.total() for count in filled) / len(filled))
    holders = Counter(term for count in filled for term in count)
    found = []
    for id, count in counts:
        if not count:
            continue
        length = LENGTHS[LENGTHS <= count.total()].max().item()
        inverse = f4(1) / (f4(k1) * ((f4(1) - f4(b)) + f4(b) * (f4(length) / average)))
        total = 0.0
        for term, times in Counter(analyser.terms(query)).items():
            if count[term]:
                rarity = math.log(1 + (len(filled) - holders[term] + 0.5) / (holders[term] + 0.5))
                weight = f4(times) * f4(rarity)
                total += float(weight - weight / (f4(1) + f4(count[term]) * inverse))
        if total:
            found.append((-f4(total), id))
    found.sort()
    return [id for _, id in found[:k]], [float(-score) for score, _ in found[:k]]
