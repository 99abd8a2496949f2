"""Sokoban's speed beside gym-sokoban and SyncVectorEnv: ``python -m benchmarks.speed.sokoban``.

All contestants play 6x6 rooms with one box and random valid actions in one process, one after the
other, in several rounds; a ratio compares two contestants within a round, so that whatever else the
machine does hits both. Ended episodes are reset, and the resets are part of the time.
"""

from __future__ import annotations

import contextlib
import copy
import io
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

import agentgym  # noqa: F401 (registers the environments)
from agentgym.envs.sokoban.arrays import BoardBatch
from agentgym.envs.sokoban.builtin.bank import load
from agentgym.envs.sokoban.builtin.generator import Config
from agentgym.envs.sokoban.engine import ACTIONS, REWARDS
from agentgym.envs.sokoban.env import SokobanEnv, VisualSokobanEnv
from agentgym.envs.sokoban.tiles import TileSize, draw
from agentgym.envs.sokoban.vector import SokobanVectorEnv, VisualSokobanVectorEnv
from benchmarks.harness.report import Texts, parser
from benchmarks.harness.rounds import Discipline, Run, measure_all, publish_rows, timed

OUT = Path(__file__).with_name("results.json")
NAMES = [action.name for action in ACTIONS["agent"]]
MAX_STEPS = 120
ROOM = Config(6, 6, 1)
TEXTS = Texts(
    "Speed of Sokoban",
    "6x6 rooms with one box, random valid actions, at most 120 steps; resets are part of the time.",
    "The array form hands out rewards, both masks and boards, the full contract strings, infos and state\n"
    "hashes as well. gym-sokoban makes a new room at every reset; agentgym draws one from its bank.",
)

# ---- this project ----------------------------------------------------------------------------


def single(make: Callable[[], gymnasium.Env[Any, str]]) -> Run:
    """Step a single environment."""
    env = make()
    env.reset(seed=0)
    actions = [NAMES[k] for k in np.random.default_rng(0).integers(4, size=256)]

    def once() -> int:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return len(actions)

    return timed(once)


def batched(envs: gymnasium.vector.VectorEnv[Any, Any, Any]) -> Run:
    """Step a vector environment that resets itself."""
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    plan = [tuple(NAMES[k] for k in row) for row in rng.integers(4, size=(32, envs.num_envs))]

    def once() -> int:
        for actions in plan:
            envs.step(actions)
        return len(plan) * envs.num_envs

    return timed(once)


def native(form: type[SokobanVectorEnv], num: int, **options: Any) -> Run:
    """Step this project's vector environment."""
    return batched(form(num, **options))


def arrays(num: int, tile_size: TileSize | None = None) -> Run:
    """Step the array form; rewards, both masks and resets from the bank included, pictures if asked."""
    bank = load(ROOM, "train")
    rng = np.random.default_rng(0)
    shape = (num, ROOM.height, ROOM.width + 1)
    batch = BoardBatch(num, shape[1] * shape[2], ACTIONS["agent"], REWARDS["native"], max_steps=MAX_STEPS)
    batch.load_from(bank, np.arange(num), rng.integers(len(bank.boards), size=num))
    plan = rng.integers(4, size=(32, num))

    def once() -> int:
        for actions in plan:
            steps = batch.step(actions)
            ended = np.flatnonzero(steps.terminated | steps.truncated)
            if ended.size:
                batch.load_from(bank, ended, rng.integers(len(bank.boards), size=ended.size))
            if tile_size is not None:
                draw(batch.boards.reshape(shape)[:, :, :-1], tile_size)
        return plan.size

    return timed(once)


def seeded_resets() -> Run:
    """Reset with a new seed each time, so that every level is drawn afresh."""
    env = SokobanEnv()
    seeds = iter(range(1 << 40))

    def once() -> int:
        for _ in range(64):
            env.reset(seed=next(seeds))
        return 64

    return timed(once)


def snapshots() -> Run:
    """Take a snapshot and restore it."""
    env = SokobanEnv()
    env.reset(seed=0)

    def once() -> int:
        for _ in range(64):
            env.restore(env.snapshot())
        return 64

    return timed(once)


def sync(env_id: str, num: int, **options: Any) -> Run:
    """Step Gymnasium's SyncVectorEnv over this project's single environment."""
    envs = gymnasium.make_vec(
        env_id,
        num_envs=num,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.NEXT_STEP},
        **options,
    )
    return batched(envs)


# ---- gym-sokoban -----------------------------------------------------------------------------


def peer_class() -> Any:
    """Import gym-sokoban's environment, which warns and prints while it is imported."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        from gym_sokoban.envs.sokoban_env import SokobanEnv as Peer
    return Peer


def make_peer(picture: str | None) -> Any:
    """Make gym-sokoban's 6x6 room with one box; without a picture mode it does not render."""

    class Unrendered(peer_class()):  # type: ignore[misc]
        def render(self, mode: str = "human", close: Any = None, scale: int = 1) -> None:
            return None

    made = (Unrendered if picture is None else peer_class())(
        dim_room=(6, 6), num_boxes=1, max_steps=MAX_STEPS
    )
    quiet_reset(made)
    return made


def quiet_reset(peer: Any) -> None:
    """Reset without the lines it prints when a room fails."""
    with contextlib.redirect_stdout(io.StringIO()):
        peer.reset(render_mode="tiny_rgb_array")


def peer_steps(picture: str | None) -> Run:
    """Step gym-sokoban; the rooms it must make for resets are part of the time."""
    env = make_peer(picture)
    actions = np.random.default_rng(0).integers(1, 5, size=64).tolist()

    def once() -> int:
        for action in actions:
            *_, done, _ = env.step(action, observation_mode=picture or "rgb_array")
            if done:
                quiet_reset(env)
        return len(actions)

    return timed(once)


