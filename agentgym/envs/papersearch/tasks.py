"""The tasks of corpora that others made: files of queries, or the papers themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from agentgym.core.tasks import ListTaskSet, Task, TaskSet, check_split, split_of
from agentgym.data.recordfile import open_unchanged
from agentgym.envs.papersearch.data.corpus import PaperCorpus
from agentgym.envs.papersearch.data.fields import last_day, plain_id
from agentgym.envs.papersearch.data.readers import read_topics
from agentgym.envs.papersearch.suite import SUITE
from agentgym.envs.papersearch.topics import Topic
from agentgym.errors import UsageError

MIN_REFERENCES = 5
"""Smallest number of references within a corpus of a paper that is made a task."""

OWN_SPLITS = ("train", "valid", "test")


class TopicSet(ListTaskSet):
    """Topics of a data set; a task's content is its `Topic`."""

    def verify(self) -> None:
        """Recompute every id from the topic."""
        for task in self:
            if task.content.id != task.id.partition("-")[0]:
                raise UsageError(f"topic {task.source_id} is not the one its id {task.id} says; import again")
        super().verify()


def file_topics(files: Mapping[str, Path], name: str) -> Callable[[str], TaskSet]:
    """Return the reader of a split's queries, from files by split."""

    def topics(split: str) -> TaskSet:
        check_split(split, files)
        return open_unchanged(files[split], "queries", _file_topics, split=split, name=name)

    return topics


def _file_topics(path: Path, split: str, name: str) -> TaskSet:
    tasks = [Task(topic.id, topic, source) for source, topic in read_topics(path)]
    return TopicSet(split, tasks, dataset=name, suite=SUITE.name)


def reference_topics(corpus: PaperCorpus, name: str) -> Callable[[str], TaskSet]:
    """Return tasks made of a corpus's papers: find what a paper of this title cites.

    The query is the title and the gold the paper's references; the paper itself is hidden, as is, by the
    query's date, everything later. Later references do not count.
    """

    @lru_cache
    def topics(split: str) -> TaskSet:
        check_split(split, OWN_SPLITS)
        tasks = [task for task in every if split_of(task.id) == split]
        return TopicSet(split, tasks, dataset=name, suite=SUITE.name)

    every = tuple(_tasks(_reference_topics(corpus)))
    return topics


def _reference_topics(corpus: PaperCorpus) -> Iterator[tuple[str, Topic]]:
    dates, cited = corpus.graph.dates, corpus.graph.cited
    for number in range(len(corpus)):
        row = cited.row(number)
        if len(row) < MIN_REFERENCES:
            continue
        wanted = row[dates[row] <= last_day(int(dates[number]))].tolist()
        if len(wanted) >= MIN_REFERENCES:
            paper = corpus.paper(number)
            gold = tuple(sorted({plain_id(corpus.paper(target).id) for target in wanted}))
            yield paper.id, Topic(paper.title, gold, int(dates[number]), (paper.id,))


def _tasks(topics: Iterable[tuple[str, Topic]]) -> Iterator[Task]:
    for source, topic in topics:
        yield Task(topic.id, topic, source, "", {"papers": len(topic.gold)})
