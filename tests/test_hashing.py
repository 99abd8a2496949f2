"""Canonical bytes are injective, hashes are stable, chains depend on all that came before."""

import itertools
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core.hashing import HashChain, StateHasher, canonical, canonical_json, content_id, sha256_json

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.binary(max_size=5),
)
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=3), st.integers()), inner, max_size=3),
        st.frozensets(SCALARS, max_size=3),
    ),
    max_leaves=6,
)


def form(value):
    """Return a value that is equal exactly where two plain values mean the same, types told apart."""
    if isinstance(value, dict):
        return ("map", frozenset((form(key), form(part)) for key, part in value.items()))
    if isinstance(value, frozenset):
        return ("set", frozenset(form(part) for part in value))
    if isinstance(value, tuple | list):
        return ("list", tuple(form(part) for part in value))
    return (type(value).__name__, value.hex() if isinstance(value, float) else value)


@given(PLAIN, PLAIN)
def test_equal_bytes_mean_equal_values(left, right):
    assert (canonical(left) == canonical(right)) == (form(left) == form(right))


@given(st.lists(PLAIN, max_size=4), st.lists(PLAIN, max_size=4))
def test_bytes_tell_where_a_member_ends(left, right):
    joined = [b"".join(canonical(value) for value in values) for values in (left, right)]
    assert (joined[0] == joined[1]) == (form(left) == form(right))


def test_neighbours_are_told_apart():
    values = [
        None,
        False,
        True,
        0,
        1,
        0.0,
        -0.0,
        1.0,
        "",
        "0",
        "n",
        b"",
        b"0",
        (),
        ("",),
        ((),),
        {},
        set(),
        {"": 0},
    ]
    values += [("ab", "c"), ("a", "bc"), ["a", ["b"]], ["a", "b"], "1:", "l1:s0:", "\ud800", float("inf")]
    encodings = [canonical(value) for value in values]
    assert len(set(encodings)) == len(values)


def test_order_matters_only_in_sequences():
    assert canonical({"a": 1, "b": 2}) == canonical(OrderedDict(b=2, a=1))
    assert canonical({1, 2, 3}) == canonical(frozenset([3, 2, 1]))
    assert canonical([1, 2]) == canonical((1, 2)) != canonical((2, 1))


@pytest.mark.parametrize("value", [object(), np.int64(1), np.zeros(2), 1j, (1, object())])
def test_other_types_are_refused(value):
    with pytest.raises(TypeError, match="cannot hash a"):
        canonical(value)


def test_identifiers_are_pinned():
    """These are in manifests and results: they may never change."""
    assert content_id(("corridor", 3, None, {"a": 1.5})) == "25406ee9d192374d279e621e1fcaee7f"
    assert (
        StateHasher("sokoban", 1, "0" * 32).hash(b"#@$.#", terminated=False)
        == "097c96d168845a7ed8438e8cbe6c5094"
    )
    assert (
        sha256_json({"b": [1, "ü"], "a": None})
        == "6bafd57c7869b3aca54e576a5157b40cc195c8486124cab93d52f1b59556838e"
    )
    assert HashChain("spec", "task", 1, 0, "state").links == ["fab9744ae95c20589bd5bc4a5c9561b8"]


def test_a_state_hash_is_scoped():
    scopes = itertools.product(("a", "b"), (1, 2), ("t", "u"))
    hashes = {
        StateHasher(*scope).hash(state, end)
        for scope in scopes
        for state in (b"", b"f", b"t")
        for end in (0, 1)
    }
    assert len(hashes) == 8 * 3 * 2
    assert all(len(each) == 32 for each in hashes)


def test_a_hasher_can_be_used_again():
    hasher = StateHasher("a", 1, "t")
    assert hasher.hash(b"x", False) == hasher.hash(b"x", False) != hasher.hash(b"x", True)


def test_canonical_json_is_one_text_per_value():
    assert canonical_json({"b": 1, "a": [1.5, "ü"]}) == '{"a":[1.5,"ü"],"b":1}'
    with pytest.raises(ValueError, match="Out of range"):
        canonical_json(float("nan"))


STEPS = [("h1", "up", 1.0, False, False), ("h2", "up", 0.0, False, False), ("h3", "=", 10.0, True, False)]


def chain(steps=STEPS, start=("spec", "task", 1, 0, "h0")):
    links = HashChain(*start)
    for step in steps:
        links.extend(*step)
    return links.links


def test_a_chain_has_a_link_a_step():
    assert len(chain()) == 4
    assert len(set(chain())) == 4
    assert chain() == chain()
    assert chain(STEPS[:2]) == chain()[:3]


@pytest.mark.parametrize("place", range(5))
def test_a_chain_depends_on_how_it_started(place):
    start = ["spec", "task", 1, 0, "h0"]
    start[place] = "other" if isinstance(start[place], str) else 7
    assert not set(chain(start=start)) & set(chain())


@pytest.mark.parametrize("place", range(5))
def test_a_chain_depends_on_all_of_a_step(place):
    changed = list(STEPS[1])
    changed[place] = "other" if place < 2 else 5.0 if place == 2 else not changed[place]
    links = chain([STEPS[0], changed, STEPS[2]])
    assert links[:2] == chain()[:2]
    assert not set(links[2:]) & set(chain()[2:])


def test_a_chain_takes_numpy_s_numbers():
    """Vector environments return rewards and flags as numpy scalars."""
    links = HashChain("spec", "task", 1, 0, "h0")
    links.extend("h1", "up", np.float64(1.0), np.bool_(False), np.bool_(False))
    assert links.links == chain(STEPS[:1])
