"""SOTOPIA as an environment: the learner's view of a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from agentgym.core.options import Bounds
from agentgym.core.queries import Query, QueryBackend, QueryGenerator
from agentgym.core.rewards import RewardScheme
from agentgym.core.suite_spec import SuiteSpec
from agentgym.core.tasks import Task
from agentgym.env import AgentEnv, Outcome, Status
from agentgym.envs.sotopia.actions import NOTHING, ActionType, SocialAction
from agentgym.envs.sotopia.builtin.candidates import candidates
from agentgym.envs.sotopia.game import MAX_TURNS, GameState, Order, SocialGame, StaleRule
from agentgym.envs.sotopia.judgeprompt import read_rating
from agentgym.envs.sotopia.oracle import SotopiaOracle
from agentgym.envs.sotopia.pages import goal, page, read_move, templates
from agentgym.envs.sotopia.partners import read_reply
from agentgym.envs.sotopia.ratings import DIMENSIONS, Ratings
from agentgym.envs.sotopia.scenarios import Scenario, Side
from agentgym.envs.sotopia.setup import (
    JUDGE,
    OPENING,
    PARTNER,
    ActionForm,
    RewardKind,
    TalkOptions,
    Unreadable,
    set_up,
)
from agentgym.envs.sotopia.source import BUILTIN, BUILTIN_SIZES
from agentgym.envs.sotopia.state import SotopiaState, check_talk, context, transcript
from agentgym.envs.sotopia.suite import SUITE
from agentgym.envs.sotopia.tasks import SeatMode
from agentgym.envs.sotopia.views import Detail, conversation, judge_view
from agentgym.vector.serial import SerialVectorEnv

NOT_READ = "Your last action could not be read, and you did nothing."
"""Line below the page after an action that was rejected."""

WON_ABOVE = 6.0
"""A goal rated above this is reached, as in iStar."""

GREATEST_GOAL = DIMENSIONS["goal"][1]

BothRatings = tuple[Ratings, Ratings]


class Played(NamedTuple):
    """Result of an action, once all of its queries have been answered."""

    talk: GameState
    ratings: BothRatings | None
    """The judge's, where it was asked."""


