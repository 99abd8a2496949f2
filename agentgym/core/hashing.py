"""Canonical state -> 128-bit hash; hash chains of episodes.

Every identifier of the project comes from here, so that it is the same in any process, on any
machine and under any ``PYTHONHASHSEED``. Python's own ``hash()`` is never used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from typing import Any

DIGEST_BYTES = 16
"""Size of a state hash and of a content id: 128 bits, 32 hex digits."""


def canonical(value: Any) -> bytes:
    """Encode a plain value as bytes, injectively: different values never encode alike.

    Plain values are None, bool, int, float, str, bytes and (nested) sequences, sets and mappings of
    them. Lists and tuples encode alike; sets and mappings are sorted by their members' encodings.

    Returns a type tag, followed by length and content. `TypeError` for a member of any other type.
    """
    # bytes and str first: hot paths pass these
    if isinstance(value, bytes):
        return b"b%d:%b" % (len(value), value)
    if isinstance(value, str):
        raw = value.encode("utf-8", "surrogatepass")
        return b"s%d:%b" % (len(raw), raw)
    if value is None:
        return b"n"
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, int):
        return b"i%d;" % value
    if isinstance(value, float):
        return b"d%b;" % value.hex().encode()
    if isinstance(value, tuple | list):  # tested first, since isinstance of abstract classes is slow
        return b"l%d:%b" % (len(value), b"".join([canonical(member) for member in value]))
    if isinstance(value, Mapping):
        items = sorted((canonical(k), canonical(v)) for k, v in value.items())
        return b"m%d:%b" % (len(items), b"".join(k + v for k, v in items))
    if isinstance(value, Set):
        members = sorted(canonical(member) for member in value)
        return b"S%d:%b" % (len(members), b"".join(members))
    if isinstance(value, Sequence):
        return b"l%d:%b" % (len(value), b"".join(canonical(member) for member in value))
    raise TypeError(
        f"cannot hash a {type(value).__name__}: give None, bool, int, float, str, bytes "
        "or sequences, sets and mappings of them"
    )


class StateHasher:
    """Hash states of one task: blake2b-128 over suite, schema, task id, terminal flag and state.

    The scope is absorbed once; each state then costs one copy and one update (about 0.3 us).

    Example:
        >>> hasher = StateHasher("sokoban", 1, "0" * 32)
        >>> hasher.hash(b"#@$.#", terminated=False)
        '097c96d168845a7ed8438e8cbe6c5094'
    """

    __slots__ = ("_over", "_running", "schema")

    def __init__(self, suite: str, schema: int, task_id: str):
        """Absorb the scope of every hash to come.

        Args:
            suite: name of the suite.
            schema: version of its states, ``state_schema``.
            task_id: id of the task.
        """
        self.schema = schema
        scope = canonical((suite, schema, task_id))
        self._running = hashlib.blake2b(scope + b"f", digest_size=DIGEST_BYTES)
        self._over = hashlib.blake2b(scope + b"t", digest_size=DIGEST_BYTES)

    def hash(self, state: bytes, terminated: bool) -> str:
        """Return the 32 hex digits of one state.

        Args:
            state: `canonical` bytes of the state.
            terminated: whether the game ended here by its own rules.
        """
        digest = (self._over if terminated else self._running).copy()
        digest.update(state)
        return digest.hexdigest()


def content_id(value: Any) -> str:
    """Return the 32 hex digits that name a plain value, for example a task's content."""
    return hashlib.blake2b(canonical(value), digest_size=DIGEST_BYTES).hexdigest()


def canonical_json(value: Any) -> str:
    """Serialise as JSON with sorted keys, no spaces and no NaN: one text per value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sha256_json(value: Any) -> str:
    """Return the sha256 (64 hex digits) of `canonical_json`."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


class HashChain:
    """The fingerprint of an episode: one link per step, each depending on all before.

    ``h_0 = H(schema, env spec JSON, task id, seed, rollout index, initial state hash)`` and
    ``h_t = H(h_{t-1}, state hash_t, action, float.hex(reward), terminated, truncated)``.
    ``links`` has length T + 1 after T steps.
    """

    schema = 1
    """Version of the chain's own format, absorbed into ``h_0``."""

    def __init__(self, env_spec: str, task_id: str, seed: int, rollout: int, state_hash: str):
        """Start the chain of an episode.

        Args:
            env_spec: JSON of the environment's specification.
            task_id: the task played.
            seed: the episode's seed.
            rollout: index of this attempt at the task.
            state_hash: hash of the initial state.
        """
        self.links = [content_id((self.schema, env_spec, task_id, seed, rollout, state_hash))]

    def extend(self, state_hash: str, action: str, reward: float, terminated: bool, truncated: bool) -> str:
        """Append and return the link of one step.

        Args:
            state_hash: of the state after the step, 32 hex digits.
            action: the action as it was played.
            reward: the step's, hashed bit for bit.
            terminated: whether the game ended by its own rules.
            truncated: whether the step limit ended it.
        """
        link = content_id(
            (self.links[-1], state_hash, action, float(reward).hex(), bool(terminated), bool(truncated))
        )
        self.links.append(link)
        return link
