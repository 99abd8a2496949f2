"""The questions of imported data as tasks."""

from __future__ import annotations

from agentgym.core.tasks import Task, TaskSet, check_split
from agentgym.envs.multihop.data.questionstore import QuestionStore


class StoredQuestions(TaskSet):
    """The questions of one split of a store, read on demand, each a `StoredQuestion`."""

    def __init__(self, store: QuestionStore, split: str, *, suite: str, dataset: str):
        """Describe a split."""
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
        """Recompute every id from the content."""
        self.store.verify()
        super().verify()
