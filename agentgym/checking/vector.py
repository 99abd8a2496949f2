"""Checks of a vector environment: above all, that it equals single environments to the bit."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from agentgym.checking import refusals
from agentgym.checking.evidence import (
    ContractError,
    Transition,
    choose,
    expect,
    generator,
    require,
    require_equal,
    run,
    untouched_global_generators,
)
from agentgym.checking.refusals import SLOTS, MakeVector
from agentgym.core.types import Snapshot
from agentgym.env import AgentEnv
from agentgym.errors import UsageError
from agentgym.registration import find_spec
from agentgym.vector.batching import info_rows, unbatch_observations
from agentgym.vector.core import AgentVectorEnv

STEPS = 30
SHORT = 5
"""A step limit that makes episodes end often."""


def check_agent_vector_env(subject: str | Callable[..., Any]) -> None:
    """Check every promise of the vector environment contract.

    Args:
        subject: a registered id, or a class or function that takes ``num_envs`` and the constructor's
            keyword arguments and returns an `agentgym.AgentVectorEnv`.

    Raises:
        ContractError: a promise is broken; the message is one line that says which, and how.
    """

    def make(num_envs: int, **options: Any) -> AgentVectorEnv:
        if isinstance(subject, str):
            envs = gymnasium.make_vec(find_spec(subject), num_envs=num_envs, **options).unwrapped
        else:
            envs = subject(num_envs=num_envs, **options)
        if not isinstance(envs, AgentVectorEnv):
            raise ContractError(f"{type(envs).__name__} is not an AgentVectorEnv")
        return envs

    run((*CHECKS, *refusals.CHECKS), make)


# ---- equality with single environments -------------------------------------------------------


def check_equals_sync_vector_env(make: MakeVector) -> None:
    """Under every autoreset mode all that `reset` and `step` return is what SyncVectorEnv returns."""
    for mode in AutoresetMode:
        for limit in (SHORT, None):
            with closing(make(SLOTS, autoreset_mode=mode, max_steps=limit)) as envs:
                _compare_with_sync(envs, mode)


def _compare_with_sync(envs: AgentVectorEnv, mode: AutoresetMode) -> None:
    sync = SyncVectorEnv([envs.prototype.spawn] * envs.num_envs, autoreset_mode=mode)
    singles = cast("list[AgentEnv[Any]]", sync.envs)
    rng = generator(3)
    where = f"{mode.name}: reset(seed=0) differs from SyncVectorEnv"
    require_equal(envs.reset(seed=0), sync.reset(seed=0), where)
    for step in range(STEPS):
        actions = tuple(choose(env.admissible_actions(), rng) for env in singles)
        ours, theirs = envs.step(actions), sync.step(actions)
        require_equal(ours, theirs, f"{mode.name}: step {step} differs from SyncVectorEnv")
        mask = theirs[2] | theirs[3]
        if mode is AutoresetMode.DISABLED and mask.any():
            again = [each.reset(options={"reset_mask": mask.copy()}) for each in (envs, sync)]
            where = f"step {step}: reset with reset_mask differs from SyncVectorEnv"
            require_equal(again[0], again[1], where)


def check_partial_steps_equal_single_environments(make: MakeVector) -> None:
    """`step_at` and `reset_at` over some slots, in any order, equal as many single environments."""
    with closing(make(SLOTS, autoreset_mode=AutoresetMode.DISABLED, max_steps=SHORT)) as envs:
        singles = [envs.prototype.spawn() for _ in range(SLOTS)]
        rng = generator(4)
        _compare_resets(envs, singles, list(range(SLOTS)), [None] * SLOTS, list(range(10, 10 + SLOTS)))
        for step in range(STEPS):
            slots = rng.permutation(SLOTS)[: 1 + int(rng.integers(SLOTS))].tolist()
            over = [i for i in slots if not singles[i].admissible_actions()]
            if over:
                tasks = [envs.tasks[step % len(envs.tasks)].id if i % 2 else None for i in over]
                _compare_resets(envs, singles, over, tasks, [step if i % 3 else None for i in over])
            actions = [choose(singles[i].admissible_actions(), rng) for i in slots]
            observations, rewards, terminations, truncations, infos = envs.step_at(slots, actions)
            n = len(slots)
            ours = zip(
                unbatch_observations(observations, n),
                rewards.tolist(),
                terminations.tolist(),
                truncations.tolist(),
                info_rows(infos, n),
                strict=True,
            )
            for i, action, row in zip(slots, actions, ours, strict=True):
                expected = Transition(*singles[i].step(action))
                require_equal(
                    Transition(*row), expected, f"step_at: slot {i} differs from a single environment"
                )


def _compare_resets(
    envs: AgentVectorEnv,
    singles: Sequence[AgentEnv[Any]],
    slots: list[int],
    tasks: list[str | None],
    seeds: list[int | None],
) -> None:
    observations, infos = envs.reset_at(slots, tasks, seeds)
    rows = zip(unbatch_observations(observations, len(slots)), info_rows(infos, len(slots)), strict=True)
    for i, task, seed, row in zip(slots, tasks, seeds, rows, strict=True):
        expected = singles[i].reset(seed=seed, options=None if task is None else {"task": task})
        require_equal(row, expected, f"reset_at: slot {i} differs from a single environment")


# ---- what is returned ------------------------------------------------------------------------


def check_returned_types(make: MakeVector) -> None:
    """Rewards are float64[N], flags bool[N], observations lie in their space and start a tuple of texts."""
    with closing(make(SLOTS)) as envs:
        observations, _ = envs.reset(seed=0)
        texts = observations["text"] if isinstance(observations, dict) else observations
        require(type(texts) is tuple and len(texts) == SLOTS, "observations must be a tuple of N strings")
        require(envs.observation_space.contains(observations), "observations are outside observation_space")
        require(
            envs.action_space.contains(("a",) * SLOTS), "action_space must contain every tuple of N strings"
        )
        _, rewards, terminations, truncations, _ = envs.step(("no such action",) * SLOTS)
        zeros, no = np.zeros(SLOTS), np.zeros(SLOTS, dtype=np.bool_)
        for name, array, like in (
            ("rewards", rewards, zeros),
            ("terminations", terminations, no),
            ("truncations", truncations, no),
        ):
            found, promised = (
                f"{type(each).__name__} {getattr(each, 'dtype', '')}{getattr(each, 'shape', '')}"
                for each in (array, like)
            )
            require(found == promised, f"{name} must be {promised}, is {found}")


def check_returned_values_are_fresh(make: MakeVector) -> None:
    """Returned values are the caller's: later steps do not change them."""
    with closing(make(SLOTS, max_steps=SHORT)) as envs:
        rng = generator(6)
        returned: list[Any] = [envs.reset(seed=0)]
        frozen = copy.deepcopy(returned)
        for _ in range(2 * SHORT):
            listed = returned[-1][-1]["admissible_actions"]
            returned.append(envs.step([choose(actions, rng) for actions in listed]))
            frozen.append(copy.deepcopy(returned[-1]))
        require_equal(returned, frozen, "a later step changed what an earlier one returned")


