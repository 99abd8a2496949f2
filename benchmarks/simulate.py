"""Forecast of an iteration's seconds on devices that are not here: ``python -m benchmarks.simulate``.

A virtual clock plays recorded numbers of turns and drawn answer lengths on an engine whose decoding step
costs ``step + row x rows`` seconds and which reads ``prefill`` tokens a second (`benchmarks/simulate.toml`, a
low and a high end each). Three ways of sampling: lock-step (a turn waits for its longest answer), every
episode at its own pace, and that on a device apart from the learner's, where group g begins only while
g < (version + staleness + 1) x tasks. ``--check`` holds the same clock to the `hf` engine of this machine, in
processor time. Figures are forecasts, never results.
"""

from __future__ import annotations

import argparse
import heapq
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np

SETTINGS = Path(__file__).with_suffix(".toml")
PAGE = Path(__file__).with_suffix(".md")
UPDATES = 8
"""Simulated."""


@dataclass(frozen=True)
class Turn:
    """A request: tokens to be read that no cache holds, and tokens to be drawn."""

    fresh: int
    drawn: int


@dataclass(frozen=True)
class Rates:
    """Seconds of an engine: of a decoding step, of each row in it, of a token read; of an update."""

    step: float
    row: float
    token: float
    update: float = 0.0


Episode = Sequence[Turn]


def lock_step(episodes: Sequence[Episode], rates: Rates) -> float:
    """Return the seconds of sampling where each turn of all episodes is one batch."""
    seconds = 0.0
    for number in range(max(map(len, episodes))):
        turns = [episode[number] for episode in episodes if len(episode) > number]
        lengths = np.sort([turn.drawn for turn in turns])
        rows = len(lengths) - np.searchsorted(lengths, np.arange(lengths[-1]), side="right")
        seconds += float(np.sum(rates.step + rates.row * rows)) + rates.token * sum(
            turn.fresh for turn in turns
        )
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
            one = self.rates.step + self.rates.row * len(self._running)
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


def apart(draw: Any, tasks: int, group_size: int, rates: Rates, staleness: int) -> dict[str, float]:
    """Sample while a learner updates: groups begin by the rule, the oldest are trained, in order."""
    clock, version, learner_until, begun, ages = Clock(rates), 0, 0.0, 0, list[int]()
    names, left, born = count(), dict[int, int](), dict[int, int]()
    of_episode: dict[int, int] = {}
    while version < UPDATES:
        while begun < (version + staleness + 1) * tasks:
            for episode in draw(group_size):
                of_episode[name := next(names)] = begun
                clock.begin(name, episode)
            left[begun], born[begun] = group_size, version
            begun += 1
        batch = range(version * tasks, (version + 1) * tasks)
        if clock.now >= learner_until and not any(left[group] for group in batch):
            ages += [version - born[group] for group in batch]
            learner_until = clock.now + rates.update
            version += 1
            if version == UPDATES:
                break
            if staleness == 0:  # the next groups wait for these weights
                clock.now = learner_until
            continue
        ready = not any(left[group] for group in batch)
        for name in clock.run(learner_until if ready else float("inf")):
            left[of_episode[name]] -= 1
    share = UPDATES * rates.update / learner_until
    return {"apart": learner_until / UPDATES, "learner busy": share, "age": float(np.mean(ages))}


def forecast(
    device: Mapping[str, Any], load: Mapping[str, Any], success: float, high: int
) -> dict[str, float]:
    """Return an iteration's seconds by way of sampling, at the low (0) or high (1) end of each cost."""
    generator = np.random.default_rng(0)
    won = recorded_turns(load["suite"], load["winner"])
    fast = 1 - high  # of a rate the high end is the fast one

    def draw(number: int) -> list[list[Turn]]:
        episodes = []
        for _ in range(number):
            turns = int(generator.choice(won)) if generator.random() < success else load["turns"]
            mean = np.log(load["response"]) - load["spread"] ** 2 / 2
            lengths = generator.lognormal(mean, load["spread"], turns)
            episodes.append([Turn(load["fresh"], max(1, round(length))) for length in lengths])
        return episodes

    size = load["tasks"] * load["group_size"]
    episodes = draw(size)
    requests = sum(map(len, episodes))
    tokens = (1 - load["shared"]) * (
        requests * load["prompt"] + sum(turn.drawn for e in episodes for turn in e)
    )
    work = 2 * load["parameters"] * load["passes"] * tokens
    update = work / (device["flops"] * device["mfu"][fast]) + device["update"][high]
    rates = Rates(device["step"][high], device["row"][high], 1 / device["prefill"][fast], update)
    found = {"turns": requests / size, "update": update}
    found["lock-step"], found["own pace"] = (
        lock_step(episodes, rates) + update,
        own_pace(episodes, rates) + update,
    )
    return found | apart(draw, load["tasks"], load["group_size"], rates, staleness=1)


def recorded_turns(suite: str, agent: str) -> list[int]:
    """Return the turns of each episode of a committed run, by the beginning of its file's name."""
    from agentgym.evaluation.verify.packed import read_packed

    (path,) = (Path(__file__).parent / "runs" / suite).glob(f"{agent}*.run.xz")
    return [len(json.loads(episode.actions)) for episode in read_packed(path.read_bytes(), str(path))[1]]