def peer_resets() -> Run:
    """Make rooms with gym-sokoban."""
    env = make_peer(None)

    def once() -> int:
        quiet_reset(env)
        return 1

    return timed(once)


def peer_copies() -> Run:
    """Copy gym-sokoban's environment deeply, which is the only way to hold its state."""
    env = make_peer(None)

    def once() -> int:
        copy.deepcopy(env)
        return 1

    return timed(once)


class PeerAdapter(gymnasium.Env[Any, Any]):
    """gym-sokoban without rendering, as Gymnasium wants it."""

    observation_space = gymnasium.spaces.Box(0, 5, (6, 6), dtype=np.int64)
    action_space = gymnasium.spaces.Discrete(9)

    def __init__(self) -> None:
        """Make a room."""
        self._peer = make_peer(None)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Make a new room; the peer takes no seed."""
        quiet_reset(self._peer)
        return self._peer.room_state.copy(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play one of its nine actions."""
        _, reward, done, info = self._peer.step(int(action))
        won = bool(info.get("all_boxes_on_target", False))
        return self._peer.room_state.copy(), reward, won, done and not won, {}


def peer_batched(num: int) -> Run:
    """Step SyncVectorEnv over gym-sokoban."""
    envs = gymnasium.vector.SyncVectorEnv([PeerAdapter] * num)
    envs.reset()
    plan = np.random.default_rng(0).integers(1, 5, size=(8, num))

    def once() -> int:
        for actions in plan:
            envs.step(actions)
        return plan.size

    return timed(once)


# ---- what is compared ------------------------------------------------------------------------


def disciplines() -> list[Discipline]:
    """Return everything that is measured in rounds."""
    unrendered = partial(peer_steps, None)
    found = [
        Discipline(
            "single environment",
            "steps/s",
            {"agentgym": partial(single, SokobanEnv), "gym-sokoban, unrendered": unrendered},
        )
    ]
    for num in (1, 64, 1024):
        full: dict[str, Callable[[], Run]] = {
            "agentgym": partial(native, SokobanVectorEnv, num),
            "agentgym under SyncVectorEnv": partial(sync, "agentgym/Sokoban-v0", num),
        }
        if num < 1024:  # a thousand of its resets take seconds
            full["gym-sokoban under SyncVectorEnv, unrendered"] = partial(peer_batched, num)
        found.append(Discipline(f"full contract, N = {num}", "board-steps/s", full))
        plain = {"agentgym": partial(arrays, num), "gym-sokoban, unrendered": unrendered}
        found.append(Discipline(f"arrays, N = {num}", "board-steps/s", plain))
    found += [*pictures(16, "rgb_array"), *pictures("tiny", "tiny_rgb_array")]
    return [
        *found,
        Discipline(
            "seeded reset from the bank", "resets/s", {"agentgym": seeded_resets, "gym-sokoban": peer_resets}
        ),
        Discipline(
            "snapshot and restore",
            "pairs/s",
            {"agentgym": snapshots, "gym-sokoban, deepcopy without going back": peer_copies},
        ),
    ]


def pictures(size: TileSize, mode: str) -> list[Discipline]:
    """Return what is measured with pictures of one tile size; ``mode`` is gym-sokoban's name for it."""
    label = size if size == "tiny" else f"{size} px"
    peer = partial(peer_steps, mode)
    found = []
    for num in (1, 64):
        forms: dict[str, dict[str, Callable[[], Run]]] = {
            "arrays": {"agentgym": partial(arrays, num, size)},
            "full contract": {
                "agentgym": partial(native, VisualSokobanVectorEnv, num, tile_size=size),
                "agentgym under SyncVectorEnv": partial(
                    sync, "agentgym/VisualSokoban-v0", num, tile_size=size
                ),
            },
        }
        for form, ours in forms.items():
            name = f"{form} and pictures {label}, N = {num}"
            found.append(Discipline(name, "board-steps/s", {**ours, "gym-sokoban": peer}))
    alone = partial(single, partial(VisualSokobanEnv, tile_size=size))
    name = f"single environment and pictures {label}"
    return [*found, Discipline(name, "steps/s", {"agentgym": alone, "gym-sokoban": peer})]


def memory_per_environment() -> dict[str, float]:
    """Return the bytes that Python and numpy hold for each environment beyond the first."""

    def extra(make: Callable[[int], Any], more: int) -> float:
        make(1)  # what all share: the bank, tables, imports
        tracemalloc.start()
        one = make(1)
        small = tracemalloc.get_traced_memory()[0]
        many = make(1 + more)
        large = tracemalloc.get_traced_memory()[0] - small
        tracemalloc.stop()
        del one, many
        return (large - small) / more

    def slots(num: int) -> Any:
        envs = SokobanVectorEnv(num)
        envs.reset(seed=0)
        return envs

    def under_sync(num: int) -> Any:
        envs = gymnasium.vector.SyncVectorEnv([SokobanEnv] * num)
        envs.reset(seed=0)
        return envs

    return {
        "agentgym": extra(slots, 1023),
        "agentgym under SyncVectorEnv": extra(under_sync, 1023),
        "gym-sokoban": extra(lambda num: [make_peer(None) for _ in range(num)], 31),
    }


def main() -> int:
    """Measure everything, and write the report."""
    given = parser(__spec__.name, __doc__, OUT, rounds=7, seconds=0.2).parse_args()
    warnings.simplefilter("ignore")  # gym-sokoban's
    rows, memory = measure_all(disciplines(), given), memory_per_environment()
    return publish_rows(
        f"python -m {__spec__.name}", given, rows, TEXTS, peers=("gym-sokoban",), memory=memory
    )


if __name__ == "__main__":
    raise SystemExit(main())
