"""The splits of the built-in questions."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from agentgym.core.hashing import canonical
from agentgym.core.tasks import Task, TaskSet, check_split, split_of
from agentgym.envs.multihop.builtin.articles import builtin_articles
from agentgym.envs.multihop.builtin.composing import compose
from agentgym.envs.multihop.builtin.drafts import Draft, DraftStream, patterns
from agentgym.envs.multihop.builtin.world import VERSION

UNSEEN = "test_unseen"
"""The split of questions about people, organisations and works that no other split's questions touch."""

SIZES = {"train": 10_000, "valid": 1_000, "test": 1_000, UNSEEN: 1_000}
"""Questions of each split."""

DRAFTS = 12_800
"""Drafts of a family, dealt to ``train``, ``valid`` and ``test`` by their ids."""


class _Dealt(NamedTuple):
    """A draft of a split."""

    id: str
    draft: Draft
    number: int
    """Number of the draft."""


@lru_cache(maxsize=8)
def _dealt(family: str, *, unseen: bool) -> dict[str, list[_Dealt]]:
    """Return the drafts of a family by split."""
    found: dict[str, list[_Dealt]] = {split: [] for split in SIZES}
    count = SIZES[UNSEEN] if unseen else DRAFTS
    for number, draft in enumerate(islice(DraftStream(family, unseen=unseen), count)):
        name = draft.id(family)
        found[UNSEEN if unseen else split_of(name)].append(_Dealt(name, draft, number))
    return {split: drafts[: SIZES[split]] for split, drafts in found.items()}


class BuiltinQuestions(TaskSet):
    """Questions of one family and split; a task's content is a `StoredQuestion`.

    Ids are of what is asked about whom; the words follow from them and are made as they are asked for.
    """

    def __init__(self, family: str, split: str):
        """Describe the questions of a split; see `builtin_questions`."""
        self.family = family
        self._drafts = _dealt(family, unseen=split == UNSEEN)[split]
        self._made: dict[int, Task] = {}
        self._prefix = f"builtin/{'unseen' if split == UNSEEN else 'seen'}/"
        self._by_id = {dealt.id: i for i, dealt in enumerate(self._drafts)}
        self._by_number = {dealt.number: i for i, dealt in enumerate(self._drafts)}
        manifest = {
            "suite": family,
            "dataset": "builtin",
            "generator": "world",
            "version": VERSION,
            "corpus_sha256": builtin_sha256(),
            "split": split,
            "n": len(self._drafts),
        }
        super().__init__(split, manifest)

    def __len__(self) -> int:
        """Number of questions."""
        return len(self._drafts)

    def _make(self, index: int) -> Task:
        task = self._made.get(index)
        if task is None:
            name, draft, number = self._drafts[index]
            source = f"{self._prefix}{number}"
            question = compose(self.family, draft, name, source)
            facts = {"hops": len(question.supporting)}
            task = self._made[index] = Task(name, question, source, draft.type, facts)
        return task

    def _index(self, key: str) -> int | None:
        if key.startswith(self._prefix) and _NUMBER.fullmatch(key, len(self._prefix)):
            return self._by_number.get(int(key[len(self._prefix) :]))
        return self._by_id.get(key)


_NUMBER = re.compile(r"0|[1-9][0-9]{0,5}")


@lru_cache(maxsize=16)
def builtin_questions(family: str, split: str) -> BuiltinQuestions:
    """Return the questions of a family's split; the same object for the same arguments."""
    check_split(split, SIZES)
    assert family in patterns(), "a family of the built-in world"
    return BuiltinQuestions(family, split)


@lru_cache(maxsize=1)
def builtin_sha256() -> str:
    """Return 64 hex digits of all passages and of the fact of each sentence."""
    content = [(article.title, article.sentences, article.sentence_of) for article in builtin_articles()]
    return hashlib.sha256(canonical(content)).hexdigest()
