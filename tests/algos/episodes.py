"""Batches to test with: written out episode by episode, or drawn at random with the awkward cases in them."""

from itertools import groupby

import numpy as np
from hypothesis import strategies as st

from agentgym.algos.batch import StepBatch


def batch_of(*episodes, **columns):
    """Build a batch of episodes ``(group, states, rewards, won, final state, actions, valid)`` as dicts."""
    rows = {name: [] for name in ("group", "trajectory", "state", "next_state", "reward", "won", "valid")}
    actions = []
    for number, episode in enumerate(episodes):
        states, n = list(episode["states"]), len(episode["states"])
        rewards = episode.get("rewards", [0.0] * n)
        rows["group"] += [episode.get("group", 0)] * n
        rows["trajectory"] += [number] * n
        rows["state"] += states
        rows["next_state"] += [*states[1:], episode.get("final", f"end {number}")]
        rows["reward"] += list(rewards)
        rows["won"] += [episode.get("won", sum(rewards) > 0)] * n
        rows["valid"] += episode.get("valid", [True] * n)
        actions += list(episode.get("actions", "a" * n))
    return StepBatch.of(**rows, actions=actions, **columns)


def one_step_episodes(rewards, group, **columns):
    """Build a batch of episodes of one step each, all from one state."""
    n = len(rewards)
    return StepBatch.of(group=group, trajectory=range(n), state=[0] * n, reward=rewards, **columns)


@st.composite
def batches(draw, *, states=5, repeats=True, invalid=True):
    """Draw groups of 1 to 4 episodes of 1 to 6 steps that wander over a few states, with self-loops."""
    episodes = []
    for group in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(1, 4))):
            n = draw(st.integers(1, 6))
            walk = draw(st.lists(st.integers(0, states - 1), min_size=n + 1, max_size=n + 1))
            if not repeats:
                walk = [(len(episodes), t) for t in range(n + 1)]
            episodes.append(
                {
                    "group": group,
                    "states": [(group, s) for s in walk[:-1]],
                    "final": (group, walk[-1]),
                    "rewards": draw(
                        st.lists(st.sampled_from([0.0, -0.1, 1.0, 10.0]), min_size=n, max_size=n)
                    ),
                    "won": draw(st.booleans()),
                    "valid": draw(st.lists(st.booleans(), min_size=n, max_size=n)) if invalid else [True] * n,
                    "actions": draw(st.lists(st.sampled_from("ab"), min_size=n, max_size=n)),
                }
            )
    batch = batch_of(*episodes)
    n = len(batch)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    cut = draw(st.booleans())
    last = np.append(batch.trajectory[1:] != batch.trajectory[:-1], True)
    return batch.with_columns(
        values=rng.normal(size=n),
        next_values=rng.normal(size=n),
        tokens=rng.integers(1, 4, size=n),
        truncated=last & ~batch.won & cut,
        terminated=last & ~(~batch.won & cut),
        texts=tuple(f"state {s}" for s in batch.state),
    )


def trajectories(batch):
    """Return the rows of each trajectory, in order."""
    return [
        np.array([row for row, _ in rows])
        for _, rows in groupby(enumerate(batch.trajectory.tolist()), key=lambda pair: pair[1])
    ]


def take(batch, rows):
    """Return a batch of these rows, which must keep trajectories whole."""
    columns = {}
    for name in batch.__dataclass_fields__:
        column = getattr(batch, name)
        if column is not None:
            columns[name] = tuple(column[r] for r in rows) if isinstance(column, tuple) else column[rows]
    return batch.with_columns(**columns)


def shuffled(batch, seed=0):
    """Return the batch with its trajectories in another order, and where each row came from."""
    parts = trajectories(batch)
    order = np.random.default_rng(seed).permutation(len(parts))
    rows = np.concatenate([parts[i] for i in order])
    return take(batch, rows), rows


def tokens_of(batch, rows):
    """Return the positions, in packed columns of tokens, of the tokens of these rows, in that order."""
    ends = np.cumsum(batch.tokens)
    return np.concatenate([np.arange(ends[row] - batch.tokens[row], ends[row]) for row in rows])
