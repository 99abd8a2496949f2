"""Rows of episodes below verl-agent's managers, in place of its Ray workers, over one world a process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from agentgym.core.options import check_choice
from agentgym.core.panels import TaskPanel
from agentgym.core.tasks import TaskSet
from agentgym.envs.alfworld.data.trials import TYPES
from agentgym.errors import UsageError
from agentgym.registration import open_vector
from agentgym.vector.batching import info_rows

Anchor: TypeAlias = Literal["state", "text"]
MODES = ("tiny_rgb_array", "rgb_array")
SUITES = {"alfworld": "ALFWorld", "webshop": "WebShop", "sokoban": "Sokoban"}
FAMILIES = {short: name for name, short in TYPES.items()}
MOVES = (None, "up", "down", "left", "right")
CELLS = str.maketrans({ours: f" {theirs} \t" for ours, theirs in zip("# .*$@+", "#_O√XPS", strict=True)})


class ForkRows:
    """Tasks x group episodes, those of one task side by side; one that is over stays as it is.

    A checkout's ``build_SUITE_envs`` makes them, and its manager opens them, which has its configuration.
    These are of ALFWorld, WebShop and Sokoban.
    """

    infos: list[dict[str, Any]]
    """Info of each row's last step."""
    dones: Any
    """Whether each row's episode is over: bools, one a row."""

    def __init__(self, suite: str, *sizes: Any, is_train: bool, **named: Any):
        """Take a checkout's arguments: ``sizes`` ends with seed, tasks and group, or they are ``named``.

        ``env_kwargs`` among them are the suite's settings; others, such as Ray's resources, have no use here.
        """
        seed, tasks, group = sizes[-3:] or (named[name] for name in ("seed", "env_num", "group_n"))
        self.suite, self.mode, self.group, self.num_rows = (
            suite,
            named.get("mode", MODES[0]),
            group,
            tasks * group,
        )
        self.env_kwargs: Sequence[Mapping[str, Any]] | None = None
        self.panel: TaskPanel | None = None
        """Tasks of every reset, repeated from the first where rows are left; None to draw them anew."""
        self.anchor: Anchor = "state"
        """Key by which GiGPO groups steps: the hash of the state, or what is shown."""
        self._is_train, self._settings = is_train, dict(named.get("env_kwargs", {}))
        self._rng = np.random.default_rng(seed)

    def open(self, config: Any) -> None:
        """Open the environment that a checkout's configuration asks for.

        Raises:
            UsageError: an unknown option, or something that is played by the checkout's own workers alone.
            MissingDataError: the suite's data is not on this machine.
        """
        splits, options = self._defaults(config.env)
        options |= dict(getattr(config.env, "agentgym", None) or {})
        splits, validation = options.pop("splits", splits), options.pop("validation", "fixed")
        check_choice("validation", validation, ("fixed", "drawn"))
        gigpo = getattr(getattr(config, "algorithm", None), "gigpo", None)
        similar = bool(getattr(gigpo, "enable_similarity", False))
        self.anchor = options.pop("anchor", "text" if similar else "state")
        check_choice("anchor", self.anchor, ("text",) if similar else Anchor)  # similarity compares texts
        self._open(splits[not self._is_train], options)
        if validation == "fixed" and not self._is_train and self.tasks is not None:
            self.panel = TaskPanel.first(self.tasks, self.num_rows // self.group)

    def _drawn(self) -> list[str]:
        """Return each row's task where nothing names it."""
        if self.panel is not None:
            fixed = self.panel.tasks
            return [fixed[i // self.group % len(fixed)].id for i in range(self.num_rows)]
        known, count = self.tasks, self.num_rows // self.group
        if known is None:
            raise UsageError(
                f"{self.suite} has no tasks: add +env.agentgym.dataset=, or data files with env_kwargs"
            )
        drawn = self._rng.choice(len(known), count, replace=len(known) < count)
        return [known[i].id for i in np.repeat(drawn, self.group).tolist()]

    def _defaults(self, env: Any) -> tuple[Sequence[str], dict[str, Any]]:
        """Return the splits, and the options with which episodes equal those of the checkout's workers."""
        given = self._settings
        if self.suite == "alfworld":  # its config_tw.yaml ends episodes after 50 steps
            if "Thor" in env.env_name:
                raise UsageError(f"no {env.env_name}: run the checkout's trainer itself for it")
            seen = given["eval_dataset"] == "eval_in_distribution"
            data = os.path.expandvars(os.environ.get("ALFWORLD_DATA", "official"))
            splits = ("train", "valid_seen" if seen else "valid_unseen")
            return splits, {"dataset": data, "reward": "sparse10", "max_steps": 50}
        if self.suite == "webshop":  # its workers have no limit of steps
            human, size = given["human_goals"], "small" if "_1000." in given["file_path"] else "full"
            chosen = {"dataset": f"webshop/{size}", "goals": "human" if human else "synthetic"}
            splits = ("papers-train", "papers") if human else ("upstream-train", "upstream-test")
            return splits, {**chosen, "parity": "upstream", "reward": "sparse10", "max_steps": 1 << 30}
        if self.mode not in MODES:
            raise UsageError(
                f"no {env.env_name} ({self.mode}): set env.sokoban.mode={MODES[0]} or {MODES[1]}"
            )
        rooms = {"dim_room": tuple(given["dim_room"]), "num_boxes": given["num_boxes"]}
        return ("train", "valid"), {**rooms, "parity": "gym-sokoban", "max_steps": given["max_steps"]}

    def _open(self, split: str, options: dict[str, Any]) -> None:
        env_id = f"agentgym/{'Visual' * (self.mode == 'rgb_array')}{SUITES[self.suite]}-v0"
        self.envs = open_vector(env_id, self.num_rows, split=split, options=options)
        self.render = lambda mode: list(self.texts)

    @property
    def tasks(self) -> TaskSet | None:
        """Tasks of the split."""
        return self.envs.tasks

    def close(self) -> None:
        """Close the environment."""
        self.envs.close()

    def reset(self) -> tuple[Any, ...]:
        """Begin an episode in every row; return what a checkout's workers return."""
        n, rows = self.num_rows, list(range(self.num_rows))
        self.texts, self.images, self.dones = [""] * n, [None] * n, np.zeros(n, dtype=np.bool_)
        self.infos, self.get_admissible_commands = [dict[str, Any]()] * n, [list[str]()] * n
        self._take(rows, *self.envs.reset_at(rows, self._tasks(), rollouts=[i % self.group for i in rows]))
        return *self._observed(), self.infos

    def step(self, actions: Sequence[Any]) -> tuple[Any, ...]:
        """Play an action in every row that is not over; return what a checkout's workers return."""
        chosen: list[Any] = [MOVES[action] if self.suite == "sokoban" else action for action in actions]
        still = np.array([action is None for action in chosen])
        rewards = np.where(still & ~self.dones, -0.1, 0.0)  # Sokoban's action 0 costs what a step does
        self.infos = [dict(info) for info in self.infos]  # managers write into them, and trainers keep them
        if rows := np.flatnonzero(~self.dones & ~still).tolist():
            moves = self.envs.step_at(rows, [chosen[i] for i in rows])
            rewards[rows], self.dones[rows] = moves[1], moves[2] | moves[3]
            self._take(rows, moves[0], moves[4])
        return *self._observed(), rewards.tolist(), self.dones.tolist(), self.infos

    def _observed(self) -> tuple[Any, ...]:
        shown = list(self.images if self.mode == "rgb_array" else self.texts)
        return (shown, None) if self.suite == "alfworld" else (shown,)  # THOR's pictures are absent

    def _take(self, rows: list[int], observations: Any, columns: dict[str, Any]) -> None:
        texts, images = observations, [None] * len(rows)
        if isinstance(observations, dict):
            texts, images = observations["text"], observations["image"]
        for i, text, image, info in zip(rows, texts, images, info_rows(columns, len(rows)), strict=True):
            self.texts[i] = text.translate(CELLS) if self.suite == "sokoban" else text
            self.images[i], self.infos[i] = image, info
            self.get_admissible_commands[i] = list(info["admissible_actions"])
            if self.suite == "webshop":
                clicks = [action[len("click[") : -1] for action in info["admissible_actions"][1:]]
                listed = {"has_search_bar": not clicks, "clickables": clicks or ["search"]}
                info.update(available_actions=listed, task_score=info["score"])
            elif self.suite == "alfworld":  # the manager counts successes by the family in this name
                name = self.envs.tasks.find(info["task_id"]).source_id
                info["extra.gamefile"] = f"{FAMILIES[info['task_type']]}/{name}"

    def _tasks(self) -> list[str]:
        if self.env_kwargs is None:
            return self._drawn()
        if any(set(kwargs) != {"task"} for kwargs in self.env_kwargs):
            raise UsageError("env_kwargs name tasks: write {'task': ID} for each episode, or leave them out")
        return [kwargs["task"] for kwargs in self.env_kwargs]
