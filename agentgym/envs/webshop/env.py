"""WebShop as an environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from agentgym.core.options import UNIT_INTERVAL, NonNegativeInt, PositiveInt
from agentgym.core.rewards import WIN, RewardScheme
from agentgym.core.rng import KeyRng
from agentgym.core.suite_spec import SuiteSpec
from agentgym.core.tasks import Task
from agentgym.env import AgentEnv, Outcome, Status
from agentgym.envs.webshop.builtin.tasks import SIZES
from agentgym.envs.webshop.data.products import Goals
from agentgym.envs.webshop.engine.goals import Goal
from agentgym.envs.webshop.engine.history import History, Past
from agentgym.envs.webshop.engine.noise import Noise, stream_of
from agentgym.envs.webshop.engine.pages import Node
from agentgym.envs.webshop.engine.taggers import DEFAULT
from agentgym.envs.webshop.engine.text import SEPARATOR, Mode, shown_texts
from agentgym.envs.webshop.engine.view import ShopView, WebShopParity
from agentgym.envs.webshop.engine.visit import DONE, Visit, clicked, parse, searched
from agentgym.envs.webshop.engine.world import ShopWorld
from agentgym.envs.webshop.oracle import WebShopOracle
from agentgym.envs.webshop.source import BUILTIN, load_tasks, open_world
from agentgym.envs.webshop.splits import GoalDivision
from agentgym.envs.webshop.suite import SUITE
from agentgym.vector.serial import SerialVectorEnv


class WebShopState(NamedTuple):
    """Snapshot state of an episode."""

    visit: Visit
    noise: int = 0
    """Seed of the episode's advertisements."""
    past: Past = Past()
    searches: int = 0
    """Number of searches so far."""
    pages: int = 0
    """Number of pages opened so far, one by each action that was accepted."""


