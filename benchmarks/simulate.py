"""Forecast of an iteration on devices that are not here: ``python -m benchmarks.simulate``.

A virtual clock plays recorded numbers of turns and drawn answer lengths. Rates are those of `agentgym train
--plan` (`agentgym.training.machine.pace`), the fast and the slow end of each; loads are those of
`benchmarks/studies/simulate.toml`. Three ways of sampling: lock-step (a turn waits for its longest answer),
every episode at its own pace, and that on a device apart from the learner's, where group g begins only while
g < (version + staleness + 1) x tasks. Figures are forecasts, never results.
"""

from __future__ import annotations

import heapq
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from agentgym.evaluation.verify.packed import read_packed
from agentgym.training.config import TrainConfig, override
from agentgym.training.machine.memory import ModelSize
from agentgym.training.machine.pace import Rates, device_rates, plan_pace
from agentgym.training.machine.resources import Machine, resolve

ROOT = Path(__file__).parent
SETTINGS = ROOT / "studies" / "simulate.toml"
PAGE = SETTINGS.with_suffix(".md")
UPDATES = 8
"""Number of simulated updates."""


class Turn(NamedTuple):
    """A request: tokens to read that no cache holds, and tokens to sample."""

    fresh: int
    drawn: int


Episode = Sequence[Turn]


def lock_step(episodes: Sequence[Episode], rates: Rates) -> float:
    """Return the seconds of sampling where each turn of all episodes is one batch."""
    seconds = 0.0
    for number in range(max(map(len, episodes))):
        turns = [episode[number] for episode in episodes if len(episode) > number]
        seconds += rates.token * sum(turn.fresh for turn in turns)
        done = 0
        for rows, length in zip(range(len(turns), 0, -1), sorted(turn.drawn for turn in turns), strict=True):
            seconds += rates.decode(rows, length - done)
            done = length
    return seconds


class Clock:
    """An engine that decodes all running requests together; each episode asks again as it is answered."""

    def __init__(self, rates: Rates):
        """Begin without a request."""
        self.rates, self.now, self.steps = rates, 0.0, 0
        self._running: list[tuple[int, int, int]] = []  # step at which it ends, episode, turn
        self._episodes: dict[int, Episode] = {}

    def begin(self, name: int, episode: Episode) -> None:
        """Let an episode ask for its first turn."""
        self._episodes[name] = episode
        self._ask(name, 0)

    def _ask(self, name: int, number: int) -> None:
        turn = self._episodes[name][number]
        self.now += self.rates.token * turn.fresh
        heapq.heappush(self._running, (self.steps + turn.drawn, name, number))

    def run(self, until: float = float("inf")) -> list[int]:
        """Decode until an episode ends, or the time is over; return the episodes that ended."""
        ended: list[int] = []
        while self._running and not ended and self.now < until:
            steps = self._running[0][0] - self.steps
            one = self.rates.decode(len(self._running), 1)
            if self.now + steps * one > until:
                steps = max(1, int((until - self.now) / one))
            self.now += steps * one
            self.steps += steps
            while self._running and self._running[0][0] <= self.steps:
                _, name, number = heapq.heappop(self._running)
                if number + 1 < len(self._episodes[name]):
                    self._ask(name, number + 1)
                else:
                    ended.append(name)
        if not self._running and until < float("inf"):
            self.now = max(self.now, until)
        return ended


def own_pace(episodes: Sequence[Episode], rates: Rates) -> float:
    """Return the seconds of sampling where each episode goes on as soon as it is answered."""
    clock = Clock(rates)
    for name, episode in enumerate(episodes):
        clock.begin(name, episode)
    while clock.run():
        pass
    return clock.now


Draw = Callable[[int], list[Episode]]
"""Function that draws so many episodes."""


def apart(draw: Draw, tasks: int, group_size: int, rates: Rates, update: float) -> dict[str, float]:
    """Sample while a learner updates, at staleness 1: the oldest groups are trained on, in order."""
    clock, version, learner_until, begun, ages = Clock(rates), 0, 0.0, 0, list[int]()
    names, left, born = count(), dict[int, int](), dict[int, int]()
    of_episode: dict[int, int] = {}
    while version < UPDATES:
        while begun < (version + 2) * tasks:
            for episode in draw(group_size):
                of_episode[name := next(names)] = begun
                clock.begin(name, episode)
            left[begun], born[begun] = group_size, version
            begun += 1
        batch = range(version * tasks, (version + 1) * tasks)
        ready = not any(left[group] for group in batch)
        if clock.now >= learner_until and ready:
            ages += [version - born[group] for group in batch]
            learner_until = clock.now + update
            version += 1
            continue
        for name in clock.run(learner_until if ready else float("inf")):
            left[of_episode[name]] -= 1
    share = UPDATES * update / learner_until
    return {"apart": learner_until / UPDATES, "learner busy": share, "age": float(np.mean(ages))}


