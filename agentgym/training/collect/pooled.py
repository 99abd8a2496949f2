"""Training on a data pool: groups that agents have played elsewhere, instead of playing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from time import sleep
from typing import Any

from agentgym.algos.filters import dynamic_sampling
from agentgym.core.types import Completion, Group, Trajectory
from agentgym.errors import UsageError
from agentgym.history.console import print_resources
from agentgym.io.files import replace_file
from agentgym.io.untrusted import read_file
from agentgym.rollout.datapool import DataPool
from agentgym.training.collect.config import RolloutConfig
from agentgym.training.collect.pool import age
from agentgym.training.collect.rollout_batch import Collected
from agentgym.training.learner.distributed import Ranks

RUN_FILE = "pool_run"
"""File in a run's folder with the name under which it leases, so that the name moves with the folder."""
POLL_SECONDS = 0.2
"""Seconds between two looks at a pool that lacks groups."""


class StoppedWaiting(Exception):  # noqa: N818  # nothing went wrong
    """The run is to end while it waits for groups; nothing was collected."""


class PooledCollector:
    """Leases the groups of each update from the data pool of ``rollout.pool``; the first rank alone opens it.

    What others played is counted as this run's own.
    """

    def __init__(
        self,
        config: RolloutConfig,
        folder: Path,
        ranks: Ranks,
        *,
        env_id: str,
        vocabulary: int,
        count: Callable[[Completion], None],
    ):
        """Open the pool, which knows the run by its folder; all processes get the same groups.

        ``count`` counts each answer.
        """
        self.settings = config
        """Those of the run, or of an algorithm that samples dynamically in its own way."""
        self.stop: Callable[[], bool] = lambda: False
        """Callback on the first rank while it waits for groups: whether to stop."""
        self.episodes = 0
        """Episodes of the leased groups, counted by the first rank."""
        self._env_id, self._ranks, self._vocabulary, self._count = env_id, ranks, vocabulary, count
        self._batches = 0
        """Leased so far, several an update where dynamic sampling leaves groups out."""
        self._left_out = 0
        self._pool: DataPool | None = None
        self._run = ""
        if ranks.is_first:
            if not (folder / RUN_FILE).exists():
                replace_file(folder / RUN_FILE, f"{folder.resolve().name[:100]}-{token_hex(4)}\n")
            self._run = read_file(folder / RUN_FILE).decode(errors="replace").strip()
            self._pool = DataPool(config.pool)

    def collect(self, version: int) -> Collected:
        """Return the groups of one update; those too old for ``version`` are left alone. Waits for them.

        `StoppedWaiting` is raised once `stop` returned True. An episode that this run cannot train on is
        named.
        """
        settings = self.settings
        batches: list[list[Group]] = []

        def take() -> list[Group]:
            batches.append(self._take(self._batches + len(batches) + 1, version - settings.max_staleness))
            return batches[-1]

        groups = dynamic_sampling(
            take,
            settings.tasks,
            filter_on=settings.filter_on,
            attempts=settings.attempts,
            accuracy=settings.accuracy,
        )
        self._batches += len(batches)
        self._left_out += sum(map(len, batches)) - len(groups)
        members = [member for batch in batches for group in batch for member in group.trajectories]
        if self._ranks.is_first:
            self.episodes += len(members)
            for member in members:
                for completion in member.completions:
                    self._count(completion)
        counts = self._counts()
        report = {name: float(counts.get(name, 0)) for name in ("open", "complete", "stale")}
        return Collected(groups, diagnostics={"pool": {**report, "age": age(groups, version)}})

    def leave_out(self, groups: int) -> None:
        """Count groups that were collected but are not trained on."""
        self._left_out += groups

    def over_ranks(self) -> tuple[int, int]:
        """Return the numbers of untrained groups of this run, and of those in the pool that no run has."""
        counts = self._counts()
        return self._left_out, counts.get("open", 0) + counts.get("complete", 0)

    def close(self) -> None:
        """Close the pool."""
        if self._pool is not None:
            self._pool.close()

    def state_dict(self) -> dict[str, Any]:
        """Return counts; groups leased so far count as trained on, unless an older state is resumed."""
        if self._pool is not None:
            self._pool.trained(self._run, self._batches)
        return {"batches": self._batches, "episodes": self.episodes, "left_out": self._left_out}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from `state_dict`: groups leased since then come again, in the same order."""
        self._batches, self.episodes = state["batches"], state["episodes"]
        self._left_out = state["left_out"]

    # ---- inside -----------------------------------------------------------------------------

    def _take(self, batch: int, oldest: int) -> list[Group]:
        """Return the groups of a batch on every rank, once they are there."""
        waits = False
        while True:
            groups = None if self._pool is None else self._ask(self._pool, batch, oldest)
            found = self._ranks.from_first(groups)
            if isinstance(found, Exception):
                raise found
            if found is not None:
                return found
            if self._pool is not None and not waits:
                print_resources([("pool", self._waiting(self._pool, batch, oldest))])
            waits = True
            sleep(POLL_SECONDS)

    def _ask(self, pool: DataPool, batch: int, oldest: int) -> list[Group] | Exception | None:
        """Return the groups, or what prevents it; None where they are not there yet."""
        if self.stop():
            return StoppedWaiting()
        settings = self.settings
        try:
            groups = pool.lease(
                self._run, batch, settings.tasks, oldest_version=oldest, patience=settings.pool_patience
            )
        except UsageError as error:
            return error
        members = [member for group in groups or () for member in group.trajectories]
        for place, member in enumerate(members):
            if defect := self._defect(member):
                group, name = pool.leased(self._run, batch)[place]
                return UsageError(
                    f"episode {name} of group {group} {defect}: drop the group by `agentgym data pool drop "
                    f"{pool.folder} {group}`, or train on another pool"
                )
        return groups

    def _defect(self, member: Trajectory) -> str:
        """Return why this run cannot train on an episode; empty where it can."""
        if member.env_id != self._env_id:
            return f"is of {member.env_id}, and the run of {self._env_id}"
        for turn, step in enumerate(member.steps):
            answer = step.completion
            columns = answer.response_ids, answer.logprobs, answer.versions or answer.logprobs
            if not answer.prompt_ids or not answer.response_ids or len(set(map(len, columns))) > 1:
                return f"lacks tokens or log-probabilities in turn {turn}"
            tokens = answer.prompt_ids + answer.response_ids
            if min(tokens) < 0 or max(tokens) >= self._vocabulary:
                return f"has token {max(tokens)} in turn {turn}, and the model only {self._vocabulary}"
        return ""

    def _counts(self) -> dict[str, int]:
        """Return the numbers of groups by state, alike on every rank."""
        return self._ranks.from_first({} if self._pool is None else self._pool.counts(self._run))

    def _waiting(self, pool: DataPool, batch: int, oldest: int) -> str:
        counts, settings = pool.counts(self._run), self.settings
        line = (
            f"update {batch} waits for {settings.tasks} groups in {settings.pool}: "
            f"{counts.get('complete', 0)} complete, {counts.get('open', 0)} open"
        )
        if stale := counts.get("stale"):
            line += (
                f"; {stale} were sampled by weights older than version {oldest}, and rollout.max_staleness="
                f"{settings.max_staleness} admits none of them: a new run with more would"
            )
        return line
