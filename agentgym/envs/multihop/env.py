"""Multi-hop question answering as environments: search for passages, then answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import lru_cache, partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

from agentgym.core.hashing import sha256_json
from agentgym.core.options import Bounds
from agentgym.core.queries import Query, QueryGenerator
from agentgym.core.rewards import RewardScheme
from agentgym.core.suite_spec import SuiteSpec
from agentgym.core.tasks import Task, TaskSet
from agentgym.core.types import Passage
from agentgym.env import MAX_ACTION_LENGTH, AgentEnv, Outcome, Status
from agentgym.envs.multihop.builtin.tasks import SIZES, builtin_questions
from agentgym.envs.multihop.candidates import candidate_actions
from agentgym.envs.multihop.corpora import BUILTIN, Corpus, CorpusName, open_corpus
from agentgym.envs.multihop.data.importer import open_questions
from agentgym.envs.multihop.data.questions import StoredQuestion
from agentgym.envs.multihop.data.questionstore import QuestionStore
from agentgym.envs.multihop.forms import (
    FORMS,
    NO_CALL,
    SEARCH,
    TEMPLATES,
    FormName,
    Turn,
    Untagged,
    normal_query,
    read_turn,
    tools_of,
)
from agentgym.envs.multihop.oracle import MultihopOracle
from agentgym.envs.multihop.scoring import AnswerRule, AnswerScore, score_answer
from agentgym.envs.multihop.suite import HOTPOTQA_SUITE, MUSIQUE_SUITE, SEARCHQA_SUITE, TWOWIKI_SUITE
from agentgym.envs.multihop.tasks import StoredQuestions
from agentgym.errors import UsageError
from agentgym.retrieval.searcher import read_hits
from agentgym.vector.serial import SerialVectorEnv

ActionMenu: TypeAlias = Literal["free", "candidates"]
CostUnit: TypeAlias = Literal["calls", "passages"]

MAX_PASSAGES = 100
"""Most passages that one search may return."""

UNANSWERED = AnswerScore(0.0, 0.0, 0.0, 0.0)


class MultihopState(NamedTuple):
    """Snapshot state of an episode."""

    passages: tuple[int, ...] = ()
    """Numbers of the passages found, each once, in the order they were found."""
    queries: tuple[str, ...] = ()
    """Queries in order, repetitions included."""
    answer: str | None = None
    calls: int = 0
    """Calls of the last action that was accepted."""
    fresh: int = 0
    """Passages that this action was the first to find."""


class MultihopEnv(AgentEnv[str]):
    """Answer a question by searching for passages.

    **Task**: a question with its gold answer and supporting passages.
    **Observation**: the question, the passages found so far, each once, and the queries so far.
    **Actions**: ``search[QUERY]`` and ``answer[TEXT]``, of form ``steppo`` up to four searches on lines
    of their own. Searches beside an answer, two answers, too many searches and an empty query are rejected:
    nothing changes, and the step is spent. With ``actions="candidates"``, the names seen so far are listed as
    searches and answers, and nothing else is accepted.
    **Reward**: the exact match of the answer, when it is given; ten times that with
    ``reward="sparse10"``, the same with ``"score+success"``, which is StepPO's.
    **Termination**: the answer; of form ``steppo``, also an action without any call, which is reported as
    invalid (see ``untagged``).
    **Score**: exact match. **Progress**: token F1. **Step limit**: 5, of form ``search-r1`` 4.
    ``info["question"]`` is the question, ``info["step_cost"]`` what the last action cost.
    """

    state_schema = 1
    state_type: ClassVar[Any] = MultihopState
    action_kind: Literal["enumerated", "template"] = "template"
    default_max_steps: ClassVar[int] = FORMS["steppo"].steps
    splits: ClassVar[tuple[str, ...]] = tuple(SIZES)
    split_sizes: ClassVar[Mapping[str, int]] = SIZES
    rule: AnswerRule
    """Rule that scores answers."""

    def __init__(
        self,
        *,
        split: str = "train",
        dataset: str = BUILTIN,
        form: FormName = "steppo",
        corpus: CorpusName = "union",
        search: str = "bm25",
        encoder: str | None = None,
        device: str = "auto",
        k: Annotated[int, Bounds(1, MAX_PASSAGES)] | None = None,
        first_search: bool = False,
        untagged: Untagged | None = None,
        actions: ActionMenu = "free",
        aliases: bool = True,
        step_cost: CostUnit = "calls",
        reward: RewardScheme = "native",
        max_steps: int | None = None,
        render_mode: str | None = None,
    ):
        """Open the questions and what is searched.

        Args:
            split: built-in: ``train``, ``valid``, ``test``, ``test_unseen``; others: as the data has it.
            dataset: ``builtin``; a name such as ``hotpotqa/distractor``; or a path.
            form: ``steppo`` or ``search-r1``.
            corpus: passages: ``union`` of all questions, the question's ``own``, or ``fullwiki``.
            search: ``bm25``, ``pyserini``, ``exact`` or ``faiss`` (vectors), ``hybrid``, ``remote:URL``.
            encoder: of vectors: a preset, a folder or ``OWNER/NAME`` of the hub; None for ``minilm``.
            device: of the encoder: ``auto``, ``cpu``, ``cuda``, ``cuda:NUMBER``.
            k: number of passages that a search finds; None for the form's.
            first_search: whether the question is searched for before the first step.
            untagged: action without a call: ``end``, ``answer`` or ``invalid``; None for the form's effect.
            actions: ``free``; ``candidates``: listed ones only.
            aliases: whether every gold answer counts, not the first alone.
            step_cost: unit of ``info["step_cost"]``: ``calls``, or new ``passages``.
            reward: for an exact match: 1 if ``native`` or ``score+success``, 10 if ``sparse10``.
            max_steps: step limit; None for the form's.
            render_mode: ``ansi``, ``rgb_array``, ``human`` or None.

        Raises:
            UsageError: an unknown value of any argument, or something that is not installed.
            MissingDataError: the data is not on this machine.
        """
        self.form = FORMS[form]
        self.untagged: Untagged = self.form.untagged if untagged is None else untagged
        self.enumerates = actions == "candidates"
        self.invalid_may_end = self.untagged == "end" and not self.enumerates
        self.k = self.form.k if k is None else int(k)
        self._first_search, self._aliases, self._cost = first_search, aliases, step_cost
        self.action_kind = "enumerated" if self.enumerates else "template"
        if not dataset:
            raise UsageError(f"dataset is {BUILTIN!r}, or the name or path of imported data, not empty")
        self.corpus = open_corpus(dataset, self.suite, corpus, search, encoder, device)
        self.query_backends = {SEARCH: self.corpus.backend}
        store = None if dataset == BUILTIN else open_questions(dataset)
        tasks = _tasks_of(store, self.suite, dataset, split, self.corpus, self.k)
        limit = self.form.steps if max_steps is None else max_steps
        super().__init__(tasks, data_key=_data_key(tasks), max_steps=limit, render_mode=render_mode)
        self.reward_scheme, self.tools = reward, tools_of(self.form, self.untagged)

    # ---- what is asked -------------------------------------------------------------------------

    def _load_queries(self, task: Task) -> QueryGenerator:
        question: StoredQuestion = task.content
        queries = (question.question[:MAX_ACTION_LENGTH],) if self._first_search else ()
        return self._search(queries, question)

    def _action_queries(self, action: str) -> QueryGenerator:
        turn = self._read(action)
        return self._search(() if turn is None else turn.queries, self._question)

    def _search(self, queries: Sequence[str], question: StoredQuestion) -> QueryGenerator:
        """Ask for the passages of queries; return their numbers, query by query."""
        if not queries:
            return ()
        answers = yield tuple(Query(SEARCH, self.corpus.ask(query, self.k, question)) for query in queries)
        found: dict[int, None] = {}
        for answer in answers:
            numbers = read_hits(answer, self.corpus.store).documents[: self.k].tolist()
            found.update(dict.fromkeys(number for number in numbers if self.corpus.holds(number, question)))
        return tuple(found)

    # ---- the game ------------------------------------------------------------------------------

    def _load(self, task: Task) -> None:
        self._question: StoredQuestion = task.content
        first = MultihopState()
        if self._first_search and self.answers is not None:
            query = self._question.question[:MAX_ACTION_LENGTH]
            first = MultihopState(self.answers, (query,))
        self._open(first)

    def _open(self, state: MultihopState) -> None:
        self._now = state
        self._normal = frozenset(map(normal_query, state.queries))
        self._score = UNANSWERED if state.answer is None else self._scored(state.answer)
        listed = self.enumerates and state.answer is None
        self._listed = self._candidates() if listed else TEMPLATES

    def _apply(self, action: str) -> Outcome:
        turn = self._read(action)
        if turn is None:
            return self._reject(action)
        now, found = self._now, () if self.answers is None else self.answers
        fresh = tuple(number for number in found if number not in now.passages)
        calls = len(turn.queries) + (turn.answer is not None)
        self._open(
            MultihopState(now.passages + fresh, now.queries + turn.queries, turn.answer, calls, len(fresh))
        )
        return Outcome(self._score.em, terminated=not turn.queries, valid=turn != NO_CALL)

    def _read(self, action: str) -> Turn | None:
        if self.enumerates:
            return read_turn(action, self.form, "invalid") if action in self._listed else None
        return read_turn(action, self.form, self.untagged)

    def _scored(self, answer: str) -> AnswerScore:
        question = self._question
        return score_answer(answer, question.answer, question.aliases if self._aliases else (), self.rule)

    def _candidates(self) -> tuple[str, ...]:
        found = tuple(map(self.corpus.passage, sorted(self._now.passages)))
        return candidate_actions(self._question.question, found, self._normal)

    def _admissible(self) -> tuple[str, ...]:
        return self._listed

    def _accepts(self, action: str) -> bool:
        return bool(self.admissible_actions()) and self._read(action) not in (None, NO_CALL)

    def _status(self) -> Status:
        return Status(self._score.em == 1.0, self._score.em, self._score.f1)

    # ---- what is shown -------------------------------------------------------------------------

    def _observe(self) -> str:
        now = self._now
        lines = [f"Question: {self._question.question}", "", "Passages found so far:"]
        lines += [_line(i, self.corpus.passage(number)) for i, number in enumerate(now.passages, start=1)]
        if not now.passages:
            lines.append("(none)")
        if now.queries:
            lines += [
                "",
                "Queries so far:",
                *(f"- {_one_line(query)}" for query in dict.fromkeys(now.queries)),
            ]
        if now.answer is not None:
            lines += ["", f"Answer given: {_one_line(now.answer)}"]
        if not (self._valid or self._terminated):
            advice = "Choose one of the actions listed." if self.enumerates else self.form.advice
            lines += ["", f"The last action was not accepted, and nothing changed. {advice}"]
        return "\n".join(lines)

    def _extra_info(self) -> dict[str, Any]:
        cost = self._now.calls if self._cost == "calls" else self._now.fresh
        free = self._turn == 0 or not self._valid
        return {"question": self._question.question, "step_cost": 0.0 if free else float(cost)}

    def _measures(self) -> dict[str, float]:
        now = self._now
        return {
            "em": self._score.em,
            "f1": self._score.f1,
            "support": self.corpus.support(self._question, now.passages),
            "searches": float(len(now.queries) - self._first_search),
            "passages": float(len(now.passages)),
        }

    # ---- states --------------------------------------------------------------------------------

    def _state(self) -> MultihopState:
        return self._now

    def _set_state(self, state: MultihopState) -> None:
        self._open(state)

    def _identity(self) -> Any:
        now = self._now
        return tuple(sorted(now.passages)), tuple(sorted(self._normal)), now.answer

    def _check_state(self, task: Task, state: MultihopState, terminated: bool) -> None:
        question: StoredQuestion = task.content
        if len(set(state.passages)) != len(state.passages):
            raise ValueError("a passage is found once")
        if not all(self.corpus.holds(number, question) for number in state.passages):
            raise ValueError("its searches do not find such passages")
        if len(state.passages) > self.k * len(state.queries):
            raise ValueError("it has more passages than its searches find")
        most = self.max_steps * self.form.searches + self._first_search
        if len(state.queries) > most or any(len(query) > MAX_ACTION_LENGTH for query in state.queries):
            raise ValueError("it has more or longer queries than an episode")
        if not all(0 <= count <= self.form.searches * self.k for count in (state.calls, state.fresh)):
            raise ValueError("no action costs that")
        if terminated != (state.answer is not None) and not (terminated and self.invalid_may_end):
            raise ValueError("an episode ends with its answer")

    def oracle(self) -> MultihopOracle:
        """Return the policy that finds the supporting passages and gives the gold answer."""
        return MultihopOracle(self)


class HotpotQAEnv(MultihopEnv):
    """HotpotQA (Yang et al. 2018): two hops, bridge and comparison; see `MultihopEnv`.

    Answers are scored as ``hotpot_evaluate_v1.py`` does.
    """

    suite: ClassVar[str] = HOTPOTQA_SUITE.name
    suite_spec: ClassVar[SuiteSpec] = HOTPOTQA_SUITE
    rule: AnswerRule = "hotpotqa"


class TwoWikiEnv(MultihopEnv):
    """2WikiMultihopQA (Ho et al. 2020): composition, comparison, inference; see `MultihopEnv`.

    Answers are scored as ``2wikimultihop_evaluate_v1.1.py`` does, best over the answer and its aliases.
    """

    suite: ClassVar[str] = TWOWIKI_SUITE.name
    suite_spec: ClassVar[SuiteSpec] = TWOWIKI_SUITE
    rule: AnswerRule = "twowiki"


class MuSiQueEnv(MultihopEnv):
    """MuSiQue (Trivedi et al. 2022): two to four hops, all needed; see `MultihopEnv`.

    Answers are scored as ``evaluate_v1.0.py`` does, best over the answer and its aliases.
    """

    suite: ClassVar[str] = MUSIQUE_SUITE.name
    suite_spec: ClassVar[SuiteSpec] = MUSIQUE_SUITE
    rule: AnswerRule = "musique"


class SearchQAEnv(MultihopEnv):
    """Questions with several golden answers, as FlashRAG publishes them; see `MultihopEnv`.

    Answers are scored as SQuAD's are, best over the golden ones.
    """

    suite: ClassVar[str] = SEARCHQA_SUITE.name
    suite_spec: ClassVar[SuiteSpec] = SEARCHQA_SUITE
    rule: AnswerRule = "squad"


@lru_cache(maxsize=16)
def _tasks_of(
    store: QuestionStore | None, family: str, dataset: str, split: str, corpus: Corpus, k: int
) -> TaskSet:
    made: TaskSet
    if store is None:
        made = copy(builtin_questions(family, split))
    else:
        made = StoredQuestions(store, split, suite=family, dataset=dataset)
    made.manifest = {**made.manifest, **corpus.manifest, "k": k}
    return made


def _data_key(tasks: TaskSet) -> str:
    """Return the key of all splits' data: questions, corpus, and number of passages."""
    shared = {name: value for name, value in tasks.manifest.items() if name not in ("split", "n")}
    return f"{tasks.manifest['dataset']}:{sha256_json(shared)[:16]}"


def _line(number: int, passage: Passage) -> str:
    return f"[{number}] {passage.title}: {_one_line(passage.text)}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


HotpotQAVectorEnv = partial(SerialVectorEnv, env_class=HotpotQAEnv)
"""N episodes in one process, over one read-only corpus."""
TwoWikiVectorEnv = partial(SerialVectorEnv, env_class=TwoWikiEnv)
"""N episodes in one process, over one read-only corpus."""
MuSiQueVectorEnv = partial(SerialVectorEnv, env_class=MuSiQueEnv)
"""N episodes in one process, over one read-only corpus."""
SearchQAVectorEnv = partial(SerialVectorEnv, env_class=SearchQAEnv)
"""N episodes in one process, over one read-only corpus."""