# ---- tasks and masks -------------------------------------------------------------------------


def check_tasks_and_groups(make: MakeVector) -> None:
    """``tasks`` names each slot's task by id or source id; a group starts from one state."""
    with closing(make(SLOTS)) as envs:
        first, last = envs.tasks[0], envs.tasks[-1]
        wanted = [first.id, last.source_id, first.id, last.id]
        _, infos = envs.reset(options={"tasks": wanted})
        ids = [first.id, last.id, first.id, last.id]
        require(infos["task_id"].tolist() == ids, "reset(options={'tasks': ...}) starts other tasks")
        hashes = infos["state_hash"].tolist()
        require(hashes[:2] == hashes[2:], "slots given the same task must start from the same state hash")


def check_reset_mask_leaves_others_alone(make: MakeVector) -> None:
    """Slots outside ``reset_mask`` keep their episode, whatever ``tasks`` and ``seed`` say of them."""
    with closing(make(SLOTS, autoreset_mode=AutoresetMode.DISABLED)) as envs:
        envs.reset(seed=0)
        mask = np.array([False, True, False, True])
        before = [envs.snapshot(i) for i in range(SLOTS)]
        tasks = ["no such task", envs.tasks[0].id, "no such task", None]
        _, infos = envs.reset(seed=5, options={"tasks": tasks, "reset_mask": mask})
        for i in (0, 2):
            require_equal(envs.snapshot(i), before[i], f"reset_mask leaves out slot {i}, yet it changed")
        require(
            infos["_turn"].tolist() == mask.tolist(), "info masks after a masked reset must equal the mask"
        )
        require(infos["task_id"][1] == envs.tasks[0].id, "a masked reset starts another task")


