"""A person playing: actions and commands, one line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym.agents.human import choose, has_numbers, keys_for
from agentgym.agents.screen import text_of
from agentgym.cli.board import Frame, FrameDisplay
from agentgym.cli.prompt import LineReader
from agentgym.core.episodes import taken_step
from agentgym.core.types import Completion, Snapshot, Step
from agentgym.errors import UsageError
from agentgym.vector.core import AgentVectorEnv

HELP = """\
Type an action, its number if one is shown, or its beginning, then Enter.
Where actions are directions, the arrow keys and w a s d play them at once. A
line that could mean several actions, or none, is not played. Commands:
  :undo        take back the last action (or Backspace, where keys act at once)
  :task ID     play another task, by id or source id
  :force TEXT  play TEXT as it is, to see an environment reject it
  :hash        the full ids of the task and the state
  :all         print everything that the screen has no room for
  :quit        end; so do :q and the end of input
  :help        this text; so does ?"""


class Session:
    """One slot, played by hand."""

    def __init__(
        self, envs: AgentVectorEnv, display: FrameDisplay, lines: LineReader, *, env_id: str, seed: int
    ):
        """Prepare to play an environment of one slot; every episode is reset with the seed."""
        self._envs = envs
        self._hints = envs.prototype.suite_spec.screen
        self._judge = envs.prototype.spawn()
        self._display = display
        self._lines = lines
        self._env_id = env_id
        self._seed = seed
        self._episodes: list[tuple[str, list[Step]]] = []
        self._steps: list[Step] = []
        self._before: list[Snapshot] = []

    @property
    def records(self) -> list[dict[str, Any]]:
        """The actions of each task, as the agent ``scripted`` reads them; a task's last episode counts."""
        by_task = {
            task: script_line(self._env_id, task, self._seed, [step.action for step in steps])
            for task, steps in self._episodes
        }
        return list(by_task.values())

    @property
    def states(self) -> list[Snapshot]:
        """Those of the last episode, from its beginning to now."""
        return [*self._before, self._envs.snapshot(0)] if self._episodes else []

    @property
    def steps(self) -> list[Step]:
        """Those between `states`."""
        return list(self._steps)

    def play(self, task: str | None) -> None:
        """Play until ``:quit`` or the end of input, beginning with a task; None draws one."""
        self._start(task)
        while True:
            try:
                line = self._lines.read(keys_for(self._hints, self._admissible), self._admissible).strip()
            except EOFError:
                return
            if line in (":quit", ":q"):
                return
            try:
                self._obey(line)
            except UsageError as error:
                self._display.say(str(error), "red")

    def _obey(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if line in ("?", ":help"):
            self._display.say(HELP)
        elif word == ":undo":
            self._undo()
        elif word == ":task":
            if not rest.strip():
                raise UsageError("name a task: :task ID")
            self._start(rest.strip())
        elif word == ":hash":
            self._display.say(f"task {self._task}\nstate {self._hash}")
        elif word == ":all":
            self._display.show_all()
        elif word.startswith(":") and word != ":force":
            raise UsageError(f"unknown command {word}; :help lists them")
        elif not line:
            raise UsageError("type an action, or ? for help")
        elif self._over:
            raise UsageError("the episode is over: :undo, :task ID or :quit")
        elif word == ":force":
            self._act(rest)
        else:
            self._judge.restore(self._envs.snapshot(0))
            keys = keys_for(self._hints, self._admissible)
            self._act(choose(line, self._admissible, keys=keys, accepts=self._judge.is_admissible))

    def _start(self, task: str | None) -> None:
        observations, infos = self._envs.reset_at([0], [task], [self._seed])
        self._before, self._steps = [], []
        self._see(_only(observations), {key: column[0] for key, column in infos.items()}, over=False)
        self._pinned = self._hints.pinned_line(text_of(self._observation))
        self._episodes.append((self._task, self._steps))
        self._show()

    def _act(self, action: str) -> None:
        self._before.append(self._envs.snapshot(0))
        seen, before = self._observation, self._info
        observations, rewards, terminations, truncations, infos = self._envs.step_at([0], [action])
        terminated, truncated = bool(terminations[0]), bool(truncations[0])
        info, observation = {key: column[0] for key, column in infos.items()}, _only(observations)
        outcome = observation, rewards[0], terminated, truncated, info
        step = taken_step(seen, before, Completion(action), outcome)
        self._steps.append(step)
        self._see(observation, info, over=terminated or truncated)
        self._show(step)

    def _undo(self) -> None:
        if not self._before:
            raise UsageError("nothing to take back")
        observation, info = self._envs.restore(0, self._before.pop())
        self._steps.pop()
        self._see(observation, info, over=False)
        self._show()

    def _see(self, observation: Any, info: dict[str, Any], *, over: bool) -> None:
        self._observation, self._info = observation, info
        self._over = over
        self._task: str = info["task_id"]
        self._hash: str = info["state_hash"]
        self._admissible: tuple[str, ...] = info["admissible_actions"]
        self._won = bool(info["won"])
        self._score = float(info["score"])

    def _show(self, step: Step | None = None) -> None:
        turn = f"turn {len(self._steps)} of {self._envs.max_steps}"
        earned = f"return {sum(step.reward for step in self._steps):g}"
        outcome = "won" if self._won else "not won"
        self._display.show(
            Frame(
                title=f"{self._env_id}, task {self._task}, {turn}, {earned}",
                short_title=f"{self._env_id}, task {self._task[:8]}, {turn}, {earned}",
                observation=self._observation,
                actions=self._admissible,
                state_hash=self._hash,
                numbered=has_numbers(self._admissible),
                step=step,
                pinned=self._pinned,
                end=f"the episode is over: {outcome}, score {self._score:g}" if self._over else "",
                won=self._won,
            )
        )


def script_line(env_id: str, task_id: str, seed: int, actions: Sequence[str]) -> dict[str, Any]:
    """Return one line of a file that the agent ``scripted`` plays, before it becomes JSON."""
    return {"env_id": env_id, "task_id": task_id, "seed": seed, "actions": list(actions)}


def _only(observations: Any) -> Any:
    """Return the one observation of a batch."""
    from agentgym.vector.batching import unbatch_observations

    return unbatch_observations(observations, 1)[0]
