"""State graphs of five states that are worked by hand."""

import numpy as np

from agentgym.credit.graph import REJECTED, StateGraph


def graph(edges, *, won=(), lost=()):
    """Make a graph of ``(source, action, target)``, sorted by source; ends are the states won and lost."""
    size = 1 + max(max(source, target) for source, _, target in edges)
    counts = np.bincount([source for source, _, _ in edges], minlength=size)
    ends = np.isin(np.arange(size), [*won, *lost])
    return StateGraph(
        task_id="0" * 32,
        hashes=tuple(f"{number:032x}" for number in range(size)),
        ended=ends,
        won=np.isin(np.arange(size), won),
        first=np.concatenate([[0], np.cumsum(counts)]),
        target=np.array([target for *_, target in edges]),
        valid=np.array([action != REJECTED for _, action, _ in edges]),
        actions=tuple(action for _, action, _ in edges),
        text=np.array([target for *_, target in edges]),
        texts=tuple(f"state {number}" for number in range(size)),
    )


CYCLE = graph(
    [(0, "on", 1), (0, "stay", 0), (1, "back", 0), (1, "on", 2), (2, "on", 3), (2, "fall", 4)],
    won=[3],
    lost=[4],
)
"""A line of three steps with a loop, a way back and a trap beside the goal."""

TWO_WAYS = graph([(0, "short", 3), (0, "long", 1), (1, "on", 2), (2, "on", 4), (2, "fall", 2)], won=[3, 4])
"""One step to a win, or three with a place where one may waste time."""
