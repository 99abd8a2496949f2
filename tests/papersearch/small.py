"""A corpus that fits on a page, and selectors that say what a test wants."""

from agentgym.core.queries import AnswerKind
from agentgym.core.tasks import ListTaskSet, Task
from agentgym.envs.papersearch.data.corpus import PaperRecord, corpus_in_memory, passage_of
from agentgym.envs.papersearch.engine.world import PaperWorld
from agentgym.envs.papersearch.env import PaperSearchEnv
from agentgym.envs.papersearch.topics import Topic
from agentgym.retrieval.searcher import search_in_memory

PAPERS = [
    PaperRecord("a", "Apple harvest", "Ladders in orchards.", 20010000),
    PaperRecord("b", "Apple storage", "Cellars keep fruit.", 20020000, ("a",)),
    PaperRecord("c", "Pear storage", "Cellars again.", 20030000, ("a", "b")),
    PaperRecord("d", "Plum jam", "Sugar and fire.", 20040000, ("a", "c", "x")),
    PaperRecord("e", "Apple cider", "", 20050000, ("d",)),
    PaperRecord("f", "Apple of the future", "A later crop.", 20200000, ("a",)),
    PaperRecord("g", "A hidden apple", "Not to be found.", 20020000, ("a",)),
]
NUMBER = {paper.id: number for number, paper in enumerate(PAPERS)}

TOPIC = Topic("apples in store", ("a", "b", "c"), 20100000, ("g",))


class ScriptedSelector:
    """Gives each paper the score that a test gives it."""

    kind = AnswerKind("selector scripted")

    def __init__(self, scores, papers=PAPERS):
        self.scores = scores
        self.ids = [paper.id for paper in papers]
        self.calls = []

    def question(self, topic, number):
        return topic.query, number

    def answer(self, questions):
        self.calls.append(list(questions))
        return [self.scores.get(self.ids[number], 0.0) for _, number in questions]

    def agrees(self, said, computed):
        return said == computed


def small_world(papers=PAPERS, topics=(TOPIC,), name="orchard"):
    searcher = search_in_memory(map(passage_of, papers), corpus=name)
    corpus = corpus_in_memory(papers, searcher.store)
    tasks = [Task(topic.id, topic, f"{name}#{number}") for number, topic in enumerate(topics)]
    return PaperWorld(
        name, corpus, searcher, lambda split: ListTaskSet(split, tasks, dataset=name, suite="papersearch")
    )


def small_env(scores=None, *, world=None, **options):
    """Return an environment over the small corpus that has been reset; all papers score .9 by default."""
    scores = dict.fromkeys(NUMBER, 0.9) if scores is None else scores
    env = PaperSearchEnv(dataset=world or small_world(), selector=ScriptedSelector(scores), **options)
    env.reset(seed=0)
    return env
