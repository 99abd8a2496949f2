"""verl-agent: its environment managers over one vector environment in the trainer's own process.

Two lines of ``verl/trainer/main_ppo.py`` in a checkout of verl-agent become::

    from agentgym.bridges.verl_agent import make_envs
    envs, val_envs = make_envs(config, anchor="state")

Managers, prompts, memories and projections are the checkout's; the Ray workers below them are replaced.
``+env.agentgym.NAME=VALUE`` on its command line sets an option of the environment, ``splits`` two at once.
Every reset of validation plays the first tasks of its split (``val_envs.envs.panel``), unless
``validation=drawn``.
"""

from __future__ import annotations

import os
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from agentgym.core.options import check_choice
from agentgym.core.panels import TaskPanel
from agentgym.envs.alfworld.data.trials import TYPES
from agentgym.errors import UsageError
from agentgym.io.optional import import_named
from agentgym.registration import open_vector
from agentgym.vector.batching import info_rows

Anchor: TypeAlias = Literal["state", "text"]
MODES = ("tiny_rgb_array", "rgb_array")
SUITES = {"alfworld": "ALFWorld", "webshop": "WebShop", "sokoban": "Sokoban"}
FAMILIES = {short: name for name, short in TYPES.items()}
MOVES = (None, "up", "down", "left", "right")
CELLS = str.maketrans({ours: f" {theirs} \t" for ours, theirs in zip("# .*$@+", "#_O√XPS", strict=True)})


class _Rows:
    """Tasks x group episodes, those of one task side by side; one that is over stays as it is."""

    def __init__(self, suite: str, mode: str, split: str, tasks: int, group: int, seed: int, options: Any):
        self.suite, self.mode, self.group, self.num_rows = suite, mode, group, tasks * group
        env_id = f"agentgym/{'Visual' * (mode == 'rgb_array')}{SUITES[suite]}-v0"
        self.envs = open_vector(env_id, self.num_rows, split=split, options=options)
        self.close, self.render = self.envs.close, lambda mode: list(self.texts)
        self.env_kwargs: Sequence[Mapping[str, Any]] | None = None
        self._rng = np.random.default_rng(seed)
        self.panel: TaskPanel | None = None
        """Tasks of every reset, repeated from the first where rows are left; None to draw them anew."""

    def reset(self) -> tuple[Any, ...]:
        n, rows = self.num_rows, list(range(self.num_rows))
        self.texts, self.images, self.dones = [""] * n, [None] * n, np.zeros(n, dtype=np.bool_)
        self.infos, self.get_admissible_commands = [dict[str, Any]()] * n, [list[str]()] * n
        self._take(rows, *self.envs.reset_at(rows, self._tasks(), rollouts=[i % self.group for i in rows]))
        return *self._observed(), self.infos

    def step(self, actions: Sequence[Any]) -> tuple[Any, ...]:
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
        if self.env_kwargs is None and self.panel is not None:
            fixed = self.panel.tasks
            return [fixed[i // self.group % len(fixed)].id for i in range(self.num_rows)]
        if self.env_kwargs is None:
            known, count = self.envs.tasks, self.num_rows // self.group
            drawn = self._rng.choice(len(known), count, replace=len(known) < count)
            return [known[i].id for i in np.repeat(drawn, self.group).tolist()]
        if any(set(kwargs) != {"task"} for kwargs in self.env_kwargs):
            raise UsageError("env_kwargs name tasks: write {'task': ID} for each episode, or leave them out")
        return [kwargs["task"] for kwargs in self.env_kwargs]


def make_envs(config: Any, *, anchor: Anchor = "state", module: str = "agent_system.environments") -> Any:
    """Return the managers of training and of validation, as the checkout's function of this name does.

    Args:
        config: the checkout's; ``env.env_name`` is one of ALFWorld's (text), WebShop's and Sokoban's.
        anchor: key by which GiGPO groups steps: ``"state"``, its hash, or ``"text"``, as the checkout does.
        module: module of its managers; its HGPO has its own, ``recipe.hgpo``.

    Raises:
        UsageError: another suite, anchor or option, or this is not run in a checkout.
        MissingDataError: the suite's data is not on this machine.
    """
    env, data, name = config.env, config.data, config.env.env_name.partition("/")[0].lower()
    mode = env.sokoban.mode if name == "sokoban" else "tiny_rgb_array"
    if name not in SUITES or "Thor" in env.env_name or mode not in MODES or anchor not in get_args(Anchor):
        raise UsageError(f"no {env.env_name} ({mode}) by {anchor!r}: keep the checkout's make_envs for it")
    theirs = import_named(f"{module}.env_manager")
    base = getattr(theirs, f"{name.title().replace('fw', 'fW')}EnvironmentManager")
    folder = Path(str(import_named("agent_system.environments").__file__)).parent / "env_package" / name
    projection = runpy.run_path(str(folder / "projection.py"))[f"{name}_projection"]

    class EnvironmentManager(base):  # type: ignore[misc, valid-type]
        def reset(self, kwargs: Any = None) -> tuple[Any, ...]:
            self.envs.env_kwargs = kwargs
            return self._anchored(*super().reset(kwargs))

        def step(self, text_actions: list[str]) -> tuple[Any, ...]:
            return self._anchored(*super().step(text_actions))

        def _anchored(self, observations: dict[str, Any], *others: Any) -> tuple[Any, ...]:
            if anchor == "state":
                observations["anchor"] = [info["state_hash"] for info in self.envs.infos]
            return observations, *others

    splits, options = _options(name, env)
    options |= dict(getattr(env, "agentgym", None) or {})
    splits, validation = options.pop("splits", splits), options.pop("validation", "fixed")
    check_choice("validation", validation, ("fixed", "drawn"))
    train = _Rows(name, mode, splits[0], data.train_batch_size, max(env.rollout.n, 1), env.seed, options)
    valid = _Rows(name, mode, splits[1], data.val_batch_size, 1, env.seed + 1000, options)
    if validation == "fixed":
        valid.panel = TaskPanel.first(valid.envs.tasks, data.val_batch_size)
    return tuple(EnvironmentManager(rows, projection, config) for rows in (train, valid))


def _options(name: str, env: Any) -> tuple[tuple[str, str], dict[str, Any]]:
    """Return the splits, and the options with which episodes equal those of the checkout's workers."""
    if name == "alfworld":  # its config_tw.yaml ends episodes after 50 steps
        seen = env.alfworld.eval_dataset == "eval_in_distribution"
        data = os.path.expandvars(os.environ.get("ALFWORLD_DATA", "official"))
        splits = ("train", "valid_seen" if seen else "valid_unseen")
        return splits, {"dataset": data, "reward": "sparse10", "max_steps": 50}
    if name == "webshop":  # its workers have no limit of steps
        human, size = env.webshop.human_goals, "small" if env.webshop.use_small else "full"
        chosen = {"dataset": f"webshop/{size}", "goals": "human" if human else "synthetic"}
        splits = ("papers-train", "papers") if human else ("upstream-train", "upstream-test")
        return splits, {**chosen, "parity": "upstream", "reward": "sparse10", "max_steps": 1 << 30}
    rooms = {"dim_room": tuple(env.sokoban.dim_room), "num_boxes": env.sokoban.num_boxes}
    return ("train", "valid"), {**rooms, "parity": "gym-sokoban", "max_steps": env.max_steps}
