"""Search, verl-agent's suite of questions: episodes over a server of passages, or an index of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from agentgym.bridges.verl_agent_rows import ForkRows
from agentgym.core.hashing import content_id
from agentgym.core.options import check_choice
from agentgym.core.tasks import Task, TaskSet
from agentgym.env import MAX_ACTION_LENGTH
from agentgym.envs.multihop.builtin.tasks import builtin_questions
from agentgym.envs.multihop.corpora import BUILTIN, open_corpus
from agentgym.envs.multihop.data.importer import open_questions
from agentgym.envs.multihop.data.questions import StoredQuestion
from agentgym.envs.multihop.env import UNANSWERED
from agentgym.envs.multihop.forms import normal_query
from agentgym.envs.multihop.scoring import score_answer
from agentgym.envs.multihop.suite import SEARCHQA_SUITE
from agentgym.envs.multihop.tasks import StoredQuestions
from agentgym.errors import UsageError
from agentgym.io.untrusted import loads_json
from agentgym.retrieval.corpus.wire_formats import write_request
from agentgym.retrieval.engines.http_client import CONNECTIONS, HttpClient, reason
from agentgym.retrieval.engines.remote import ATTEMPTS

OPTIONS = ("dataset", "search", "corpus", "encoder", "device")
"""Options of an index of ours, and the data set of questions; as `MultihopEnv` takes them."""

_QUERY = re.compile(r"<search>(.*?)</search>", re.DOTALL)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


class SearchRows(ForkRows):
    """Rows of Search: questions of the checkout's data files (``env_kwargs``), or of a data set of ours.

    Passages are from the server at ``env.search.search_url``, or with the option ``search`` from an index of
    ours. A reward is the exact match of the last answer, when the episode ends, as the checkout's; infos have
    its token F1 as well.
    """

    def _defaults(self, env: Any) -> tuple[Sequence[str], dict[str, Any]]:
        urls, self._max_steps, self._k = env.search.search_url, int(env.max_steps), int(env.search.topk)
        self._clients = [
            HttpClient(url, "the retrieval server", timeout=float(env.search.timeout), attempts=ATTEMPTS)
            for url in ([urls] if isinstance(urls, str) else urls)
        ]
        self._threads = ThreadPoolExecutor(CONNECTIONS)
        return ("train", "test"), {}

    def _open(self, split: str, options: dict[str, Any]) -> None:
        for name in options:
            check_choice("option of Search", name, OPTIONS)
        dataset, search = options.get("dataset"), options.get("search")
        self._questions = None if dataset is None else _questions(dataset, split)
        self._corpus = None
        if search is not None:
            check_choice("corpus", corpus := options.get("corpus", "union"), ("union", "fullwiki"))
            named = (dataset or BUILTIN, SEARCHQA_SUITE.name, corpus, search, options.get("encoder"))
            self._corpus = open_corpus(*named, options.get("device", "auto"))

    @property
    def tasks(self) -> TaskSet | None:
        """Questions of the option ``dataset``; None where the checkout's data files alone have them."""
        return self._questions

    def reset(self, kwargs: Any = None) -> tuple[Any, ...]:
        """Begin an episode for each question; return what the checkout's environment returns."""
        asked = self._drawn() if self.env_kwargs is None else list(self.env_kwargs)
        if len(asked) > self.num_rows:
            raise UsageError(f"{len(asked)} questions for {self.num_rows} rows: raise data.val_batch_size")
        self._asked = [self._task(each) for each in asked]
        self.dones, self._turns = [False] * len(asked), 0
        self._transcripts = [""] * len(
            asked
        )  # actions and passages, in which the checkout looks for the answer
        self._found: list[set[str]] = [set() for _ in asked]
        self._queries: list[set[str]] = [set() for _ in asked]
        self.infos = [self._info(i, None) for i in range(len(asked))]
        return [task.content.question for task in self._asked], self.infos

    def step(self, actions: Sequence[str]) -> tuple[Any, ...]:
        """Play what the checkout's projection returns; return what its environment returns."""
        self._turns += 1
        shown, rewards = [""] * len(actions), [0.0] * len(actions)
        queries: dict[int, str] = {}
        self.infos = [dict(info) for info in self.infos]
        for i, action in enumerate(actions):
            if self.dones[i]:
                continue
            self._transcripts[i] += action
            answers = _ANSWER.findall(self._transcripts[i])
            self.dones[i] = self._turns >= self._max_steps or ("<answer>" in action and "</answer>" in action)
            if not self.dones[i] and (query := _QUERY.search(action)):
                queries[i] = query[1].strip()[:MAX_ACTION_LENGTH]
            self.infos[i] = self._info(i, answers[-1].strip() if self.dones[i] and answers else None)
            rewards[i] = self.infos[i]["score"]
        for i, passages in self._search(queries).items():
            self._queries[i].add(normal_query(queries[i]))
            self._found[i].update(passages)
            listed = "".join(f"Doc {n}: {passage}\n" for n, passage in enumerate(passages, start=1))
            shown[i] = f"<information>{json.dumps({'result': listed})}</information>"
            self._transcripts[i] += f"\n{shown[i]}\n"
            self.infos[i] = self._info(i, None)
        return shown, rewards, list(self.dones), self.infos

    def close(self) -> None:
        """Close connections, and end their threads."""
        self._threads.shutdown()
        for client in self._clients:
            client.close()

    def _info(self, row: int, answer: str | None) -> dict[str, Any]:
        task, over = self._asked[row], self.dones[row]
        gold = (task.content.answer, task.content.aliases)
        score = UNANSWERED if answer is None else score_answer(answer, *gold, "squad")
        state = (task.id, sorted(self._found[row]), sorted(self._queries[row]), answer, over)
        named = {"task_id": task.id, "data_source": task.type, "state_hash": content_id(state)}
        scores = {"won": score.em == 1.0, "score": score.em, "f1": score.f1}
        return {**named, **scores, "turn": self._turns, "tool_calling": not over}

    def _task(self, named: Any) -> Task:
        """Return the question of a row: one of ours, by id, or the checkout's, with its gold answers."""
        if isinstance(named, Mapping) and {"question", "ground_truth"} <= named.keys():
            gold = named["ground_truth"]["target"]
            answer, *aliases = [gold] if isinstance(gold, str) else map(str, gold)
            question, source = str(named["question"]), str(named.get("data_source", "unknown"))
            name = content_id((question, answer, aliases))
            return Task(name, StoredQuestion(name, name, question, answer, tuple(aliases)), name, source)
        key = named["task"] if isinstance(named, Mapping) and named.keys() == {"task"} else named
        if self._questions is None or not isinstance(key, str):
            raise UsageError(
                "env_kwargs of Search hold question and ground_truth, or task=ID of env.agentgym.dataset"
            )
        return self._questions.find(key)

    # ---- searches ------------------------------------------------------------------------------

    def _search(self, queries: Mapping[int, str]) -> dict[int, list[str]]:
        """Return the contents of the passages that each row's query finds; an empty query finds none."""
        rows = [row for row, query in queries.items() if query]
        if self._corpus is not None:
            hits = self._corpus.backend.answer([(queries[row], self._k) for row in rows])
            found = [[self._corpus.passage(int(number)) for number, _ in each] for each in hits]
            texts = [[f'"{passage.title}"\n{passage.text}'.strip() for passage in each] for each in found]
        else:
            texts = list(self._threads.map(lambda row: self._ask(row, queries[row]), rows))
        return {row: [] for row in queries} | dict(zip(rows, texts, strict=True))

    def _ask(self, row: int, query: str) -> list[str]:
        client = self._clients[row % len(self._clients)]
        answer = client.send("POST", client.path or "/retrieve", write_request([query], self._k, "query"))
        if answer.status != 200:
            client.fail(f"answers {answer.status}{reason(answer.body)}")
        try:
            found = loads_json(answer.body, "the answer")["result"][0]
            return [str(each["document"]["contents"]).strip() for each in found]
        except (UsageError, KeyError, IndexError, TypeError):
            client.fail("gives no answer of a retrieval server: a list 'result' of documents with 'contents'")


def _questions(dataset: str, split: str) -> TaskSet:
    if dataset == BUILTIN:
        return builtin_questions(SEARCHQA_SUITE.name, split)
    return StoredQuestions(open_questions(dataset), split, suite=SEARCHQA_SUITE.name, dataset=dataset)
