"""Oracle policy, with both sides' terms and the partner's temperament."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from agentgym.core.policies import SnapshotPolicy
from agentgym.core.types import Request, Snapshot
from agentgym.envs.sotopia.builtin.optimum import oracle_action
from agentgym.envs.sotopia.builtin.temperaments import Temperament
from agentgym.envs.sotopia.partners import Partner, TemperamentPartner
from agentgym.envs.sotopia.setup import PARTNER, TalkOptions
from agentgym.envs.sotopia.state import SotopiaState
from agentgym.envs.sotopia.tasks import Seat
from agentgym.errors import UnsupportedEnvError


class TalkedGame(Protocol):
    """The part of an environment that the oracle reads; environments import this module."""

    options: TalkOptions
    players: Mapping[str, Partner]


class SotopiaOracle(SnapshotPolicy):
    """Plays the best plan against a scripted partner: it shows evidence that convinces, insists, accepts.

    It looks at both sides' terms through the request's snapshot, and knows the partner's temperament.
    """

    def __init__(self, game: TalkedGame):
        """Take the game's parts: a scripted partner and the order round-robin, or `UnsupportedEnvError`."""
        partner = game.players.get(PARTNER)
        if not isinstance(partner, TemperamentPartner):
            raise UnsupportedEnvError(
                "the oracle plays against scripted partners only: give partner='fair' or another"
            )
        if game.options.order != "round-robin":
            raise UnsupportedEnvError("the oracle plans in round-robin order only: leave out order")
        self._temperament: Temperament = partner.temperament
        self._turns = game.options.max_turns

    def _choose(self, request: Request, snapshot: Snapshot) -> str:
        state: SotopiaState = snapshot.state
        seat: Seat = snapshot.task.content
        assert seat.side is not None, "there is a partner"
        return oracle_action(seat.scenario, seat.side, self._temperament, state.talk, self._turns).written