class WebShopEnv(AgentEnv[str]):
    """Buy what an instruction asks for.

    **Task**: a goal: an instruction, with the attributes, options and price limit it is scored against.
    **Observation**: the page that is open, as text, with the instruction.
    **Actions**: ``search[QUERY]``, from every page, and ``click[TEXT]``, of a text that can be clicked on
    the page, in lower case. Any other string changes nothing and costs a step; the observation says so.
    **Reward**: the purchase's score, when it is made; 0 before. With ``reward="sparse10"`` 10 if the score is
    1, else 0; with ``"score+success"`` the score, and 1 for having bought anything: StepPO's paper pays the
    score plus purchase completion, without saying how much that is; its public code pays as ``sparse10``.
    **Termination**: ``click[buy now]``. **Score**, **progress**: of the purchase, in [0, 1]; won if it is 1.
    ``info["goal"]`` is the instruction.

    **Reproduces** WebShop (Yao et al. 2022, https://github.com/princeton-nlp/WebShop) in its modes ``text``
    and ``text_rich``: observations, what can be clicked, rewards and ends. Prices and price limits differ:
    the original draws them anew in each process.
    """

    suite: ClassVar[str] = SUITE.name
    suite_spec: ClassVar[SuiteSpec] = SUITE
    state_schema = 1
    state_type = WebShopState
    action_kind = "template"
    load_may_fail = False
    default_max_steps = 15
    splits: ClassVar[tuple[str, ...]] = tuple(SIZES)
    split_sizes: ClassVar[Mapping[str, int]] = SIZES

    def __init__(
        self,
        *,
        split: str = "train",
        dataset: str | ShopWorld = BUILTIN,
        goals: Goals | None = None,
        difficulty: str | None = None,
        split_by: GoalDivision = "goal",
        generator: int | None = None,
        tagger: str = DEFAULT,
        search: Literal["bm25", "pyserini"] = "bm25",
        observation: Mode = "text",
        parity: WebShopParity | None = None,
        hide_score: bool | None = None,
        show_attributes: bool = False,
        previous_observations: NonNegativeInt = 0,
        previous_actions: NonNegativeInt = 0,
        noise: Annotated[float, UNIT_INTERVAL] = 0.0,
        adverts: PositiveInt = 2,
        reward: RewardScheme = "native",
        max_steps: int | None = None,
        render_mode: str | None = None,
    ):
        """Open the shop.

        Args:
            split: ``train``, ``valid``, ``test``; built-in also ``test_unseen``; imported also ``papers``,
                ``papers-train``, ``upstream-train``, ``upstream-dev``, ``upstream-test``.
            dataset: ``builtin``, ``builtin:SIZE:SEED``; ``webshop/small``, ``webshop/full``,
                ``webshop/100k`` (the first 100,000 products); or a path.
            goals: of imported data: ``human`` or ``synthetic``; None for human ones where there are any.
            difficulty: of built-in goals: ``easy``, ``medium``, ``hard``; None for all.
            split_by: ``goal``; ``product``: all goals of a product are in one split.
            generator: version of built-in goals, 1 or 2; None for 2.
            tagger: finds the nouns of titles: ``words``, ``blank-en``, ``spacy:MODEL``.
            search: ``bm25``; for imported data also ``pyserini``, the original's engine.
            observation: ``text``, ``text_rich``; ``gigpo``: pages as in GiGPO's prompts.
            parity: ``upstream`` shows exactly what the original shows.
            hide_score: whether the last page hides the score; None for yes, unless ``parity`` is set.
            show_attributes: whether products have a page of attributes.
            previous_observations: number of earlier observations shown, newest last.
            previous_actions: number of earlier actions shown.
            noise: probability that a page carries advertisements.
            adverts: number of advertisements on such a page.
            reward: ``native``: the score; ``sparse10``: 10 for a score of 1; ``score+success``: score plus 1.
            max_steps: step limit; None for 15.
            render_mode: ``ansi``, ``rgb_array``, ``human`` or None.

        Raises:
            UsageError: unknown split, option or tagger, or something that is not installed.
            MissingDataError: the data set is not on this machine.
        """
        self.world = open_world(dataset, tagger=tagger, search=search)
        self.view = ShopView(self.world, observation, parity, hide_score, show_attributes)
        self._history, self._noise = History(previous_observations, previous_actions), Noise(noise, adverts)
        tasks = load_tasks(
            self.world, split, goals=goals, difficulty=difficulty, split_by=split_by, generator=generator
        )
        super().__init__(tasks, data_key=self.world.key, max_steps=max_steps, render_mode=render_mode)
        self.reward_scheme = reward

    def _load(self, task: Task) -> None:
        self._goal: Goal = task.content
        self._open(Visit())
        self._past = Past()
        self._searches = self._pages = 0
        self._seed = 0
        if self._noise.probability:
            self._seed = stream_of(int(self.np_random.integers(1 << 62)), self.rollout)

    def _open(self, visit: Visit) -> None:
        self._shown = self.view.shown(visit)  # first: where a search fails, nothing has changed
        self._visit = visit

    def _apply(self, action: str) -> Outcome:
        visit = self._after(action)
        if visit is None:
            return self._reject(action)
        self._remember(action)
        self._open(visit)
        self._pages += 1
        self._searches += action.startswith("search")
        done = visit.page == DONE
        return Outcome(visit.score if done else 0.0, terminated=done)

    def _reject(self, action: str) -> Outcome:
        self._remember(action)
        return Outcome(0.0, valid=False)

    def _score_and_success(self, native: float, won: bool) -> float:
        """Pay a purchase's score, and 1 for having bought."""
        return native + WIN["score+success"] * (self._visit.page == DONE)

    def _remember(self, action: str) -> None:
        if self._history:
            self._past = self._history.add(self._past, self._page(), action)

    def _after(self, action: str) -> Visit | None:
        """Return the visit after an action; None where the shop does not accept it."""
        parsed = parse(action)
        if parsed is None:
            return None
        name, argument = parsed
        if name == "search":
            return searched(self._visit, argument)
        if name == "click":
            click = self._shown.clicks.get(argument)
            if click is not None:
                return clicked(self._visit, argument, click, self._buy)
        return None

    def _buy(self, visit: Visit) -> float:
        return self.world.score(visit, self._goal).total

    def _page(self) -> str:
        if self._noise.probability:
            draws = KeyRng(self._seed, self._turn)
            text = self.view.noisy(self._visit, self._goal.text, self._noise, draws)
        else:
            text = self.view.text(self._shown, self._goal.text)
        return text if self._valid else self.view.rejected(text)

    def _observe(self) -> str:
        return self._history.joined(self._past, self._page()) if self._history else self._page()

    def shown_text(self) -> str:
        """Return the observation with a line for each of its parts."""
        return super().shown_text().replace(SEPARATOR, "\n")

    def _admissible(self) -> tuple[str, ...]:
        return self._shown.actions

    def _accepts(self, action: str) -> bool:
        """Any query is accepted, and every text that can be clicked."""
        return bool(self.admissible_actions()) and self._after(action) is not None

    def _status(self) -> Status:
        score = self._visit.score
        return Status(score == 1.0, score, score)

    def _measures(self) -> dict[str, float]:
        spent = {"searches": float(self._searches), "pages": float(self._pages)}
        if self._visit.page != DONE:
            return {"attributes": 0.0, "options": 0.0, "price": 0.0, "type": 0.0, **spent}
        score, goal = self.world.score(self._visit, self._goal), self._goal
        return {
            "attributes": score.attributes / len(goal.attributes) if goal.attributes else 1.0,
            "options": score.options / len(goal.options) if goal.options else 1.0,
            "price": float(score.price),
            "type": score.type,
            **spent,
        }

    def _state(self) -> WebShopState:
        return WebShopState(self._visit, self._seed, self._past, self._searches, self._pages)

    def _check_state(self, task: Task, state: WebShopState, terminated: bool) -> None:
        visit, noise, past, searches, pages = state
        if not 0 <= searches <= pages:
            raise ValueError("it counts more searches than pages")
        self.world.check_visit(visit)
        bought = visit.page == DONE
        if visit.score != (self.world.score(visit, task.content).total if bought else 0.0):
            raise ValueError("its score is not that of its purchase")
        if terminated != bought:
            raise ValueError("an episode ends with a purchase")
        if not 0 <= noise < 1 << 62:
            raise ValueError("its seed of advertisements is no such number")
        self._history.check(past)

    def _set_state(self, state: WebShopState) -> None:
        visit, self._seed, self._past, self._searches, self._pages = state
        self._open(visit)

    def _identity(self) -> Any:
        # the score follows from the rest; ASCII, since Python's printing of other characters has changed
        return ascii(self._visit[:-1])

    @property
    def visit(self) -> Visit:
        """The open page, and the path to it."""
        return self._visit

    @property
    def goal(self) -> Goal:
        """The task's goal."""
        return self._goal

    def shown(self) -> list[tuple[Node, str]]:
        """Return the nodes of the open page with their texts: what the observation is made of."""
        nodes: Sequence[Node] = self.view.page(self._visit).nodes
        if self._noise.probability:
            nodes = self._noise.spread(nodes, KeyRng(self._seed, self._turn))
        return list(shown_texts(nodes, self._goal.text))

    def oracle(self) -> WebShopOracle:
        """Return the policy that makes the best purchase there is."""
        return WebShopOracle(self.world)

    def _extra_info(self) -> dict[str, Any]:
        return {"goal": self._goal.text}


WebShopVectorEnv = partial(SerialVectorEnv, env_class=WebShopEnv)
"""N episodes in one process, over one read-only world."""
