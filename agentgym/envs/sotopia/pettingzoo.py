"""SOTOPIA as a PettingZoo environment: both sides, one after the other.

It needs the extra ``pettingzoo``, and nothing else of the package needs it.

    >>> env = SotopiaAec("builtin", "test")
    >>> env.reset(seed=0)
    >>> env.agents, env.agent_selection
    (['side_0', 'side_1'], 'side_0')
    >>> env.step("speak[Good morning!]")
    >>> env.observe("side_1")["text"].splitlines()[-1].endswith('said: "Good morning!"')
    True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from gymnasium import spaces

from agentgym.core.options import check_choice, check_seed
from agentgym.core.spaces import UnicodeText
from agentgym.envs.sotopia.actions import ACTION_TYPES, NOTHING, SocialAction, read_action
from agentgym.envs.sotopia.builtin.judge import rate
from agentgym.envs.sotopia.game import DEFAULT_TURNS, GameState, Order, SocialGame, StaleRule
from agentgym.envs.sotopia.ratings import Ratings
from agentgym.envs.sotopia.scenarios import Scenario, Side
from agentgym.envs.sotopia.source import BUILTIN, open_tasks
from agentgym.envs.sotopia.views import Detail, conversation, judge_view, view
from agentgym.errors import UsageError
from agentgym.io.optional import load

load("pettingzoo", "pettingzoo", "the PettingZoo environment of SOTOPIA")
from pettingzoo import AECEnv  # noqa: E402

RatingFunction: TypeAlias = Callable[[Scenario, GameState], tuple[Ratings, Ratings]]
"""Rates both sides of a conversation that is over."""

RewardOf: TypeAlias = Literal["goal", "overall"]

MAX_ARGUMENT_LENGTH = 8_192
"""Characters of what is said or done at most."""

AGENTS: Mapping[str, Side] = {"side_0": 0, "side_1": 1}

SocialObservation: TypeAlias = dict[str, Any]
"""``text``, what the side has been shown, and ``turn``, the number of turns that are over."""


class SotopiaAec(AECEnv):  # type: ignore[misc]  # the package has no types
    """Two sides that talk, for `pettingzoo`.

    An action is an action string (`agentgym.envs.sotopia.actions`), or a mapping of SOTOPIA's two fields, in
    which ``action_type`` may be a number in `agentgym.envs.sotopia.actions.ACTION_TYPES`. What is none of
    these, or cannot be read, is ``none``, and the side's info says ``action_is_valid`` False.

    Infos also name the ``legal_action_types`` of a side and, when it is over, its ``ratings`` and ``ending``.
    Rewards are 0 until then: goal / 10, or the mean of the seven ratings as they are. A conversation that
    reaches its last turn is truncated, and rated as well.

    With ``order="simultaneous"`` it is parallelizable (`pettingzoo.utils.aec_to_parallel`); the other orders
    go through `pettingzoo.utils.turn_based_aec_to_parallel`.
    """

    agents: list[str]
    agent_selection: str
    infos: dict[str, dict[str, Any]]
    _state: GameState

    def __init__(
        self,
        dataset: str = BUILTIN,
        split: str = "train",
        *,
        order: Order = "round-robin",
        stale_rule: StaleRule = "acting-agents",
        view: Detail = "default",
        max_turns: int = DEFAULT_TURNS,
        judge: RatingFunction | None = None,
        reward: RewardOf = "goal",
        render_mode: Literal["ansi"] | None = None,
    ):
        """Open the scenarios.

        Args:
            dataset: data set, as `agentgym.envs.sotopia.source.open_tasks` takes it.
            split: split of the scenarios.
            order: order of turns, as `agentgym.envs.sotopia.game.SocialGame` takes it.
            stale_rule: rule of idle turns, as `agentgym.envs.sotopia.game.SocialGame` takes it.
            view: view of the scenario, as `agentgym.envs.sotopia.views.view` takes it.
            max_turns: turns after which a conversation is over.
            judge: judge of the conversation; None for the rule-based one, for built-in scenarios only.
            reward: rating that is paid.
            render_mode: ``ansi`` for the judge's text.

        Raises:
            UsageError: an option is none of those that there are, or a judge is missing.
            MissingDataError: the data is not on this machine.
        """
        check_choice("view", view, Detail)
        check_choice("reward", reward, RewardOf)
        if judge is None and dataset != BUILTIN:
            raise UsageError(f"the rules judge only built-in scenarios: pass a judge for {dataset!r:.60}")
        super().__init__()
        self._tasks = open_tasks(dataset, split, "self-chat")
        self._judge: RatingFunction = rate if judge is None else judge
        self._reward_of: RewardOf = reward
        self._order: Order = order
        self._stale_rule: StaleRule = stale_rule
        self._max_turns = max_turns
        self._view: Detail = view
        self._rng = np.random.default_rng()
        self._deal(0)
        self.metadata = {
            "name": "sotopia_v0",
            "is_parallelizable": order == "simultaneous",
            "render_modes": ["ansi"],
        }
        self.render_mode = render_mode
        self.possible_agents = list(AGENTS)
        turn = spaces.Discrete(max_turns + 1)
        self.observation_spaces = {
            agent: spaces.Dict({"text": UnicodeText(), "turn": turn}) for agent in AGENTS
        }
        kinds = spaces.Discrete(len(ACTION_TYPES))
        self.action_spaces = {
            agent: spaces.Dict({"action_type": kinds, "argument": UnicodeText(MAX_ARGUMENT_LENGTH)})
            for agent in AGENTS
        }

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of a side's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of a side's actions; action strings are taken as well."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a conversation.

        Args:
            seed: seed of the scenario and of random order; None to draw on.
            options: ``task`` for a scenario by its task id or source id. Others do not count, since
                PettingZoo hands all of them to every environment.

        Raises:
            UsageError: there is no such task.
        """
        seed = check_seed(seed)
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        name = (options or {}).get("task")
        place = int(self._rng.integers(len(self._tasks)))
        self._deal(place if name is None else self._tasks.ids.index(self._tasks.find(name).id))
        self.agents = list(AGENTS)
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0)
        self.terminations = dict.fromkeys(AGENTS, False)
        self.truncations = dict.fromkeys(AGENTS, False)
        self.infos = {agent: {"action_is_valid": True} for agent in AGENTS}
        self._skip_agent_selection = None
        self._after_action()

    def step(self, action: Any) -> None:
        """Let the side whose turn it is act; None once it is over."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        read = _read(action)
        self.infos = {name: dict(info) for name, info in self.infos.items()}
        self.infos[agent]["action_is_valid"] = read is not None
        self._state = self._game.apply(self._state, AGENTS[agent], NOTHING if read is None else read)
        self._after_action()
        self._accumulate_rewards()
        if self._game.over(self._state):
            self._deads_step_first()

    def observe(self, agent: str) -> SocialObservation:
        """Return a side's observation."""
        side = AGENTS[agent]
        texts = (view(self._scenario, side, self._view), conversation(self._scenario, self._state, side))
        return {"text": "\n".join(filter(None, texts)), "turn": np.int64(len(self._state.turns))}

    def render(self) -> str | None:
        """Return the judge's view of everything; None without a mode."""
        if self.render_mode is None:
            return None
        return f"{judge_view(self._scenario)}\n{conversation(self._scenario, self._state, None)}"

    def close(self) -> None:
        """Do nothing: no resources are held."""

    def _deal(self, place: int) -> None:
        draws: tuple[Side, ...] = ()
        if self._order == "random":
            drawn: list[Side] = self._rng.integers(2, size=self._max_turns).tolist()
            draws = tuple(drawn)
        self._game = SocialGame(self._order, self._stale_rule, self._max_turns, draws)
        self._task = self._tasks[place]
        self._scenario: Scenario = self._task.content.scenario
        self._state = self._game.initial()

    def _after_action(self) -> None:
        """Select the side that acts next, or end it; update both sides' admissible actions."""
        ending = self._game.over(self._state)
        for agent, side in AGENTS.items():
            self.infos[agent]["legal_action_types"] = self._game.legal(self._state, side)
            self.infos[agent]["task_id"] = self._task.id
        if not ending:
            self.agent_selection = self.possible_agents[self._game.to_act(self._state)[0]]
            return
        for agent, ratings in zip(AGENTS, self._judge(self._scenario, self._state), strict=True):
            self.infos[agent] |= {"ending": ending, "ratings": ratings._asdict(), "overall": ratings.overall}
            self.rewards[agent] = ratings.goal / 10 if self._reward_of == "goal" else ratings.overall
            self.terminations[agent] = ending != "turns"
            self.truncations[agent] = ending == "turns"


def _read(action: Any) -> SocialAction | None:
    """Return the action that a string or a mapping is; None where it is none."""
    if isinstance(action, str):
        return read_action(action) if len(action) <= MAX_ARGUMENT_LENGTH else None
    if not isinstance(action, Mapping) or set(action) != {"action_type", "argument"}:
        return None
    kind, argument = action["action_type"], action["argument"]
    if isinstance(kind, int | np.integer) and 0 <= kind < len(ACTION_TYPES):
        kind = ACTION_TYPES[kind]
    if kind not in ACTION_TYPES or not isinstance(argument, str) or len(argument) > MAX_ARGUMENT_LENGTH:
        return None
    if kind in ("none", "leave"):
        return SocialAction(kind)
    return SocialAction(kind, argument) if argument.strip() else None
