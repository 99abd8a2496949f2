"""Paper search as an environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal

from agentgym.core.arrays import sum_in_order
from agentgym.core.calls import Call, begins_call, read_calls, write_calls
from agentgym.core.options import Bounds, NonNegativeFloat
from agentgym.core.queries import QueryGenerator
from agentgym.core.rewards import RewardScheme
from agentgym.core.suite_spec import SuiteSpec
from agentgym.core.tasks import Task
from agentgym.env import MAX_ACTION_LENGTH, AgentEnv, Outcome, Status
from agentgym.envs.papersearch.candidates import candidate_actions
from agentgym.envs.papersearch.data.fields import plain_id
from agentgym.envs.papersearch.engine.findings import EXPAND, SEARCH, Finder, Findings, normalised
from agentgym.envs.papersearch.engine.pages import PoolPage
from agentgym.envs.papersearch.engine.pool import MIN_SCORE, Accuracy, Pool, accuracy, measured
from agentgym.envs.papersearch.engine.search import PaperEngine
from agentgym.envs.papersearch.engine.selectors import Selector
from agentgym.envs.papersearch.engine.state import PaperSearchState
from agentgym.envs.papersearch.engine.world import PaperWorld, View
from agentgym.envs.papersearch.oracle import PaperOracle
from agentgym.envs.papersearch.source import BUILTIN, MAX_FOUND, set_up
from agentgym.envs.papersearch.suite import SUITE
from agentgym.envs.papersearch.topics import Topic
from agentgym.vector.serial import SerialVectorEnv

STOP = "stop"
"""The action that ends an episode."""


class PaperSearchEnv(AgentEnv[str]):
    """Find the papers that a query asks for.

    **Task**: a query, the papers that answer it, and when it was asked.
    **Observation**: the query, the calls so far, and of the papers found (the pool) the ten best that were
    expanded and the ten best others, with title and abstract.
    **Actions**: one to five calls, one a line: ``search[QUERY]`` finds up to ten papers, ``expand[PAPER]``
    up to 30 that cite a paper of the pool and 99 that it cites. ``stop`` ends the episode. Calls beyond the
    fifth are not made. A call that is broken changes nothing and costs a step; the observation says so.
    **Reward**: of a call, the sum of the selector's three best scores of papers that are new to the pool,
    less the call's cost; -0.5 for a query made before, and for a paper that is not in the pool or has been
    expanded. Calls are credited in order; papers that score below .01 do not enter the pool. That is StepPO's
    rule, and what ``reward="score+success"`` pays too; ``"sparse10"`` pays 10 where the episode ends with a
    score of 1, else 0.
    **Termination**: ``stop``, or an action without any call, which is reported as invalid (see ``untagged``).
    **Score**: F1 of the papers of the pool that score .5 or more; **progress** is their recall; won if the
    score is 1.
    ``info["goal"]`` is the query, ``info["step_cost"]`` how many calls the last action made.

    **Reproduces** paper search as StepPO trains it (https://github.com/AgentR1/StepPO), whose episodes end
    with a response without a call, or after five steps.
    """

    suite: ClassVar[str] = SUITE.name
    suite_spec: ClassVar[SuiteSpec] = SUITE
    state_schema = 1
    state_type = PaperSearchState
    action_kind: Literal["enumerated", "template"] = "template"
    split_sizes: ClassVar[Mapping[str, int]] = {"train": 2_796, "valid": 340, "test": 219}
    default_max_steps = 5
    past_keys: ClassVar[frozenset[str]] = frozenset({"step_cost"})

    def __init__(
        self,
        *,
        split: str = "train",
        dataset: str | PaperWorld = BUILTIN,
        search: PaperEngine = "bm25",
        encoder: str | None = None,
        device: str = "auto",
        selector: str | Selector = "gold",
        selector_prompt: str | None = None,
        k: Annotated[int, Bounds(1, MAX_FOUND)] = 10,
        before: str = "query",
        search_cost: NonNegativeFloat = 0.0,
        expand_cost: NonNegativeFloat = 0.0,
        discrete: bool = False,
        max_calls: Annotated[int, Bounds(1, 100)] = 5,
        actions: Literal["free", "candidates"] = "free",
        untagged: Literal["end", "invalid"] = "end",
        show_scores: bool = False,
        reward: RewardScheme = "native",
        max_steps: int | None = None,
        render_mode: str | None = None,
    ):
        """Open the corpus.

        Args:
            split: ``train``, ``valid``, ``test``; query files: ``train``, ``dev``, ``test``.
            dataset: ``builtin``, ``papersearch/autoscholar``, ``.../realscholar``, ``.../ieee-vis``, a path.
            search: ``bm25``, ``pyserini``, ``exact`` (vectors), ``hybrid``.
            encoder: of search and selector: a preset, a folder or ``OWNER/NAME``; None for ``minilm``.
            device: of the encoder: ``auto``, ``cpu``, ``cuda:NUMBER``.
            selector: ``gold``, ``lexical``, ``encoder``, ``model:PATH``, ``module:function``.
            selector_prompt: file with the prompt of ``model:PATH``; None for this project's.
            k: largest number of papers that a search finds.
            before: ``query`` hides later papers than the query; ``none``; or a date, ``2024-10``.
            search_cost: subtracted from a search's reward.
            expand_cost: subtracted from an expansion's reward.
            discrete: whether a score of .4 or more is rewarded as 1, others as 0.
            max_calls: number of an action's calls that are made.
            actions: ``free``; ``candidates``: listed single calls only.
            untagged: effect of an action without any call: ``end`` or ``invalid``.
            show_scores: whether the observation shows the selector's scores.
            reward: ``native``, ``score+success``: StepPO's rule; ``sparse10``: 10 for a final score of 1.
            max_steps: step limit; None for 5.
            render_mode: ``ansi``, ``rgb_array``, ``human`` or None.

        Raises:
            UsageError: unknown split or option, or something that is not installed.
            MissingDataError: the data set is not on this machine.
        """
        setup = set_up(dataset, split, search, encoder, device, selector, selector_prompt, k=k, before=before)
        self.world, self.selector, self._latest = setup.world, setup.selector, setup.latest
        self.reward_scheme, self.query_backends = reward, {"search": setup.search, "selector": setup.selector}
        self._k, self._max_calls, self.enumerates = k, max_calls, actions == "candidates"
        self._rewards = {SEARCH: CallReward(search_cost, discrete), EXPAND: CallReward(expand_cost, discrete)}
        self._finder = Finder(self.world, self.selector, k)
        self._page = PoolPage(self.world.corpus, show_scores=show_scores)
        self.action_kind = "enumerated" if self.enumerates else "template"
        self.invalid_may_end = untagged == "end" and not self.enumerates
        super().__init__(setup.tasks, data_key=setup.key, max_steps=max_steps, render_mode=render_mode)

    # ---- hooks -----------------------------------------------------------------------------

    def _load(self, task: Task) -> None:
        self._topic: Topic = task.content
        self._view = self.view(task)
        self._set_state(PaperSearchState())

    def _action_queries(self, action: str) -> QueryGenerator:
        calls = self._calls(action)
        if calls is None:
            return None
        return (yield from self._finder.find(calls, self._pool, self._queries, self._topic, self._view))

    def _apply(self, action: str) -> Outcome:
        calls = self._calls(action)
        if calls is None:
            stops = action.strip() == STOP
            ends = stops or (self.invalid_may_end and not begins_call(action, (SEARCH, EXPAND)))
            if ends:
                self._last = 0
            return Outcome(0.0, terminated=ends, valid=stops)
        reward = 0.0
        for call in calls:
            reward += self._reward(call, self.answers)
        self._made += calls
        self._last = len(calls)
        self._look()
        return Outcome(reward)

    def _score_and_success(self, native: float, won: bool) -> float:
        """Pay the calls' rewards, which is StepPO's rule."""
        return native

    def _reward(self, call: Call, findings: Findings) -> float:
        """Make a call; return what it pays."""
        found: Sequence[int]
        if call.name == SEARCH:
            query = normalised(call.text)
            if query in self._queries:
                return PENALTY
            self._queries[query] = None
            found = findings.hits[call.text]
        else:
            number = self.world.corpus.number_of(call.text)
            if number is None or number not in self._pool.scores or number in self._pool.expanded:
                return PENALTY
            self._pool.expanded[number] = None
            found = self.world.neighbours(number, self._view)
        scores = findings.scores
        added = [scores[n] for n in found if n not in self._pool.scores and self._pool.add(n, scores[n])]
        return self._rewards[call.name].of(added)

    def _observe(self) -> str:
        accepted = self._valid or self._terminated
        return self._page.text(self._topic.query, self._view, self._made, self._pool, valid=accepted)

    def _admissible(self) -> tuple[str, ...]:
        return self._listed

    def _accepts(self, action: str) -> bool:
        """Any calls are accepted: those that lead nowhere cost something."""
        running = bool(self.admissible_actions())
        return running and (action.strip() == STOP or self._calls(action) is not None)

    def _status(self) -> Status:
        _, recall, f1 = self._standing
        return Status(f1 == 1.0, f1, recall)

    def _measures(self) -> dict[str, float]:
        values = measured(self._pool, self._topic.gold, lambda number: self.world.corpus.paper(number).id)
        for name, measure in ((SEARCH, "searches"), (EXPAND, "expansions")):
            values[measure] = float(sum(call.name == name for call in self._made))
        return values

    def _extra_info(self) -> dict[str, Any]:
        return {"goal": self._topic.query, "step_cost": float(self._last) if self._valid else 0.0}

    # ---- state -----------------------------------------------------------------------------

    def _state(self) -> PaperSearchState:
        return PaperSearchState(self._pool.papers(), tuple(self._pool.expanded), self._made, self._last)

    def _set_state(self, state: PaperSearchState) -> None:
        papers, expanded, self._made, self._last = state
        self._pool = Pool(papers, expanded)
        self._queries = {normalised(call.text): None for call in self._made if call.name == SEARCH}
        self._look()

    def _check_state(self, task: Task, state: PaperSearchState, terminated: bool) -> None:
        papers, expanded, calls, last = state
        view, topic = self.view(task), task.content
        numbers = [paper.number for paper in papers]
        if len(set(numbers)) != len(numbers) or not all(0 <= n < len(self.world.corpus) for n in numbers):
            raise ValueError("the papers of a pool are different ones of the corpus")
        if len(self.world.visible(numbers, view)) != len(numbers):
            raise ValueError("its pool has a paper that the query cannot find")
        if not all(MIN_SCORE <= paper.score <= 1 for paper in papers):
            raise ValueError(f"a paper of a pool scores from {MIN_SCORE} to 1")
        if self.selector.kind.standing == "exact":
            questions = [self.selector.question(topic, number) for number in numbers]
            if [paper.score for paper in papers] != list(self.selector.answer(questions)):
                raise ValueError("a paper's score is not its selector's")
        if self._read(write_calls(calls), len(calls)) != (calls or None) or not all(
            len(call.text) <= MAX_ACTION_LENGTH for call in calls
        ):
            raise ValueError("its calls are no searches and expansions")
        if not 0 <= last <= min(len(calls), self._max_calls) or (papers and not calls):
            raise ValueError("its calls are not those of its steps")
        named = {self.world.corpus.number_of(call.text) for call in calls if call.name == EXPAND}
        if len(set(expanded)) != len(expanded) or not set(expanded) <= set(numbers):
            raise ValueError("expanded papers are different ones of the pool")
        if not named.issuperset(expanded):
            raise ValueError("a paper was expanded without a call")

    def _identity(self) -> Any:
        # the order of papers and queries, and calls that found nothing, decide nothing and are left out
        id_of = self.world.corpus.paper
        new: list[str] = []
        expanded: list[str] = []
        for number in self._pool.scores:
            (expanded if number in self._pool.expanded else new).append(id_of(number).id)
        return (tuple(sorted(new)), tuple(sorted(expanded)), tuple(sorted(self._queries)))

    # ---- of this game ----------------------------------------------------------------------

    def view(self, task: Task) -> View:
        """Return the filter of a task's papers."""
        numbers = map(self.world.corpus.number_of, task.content.hidden)
        hidden = frozenset(number for number in numbers if number is not None)
        return View(self._latest(task.content), hidden)

    @property
    def topic(self) -> Topic:
        """The task's topic."""
        return self._topic

    @property
    def pool(self) -> Pool:
        """The papers found so far; not to be changed."""
        return self._pool

    def oracle(self) -> PaperOracle:
        """Return the policy of the calls that find most of the gold papers."""
        return PaperOracle(self.world, self.view, self._k, self._max_calls, enumerates=self.enumerates)

    def _calls(self, action: str) -> tuple[Call, ...] | None:
        """Return the calls that an action makes; None where it makes none."""
        if self.enumerates and action not in self._listed:
            return None
        return self._read(action, self._max_calls)

    @staticmethod
    def _read(action: str, limit: int) -> tuple[Call, ...] | None:
        calls = read_calls(action, (SEARCH, EXPAND))
        if calls is None or not all(_is_query_text(call.text) for call in calls):
            return None
        return calls[:limit]

    def _look(self) -> None:
        """Update the pool's measures and the listed actions."""
        paper = self.world.corpus.paper
        found = (plain_id(paper(each.number).id) for each in self._pool.counted())
        self._standing: Accuracy = accuracy(found, self._topic.gold)
        self._listed: tuple[str, ...]
        if self.enumerates:
            shown = [(paper(each.number), each.number in self._pool.expanded) for each in self._pool.shown()]
            self._listed = (*candidate_actions(self._topic.query, shown, self._queries), STOP)
        else:
            can_expand = len(self._pool.expanded) < len(self._pool.scores)
            self._listed = ("search[<query>]", *(("expand[<paper>]",) if can_expand else ()), STOP)


def _is_query_text(text: str) -> bool:
    """Return whether a text is one that search engines and encoders take: some, and of whole characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return not text.isspace() and bool(text)


PaperSearchVectorEnv = partial(SerialVectorEnv, env_class=PaperSearchEnv)
"""N episodes in one process, over one read-only world."""


PENALTY: Final = -0.5
"""Reward of a repeated query, and of expanding a paper that is not in the pool or was expanded before."""

BEST: Final = 3
"""New papers of a call whose scores count."""

DISCRETE_FROM: Final = 0.4
"""Scores from here on count 1, the others 0, where rewards are discrete."""


@dataclass(frozen=True, slots=True)
class CallReward:
    """The reward of a call that was made: the sum of the `BEST` new scores, less its cost.

    Example:
        >>> CallReward().of([0.25, 0.75, 0.5, 0.5]), CallReward(discrete=True, cost=0.5).of([0.3, 0.4])
        (1.75, 0.5)
    """

    cost: float = 0.0
    discrete: bool = False

    def of(self, scores: Iterable[float]) -> float:
        """Return the reward, given the scores of the papers that came into the pool."""
        best = sorted(scores, reverse=True)[:BEST]
        if self.discrete:
            best = [float(score >= DISCRETE_FROM) for score in best]
        return sum_in_order(best) - self.cost