class SotopiaEnv(AgentEnv[str]):
    """Two people with private goals talk; the learner is one of them.

    **Task**: a scenario (a situation and two people, each with a goal, a background and perhaps a secret) and
    the side that the learner plays; with ``mode="self-chat"`` the scenario alone, and it plays both in turn.
    **Observation**: what the side knows (situation, its own profile and goal, of the other what their
    relationship lets it know), and the conversation so far.
    **Actions**: ``speak[WORDS]``, ``non-verbal[GESTURE]``, ``action[DEED]``, ``none`` or ``leave``, or
    SOTOPIA's JSON form of one; then the partner acts. Any other string is rejected: nothing happens, and the
    step is spent. With ``unreadable="none"`` it counts as rejected and ``none`` is played for it.
    **Reward**: a tenth of the judge's goal rating (0 to 10) at the end; with ``reward="utterance"``, of what
    each step adds to it; with ``"sparse10"`` 10 where the episode is won, else 0; ``"score+success"`` is as
    ``"native"``: StepPO does not play it. **Score**: the goal rating, in self-chat the mean of both;
    **progress**: a tenth of it; won above 6.
    **Termination**: somebody leaves, or nothing is done more than twice in a row. **Truncation**: 20 turns,
    which are ten steps. In either case the judge rates both sides on seven dimensions.
    ``info["goal"]`` is the goal and ``info["side"]`` the number of the side to act.

    **Reproduces** SOTOPIA (Zhou et al. 2024) as of its release 0.1.4.
    """

    suite: ClassVar[str] = SUITE.name
    suite_spec: ClassVar[SuiteSpec] = SUITE
    state_schema = 1
    state_type = SotopiaState
    action_kind: Literal["enumerated", "template"] = "template"
    splits: ClassVar[tuple[str, ...]] = tuple(BUILTIN_SIZES)
    split_sizes: ClassVar[Mapping[str, int]] = BUILTIN_SIZES
    default_max_steps = 10

    def __init__(
        self,
        *,
        split: str = "train",
        dataset: str = BUILTIN,
        mode: SeatMode = "partner",
        partner: str | Mapping[str, Any] | QueryBackend = "fair",
        judge: str | Mapping[str, Any] | QueryBackend = "rules",
        order: Order = "round-robin",
        stale_rule: StaleRule = "acting-agents",
        view: Detail = "default",
        reward: RewardScheme | RewardKind = "native",
        actions: ActionForm = "text",
        unreadable: Unreadable = "rejected",
        max_turns: Annotated[int, Bounds(1, MAX_TURNS)] = 20,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ):
        """Open the scenarios, and set partner and judge.

        Args:
            split: built-in: ``train``, ``valid``, ``test``, ``hard``; SOTOPIA's own: ``all``, ``hard``;
                SOTOPIA-pi's: ``train``.
            dataset: ``builtin``; ``sotopia/official``, ``sotopia-pi/profiles``; or a folder.
            mode: ``partner``: you play one side; ``self-chat``: one policy plays both.
            partner: ``fair``, ``stubborn``, ``deceptive``, ``silent``, ``generous``; a table
                ``{"endpoint": URL, "model": NAME}``; or ``module:attribute``.
            judge: ``rules``; a table as the partner's; or ``module:attribute``.
            order: ``round-robin``, ``simultaneous``, or ``random`` by the task's id.
            stale_rule: ``acting-agents``; ``0.1.4`` also counts the waiting side's silence.
            view: ``default``; ``omniscient`` shows everything; ``lite`` leaves out backgrounds.
            reward: ``native`` or ``goal``: at the end; ``utterance``: every step; ``sparse10``: 10 for a win;
                ``score+success``: as ``native``.
            actions: ``text``; ``candidates``: 16 listed moves (built-in scenarios).
            unreadable: effect of an unreadable action: ``rejected``; ``none`` plays ``none``.
            max_turns: number of turns; a turn is one side's action, or both sides' if simultaneous.
            max_steps: step limit; None for the steps that ``max_turns`` allows.
            render_mode: ``ansi``, ``rgb_array``, ``human`` or None.

        Raises:
            UsageError: an unknown value of any argument, or something that is not installed.
            MissingDataError: the scenarios are not on this machine.
        """
        rule: RewardKind = "utterance" if reward == "utterance" else "goal"
        self.options = TalkOptions(mode, order, stale_rule, view, rule, actions, unreadable, int(max_turns))
        self.sides = 2 if self.options.mode == "self-chat" else 1
        setup = set_up(dataset, split, self.options, partner, judge)
        self.judge, self.players, self.query_backends, self._game_of = setup[1:5]
        if self.options.actions == "candidates":
            self.action_kind = "enumerated"
        limit = self.options.steps if max_steps is None else max_steps
        super().__init__(setup.tasks, data_key=setup.key, max_steps=limit, render_mode=render_mode)
        self.reward_scheme = "native" if reward == "goal" or reward == "utterance" else reward

    # ---- what is asked -------------------------------------------------------------------------

    def _load_queries(self, task: Task) -> QueryGenerator:
        """Let the partner act where it comes first."""
        game = self._game_of(task)
        return (yield from self._partner_acts(task, game, game.initial(), OPENING, 0))

    def _action_queries(self, action: str) -> QueryGenerator:
        """Query the partner's action, then the judge where the conversation ends.

        Each round is asked, be it of nobody: so the rounds of all slots are of one kind, and one call each.
        """
        talk, move = self._now.talk, self._played(action)
        if move is None or self._game.over(talk):
            yield ()
        else:
            talk = self._game.apply(talk, self._side, move)
            talk = yield from self._partner_acts(self.task, self._game, talk, PARTNER, self.rollout)
        if not self._rates(talk, move):
            yield ()
            return Played(talk, None)
        (answer,) = yield (Query(JUDGE, self.judge.question(self._scenario, talk)),)
        return Played(talk, read_rating(answer))

    def _partner_acts(
        self, task: Task, game: SocialGame, talk: GameState, name: str, sample: int
    ) -> QueryGenerator:
        """Ask the partner until it is the learner's turn, in one round at least."""
        name = name if name in self.players else PARTNER
        queried = False
        while (waiting := game.to_act(talk)) and task.content.side not in (None, waiting[0]):
            question = self.players[name].question(task.content.scenario, waiting[0], talk, sample)
            (answer,) = yield (Query(name, question),)
            talk = game.apply(talk, waiting[0], read_reply(answer))
            queried = True
        if not queried:
            yield ()
        return talk

    def _played(self, action: str) -> SocialAction | None:
        """Return an action's result; None where it is rejected and does nothing."""
        move = self._read(action)
        return NOTHING if move is None and self.options.unreadable == "none" else move

    def _rates(self, talk: GameState, move: SocialAction | None) -> bool:
        """Return whether the judge rates after a step.

        A rejected action leaves the conversation as it was: what the judge said of it stands, and an exact
        judge can be asked whenever it matters. Only a model must be asked now where it never was.
        """
        if move is None:
            return self._is_last and self._now.ratings is None and not self._judge_is_exact
        return bool(self._game.over(talk)) or self._is_last or self.options.reward == "utterance"

    # ---- the game ------------------------------------------------------------------------------

    def _load(self, task: Task) -> None:
        self._scenario: Scenario = task.content.scenario
        self._game = self._game_of(task)
        opened = self.answers if isinstance(self.answers, GameState) else self._game.initial()
        self._open(SotopiaState(opened))

    def _open(self, state: SotopiaState) -> None:
        self._now = state
        waiting = self._game.to_act(state.talk)
        own = self.task.content.side
        self._side: Side = own if own is not None else waiting[0] if waiting else 0
        self._late: BothRatings | None = None
        self._listed = self._choices()

    def _choices(self) -> tuple[str, ...]:
        if self.options.actions == "text" or self._game.over(self._now.talk):
            return templates(self._legal)
        return _written(candidates(self._scenario, self._side, self._now.talk))

    @property
    def _legal(self) -> tuple[ActionType, ...]:
        """Types of action accepted now; nothing is left to do where the partner's opening ended it all."""
        return self._game.legal(self._now.talk, self._side) or (NOTHING.type,)

    def _read(self, action: str) -> SocialAction | None:
        if self.action_kind == "enumerated":
            return read_move(action) if action in self._listed else None
        move = read_move(action)
        return move if move is not None and move.type in self._legal else None

    def _accepts(self, action: str) -> bool:
        return bool(self.admissible_actions()) and self._read(action) is not None

    def _apply(self, action: str) -> Outcome:
        talk, ratings = self.answers
        valid = self._read(action) is not None
        if self._played(action) is None and ratings is None:
            return self._reject(action)
        before = self._now
        self._open(SotopiaState(talk, before.ratings if ratings is None else ratings))
        ending = self._game.over(talk)
        terminated = ending in ("left", "stale") or (ending == "turns" and not self._is_last)
        return Outcome(self._reward(before, bool(ending)), valid, terminated)

    def _reject(self, action: str) -> Outcome:
        """Pay the conversation's result where a rejected action is the last one."""
        return Outcome(self._reward(self._now, False), valid=False)

    def _reward(self, before: SotopiaState, over: bool) -> float:
        """Return a step's reward, once its state has been taken over."""
        if self.options.reward == "utterance":
            return (self._goal(self._now.ratings) - self._goal(before.ratings)) / GREATEST_GOAL
        return self._goal(self._rated()) / GREATEST_GOAL if over or self._is_last else 0.0

    def _score_and_success(self, native: float, won: bool) -> float:
        """Pay the goal rating."""
        return native

    @property
    def _is_last(self) -> bool:
        """Whether the current step is the last within the limit."""
        return self._turn + 1 >= self.max_steps

    @property
    def _judge_is_exact(self) -> bool:
        return self.judge.kind.standing == "exact"

    def _rated(self) -> BothRatings | None:
        """Return the ratings of the conversation as it stands; None where the judge has not given any.

        An exact judge is asked where a rejected action ended the episode, which changes no state.
        """
        if self._now.ratings is not None or not self._judge_is_exact:
            return self._now.ratings
        if self._late is None:
            (answer,) = self.judge.answer([self.judge.question(self._scenario, self._now.talk)])
            self._late = read_rating(answer)
        return self._late

    def _goal(self, ratings: BothRatings | None) -> float:
        """Return the learner's goal rating; in self-chat the mean of both."""
        if ratings is None:
            return 0.0
        own = self.task.content.side
        return sum(side.goal for side in ratings) / 2 if own is None else float(ratings[own].goal)

    @property
    def _final(self) -> BothRatings | None:
        """The ratings of an episode that is over."""
        return self._rated() if self._terminated or self._truncated else None

    def _status(self) -> Status:
        reached = self._goal(self._final)
        return Status(reached > WON_ABOVE, reached, reached / GREATEST_GOAL)

    def _measures(self) -> dict[str, float]:
        own: Side = self.task.content.side or 0
        values: dict[str, float] = {}
        for prefix, side in (("", own), ("partner_", 1 - own)):
            ratings = None if self._final is None else self._final[side]
            for name in DIMENSIONS:
                values[f"{prefix}{name}"] = 0.0 if ratings is None else float(getattr(ratings, name))
            values[f"{prefix}overall"] = 0.0 if ratings is None else ratings.overall
            done = (turn.actions[side] for turn in self._now.talk.turns if side in turn.acting)
            values[f"{prefix}utterances"] = float(sum(action.type != "none" for action in done))
        return values

    # ---- what is shown -------------------------------------------------------------------------

    def _observe(self) -> str:
        text = page(self._scenario, self._side, self._now.talk, self.options.view)
        if self._valid:
            return text
        advice = "Choose one of the actions listed." if self.action_kind == "enumerated" else _ADVICE
        return f"{text}\n\n{NOT_READ} {advice}"

    def _admissible(self) -> tuple[str, ...]:
        return self._listed

    def _extra_info(self) -> dict[str, Any]:
        return {"goal": goal(self._scenario, self._side), "side": self._side}

    def state_text(self) -> str:
        """Return the scenario as the judge knows it, and the conversation."""
        self.task  # noqa: B018 (raises before the first reset)
        talk_text = conversation(self._scenario, self._now.talk, None) or "(nothing yet)"
        rated = "" if self._final is None else f"\n\nRatings: {self._final[0]}\n{self._final[1]}"
        return f"{judge_view(self._scenario)}\n\nConversation so far:\n{talk_text}{rated}"

    # ---- states --------------------------------------------------------------------------------

    def _state(self) -> SotopiaState:
        return self._now

    def _set_state(self, state: SotopiaState) -> None:
        self._open(state)

    def _check_state(self, task: Task, state: SotopiaState, terminated: bool) -> None:
        game, (scenario, side) = self._game_of(task), task.content
        check_talk(game, state.talk)
        ending, waiting = game.over(state.talk), game.to_act(state.talk)
        if terminated != (ending != "") and ending != "turns":
            raise ValueError("a conversation ends when somebody leaves or nothing is done")
        if waiting and side not in (None, waiting[0]):
            raise ValueError("it is the partner's turn in it")
        if state.ratings is not None:
            if not all(side.within_bounds for side in state.ratings):
                raise ValueError("a rating is out of its bounds")
            if self._judge_is_exact:
                (answer,) = self.judge.answer([self.judge.question(scenario, state.talk)])
                if read_rating(answer) != state.ratings:
                    raise ValueError("its ratings are not the judge's")

    def _identity(self) -> Any:
        # a rating cannot be computed again and decides the next reward where each step is paid, so it is part
        paid = self.options.reward == "utterance" and not self._judge_is_exact
        return (
            self._scenario.relationship,
            *transcript(self._now.talk),
            self._goal(self._now.ratings) if paid else None,
        )

    def _context(self) -> Any:
        return context(self._scenario, self._side, self._now.talk)

    def oracle(self) -> SotopiaOracle:
        """Return the policy that knows both sides' terms and the partner's temperament.

        Raises:
            UsageError: the scenarios are not built in, or the partner is not scripted.
        """
        return SotopiaOracle(self)


@lru_cache(maxsize=1 << 12)
def _written(moves: tuple[SocialAction, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(move.written for move in moves))


_ADVICE = "Write one action, such as speak[your words]."


SotopiaVectorEnv = partial(SerialVectorEnv, env_class=SotopiaEnv)
"""N conversations in one process; what is asked of partner and judge is one call for all."""
