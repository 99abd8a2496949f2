"""The EZPoints environment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from gymnasium import spaces

from agentgym.core.rewards import RewardScheme
from agentgym.core.spaces import UnicodeText
from agentgym.core.suite_spec import SuiteSpec
from agentgym.core.tasks import Task
from agentgym.core.types import Observation
from agentgym.env import AgentEnv, Outcome, Status
from agentgym.envs.ezpoints.cards import SPLITS, Deal, deals, pair_of
from agentgym.envs.ezpoints.formula import TOKENS, Pair, Tokens, accepted, over, wins
from agentgym.envs.ezpoints.oracle import EZPointsOracle
from agentgym.envs.ezpoints.picture import HEIGHT, NO_TILE, TILES_PER_ROW, WIDTH, Pixels, card_index, paint
from agentgym.envs.ezpoints.suite import SUITE
from agentgym.vector.serial import SerialVectorEnv

RewardTable: TypeAlias = Literal["verl-agent", "gym-cards"]


class Rewards(NamedTuple):
    """Rewards of actions."""

    won: float
    lost: float
    """Reward of ``=`` after anything but a formula of both cards whose value is 12."""
    rejected: float


REWARDS: Mapping[RewardTable, Rewards] = {
    "verl-agent": Rewards(won=10.0, lost=0.0, rejected=0.0),
    "gym-cards": Rewards(won=10.0, lost=-1.0, rejected=-1.0),
}
"""Rewards by name: verl-agent's, on which its 100.0 is published, and those of Gym Cards."""

NOT_ACCEPTED = "The last action was not accepted."
"""Line below the formula after an action that was rejected."""


class EZPointsEnv(AgentEnv[Observation]):
    """Make 12 from two cards, one token at a time.

    **Task**: two cards, of ranks 2 to 10, J, Q and K, the last three counting 10. Their values always
    add or multiply to 12 (`agentgym.envs.ezpoints.cards` has the dealing and the splits).

    **Actions**: ``1`` to ``10``, ``+``, ``*`` and ``=``. A number or operator is appended to the
    formula, ``=`` ends the game. A number that is not on an unused card is rejected, and so is a sixth
    token: the formula stays, the step counts.

    **Reward**: 10 for ``=`` after a formula of both cards that comes to 12. Otherwise 0; with
    ``rewards="gym-cards"`` -1 for ``=`` after anything else and -1 for every rejected action.

    **Score and progress**: 1 when won, else 0. **Step limit**: 15.
    """

    suite: ClassVar[str] = SUITE.name
    suite_spec: ClassVar[SuiteSpec] = SUITE
    state_schema = 1
    splits: ClassVar[tuple[str, ...]] = SPLITS
    split_sizes: ClassVar[Mapping[str, int]] = dict(zip(SPLITS, (193, 30, 17, 64), strict=True))
    load_may_fail = False
    state_type: ClassVar[Any] = tuple[str, ...]
    default_max_steps: ClassVar[int] = 15

    def __init__(
        self,
        *,
        split: str = "train",
        dataset: Literal["builtin"] = "builtin",
        max_steps: int | None = None,
        render_mode: str | None = None,
        rewards: RewardTable = "verl-agent",
        reward: RewardScheme = "native",
        observation: Literal["text", "image"] = "text",
    ):
        """Choose the tasks and the form of the game.

        Args:
            split: ``train``, ``valid``, ``test`` or ``unseen_pairs``.
            dataset: ``builtin``, which holds every deal there is.
            max_steps: step limit; None for 15.
            render_mode: ``ansi``, ``rgb_array`` (uint8[196, 224, 3]), ``human`` or None.
            rewards: rule of ``native``: ``verl-agent``: 10 for a win, else 0; ``gym-cards``: 10 for a win,
                -1 for a wrong formula and for a rejected token.
            reward: ``native``: by ``rewards``; ``sparse10``: 10 for a win, else 0; ``score+success``: 1 for
                a win, else 0.
            observation: ``text``, or ``image`` for ``{"text": str, "image": uint8[196, 224, 3]}``.
                The text is the same in both and names the cards; a prompt for a vision model leaves
                it out.

        Raises:
            UsageError: an unknown value of any argument.
        """
        super().__init__(deals(split), data_key=dataset, max_steps=max_steps, render_mode=render_mode)
        self.reward_scheme = reward
        self.rewards = REWARDS[rewards]
        self.shows_image = observation == "image"
        if self.shows_image:
            image = spaces.Box(0, 255, (HEIGHT, WIDTH, 3), np.uint8)
            self.observation_space = spaces.Dict({"text": UnicodeText(), "image": image})

    def _load(self, task: Task) -> None:
        self._deal: Deal = task.content
        self._pair: Pair = pair_of(self._deal)
        self._title = title(self._deal)
        self._tokens: Tokens = ()

    def _apply(self, action: str) -> Outcome:
        if action not in accepted(self._pair, self._tokens):
            return self._reject(action)
        self._tokens += (action,)
        if not over(self._tokens):
            return Outcome(0.0)
        return Outcome(self.rewards.won if wins(self._pair, self._tokens) else self.rewards.lost, True, True)

    def _reject(self, action: str) -> Outcome:
        return Outcome(self.rewards.rejected, valid=False)

    def _admissible(self) -> tuple[str, ...]:
        return accepted(self._pair, self._tokens)

    def _status(self) -> Status:
        won = wins(self._pair, self._tokens)
        return Status(won, float(won), float(won))

    def _state(self) -> Tokens:
        return self._tokens

    def _check_state(self, task: Task, state: Tokens, terminated: bool) -> None:
        pair = pair_of(task.content)
        for place, token in enumerate(state):
            if token not in accepted(pair, state[:place]):
                raise ValueError(f"token {place} of the formula is never accepted")
        if terminated != over(state):
            raise ValueError("an episode ends with '='")

    def _set_state(self, state: Tokens) -> None:
        self._tokens = state

    def _identity(self) -> str:
        return " ".join(self._tokens)

    def _observe(self) -> Observation:
        text = self._title + body(self._tokens, self._valid)
        return {"text": text, "image": self._picture()} if self.shows_image else text

    def _picture(self) -> Pixels:
        left, right = (np.array([card_index(card)]) for card in self._deal)
        frame: Pixels = paint(left, right, np.array([tiles(self._tokens)]))[0]
        return frame

    def oracle(self) -> EZPointsOracle:
        """Return the policy that always wins."""
        return EZPointsOracle()


def title(deal: Deal) -> str:
    """Return the lines of an observation that stay the same throughout an episode."""
    left, right = deal
    return f"Make 12 from both cards; J, Q and K count 10.\nCards: {left}, {right}\n"


def body(tokens: Tokens, valid: bool) -> str:
    """Return the lines of an observation that change."""
    formula = "Formula: " + (" ".join(tokens) or "(empty)")
    return formula if valid else f"{formula}\n{NOT_ACCEPTED}"


def tiles(tokens: Tokens) -> list[int]:
    """Return the tile of each place of the formula: indices into `TOKENS`, then `NO_TILE`."""
    return [TOKENS.index(token) for token in tokens] + [NO_TILE] * (TILES_PER_ROW - len(tokens))


EZPointsVectorEnv = partial(SerialVectorEnv, env_class=EZPointsEnv)
"""N episodes in one process, over one read-only world."""
