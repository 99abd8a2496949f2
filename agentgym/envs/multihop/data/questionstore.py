"""A question set in two files: questions by split, and the union of their passages.

What an environment needs of a data set::

    store = open_questions("hotpotqa/distractor")     # agentgym.envs.multihop.data.importer
    store.splits                                      # {"dev": 7405, "train": 90447}
    question = store.question("dev", 0)               # a StoredQuestion
    store.index_of("dev", question.id)                # 0; by task id or source id
    store.passages[question.passages[0]]              # agentgym.core.types.Passage; a PassageStore, numbered
    store.sha256, store.passages.sha256               # pin questions and corpus

Opening a store maps its files and reads nothing else.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agentgym.data.recordfile import NumberedRecords, RecordFile, StoreWriter, open_unchanged, sorted_keys
from agentgym.envs.multihop.data.questions import StoredQuestion, question_id
from agentgym.errors import UsageError
from agentgym.retrieval.corpus.passages import PassageFile, PassageList, PassageStore

QUESTIONS = ".questions"
"""Suffix of the file of questions; the passages are in the file of the same name beside it."""

PASSAGES = ".passages"

FORMAT = "questions/1"


class QuestionStoreWriter(StoreWriter):
    """Writes the file of questions; nothing is there under its name before all of it is.

    Splits are written one after another. A question that an earlier split has too, its passages included, is
    left out, so that splits share no content: write those for evaluation first.
    """

    def __init__(self, path: Path):
        """Begin a store that will be at ``path``."""
        super().__init__(path)
        self._records = NumberedRecords(self._file)
        self._ids: list[str] = []
        self._sources: list[str] = []
        self._ends: dict[str, int] = {}
        self._earlier: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._sentences = array("l")
        self._sentence_ends = array("l")
        self._digest = hashlib.sha256()

    def __len__(self) -> int:
        """Number of questions so far."""
        return len(self._ids)

    def begin_split(self, split: str) -> None:
        """Let the questions to come belong to a split, which is new."""
        if split in self._ends:
            raise ValueError(f"split {split!r} was begun before")
        self._earlier |= self._counts.keys()
        self._counts.clear()
        self._ends[split] = len(self._ids)

    def add(self, question: StoredQuestion) -> None:
        """Append a question to the split; its id is of its content alone.

        Source ids must differ within a split.
        """
        if question.id in self._earlier:
            self._left_out[self._split] += 1
            return
        self._counts[question.id] += 1
        if (count := self._counts[question.id]) > 1:
            question = question._replace(id=f"{question.id}-{count}")
        record = question.pack()
        self._digest.update(b"%d:" % len(record) + record)
        self._records.add(record)
        self._ids.append(question.id)
        self._sources.append(question.source_id)
        self._ends[self._split] = len(self._ids)

    def add_sentences(self, ends: Iterable[int]) -> None:
        """Set the ends of the next passage's sentences, in characters of its text."""
        self._sentences.append(len(self._sentence_ends))
        self._sentence_ends.extend(ends)

    def finish(self, name: str, passages: PassageStore) -> None:
        """Put the file of a set in its place; ``passages`` were written before, beside it."""
        columns: dict[str, npt.NDArray[Any]] = {
            **self._records.columns(),
            "sentences": np.array([*self._sentences, len(self._sentence_ends)], np.int64),
            "sentence_ends": np.array(self._sentence_ends, np.int32),
        }
        start = 0
        for split, end in self._ends.items():
            for kind, keys in (("ids", self._ids), ("sources", self._sources)):
                ordered, order = sorted_keys(keys[start:end], partial(_repeated, name, split))
                columns |= {f"{split}/{kind}": ordered, f"{split}/{kind}/order": order}
            start = end
        about = {
            "format": FORMAT,
            "name": name,
            "ends": self._ends,
            "left_out": dict(self._left_out),
            "sha256": self._digest.hexdigest(),
            "passages": len(passages),
            "passages_sha256": passages.sha256,
        }
        self._file.finish(columns, about)

    @property
    def _split(self) -> str:
        return next(reversed(self._ends))


