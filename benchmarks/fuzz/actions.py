"""Hostile actions in every suite: each is refused or taken at once, as the contract says.

Checked of every action:

* a step raises nothing, but `TypeError` for what is no string; a vector step, moreover, `UsageError` for a
  number of actions that is not that of its slots;
* it is valid exactly where `is_admissible` says so;
* an invalid one leaves the state's hash and the admissible actions as they were, unless it ends an episode of
  a game whose `invalid_may_end` says that it may, and a refused one the whole snapshot; other slots are left
  alone;
* none takes longer than `MOMENT` of processor time. What does is measured again from the same state, and the
  least of `TRIES` counts: others use the machine too.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from time import perf_counter, process_time
from typing import Any

from agentgym.core.types import Snapshot
from agentgym.env import AgentEnv
from agentgym.errors import UsageError
from agentgym.registration import ENVIRONMENTS, make, make_vec
from agentgym.vector.core import AgentVectorEnv
from benchmarks.fuzz.hostile import Hostile, HostileActions

MOMENT = 0.05
"""Seconds of processor time that no action may take longer than."""

TRIES = 5

FAIR = 0.3
"""Share of further, admissible actions, which take episodes on."""

SLOTS = 4

SHARES: Mapping[str, float] = {
    "agentgym/EZPoints-v0": 0.3,
    "agentgym/Sokoban-v0": 0.3,
    "agentgym/ALFWorld-v0": 0.2,
    "agentgym/WebShop-v0": 0.12,
    "agentgym/VisualSokoban-v0": 0.08,
}
"""Of the actions: fast environments get more of them."""

VECTOR = 0.2
"""Share of an environment's actions that are sent to a vector one."""

MAX_CACHED_MAX = 20
"""Violations that are told; all are counted."""


