"""A person playing: actions and commands, one line each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from agentgym.agents.human import choose, has_numbers
from agentgym.agents.screen import printable, show_state, show_step
from agentgym.errors import UsageError
from agentgym.types import Completion, Snapshot, Step
from agentgym.vector.core import AgentVectorEnv

if TYPE_CHECKING:
    from rich.console import Console

HELP = """\
Type an action, its number, or the beginning of it (w a s d where actions are directions), or
  :undo      take back the last action
  :task ID   play another task, by id or source id
  :quit      end; so does the end of input
  ?          this text"""


class Session:
    """One slot, played by hand."""

    def __init__(
        self, envs: AgentVectorEnv, console: Console, read: Callable[[], str], *, env_id: str, seed: int
    ):
        """Prepare to play.

        Args:
            envs: an environment of one slot.
            console: where everything is shown.
            read: returns the next line; raises EOFError at the end.
            env_id: for titles and records.
            seed: every episode is reset with it.
        """
        self._envs = envs
        self._console = console
        self._read = read
        self._env_id = env_id
        self._seed = seed
        self._episodes: list[tuple[str, list[Step]]] = []

    @property
    def records(self) -> list[dict[str, Any]]:
        """The actions of each task, as the agent ``scripted`` reads them; a task's last episode counts."""
        by_task = {
            task: script_line(self._env_id, task, self._seed, [step.action for step in steps])
            for task, steps in self._episodes
        }
        return list(by_task.values())

    def play(self, task: str | None) -> None:
        """Play until ``:quit`` or the end of input, beginning with a task; None draws one."""
        self._start(task)
        while True:
            try:
                line = self._read().strip()
            except EOFError:
                return
            if line == ":quit":
                return
            try:
                self._obey(line)
            except UsageError as error:
                self._console.print(printable(str(error)), style="red", markup=False, soft_wrap=True)

    def _obey(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if line == "?":
            self._console.print(HELP, markup=False)
        elif word == ":undo":
            self._undo()
        elif word == ":task":
            if not rest.strip():
                raise UsageError("name a task: :task ID")
            self._start(rest.strip())
        elif word.startswith(":"):
            raise UsageError(f"unknown command {word}; ? lists them")
        elif not line:
            raise UsageError("type an action, or ? for help")
        elif self._over:
            raise UsageError("the episode is over: :undo, :task ID or :quit")
        else:
            self._act(choose(line, self._admissible))

    def _start(self, task: str | None) -> None:
        observations, infos = self._envs.reset_at([0], [task], [self._seed])
        self._before: list[Snapshot] = []
        self._steps: list[Step] = []
        self._see(_only(observations), {key: column[0] for key, column in infos.items()}, over=False)
        self._episodes.append((self._task, self._steps))
        self._show()

    def _act(self, action: str) -> None:
        self._before.append(self._envs.snapshot(0))
        seen, admissible, state_hash = self._observation, self._admissible, self._hash
        observations, rewards, terminations, truncations, infos = self._envs.step_at([0], [action])
        terminated, truncated = bool(terminations[0]), bool(truncations[0])
        info = {key: column[0] for key, column in infos.items()}
        step = Step(
            observation=seen,
            state_hash=state_hash,
            admissible_actions=admissible,
            completion=Completion(action),
            reward=float(rewards[0]),
            next_state_hash=info["state_hash"],
            valid=bool(info["action_is_valid"]),
            terminated=terminated,
            truncated=truncated,
        )
        self._steps.append(step)
        self._see(_only(observations), info, over=terminated or truncated)
        show_step(self._console, step)
        self._show()

    def _undo(self) -> None:
        if not self._before:
            raise UsageError("nothing to take back")
        observation, info = self._envs.restore(0, self._before.pop())
        self._steps.pop()
        self._see(observation, info, over=False)
        self._show()

    def _see(self, observation: Any, info: dict[str, Any], *, over: bool) -> None:
        self._observation = observation
        self._over = over
        self._task: str = info["task_id"]
        self._hash: str = info["state_hash"]
        self._admissible: tuple[str, ...] = info["admissible_actions"]
        self._won = bool(info["won"])
        self._score = float(info["score"])

    def _show(self) -> None:
        earned = sum(step.reward for step in self._steps)
        title = (
            f"{self._env_id}, task {self._task}, turn {len(self._steps)} of {self._envs.max_steps}, "
            f"return {earned:g}"
        )
        numbered = has_numbers(self._admissible)
        show_state(self._console, title, self._observation, self._admissible, self._hash, numbered=numbered)
        if self._over:
            outcome = "won" if self._won else "not won"
            style = "bold green" if self._won else "bold yellow"
            self._console.print(f"the episode is over: {outcome}, score {self._score:g}", style=style)


def script_line(env_id: str, task_id: str, seed: int, actions: Sequence[str]) -> dict[str, Any]:
    """Return one line of a file that the agent ``scripted`` plays, before it becomes JSON."""
    return {"env_id": env_id, "task_id": task_id, "seed": seed, "actions": list(actions)}


def _only(observations: Any) -> Any:
    """Return the one observation of a batch."""
    from agentgym.vector.batching import unbatch_observations

    return unbatch_observations(observations, 1)[0]