class QuestionStore:
    """A finished store. Safe to read from many threads and after a fork."""

    def __init__(self, path: Path):
        """Map the files, uncached; `open_store` caches them."""
        self.path = path
        self._file = RecordFile(path, FORMAT, "questions")
        about = self._file.about
        self.name: str = about["name"]
        """Of the set, such as ``distractor``."""
        self.sha256: str = about["sha256"]
        """Of all questions, in order."""
        self.left_out: Mapping[str, int] = about["left_out"]
        """How many questions of a split were left out because an earlier split has them."""
        self.passages: PassageStore = PassageList(())
        """The union of the questions' passages, or the corpus that the set came with."""
        if about["passages"]:
            self.passages = PassageFile(path.with_suffix(PASSAGES))
        if self.passages.sha256 != about["passages_sha256"]:
            raise UsageError(
                f"{path.with_suffix(PASSAGES)} is not of {path.name}: delete both and import again"
            )
        ends: dict[str, int] = about["ends"]
        starts = [0, *ends.values()][:-1]
        self._ranges = {split: (start, end) for start, (split, end) in zip(starts, ends.items(), strict=True)}
        self.splits: Mapping[str, int] = {split: end - start for split, (start, end) in self._ranges.items()}
        """How many questions each split has."""

    def __len__(self) -> int:
        """Number of questions of all splits."""
        return sum(self.splits.values())

    def question(self, split: str, index: int) -> StoredQuestion:
        """Read a question of a split, by its place there; `IndexError` beyond its end."""
        start, end = self._ranges[split]
        if not 0 <= index < end - start:
            raise IndexError(f"split {split!r} of {self.name} has {end - start:,} questions, none at {index}")
        try:
            return StoredQuestion.unpack(self._file.record(start + index))
        except (ValueError, TypeError) as error:
            raise UsageError(
                f"{self.path} is damaged at question {start + index} ({error}): delete it and import again"
            ) from error

    def questions(self, split: str) -> Iterator[StoredQuestion]:
        """Yield the questions of a split, in order."""
        return (self.question(split, index) for index in range(self.splits[split]))

    def index_of(self, split: str, key: str) -> int | None:
        """Return the place in a split of a task id or source id; None where it has no such question."""
        found = self._file.find(key, f"{split}/ids", f"{split}/ids/order")
        return self._file.find(key, f"{split}/sources", f"{split}/sources/order") if found is None else found

    def sentences(self, number: int) -> tuple[str, ...]:
        """Return a passage sentence by sentence; as one where upstream does not tell them apart."""
        text = self.passages[number].text
        places = self._file.columns["sentences"]
        ends = self._file.columns["sentence_ends"][places[number] : places[number + 1]].tolist()
        return tuple(text[start:end].strip() for start, end in zip([0, *ends[:-1]], ends, strict=True))

    def verify(self) -> None:
        """Recompute every question's id from its content."""
        for split in self.splits:
            for question in self.questions(split):
                found = [self.passages[number] for number in question.passages]
                derived = question_id(
                    question.question,
                    question.answer,
                    question.aliases,
                    [(passage.title, passage.text) for passage in found],
                    [question.passages.index(number) for number in question.supporting],
                )
                if derived != question.id.partition("-")[0]:
                    raise UsageError(
                        f"{self.path}: {question.source_id} is not the question its id says; import again"
                    )


def open_store(path: Path) -> QuestionStore:
    """Return the store in a file; one object for as long as the file stays the same."""
    return open_unchanged(path, "questions", QuestionStore)


def _repeated(name: str, split: str, key: str) -> str:
    return f"{name}: two questions of split {split!r} have the id {key!r:.80}: remove one of them"