def forecast(load: Mapping[str, Any], success: float, rates: Rates) -> dict[str, float]:
    """Return an iteration's seconds by way of sampling, at one end of the rates."""
    generator = np.random.default_rng(0)
    won = recorded_turns(load["suite"], load["winner"])

    def draw(number: int) -> list[Episode]:
        episodes: list[Episode] = []
        for _ in range(number):
            turns = int(generator.choice(won)) if generator.random() < success else load["turns"]
            mean = np.log(load["response"]) - load["spread"] ** 2 / 2
            lengths = generator.lognormal(mean, load["spread"], turns)
            episodes.append([Turn(load["fresh"], max(1, round(length))) for length in lengths])
        return episodes

    size = load["tasks"] * load["group_size"]
    episodes = draw(size)
    requests = sum(map(len, episodes))
    read = requests * load["prompt"] + sum(turn.drawn for episode in episodes for turn in episode)
    update = rates.update((1 - load["shared"]) * read, load["passes"])
    found = {"turns": requests / size, "update": update}
    found["lock-step"] = lock_step(episodes, rates) + update
    found["own pace"] = own_pace(episodes, rates) + update
    return found | apart(draw, load["tasks"], load["group_size"], rates, update)


def recorded_turns(suite: str, agent: str) -> list[int]:
    """Return the turns of each episode of a committed run, by the beginning of its file's name."""
    (path,) = (ROOT / "runs" / suite).glob(f"{agent}*.run.xz")
    return [len(json.loads(episode.actions)) for episode in read_packed(path.read_bytes(), str(path))[1]]


def model_size(load: Mapping[str, Any]) -> ModelSize:
    """Return the sizes of a load's model, which is made on the meta device."""
    with torch.device("meta"):
        return ModelSize.of(Qwen2ForCausalLM(Qwen2Config(**load["model"], tie_word_embeddings=True)))


KEYS = ("turns", "update", "lock-step", "own pace", "apart", "learner busy", "age")


def page(loads: Mapping[str, Any]) -> str:
    """Return the report in Markdown."""
    lines = [
        "# Simulated iterations",
        "",
        "`python -m benchmarks.simulate`.",
        (__doc__ or "").split("\n\n", 1)[1],
    ]
    for name, load in loads.items():
        machine = Machine("cuda", load["device"], 0)
        ends = device_rates(model_size(load), machine, engine=load["engine"], number=2)
        lines += [f"## {name}", "", f"{load['about']}. Turns and tokens: {load['source']}.", ""]
        lines += [f"| success | {' | '.join(KEYS)} |", "|---:|" + "---:|" * len(KEYS)]
        for success in load["success"]:
            low, high = (forecast(load, success, rates) for rates in ends)
            band = " | ".join(f"{low[key]:.3g} to {high[key]:.3g}" for key in KEYS)
            lines.append(f"| {success:.0%} | {band} |")
        lines.append("")
    lines += [
        "Turns are those of an episode. `apart`: one device samples and one learns, at staleness 1.",
        "The iteration of `ezpoints-once` took 122 s, 97 of them sampling, and its decoding step is the",
        "source of the `hf` engine's rate. So it checks the arithmetic, not the forecast.",
        "",
        "## Published iterations",
        "",
        "| run | devices | seconds an iteration |",
        "|---|---|---:|",
        "| GiGPO, ALFWorld, 1.5B, verl-agent (GiGPO, section 5.5 and Figure 6) | 2 H100 | 362.83 |",
        "| GraphGPO, 1.5B (Figure 5): rollout + update, other passes not printed | 2 H100 | 216.9 + 74.2 |",
        "| StepPO, verl (Table 6): rollout + actor + critic | 8 H100 | 14.01 + 74.35 + 93.18 |",
        "| PPO, verl (Table 6): rollout + actor + critic | 8 H100 | 14.12 + 76.65 + 104.60 |",
    ]
    lines += [
        "",
        "GiGPO's load is 128 episodes of at most 50 turns. `--plan` with vLLM on two H100 prints for it:",
        "",
    ]
    lines += [f"    {line}" for line in published_load(model_size(loads["alfworld-gigpo"]))]
    return "\n".join(lines) + "\n"


def published_load(size: ModelSize) -> list[str]:
    """Return the plan's lines about speed for GiGPO on ALFWorld as published."""
    plain = TrainConfig(algorithm="gigpo", env_id="agentgym/ALFWorld-v0", model="tiny:0.1m")
    limits = {"prompting.budget": 2048, "prompting.max_tokens": 512, "rollout.engine": "vllm"}
    machine = Machine("cuda", "H100", 80 << 30, ranks=2, has_vllm=True)
    return plan_pace(size, resolve(override(plain, limits), machine, size), machine)


def main() -> None:
    """Write the report."""
    text = page(tomllib.loads(SETTINGS.read_text(encoding="utf-8"))["loads"])
    PAGE.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