SHAPES = (("agentgym/EZPoints-v0", 8, 24), ("agentgym/Sokoban-v0", 16, 16), ("agentgym/EZPoints-v0", 24, 40))
"""Environment, episodes at once, most tokens of an answer."""

MODEL = "tiny:0.8m"
FITTED = tuple((rows, prompt, drawn) for rows in (4, 12, 24) for prompt in (40, 160) for drawn in (8, 40))
"""Rows in groups of four, prompt and drawn tokens of the calls that rates are fitted to."""


def check() -> list[tuple[str, float, float]]:
    """Return each shape, its sampling seconds on this machine's `hf` engine, and the clock's."""
    import torch

    from agentgym.training.config import TrainConfig, override
    from agentgym.training.machine.resources import resolve
    from agentgym.training.setup import TrainingSetup

    torch.set_num_threads(1)
    found = []
    for env_id, slots, most in SHAPES:
        plain = TrainConfig(algorithm="grpo", env_id=env_id, model=MODEL, device="cpu")
        changes = {"rollout.engine": "hf", "rollout.num_envs": slots, "prompting.max_tokens": most}
        setup = TrainingSetup.open(resolve(override(plain, changes | {"prompting.choice": "free"})))
        rates = fitted(setup.engine, setup.language_model.model.config.vocab_size)
        calls: list[tuple[float, list[Turn]]] = []
        setup.engine.generate = partial(_timed, setup.engine.generate, calls)  # type: ignore[method-assign]
        setup.worker.collect(setup.worker.envs.tasks.ids[: slots // 4], group_size=4, seed=0)
        setup.close()
        clock = sum(lock_step([[turn] for turn in turns], rates) for _, turns in calls)
        shape = f"{env_id}, {slots} at once, at most {most} tokens"
        found.append((shape, sum(seconds for seconds, _ in calls), clock))
    return found


def _timed(generate: Any, calls: list[tuple[float, list[Turn]]], requests: Sequence[Any]) -> Any:
    """Generate, and record the seconds with what was read and drawn: equal prompts are read once."""
    began = thread_time()
    answers = generate(requests)
    read = sum(map(len, {request.prompt_ids for request in requests}))
    turns = [Turn(read if number == 0 else 0, len(answer.ids)) for number, answer in enumerate(answers)]
    calls.append((thread_time() - began, turns))
    return answers


def fitted(engine: Any, vocabulary: int) -> Rates:
    """Return an engine's rates, by least squares of relative errors over `FITTED`."""
    from agentgym.training.engines.types import GenerationRequest, Sampling

    rows, times = [], []
    for number, prompt, drawn in FITTED:
        prompts = [
            tuple((7 * group + 5 * n) % vocabulary for n in range(prompt)) for group in range(number // 4)
        ]
        sampling = Sampling(max_tokens=drawn)
        requests = [GenerationRequest(prompts[k // 4], None, sampling, k) for k in range(number)]
        engine.generate(requests)
        began = thread_time()
        engine.generate(requests)
        times.append(thread_time() - began)
        rows.append([drawn, drawn * number, len(prompts) * prompt])
    costs = np.linalg.lstsq(np.array(rows) / np.array(times)[:, None], np.ones(len(times)))[0]
    return Rates(*map(float, costs))


def page(settings: Mapping[str, Any], checked: Sequence[tuple[str, float, float]]) -> str:
    """Return the report in Markdown."""
    lines = [
        "# Simulated iterations",
        "",
        f"`python -m benchmarks.simulate`. {(__doc__ or '').split(chr(10) * 2)[1]}",
        "",
    ]
    for name, load in settings["loads"].items():
        device = settings["devices"][load.get("device", "h200")]
        lines += [
            f"## {name}",
            "",
            f"{load['about']}; {device['about']}. {load['source']}; {device['source']}.",
            "",
        ]
        keys = ("turns", "update", "lock-step", "own pace", "apart", "learner busy", "age")
        lines += [f"| success | {' | '.join(keys)} |", "|---:|" + "---:|" * len(keys)]
        for success in load["success"]:
            low, high = (forecast(device, load, success, end) for end in (0, 1))
            band = " | ".join(f"{low[key]:.3g} to {high[key]:.3g}" for key in keys)
            lines.append(f"| {success:.0%} | {band} |")
        lines.append("")
    lines += ["Turns are those of an episode; `apart`: one device samples and one learns, at staleness 1."]
    lines += ["The iteration of `ezpoints-once` took 122 s, 97 of them sampling.", ""]
    if checked:
        lines += ["## Against the hf engine of this machine", "", "| shape | measured, s | clock, s | off |"]
        lines.append("|---|---:|---:|---:|")
        lines += [
            f"| {shape} | {real:.2f} | {clock:.2f} | {clock / real - 1:+.0%} |"
            for shape, real, clock in checked
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the report, or print the check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with this machine's hf engine, too")
    given = parser.parse_args()
    settings = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))
    PAGE.write_text(page(settings, check() if given.check else ()), encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
