"""Two small games for the sweep: one long and sparse, one noisy.

Both keep the contract of `agentgym.env.AgentEnv`; their prompts have a few dozen tokens, so that a run of
thousands of steps takes seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import gymnasium

from agentgym import AgentEnv, Completion, Outcome, Policy, Request, Status, Task, UsageError
from agentgym.core.hashing import content_id
from agentgym.core.rng import KeyRng
from agentgym.core.tasks import ListTaskSet, check_split
from agentgym.envs.ezpoints.cards import pair_of
from agentgym.envs.ezpoints.env import EZPointsEnv
from agentgym.envs.ezpoints.formula import END, best_action

ERRANDS = "agentgym-bench/Errands-v0"
NOISY_EZPOINTS = "agentgym-bench/NoisyEZPoints-v0"

ROOMS = 5
TASKS = {"train": 400, "valid": 48, "test": 48}


class ErrandsState(NamedTuple):
    """Where a player of `ErrandsEnv` stands."""

    room: int
    done: int
    """Errands done."""
    carries: bool
    dropped: bool
    """Whether something was taken or left in the wrong room, which loses the game."""


class ErrandsEnv(AgentEnv[str]):
    """Carry things between five rooms in a row, one after the other; nothing is paid before the last.

    **Task**: a room to start from and three errands, each from one room to another. **Actions**: ``left``,
    ``right``, ``take`` with empty hands and ``drop`` with full ones. Taking or dropping in the wrong room
    loses the game at once. **Reward**: 10 for the last errand, which takes about 17 steps; 0 for all else.
    """

    suite: ClassVar[str] = "errands"
    state_type: ClassVar[Any] = ErrandsState
    load_may_fail = False
    default_max_steps: ClassVar[int] = 40

    def __init__(
        self,
        *,
        split: str = "train",
        dataset: str = "builtin",
        errands: int = 3,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ):
        """Draw the tasks of a split.

        Args:
            split: train, valid or test.
            dataset: ``builtin``.
            errands: of each task.
            max_steps: step limit; None for 40.
            render_mode: ``ansi`` or None.

        Raises:
            UsageError: an unknown split or data set, or no errand.
        """
        check_split(split, list(TASKS))
        if dataset != "builtin" or errands < 1:
            raise UsageError(f"dataset is 'builtin' and errands at least 1, got {dataset!r} and {errands}")
        tasks = [_draw(split, number, errands) for number in range(TASKS[split])]
        super().__init__(
            ListTaskSet(split, tasks, dataset=dataset, suite=self.suite),
            data_key=f"{dataset}:{errands}",
            max_steps=max_steps,
            render_mode=render_mode,
        )

    def _load(self, task: Task) -> None:
        start, self._errands = task.content
        self._now = ErrandsState(start, 0, carries=False, dropped=False)

    def _apply(self, action: str) -> Outcome:
        if action not in self._admissible():
            return Outcome(0.0, valid=False)
        now = self._now
        if action in ("left", "right"):
            self._now = now._replace(room=now.room + (1 if action == "right" else -1))
            return Outcome(0.0)
        if now.room != self._errands[now.done][action == "drop"]:
            self._now = now._replace(dropped=True)
            return Outcome(0.0, terminated=True)
        self._now = now._replace(carries=action == "take", done=now.done + (action == "drop"))
        won = self._now.done == len(self._errands)
        return Outcome(10.0 * won, terminated=won)

    def _observe(self) -> str:
        now = self._now
        if now.dropped or now.done == len(self._errands):
            return "The game is lost." if now.dropped else "All errands are done."
        source, goal = self._errands[now.done]
        hands = f"full, bring to {goal}" if now.carries else f"empty, take from {source}"
        text = f"Room: {now.room}\nHands: {hands}\nErrand: {now.done + 1}"
        return text if self._valid else f"{text}\nThe last action was not accepted."

    def _admissible(self) -> tuple[str, ...]:
        now = self._now
        walks = (("left", now.room > 1), ("right", now.room < ROOMS))
        return (*(name for name, open_ in walks if open_), "drop" if now.carries else "take")

    def _status(self) -> Status:
        won = self._now.done == len(self._errands)
        return Status(won, float(won), self._now.done / len(self._errands))

    def _state(self) -> ErrandsState:
        return self._now

    def _check_state(self, task: Task, state: ErrandsState, terminated: bool) -> None:
        errands = len(task.content[1])
        if not (1 <= state.room <= ROOMS and 0 <= state.done <= errands):
            raise ValueError(f"there are {ROOMS} rooms and {errands} errands")
        if terminated != (state.dropped or state.done == errands):
            raise ValueError("an episode ends when all is done, or something is in the wrong room")

    def _set_state(self, state: ErrandsState) -> None:
        self._now = state

    def oracle(self) -> Policy:
        """Return the policy that walks the shortest way."""
        return ErrandsOracle()


def _draw(split: str, number: int, errands: int) -> Task:
    rng = KeyRng(sorted(TASKS).index(split), number, errands)
    pairs = []
    for _ in range(errands):
        source, gap = rng.between(1, ROOMS), rng.between(1, ROOMS - 1)
        pairs.append((source, (source - 1 + gap) % ROOMS + 1))
    content = (rng.between(1, ROOMS), tuple(pairs))
    return Task(content_id((split, number, content)), content, source_id=f"{split}{number}")


class ErrandsOracle:
    """Reads the errands from the snapshot, as only an oracle may."""

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer each request."""
        return [Completion(self._choose(request)) for request in requests]

    def _choose(self, request: Request) -> str:
        assert request.snapshot is not None
        snapshot = request.snapshot()
        state: ErrandsState = snapshot.state
        goal = snapshot.task.content[1][state.done][state.carries]
        if state.room == goal:
            return "drop" if state.carries else "take"
        return "right" if state.room < goal else "left"


