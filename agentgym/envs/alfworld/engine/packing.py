"""A grounded problem as bytes: a store keeps them beside a game's text, so that loading it is reading.

The bytes are a header in JSON, its size before it, and 16-bit numbers: the type of each object, then for
each predicate the objects of its atoms, then which of the atoms that can change hold at first.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, repeat

import numpy as np
import numpy.typing as npt

from agentgym.envs.alfworld.engine.grounding import GroundProblem, Objects, ground_problem
from agentgym.envs.alfworld.engine.pddl import Fact, goal_form, parse_domain, parse_goal
from agentgym.errors import UsageError

VERSION = 1
"""Version of the bytes, which stores name in their format."""

_SIZE = struct.Struct("<I")
_NUMBER = np.dtype("<u2")


def problem_digest(domain: str, problem: str) -> str:
    """Return the digest of a problem in a domain: 32 hex digits of both texts."""
    texts = hashlib.blake2b(digest_size=16)
    for text in (domain, problem):
        raw = text.encode("utf-8", "surrogatepass")
        texts.update(_SIZE.pack(len(raw)) + raw)
    return texts.hexdigest()


def pack_problem(domain: str, problem: str) -> bytes:
    """Ground a problem in a domain, both as PDDL; return it as bytes."""
    return pack(ground_problem(parse_domain(domain), problem), goal_form(problem))


def pack(problem: GroundProblem, goal: str) -> bytes:
    """Return a grounded problem as bytes, with its goal as `goal_form` writes it.

    `UsageError` where it has more objects or atoms than 16 bits can number.
    """
    names, kinds = list(problem.objects.type_of), list(dict.fromkeys(problem.objects.type_of.values()))
    if max(len(names), len(problem.fluents)) > np.iinfo(_NUMBER).max:
        raise UsageError("a game has more than 65,535 objects or atoms")
    number = {name: k for k, name in enumerate(names)}
    blocks: list[Sequence[int]] = [[kinds.index(kind) for kind in problem.objects.type_of.values()]]
    layout = []
    for facts in (sorted(problem.static), problem.fluents):
        by_predicate: dict[str, list[Fact]] = defaultdict(list)
        for fact in facts:
            by_predicate[fact[0]].append(fact)
        layout.append([[name, len(some[0]) - 1, len(some)] for name, some in by_predicate.items()])
        for some in by_predicate.values():
            blocks += [[number[fact[i]] for fact in some] for i in range(1, len(some[0]))]
    place = {fact: k for k, fact in enumerate(problem.fluents)}
    blocks.append(sorted(place[fact] for fact in problem.start))
    header = json.dumps({"names": names, "kinds": kinds, "layout": layout, "goal": goal}).encode()
    numbers = np.fromiter(chain.from_iterable(blocks), _NUMBER)
    return _SIZE.pack(len(header)) + header + numbers.tobytes()


def unpack(data: bytes) -> GroundProblem:
    """Inverse of `pack`."""
    (size,) = _SIZE.unpack_from(data)
    header = json.loads(data[_SIZE.size : _SIZE.size + size])
    numbers: npt.NDArray[np.uint16] = np.frombuffer(data, _NUMBER, offset=_SIZE.size + size)
    names, kinds = header["names"], header["kinds"]
    values = numbers.tolist()
    types = dict(zip(names, map(kinds.__getitem__, values[: len(names)]), strict=True))
    at = len(names)
    planes: list[list[Fact]] = []
    for layout in header["layout"]:
        facts: list[Fact] = []
        for predicate, arity, count in layout:
            columns: list[Iterable[str]] = [repeat(predicate, count)]
            for _ in range(arity):
                columns.append(map(names.__getitem__, values[at : at + count]))
                at += count
            facts += zip(*columns, strict=True)
        planes.append(facts)
    static, fluents = planes
    start = tuple([fluents[k] for k in values[at:]])
    return GroundProblem(Objects(types), frozenset(static), tuple(fluents), start, parse_goal(header["goal"]))
