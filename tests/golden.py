"""Golden episodes: rewards, observations and hashes that must never change without a new version.

A suite's ``test_golden.py`` holds a `Golden`: the cases, and how one is recorded. Its file is
``golden_chain.json`` beside it. A change that is meant bumps ``-vN`` or ``state_schema``; then

    python -m tests.golden SUITE ...

writes the files anew.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from agentgym.core.hashing import HashChain, content_id
from agentgym.env import AgentEnv

Case = Mapping[str, Any]
Choose = Callable[[Mapping[str, Any]], str | None]
"""From an info to the next action; None ends the recording."""


class Episode(NamedTuple):
    """What was played."""

    info: Mapping[str, Any]
    """The last one."""
    actions: list[str]
    links: list[str]
    """Hash chain over states, actions, rewards and ends."""
    observations: str
    """Content id of everything that was shown."""


def play(
    env: AgentEnv[Any],
    seed: int,
    choose: Choose,
    *,
    show: Callable[[Any, Mapping[str, Any], Mapping[str, Any]], Any] = lambda seen, before, after: seen,
    scope: str = "golden",
) -> Episode:
    """Play one episode.

    Args:
        env: what is played.
        seed: it is reset with; draws the task.
        choose: the player.
        show: from an observation and the infos before and after it to what is pinned of them.
        scope: names the chain.
    """
    seen, info = env.reset(seed=seed)
    chain = HashChain(scope, info["task_id"], seed, 0, info["state_hash"])
    shown, actions, ended = [seen], [], False
    while not ended and (action := choose(info)) is not None:
        before = info
        seen, reward, terminated, truncated, info = env.step(action)
        chain.extend(info["state_hash"], action, reward, terminated, truncated)
        shown.append(show(seen, before, info))
        actions.append(action)
        ended = terminated or truncated
    return Episode(info, actions, list(chain.links), content_id(shown))


def random_actions(seed: int, invalid: str, names: Sequence[str] | None = None) -> Choose:
    """Return a player of random actions, every eighth of which is rejected.

    Args:
        seed: of the choice.
        invalid: an action that is never accepted.
        names: what is chosen from; None for what is admissible.
    """
    rng = np.random.Generator(np.random.PCG64(seed))

    def choose(info: Mapping[str, Any]) -> str:
        word, choices = int(rng.bit_generator.random_raw()), names or info["admissible_actions"]
        return invalid if info["turn"] % 8 == 7 else choices[word % len(choices)]

    return choose


def record_random(env_class: Callable[..., AgentEnv[Any]]) -> Callable[[Case], dict[str, Any]]:
    """Return a recorder of random episodes; a case has ``options`` of the environment and a ``seed``."""

    def record(case: Case) -> dict[str, Any]:
        env = env_class(**case["options"])
        episode = play(env, case["seed"], random_actions(case["seed"], "no such action"))
        return summary(case, env, episode)

    return record


def summary(case: Case, env: AgentEnv[Any], episode: Episode, **more: Any) -> dict[str, Any]:
    """Return what is kept of an episode."""
    return {
        **case,
        "task_id": episode.info["task_id"],
        **more,
        "actions": episode.actions,
        "chain": episode.links[-1],
        "observations": episode.observations,
        "manifest": env.tasks.manifest_sha256,
    }


class Golden(NamedTuple):
    """The golden episodes of a suite."""

    file: Path
    cases: Sequence[Case]
    record: Callable[[Case], dict[str, Any]]

    @classmethod
    def beside(cls, test: str, cases: Sequence[Case], record: Callable[[Case], dict[str, Any]]) -> "Golden":
        """Take the file beside a test module."""
        return cls(Path(test).with_name("golden_chain.json"), cases, record)

    def check(self, number: int) -> None:
        """Fail unless a case is played as it was recorded."""
        recorded = json.loads(self.file.read_text())
        assert len(recorded) == len(self.cases)
        assert self.record(self.cases[number]) == recorded[number]

    def write(self) -> None:
        """Record every case anew."""
        self.file.write_text(json.dumps([self.record(case) for case in self.cases], indent=1) + "\n")


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit("name the folders of suites under tests, such as: python -m tests.golden sokoban")
    for suite in sys.argv[1:]:
        golden: Golden = import_module(f"tests.{suite}.test_golden").GOLDEN
        golden.write()
        sys.stdout.write(f"{golden.file}\n")
