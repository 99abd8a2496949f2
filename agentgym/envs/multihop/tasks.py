"""The questions of imported data as tasks."""

from __future__ import annotations

from agentgym.envs.multihop.data.questionstore import QuestionStore
from agentgym.tasks import Task, TaskSet, check_split


class StoredQuestions(TaskSet):
    """The questions of one split of a store, read as they are asked for, each a `StoredQuestion`."""

    def __init__(self, store: QuestionStore, split: str, *, suite: str, dataset: str):
        """Describe a split.

        Args:
            store: of the questions.
            split: one of its splits.
            suite: of the tasks.
            dataset: names the data.

        Raises:
            UsageError: the store has no such split.
        """
        check_split(split, store.splits)
        self.store = store
        manifest = {
            "suite": suite,
            "dataset": dataset,
            "questions_sha256": store.sha256,
            "split": split,
            "n": store.splits[split],
        }
        super().__init__(split, manifest)

    def __len__(self) -> int:
        """Number of questions."""
        return self.store.splits[self.split]

    def _make(self, index: int) -> Task:
        question = self.store.question(self.split, index)
        return Task(question.id, question, question.source_id, question.type, {"level": question.level})

    def _index(self, key: str) -> int | None:
        return self.store.index_of(self.split, key)

    def verify(self) -> None:
        """Re-derive every id from the content.

        Raises:
            UsageError: an id does not follow from it.
        """
        self.store.verify()
        super().verify()
