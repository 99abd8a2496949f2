"""The conformance kit passes what keeps the contract and names the promise that anything else breaks."""

import numpy as np
import pytest

import tests.defective.interface
import tests.defective.states
import tests.defective.steps
import tests.defective.vector
from agentgym import AgentEnv, Snapshot
from agentgym.checking import (
    ContractError,
    check_agent_env,
    check_agent_vector_env,
    interface,
    refusals,
    states,
    steps,
    vector,
)
from agentgym.checking.evidence import factory, first_difference, run
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.defective import defects

DEFECTS = [
    defect
    for module in (
        tests.defective.interface,
        tests.defective.steps,
        tests.defective.states,
        tests.defective.vector,
    )
    for defect in defects(module)
]


@pytest.mark.parametrize("subject", [CorridorEnv, CorridorEnv(), lambda **options: CorridorEnv(**options)])
def test_a_sound_environment_passes(subject):
    check_agent_env(subject)


class WithoutOracle(CorridorEnv):
    """A corridor that nobody solves."""

    oracle = AgentEnv.oracle


def test_an_environment_needs_no_oracle():
    check_agent_env(WithoutOracle)


def test_a_sound_vector_environment_passes():
    check_agent_vector_env(CorridorVectorEnv)


class DiaryEnv(CorridorEnv):
    """Tells how far it has been: no part of what is hashed."""

    past_keys = frozenset({"farthest"})
    state_type = tuple[int, bool, int]

    def _load(self, task):
        super()._load(task)
        self._farthest = 0

    def _apply(self, action):
        outcome = super()._apply(action)
        self._farthest = max(self._farthest, self._cell)
        return outcome

    def _state(self):
        return (*super()._state(), self._farthest)

    def _set_state(self, state):
        *rest, self._farthest = state
        super()._set_state(rest)

    def _identity(self):
        return (self._cell, self._fallen)

    def _extra_info(self):
        return {"farthest": self._farthest}


class SilentDiaryEnv(DiaryEnv):
    past_keys = frozenset()


def test_what_tells_of_the_past_says_so():
    run((states.check_hash_decides_the_future,), factory(DiaryEnv))
    with pytest.raises(ContractError, match="differ after action"):
        run((states.check_hash_decides_the_future,), factory(SilentDiaryEnv))


def test_the_difference_is_named():
    left = {"a": (1, np.array([1.0, 2.0])), "b": "x"}
    assert first_difference(left, {"a": (1, np.array([1.0, 2.0])), "b": "x"}) is None
    assert "['a'][1]" in first_difference(left, {"a": (1, np.array([1.0, 2.5])), "b": "x"})
    assert "int" in first_difference((1,), (1.0,))
    assert "bool" in first_difference(np.array([1]), np.array([True]))
    assert first_difference(0.0, -0.0) is not None
    assert first_difference(float("nan"), float("nan")) is None
    assert "keys" in first_difference({}, {"a": 1})
    assert "length" in first_difference((1,), (1, 2))
    assert ".turn" in first_difference(
        *(Snapshot("s", 1, "d", None, (), t, True, False, False, None) for t in (1, 2))
    )


@pytest.mark.parametrize(
    ("check", "broken", "message"), DEFECTS, ids=[broken.__name__ for _, broken, _ in DEFECTS]
)
def test_a_defect_is_caught(check, broken, message):
    """By the check made for it, on its own, and so by the kit as a whole."""
    single = issubclass(broken, AgentEnv)
    with pytest.raises(ContractError, match=message) as caught:
        run((check,), factory(broken) if single else broken)
    assert "\n" not in str(caught.value)
    with pytest.raises(ContractError):
        check_agent_env(broken) if single else check_agent_vector_env(broken)


def test_every_check_can_fail():
    refused = {check for check, _, _ in DEFECTS}
    checks = {*interface.CHECKS, *steps.CHECKS, *states.CHECKS, *vector.CHECKS, *refusals.CHECKS}
    assert checks - refused == {interface.check_gymnasium}, "the one left out is tested below"


def test_gymnasium_s_own_checker_is_asked():
    class NoActionSpace(CorridorEnv):
        def __init__(self, **options):
            super().__init__(**options)
            self.action_space = None

    with pytest.raises(ContractError, match="gymnasium's check_env"):
        interface.check_gymnasium(factory(NoActionSpace))


def test_other_environments_are_refused():
    with pytest.raises(ContractError, match="derive it from agentgym"):
        check_agent_env("CartPole-v1")
    with pytest.raises(ContractError, match="is not an AgentVectorEnv"):
        check_agent_vector_env("CartPole-v1")


def test_a_restore_that_does_nothing_is_named_before_what_follows_from_it():
    class Stays(CorridorEnv):
        def _set_state(self, state):
            pass

    with pytest.raises(ContractError, match=r"^restore must return what was current"):
        check_agent_env(Stays)
