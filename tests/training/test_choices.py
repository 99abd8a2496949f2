import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.errors import UsageError
from agentgym.inference.engines.choices import ROOT, ActionSpeller, ActionTrie

END = 99
IDS = st.lists(st.integers(0, 3), max_size=4).map(tuple)
SPELLINGS = st.sets(IDS, min_size=1, max_size=12).map(lambda chosen: {repr(ids): ids for ids in chosen})


def responses(trie, node=ROOT, said=()):
    """Yield every response that the trie allows."""
    if not trie.allowed(node):
        yield said
    for token in trie.allowed(node):
        yield from responses(trie, trie.child(node, token), (*said, token))


@given(SPELLINGS)
def test_a_trie_allows_each_action_exactly_once(spellings):
    trie = ActionTrie(spellings, end=END)
    said = list(responses(trie))
    assert sorted(map(trie.action, said)) == sorted(spellings)
    assert max(map(len, said)) == trie.longest
    for ids in said:
        spelled = spellings[trie.action(ids)]
        others = set(spellings.values()) - {spelled}
        ambiguous = not spelled or any(other[: len(spelled)] == spelled for other in others)
        assert ids == ((*spelled, END) if ambiguous else spelled)


@given(SPELLINGS)
def test_the_allowed_sets_of_a_response_are_those_it_was_drawn_from(spellings):
    trie = ActionTrie(spellings, end=END)
    for ids in responses(trie):
        node = ROOT
        for token, allowed in zip(ids, trie.allowed_along(ids), strict=True):
            assert allowed == trie.allowed(node)
            assert token in allowed
            node = trie.child(node, token)


def test_the_order_of_actions_changes_nothing():
    spellings = {"go": (5,), "go on": (5, 6), "stop": (7,)}
    tries = [ActionTrie(dict(items), end=2) for items in (spellings.items(), reversed(spellings.items()))]
    assert [list(responses(trie)) for trie in tries] == [[(5, 2), (5, 6), (7,)]] * 2


@pytest.mark.parametrize("ids", [(), (5,), (5, 6, 2), (8,), (7, 7)])
def test_what_spells_no_action_is_refused(ids):
    trie = ActionTrie({"go": (5,), "go on": (5, 6), "stop": (7,)}, end=2)
    with pytest.raises(ValueError, match="spell none of the allowed actions"):
        trie.action(ids)


def test_a_response_outside_the_trie_has_no_allowed_sets():
    with pytest.raises(ValueError, match="spell none"):
        ActionTrie({"go": (5,)}, end=2).allowed_along((5, 5))


@pytest.mark.parametrize(
    ("spellings", "message"),
    [
        ({}, "at least one action"),
        ({"a": (1,), "b": (1,)}, "actions 'a' and 'b' are spelled with the same tokens"),
        ({"a": (1, END)}, "action 'a' is spelled with the token 99 that ends actions"),
    ],
)
def test_ambiguous_choices_are_refused(spellings, message):
    with pytest.raises(UsageError, match=message):
        ActionTrie(spellings, end=END)


class Letters:
    """Knows the letters a to z; anything else becomes a question mark."""

    def encode(self, text):
        return [ord(letter) - 96 if letter.islower() else 0 for letter in text]

    def decode(self, ids):
        return "".join(chr(96 + token) if token else "?" for token in ids)


def test_a_speller_spells_with_its_tokenizer_and_remembers():
    speller = ActionSpeller(Letters(), end=27, remember=2)
    trie = speller.trie(("ab", "b"))
    assert list(responses(trie)) == [(1, 2), (2,)]
    assert speller.trie(("ab", "b")) is trie
    speller.trie(("c",))
    assert speller.trie(("ab", "b")) is trie
    speller.trie(("d",))  # forgets ("c",), which was asked for longest ago
    assert speller.trie(("ab", "b")) is trie


def test_an_action_that_cannot_be_spelled_is_an_error():
    with pytest.raises(UsageError, match=r"cannot spell the action 'go to' \(it says 'go\?to'\)"):
        ActionSpeller(Letters(), end=27).trie(("go to",))