# ---- snapshots -------------------------------------------------------------------------------


def check_snapshots_travel(make: MakeVector) -> None:
    """Snapshots equal a single environment's and restore into any slot or single environment."""
    with closing(make(SLOTS, autoreset_mode=AutoresetMode.DISABLED)) as envs:
        singles = [envs.prototype.spawn() for _ in range(SLOTS)]
        rng = generator(7)
        envs.reset(seed=0)
        for i, single in enumerate(singles):
            single.reset(seed=i)
        actions = [choose(single.admissible_actions(), rng, 1.0) for single in singles]
        envs.step(actions)
        expected = [single.step(action) for single, action in zip(singles, actions, strict=True)]
        taken = [envs.snapshot(i) for i in range(SLOTS)]
        for single, snapshot in zip(singles, taken, strict=True):
            require_equal(
                snapshot, single.snapshot(), "a slot's snapshot differs from a single environment's"
            )
        current = (expected[0][0], expected[0][4])
        carried: Snapshot = pickle.loads(pickle.dumps(taken[0]))
        require_equal(envs.restore(2, carried), current, "restore into another slot returns something else")
        require_equal(envs.copy(0, 3), current, "copy returns something else than restore")
        require_equal(
            envs.prototype.spawn().restore(taken[0]), current, "restore into a single environment differs"
        )
        require_equal(envs.snapshot(1), taken[1], "restore and copy changed a slot that they do not name")
        for i in (0, 2, 3):
            require_equal(envs.snapshot(i), taken[0], f"slot {i} does not hold the episode put there")
        _compare_after_restore(envs, singles[0], rng)


def _compare_after_restore(envs: AgentVectorEnv, single: AgentEnv[Any], rng: np.random.Generator) -> None:
    """Slots 0, 2 and 3 hold the single environment's episode: they must go on alike."""
    while single.admissible_actions():
        action = choose(single.admissible_actions(), rng, invalid_rate=0.5)
        expected = Transition(*single.step(action))
        observations, rewards, terminations, truncations, infos = envs.step_at((3, 0, 2), (action,) * 3)
        rows = zip(unbatch_observations(observations, 3), info_rows(infos, 3), strict=True)
        for k, (observation, info) in enumerate(rows):
            beat = Transition(
                observation, float(rewards[k]), bool(terminations[k]), bool(truncations[k]), info
            )
            require_equal(beat, expected, "an episode goes on differently after restore into a slot")


def check_copies_go_on(make: MakeVector) -> None:
    """`pickle` and `copy.deepcopy` give a vector environment that goes on alike, whatever stage it is at."""
    for mode in AutoresetMode:
        for played in (None, 0, 2, SHORT):
            with closing(make(SLOTS, autoreset_mode=mode, max_steps=SHORT)) as envs:
                if played is not None:
                    envs.reset(seed=5)
                    for _ in range(played):
                        if slots := _running(envs):  # an empty action may end a game
                            envs.step_at(slots, [""] * len(slots))
                _compare_copies(envs, played is not None)


def _compare_copies(envs: AgentVectorEnv, begun: bool) -> None:
    with closing(copy.deepcopy(envs)) as deep, closing(pickle.loads(pickle.dumps(envs))) as pickled:
        for twin, how in ((deep, "deepcopy"), (pickled, "pickle")):
            for i in range(SLOTS if begun else 0):
                require_equal(twin.snapshot(i), envs.snapshot(i), f"{how} changes the episode in a slot")
        everybody = (envs, deep, pickled)
        if not begun:
            _require_alike([each.reset(seed=6) for each in everybody])
        while slots := _running(envs):
            _require_alike([each.step_at(slots, ["right"] * len(slots)) for each in everybody])
            if envs.autoreset_mode is AutoresetMode.SAME_STEP:
                break
        if envs.autoreset_mode is not AutoresetMode.DISABLED:
            _require_alike([each.step(("",) * SLOTS) for each in everybody])
        _require_alike([each.reset() for each in everybody])