class NoisyState(NamedTuple):
    """State of `NoisyEZPointsEnv`: the formula, and what chance is drawn from."""

    tokens: tuple[str, ...]
    seed: int


REMARKS = (
    "It is raining outside.",
    "A bell rings somewhere.",
    "Someone asks for the time.",
    "The table is made of oak.",
    "Cards from 2 to 9 are on sale.",
    "A cat walks by.",
    "Dinner is at 10 or at 12.",
    "The lamp flickers twice.",
)


class NoisyEZPointsEnv(EZPointsEnv):
    """EZPoints with noise in what is seen and in what is done, drawn anew for every episode.

    **Observation**: with probability ``remarks`` a line that has nothing to do with the task stands before
    all but the first. **Actions**: with probability ``slips`` another admissible token is written than was
    chosen. Tasks, reward and step limit are EZPoints'. The state hash is that of the formula alone.
    """

    suite: ClassVar[str] = "noisy-ezpoints"
    state_type: ClassVar[Any] = NoisyState

    def __init__(
        self,
        *,
        split: str = "train",
        dataset: Literal["builtin"] = "builtin",
        max_steps: int | None = None,
        render_mode: str | None = None,
        remarks: float = 0.5,
        slips: float = 0.1,
    ):
        """Choose the tasks and the noise.

        Args:
            split: as `EZPointsEnv`.
            dataset: as `EZPointsEnv`.
            max_steps: as `EZPointsEnv`.
            render_mode: as `EZPointsEnv`.
            remarks: the probability that an observation carries a remark.
            slips: the probability that another token is written.

        Raises:
            UsageError: an unknown value of any argument.
        """
        if not (0 <= remarks <= 1 and 0 <= slips <= 1):
            raise UsageError(f"remarks and slips are probabilities, got {remarks} and {slips}")
        self.remarks, self.slips = remarks, slips
        super().__init__(split=split, dataset=dataset, max_steps=max_steps, render_mode=render_mode)

    def _load(self, task: Task) -> None:
        super()._load(task)
        # members of a group share the environment's seed: without the rollout they would share all chance
        self._seed = int(self.np_random.integers(1 << 40)) * 1024 + self.rollout % 1024

    def _draw(self, stream: int) -> KeyRng:
        return KeyRng(self._seed, self._turn, stream)

    def _apply(self, action: str) -> Outcome:
        accepted = self._admissible()
        draws = self._draw(0)
        if action in accepted and draws.below(1 << 20) < self.slips * (1 << 20):
            action = draws.pick(accepted)
        return super()._apply(action)

    def _observe(self) -> Any:
        text = super()._observe()
        draws = self._draw(1)
        remarked = self._turn > 0 and draws.below(1 << 20) < self.remarks * (1 << 20)
        return f"{draws.pick(REMARKS)}\n{text}" if remarked else text

    def _state(self) -> Any:
        return NoisyState(self._tokens, self._seed)

    def _check_state(self, task: Task, state: Any, terminated: bool) -> None:
        super()._check_state(task, state.tokens, terminated)
        if not 0 <= state.seed < 1 << 50:
            raise ValueError("its seed is no such number")

    def _set_state(self, state: Any) -> None:
        self._tokens, self._seed = state

    def oracle(self) -> Any:
        """Return the policy that goes on to 12 from any formula that can still reach it."""
        return NoisyOracle()


class NoisyOracle:
    """Plays a shortest way to 12 from the formula as it is; ends the episode where there is none."""

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer each request."""
        return [Completion(self._choose(request)) for request in requests]

    def _choose(self, request: Request) -> str:
        assert request.snapshot is not None
        snapshot = request.snapshot()
        return best_action(pair_of(snapshot.task.content), snapshot.state.tokens) or END


gymnasium.register(ERRANDS, entry_point=f"{__name__}:ErrandsEnv")
gymnasium.register(NOISY_EZPOINTS, entry_point=f"{__name__}:NoisyEZPointsEnv")