@dataclass(slots=True)
class Tally:
    """What was sent, and what was wrong."""

    env_id: str
    actions: int = 0
    """Hostile ones."""
    valid: int = 0
    """Of them, those that turned out admissible."""
    refused: int = 0
    """Of them, those that raised a documented exception."""
    vector: int = 0
    """Of them, those sent to a slot."""
    fair: int = 0
    """Admissible actions in between."""
    shapes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    """Seconds of processor time, of one call."""
    slowest_shape: str = ""
    remeasured: int = 0
    """Calls beyond `MOMENT` at first."""
    wrong: int = 0
    """Violations."""
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def violated(self, what: str, sent: Hostile) -> None:
        """Count a violation."""
        self.wrong += 1
        if len(self.violations) < MAX_CACHED_MAX:
            size = len(sent.action) if isinstance(sent.action, str) else 0
            text = f"{self.env_id}: {what}: {sent.shape}, {size} characters: {sent.action!r:.120}"
            self.violations.append(text)

    def table(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


def run_actions(env_id: str, actions: int, *, seed: int) -> Tally:
    """Send hostile actions to an environment, a share of them to a vector one.

    Args:
        env_id: a registered environment.
        actions: how many hostile ones.
        seed: of the actions and episodes.
    """
    tally, began = Tally(env_id), perf_counter()
    vector = int(VECTOR * actions)
    single = _Single(env_id, tally, seed)
    gc.freeze()  # a collection over a catalogue is not the action's doing
    try:
        while tally.actions < actions - vector:
            single.turn()
        slots = _Slots(env_id, tally, seed, single.env)
        while tally.actions < actions:
            slots.turn()
    finally:
        gc.unfreeze()
    tally.seconds = perf_counter() - began
    return tally


class _Timed:
    """Measures calls."""

    def __init__(self, tally: Tally, restore: Callable[[Any], Any]):
        self._tally, self._restore = tally, restore

    def __call__(self, call: Callable[[], Any], sent: Hostile, before: Any) -> Any:
        """Return a call's result; measure it again from ``before`` if it is slow."""
        tally, began = self._tally, process_time()
        result = call()
        took = process_time() - began
        if took > MOMENT:
            tally.remeasured += 1
            for _ in range(TRIES - 1):
                self._restore(before)
                began = process_time()
                result = call()
                took = min(took, process_time() - began)
            if took > MOMENT:
                tally.violated(f"{1000 * took:.0f} ms", sent)
        if took > tally.slowest:
            size = len(sent.action) if isinstance(sent.action, str) else 0
            tally.slowest, tally.slowest_shape = took, f"{sent.shape}, {size:,} characters"
        return result


class _Single:
    """One environment."""

    def __init__(self, env_id: str, tally: Tally, seed: int):
        self.env: AgentEnv[Any] = make(env_id)
        self._hostile, self._tally = HostileActions(seed), tally
        self._timed = _Timed(tally, self.env.restore)
        self._seed, self._over = seed, True
        self._observation: Any = ""
        self._info: Mapping[str, Any] = {}

    def turn(self) -> None:
        """Send a hostile action, and now and then an admissible one."""
        if self._over:
            self._seed += 1
            self._observation, self._info = self.env.reset(seed=self._seed)
            self._over = False
        admissible = self._info["admissible_actions"]
        if self._hostile.rng.random() < FAIR:
            self._tally.fair += 1
            text = self._observation if isinstance(self._observation, str) else self._observation["text"]
            self._take(self.env.step(self._hostile.fair(admissible, text)))
            return
        sent = self._hostile.draw(admissible)
        self._tally.actions += 1
        self._tally.shapes[sent.shape] += 1
        before = self.env.snapshot()
        if isinstance(sent.action, str):
            self._send(sent, before)
        else:
            self._send_no_string(sent, before)

    def _send(self, sent: Hostile, before: Snapshot) -> None:
        tally, info = self._tally, self._info
        try:
            expected = self._timed(lambda: self.env.is_admissible(sent.action), sent, before)
            result = self._timed(lambda: self.env.step(sent.action), sent, before)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is what is looked for
            tally.violated(f"raised {error!r:.200}", sent)
            self._over = True
            return
        self._take(result)
        valid = self._info["action_is_valid"]
        tally.valid += valid
        if valid != expected:
            tally.violated(f"is_admissible is {expected}, action_is_valid {valid}", sent)
        if not valid and not (result[2] and self.env.invalid_may_end):
            if self._info["state_hash"] != info["state_hash"]:
                tally.violated("an invalid action changed the state", sent)
            if not self._over and self._info["admissible_actions"] != info["admissible_actions"]:
                tally.violated("an invalid action changed what is admissible", sent)

    def _send_no_string(self, sent: Hostile, before: Snapshot) -> None:
        try:
            self.env.step(sent.action)
        except TypeError:
            self._tally.refused += 1
        except Exception as error:  # noqa: BLE001  # whatever it is, it is what is looked for
            self._tally.violated(f"raised {error!r:.200}", sent)
        else:
            self._tally.violated("was taken", sent)
        if self.env.snapshot() != before:
            self._tally.violated("a refused action changed the episode", sent)

    def _take(self, result: tuple[Any, ...]) -> None:
        self._observation, _, terminated, truncated, self._info = result
        self._over = terminated or truncated


class _Slots:
    """A vector environment: one slot is sent a hostile action, the others admissible ones."""

    def __init__(self, env_id: str, tally: Tally, seed: int, single: AgentEnv[Any]):
        self._envs: AgentVectorEnv = make_vec(env_id, SLOTS, autoreset_mode="Disabled")
        self._hostile, self._tally, self._single = HostileActions(seed + 1), tally, single
        self._timed = _Timed(tally, self._restore)
        self._seed = seed
        _, infos = self._envs.reset(seed=seed)
        self._admissible: list[tuple[str, ...]] = list(infos["admissible_actions"])
        self._hashes: list[str] = list(infos["state_hash"])

    def turn(self) -> None:
        """Step all slots, or some."""
        partial = self._hostile.rng.random() < 0.5
        slots = [self._hostile.below(SLOTS)] if partial else list(range(SLOTS))
        target = slots[self._hostile.below(len(slots))]
        sent = self._hostile.draw(self._admissible[target])
        actions = [
            sent.action if slot == target else self._hostile.fair(self._admissible[slot], "x")
            for slot in slots
        ]
        self._tally.actions += 1
        self._tally.vector += 1
        self._tally.fair += len(slots) - 1
        self._tally.shapes[sent.shape] += 1
        before = [self._envs.snapshot(slot) for slot in range(SLOTS)]
        if self._hostile.rng.random() < 0.02:
            self._send_wrong_number(sent, slots, actions, before)
        try:
            call = (
                (lambda: self._envs.step_at(slots, actions))
                if partial
                else (lambda: self._envs.step(actions))
            )
            _, _, terminated, truncated, infos = self._timed(call, sent, before)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is what is looked for
            self._check_refused(error, sent, before)
            return
        if not isinstance(sent.action, str):
            self._tally.violated("was taken", sent)
        self._check(sent, target, slots, infos, before, bool(terminated[slots.index(target)]))
        for row, slot in enumerate(slots):
            self._admissible[slot] = infos["admissible_actions"][row]
            self._hashes[slot] = infos["state_hash"][row]
        over = [slot for row, slot in enumerate(slots) if terminated[row] or truncated[row]]
        if over:
            self._begin(over)

    def _check(
        self,
        sent: Hostile,
        target: int,
        slots: list[int],
        infos: Any,
        before: list[Snapshot],
        terminated: bool,
    ) -> None:
        row = slots.index(target)
        valid = bool(infos["action_is_valid"][row])
        self._tally.valid += valid
        changed = terminated or infos["state_hash"][row] != self._hashes[target]
        if not valid and changed and not (terminated and self._single.invalid_may_end):
            self._tally.violated("an invalid action changed its slot", sent)
        self._single.restore(before[target])
        if valid != self._single.is_admissible(sent.action):
            self._tally.violated(f"in a slot action_is_valid is {valid}, is_admissible is not", sent)
        others = [slot for slot in range(SLOTS) if slot not in slots]
        if any(self._envs.snapshot(slot) != before[slot] for slot in others):
            self._tally.violated("it changed another slot", sent)

    def _check_refused(self, error: Exception, sent: Hostile, before: list[Snapshot]) -> None:
        if isinstance(error, TypeError) and not isinstance(sent.action, str):
            self._tally.refused += 1
        else:
            self._tally.violated(f"raised {error!r:.200}", sent)
        if [self._envs.snapshot(slot) for slot in range(SLOTS)] != before:
            self._tally.violated("a refused action changed a slot", sent)

    def _send_wrong_number(
        self, sent: Hostile, slots: list[int], actions: list[Any], before: list[Snapshot]
    ) -> None:
        for wrong in (actions[:-1], [*actions, "x"], "x" * len(actions)):
            try:
                self._envs.step_at(slots, wrong)
            except UsageError:
                continue
            except Exception as error:  # noqa: BLE001  # whatever it is, it is what is looked for
                self._check_refused(error, sent, before)
            else:
                self._tally.violated("a wrong number of actions was taken", sent)

    def _begin(self, slots: list[int]) -> None:
        self._seed += SLOTS
        _, infos = self._envs.reset_at(slots, seeds=[self._seed + slot for slot in slots])
        for row, slot in enumerate(slots):
            self._admissible[slot] = infos["admissible_actions"][row]
            self._hashes[slot] = infos["state_hash"][row]

    def _restore(self, before: list[Snapshot]) -> None:
        for slot, snapshot in enumerate(before):
            self._envs.restore(slot, snapshot)


def shares(actions: int) -> dict[str, int]:
    """Return how many of the actions each environment gets; every registered one gets some."""
    least = min(SHARES.values())
    weights = {env_id: SHARES.get(env_id, least) for env_id in ENVIRONMENTS}
    return {env_id: round(actions * weight / sum(weights.values())) for env_id, weight in weights.items()}
