"""Constrained choice: the admissible actions as a trie over tokens.

A response that is drawn along a trie spells one of its actions. Its probability is the product of the
tokens' probabilities, each normalised over the tokens allowed at that place, so that the probabilities
of all actions sum to one. A token without an alternative has probability one and needs no model.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Protocol

from agentgym.errors import UsageError

ROOT = 0
"""Node of the trie at which every response begins."""


class Tokenizer(Protocol):
    """The part of a tokenizer that choices and responses need; one of any library fits behind it."""

    def encode(self, text: str) -> Sequence[int]:
        """Return the token ids of a piece of text, without special tokens around it."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, special tokens included."""


class ActionTrie:
    """Trie of the admissible actions, by their token ids.

    Where an action's tokens begin another action's, ``end`` follows them: only there is it needed to
    tell the two apart.

    Example:
        >>> trie = ActionTrie({"go": (5,), "go on": (5, 6), "stop": (7,)}, end=2)
        >>> trie.allowed(ROOT), trie.allowed(trie.child(ROOT, 5))
        ((5, 7), (2, 6))
        >>> trie.action((5, 2)), trie.allowed_along((5, 2))
        ('go', ((5, 7), (2, 6)))
    """

    __slots__ = ("_actions", "_allowed", "_children", "longest")

    def __init__(self, spellings: Mapping[str, tuple[int, ...]], *, end: int):
        """Build the trie; the token ``end``, in no action, ends an action which begins another one."""
        if not spellings:
            raise UsageError("a choice needs at least one action: ask without actions for a free generation")
        self._children: list[dict[int, int]] = [{}]
        self._actions: dict[int, str] = {}
        ends: dict[int, str] = {}
        self.longest = 1
        """Number of tokens of the longest response."""
        for action, ids in spellings.items():
            if end in ids:
                raise UsageError(f"action {action!r} is spelled with the token {end} that ends actions")
            node = ROOT
            for token in ids:
                node = self._grow(node, token)
            if node in ends:
                raise UsageError(f"actions {ends[node]!r} and {action!r} are spelled with the same tokens")
            ends[node] = action
        for node, action in ends.items():
            inner = bool(self._children[node]) or node == ROOT  # a response has at least one token
            self._actions[self._grow(node, end) if inner else node] = action
            self.longest = max(self.longest, len(spellings[action]) + inner)
        self._allowed = [tuple(sorted(children)) for children in self._children]

    def _grow(self, node: int, token: int) -> int:
        children = self._children[node]
        if token not in children:
            children[token] = len(self._children)
            self._children.append({})
        return children[token]

    def allowed(self, node: int) -> tuple[int, ...]:
        """Return the tokens that may come next, ascending; none where an action is complete."""
        return self._allowed[node]

    def child(self, node: int, token: int) -> int:
        """Return the node that an allowed token leads to."""
        return self._children[node][token]

    def action(self, ids: Sequence[int]) -> str:
        """Return the action that a whole response spells; `ValueError` where it spells none."""
        node: int | None = ROOT
        for token in ids:
            node = None if node is None else self._children[node].get(token)
        if node not in self._actions:
            raise ValueError(f"the tokens {tuple(ids)} spell none of the allowed actions")
        return self._actions[node]

    def allowed_along(self, ids: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Return, for each token of a response, the tokens it was chosen from.

        What a learner normalises over: the log-probability of token t is
        ``logit - logsumexp(logits[allowed])``.

        `ValueError` where the response leaves the trie.
        """
        sets = []
        node = ROOT
        for token in ids:
            sets.append(self._allowed[node])
            if token not in self._children[node]:
                raise ValueError(f"the tokens {tuple(ids)} spell none of the allowed actions")
            node = self._children[node][token]
        return tuple(sets)


class ActionSpeller:
    """Spells actions with a tokenizer and remembers both spellings and tries.

    The rollout and the learner ask the same speller, so they agree on what was allowed.
    """

    def __init__(self, tokenizer: Tokenizer, *, end: int, remember: int = 4096):
        """Bind a tokenizer; the token ``end`` ends an action which begins another one."""
        self._tokenizer = tokenizer
        self._end = end
        self._remember = remember
        self._spellings: dict[str, tuple[int, ...]] = {}
        self._tries: OrderedDict[tuple[str, ...], ActionTrie] = OrderedDict()

    def spell(self, action: str) -> tuple[int, ...]:
        """Return an action's token ids; `UsageError` where the vocabulary cannot spell it."""
        if action not in self._spellings:
            ids = self._tokenizer.encode(action)
            text = self._tokenizer.decode(ids)
            if text != action:
                raise UsageError(
                    f"the tokenizer cannot spell the action {action!r} (it says {text!r}): "
                    "use a tokenizer whose vocabulary covers the environment's actions"
                )
            self._spellings[action] = tuple(ids)
        return self._spellings[action]

    def trie(self, actions: tuple[str, ...]) -> ActionTrie:
        """Return the trie of a tuple of admissible actions."""
        trie = self._tries.pop(actions, None)
        if trie is None:
            trie = ActionTrie({action: self.spell(action) for action in actions}, end=self._end)
            if len(self._tries) >= self._remember:
                self._tries.popitem(last=False)
        self._tries[actions] = trie
        return trie

    def response(self, action: str, actions: tuple[str, ...]) -> tuple[int, ...]:
        """Return the response that chooses one of ``actions``: its spelling, and ``end`` where needed."""
        if action not in actions:
            raise UsageError(f"{action!r} is none of the {len(actions)} actions to choose from: choose one")
        ids, trie, node = self.spell(action), self.trie(actions), ROOT
        for token in ids:
            node = trie.child(node, token)
        return (*ids, self._end) if trie.allowed(node) else ids