def _running(envs: AgentVectorEnv) -> list[int]:
    snapshots = [envs.snapshot(i) for i in range(SLOTS)]
    return [i for i, each in enumerate(snapshots) if not (each.terminated or each.truncated)]


def _require_alike(answers: Sequence[Any]) -> None:
    for answer, how in zip(answers[1:], ("deepcopy", "pickle"), strict=True):
        require_equal(answer, answers[0], f"an episode goes on differently after {how}")


# ---- bad use ---------------------------------------------------------------------------------


def check_finished_slots_wait(make: MakeVector) -> None:
    """Under DISABLED, stepping a finished slot raises, and so does stepping before any reset."""
    with closing(make(SLOTS, autoreset_mode=AutoresetMode.DISABLED, max_steps=1)) as envs:
        with expect(ResetNeeded, "step before the first reset"):
            envs.step(("",) * SLOTS)
        with expect(ResetNeeded, "snapshot before the first reset"):
            envs.snapshot(0)
        with expect(ResetNeeded, "copy before the first reset"):
            envs.copy(0, 1)
        with expect(ResetNeeded, "reset with a mask before the first reset"):
            envs.reset(options={"reset_mask": np.arange(SLOTS) == 0})
        envs.reset(seed=0)
        envs.step_at([1], [""])
        with expect(ResetNeeded, "stepping a finished slot under DISABLED"):
            envs.step(("",) * SLOTS)
        envs.step_at([0, 2], ["", ""])
        envs.reset_at([1])
        envs.step_at([1], [""])


# ---- options ---------------------------------------------------------------------------------


def check_constructor(make: MakeVector) -> None:
    """A number of slots that is not whole, or below 1, and an unknown autoreset mode are UsageErrors."""
    for count in (0, 1.5, "2"):
        with expect(UsageError, f"num_envs={count!r}"):
            make(count)
    with expect(UsageError, "an unknown autoreset_mode"):
        make(1, autoreset_mode="no such mode")


def check_step_limit_has_two_names(make: MakeVector) -> None:
    """``max_episode_steps``, which make_vec forwards, is an alias of ``max_steps``."""
    with closing(make(1, max_episode_steps=3)) as envs:
        require(envs.max_steps == 3, "max_episode_steps=3 must set max_steps to 3")
    with expect(UsageError, "max_steps and max_episode_steps that differ"):
        make(1, max_steps=2, max_episode_steps=3)


def check_metadata(make: MakeVector) -> None:
    """Metadata names the autoreset mode; NEXT_STEP is the default, and names are taken as well."""
    with closing(make(1)) as envs:
        require(
            envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP, "the default mode must be NEXT_STEP"
        )
    with closing(make(1, autoreset_mode="SameStep")) as envs:
        mode = envs.metadata["autoreset_mode"]
        require(mode is AutoresetMode.SAME_STEP, f"autoreset_mode='SameStep' must be SAME_STEP, is {mode}")


def check_global_generators(make: MakeVector) -> None:
    """Neither ``random`` nor ``numpy.random`` is touched."""
    with untouched_global_generators("the vector environment"), closing(make(SLOTS, max_steps=2)) as envs:
        envs.reset(seed=0)
        for _ in range(2 * SHORT):
            envs.step(("",) * SLOTS)


CHECKS: tuple[Callable[[MakeVector], None], ...] = (
    check_returned_types,
    check_equals_sync_vector_env,
    check_partial_steps_equal_single_environments,
    check_returned_values_are_fresh,
    check_tasks_and_groups,
    check_reset_mask_leaves_others_alone,
    check_snapshots_travel,
    check_copies_go_on,
    check_finished_slots_wait,
    check_constructor,
    check_step_limit_has_two_names,
    check_metadata,
    check_global_generators,
)
"""Checks of every promise, each with vector environments of its own."""
