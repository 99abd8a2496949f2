"""Speed of SOTOPIA's environment, and how often its states meet: ``python -m benchmarks.speed.sotopia``.

Scripted partners and the rule-based judge; no model. Times are of the processor. States that meet are counted
in groups of 8 attempts at one task, by the rule-based agent, which now and then says or does something else.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from agentgym.algos.batch import StepBatch
from agentgym.algos.matching import group_sizes, match_states
from agentgym.core.rng import TurnRng
from agentgym.envs.sotopia.actions import SocialAction
from agentgym.envs.sotopia.builtin.candidates import candidates
from agentgym.envs.sotopia.env import SotopiaEnv, SotopiaVectorEnv
from agentgym.envs.sotopia.game import GameState
from agentgym.envs.sotopia.rules import BargainerPolicy, choose, read_page
from agentgym.envs.sotopia.views import conversation
from agentgym.retrieval.encoders import open_encoder
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from benchmarks.speed.report import machine

OUT = Path(__file__).with_name("sotopia.json")

SLOTS = 128
TASKS, ATTEMPTS = 28, 8
THRESHOLDS = (0.9, 0.98)
WORDS = (
    "about", "after", "apple", "bread", "cold", "deal", "fair", "garden", "house", "idea", "join", "kind",
    "light", "money", "near", "open",
)  # fmt: skip
"""Of sentences that an agent makes up."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Utterances of both sides a second of processor time."""

    what: str
    median: float
    quartiles: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Meeting:
    """How often steps of a group are taken in one state."""

    match: str
    groups: float
    """Share of step groups with more than one step, the first step of episodes left out."""
    steps: float
    """Share of steps in such groups, likewise."""
    first_included: float
    """Share of step groups with more than one step, all steps counted."""


# ---- speed --------------------------------------------------------------------------------------------


def play_environment() -> int:
    """Play vector episodes of words to their end; return the number of utterances."""
    envs = SotopiaVectorEnv(SLOTS, split="test", autoreset_mode="Disabled")
    envs.reset(options={"tasks": envs.tasks.ids[:SLOTS]})
    running, told, turn = list(range(SLOTS)), 0, 0
    while running:
        _, _, terminations, truncations, _ = envs.step_at(
            running, [f"speak[This is word {turn} of {slot}.]" for slot in running]
        )
        running = [i for k, i in enumerate(running) if not (terminations[k] or truncations[k])]
        turn += 1
    for i in range(SLOTS):
        told += len(envs.snapshot(i).state.talk.turns)
    return told


def play_rules() -> int:
    """Play episodes of the rule-based agent; return the number of utterances."""
    envs = SotopiaVectorEnv(SLOTS, split="test", autoreset_mode="Disabled")
    worker = RolloutWorker(envs, BargainerPolicy(), env_id="agentgym/Sotopia-v0", measured=True)
    ended = worker.run(EpisodeSpec(task, 0, 0) for task in envs.tasks.ids[:SLOTS])
    return round(sum(one.measures["utterances"] + one.measures["partner_utterances"] for one in ended))


def speed(what: str, play: Callable[[], int], rounds: int) -> Speed:
    """Time rounds of a play."""
    play()  # what is made once
    rates = []
    for _ in range(rounds):
        began = time.process_time()
        told = play()
        rates.append(told / (time.process_time() - began))
    low, median, high = np.quantile(rates, [0.25, 0.5, 0.75]).tolist()
    return Speed(what, median, (low, high))


# ---- states that meet -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Steps:
    """Columns of steps."""

    group: list[int]
    trajectory: list[int]
    step: list[int]
    state: list[str]
    context: list[str]
    page: list[str]
    exchange: list[str]


def act(env: SotopiaEnv, observation: str, draws: TurnRng) -> SocialAction:
    """Return what the agent does: half the time by rule, else some candidate or words of its own."""
    scenario, side = env.task.content
    state: GameState = env.snapshot().state.talk
    kind = draws.below(4)
    if kind == 0:
        listed = candidates(scenario, side, state)
        return listed[draws.below(len(listed) - 1)]  # the last is to leave
    if kind == 1:
        return SocialAction(
            "speak", " ".join(WORDS[draws.below(len(WORDS))] for _ in range(6)).capitalize() + "."
        )
    return choose(*read_page(observation))


def collect() -> Steps:
    """Play groups of attempts; return their steps."""
    steps = Steps([], [], [], [], [], [], [])
    env = SotopiaEnv(split="train")
    for group in range(TASKS):
        for attempt in range(ATTEMPTS):
            observation, _ = env.reset(options={"task": env.tasks[group].id, "rollout": attempt})
            over, turn = False, 0
            while not over:
                told = conversation(
                    env.task.content.scenario, env.snapshot().state.talk, env.task.content.side
                )
                steps.group.append(group)
                steps.trajectory.append(group * ATTEMPTS + attempt)
                steps.step.append(turn)
                steps.state.append(env.state_hash())
                steps.context.append(env.state_hash("context"))
                steps.page.append(observation)
                steps.exchange.append("\n".join(told.split("\n")[-2:]) or "(nothing yet)")
                action = act(env, observation, TurnRng(1_000 * group + attempt, turn))
                observation, _, terminated, truncated, _ = env.step(action.written)
                over, turn = terminated or truncated, turn + 1
    return steps


def meetings(steps: Steps) -> list[Meeting]:
    """Match states in every way."""
    encoder = open_encoder("minilm")
    found = [
        _meeting("`state_hash()`", steps, _numbers(steps, steps.state)),
        _meeting('`state_hash("context")`', steps, _numbers(steps, steps.context)),
    ]
    for name, texts in (("the observation", steps.page), ("the last two lines", steps.exchange)):
        vectors = np.asarray(encoder.encode_passages(texts), dtype=np.float64)
        batch = replace(_batch(steps, steps.state), embeddings=vectors)
        for threshold in THRESHOLDS:
            numbers = match_states(batch, "embedding", threshold=threshold)
            found.append(_meeting(f"embedding of {name}, cosine {threshold}", steps, numbers))
    return found


def _batch(steps: Steps, states: Sequence[str]) -> StepBatch:
    return StepBatch.of(
        group=steps.group, trajectory=steps.trajectory, state=states, reward=np.zeros(len(states))
    )


def _numbers(steps: Steps, states: Sequence[str]) -> np.ndarray:
    return match_states(_batch(steps, states))


def _meeting(match: str, steps: Steps, numbers: np.ndarray) -> Meeting:
    later = np.array(steps.step) > 0
    groups, share = _shared(numbers[later])
    return Meeting(match, groups, share, _shared(numbers)[0])


def _shared(numbers: np.ndarray) -> tuple[float, float]:
    sizes = group_sizes(np.unique(numbers, return_inverse=True)[1])
    _, counts = np.unique(numbers, return_counts=True)
    return float((counts > 1).mean()), float((sizes > 1).mean())


# ---- what is shown --------------------------------------------------------------------------------------


def markdown(speeds: Sequence[Speed], found: Sequence[Meeting], steps: Steps, about: dict[str, str]) -> str:
    """Write the tables."""
    lines = [
        "# SOTOPIA: speed, and states that meet",
        "",
        f"`python -m benchmarks.speed.sotopia` on {about['cpu']}; python {about['python']}.",
        "",
        "Utterances of both sides a second of processor time, a scripted partner, the rule-based judge, no",
        "model: median and quartiles over rounds.",
        "",
        "| | utterances/s | quartiles |",
        "|---|---:|---:|",
        *(
            f"| {one.what} | {one.median:,.0f} | {one.quartiles[0]:,.0f} to {one.quartiles[1]:,.0f} |"
            for one in speeds
        ),
        "",
        f"Step groups of {TASKS} tasks, {ATTEMPTS} attempts each ({len(steps.group):,} steps): the",
        "rule-based agent, which does a quarter of the time some candidate move, and a quarter says six",
        "words drawn at random.",
        "",
        "| states matched by | groups of more than one step | steps in them | groups, first steps included |",
        "|---|---:|---:|---:|",
        *(
            f"| {one.match} | {one.groups:.1%} | {one.steps:.1%} | {one.first_included:.1%} |"
            for one in found
        ),
        "",
        "First steps always meet, as attempts at a task begin alike. The encoder is all-MiniLM-L6-v2, which",
        "reads 256 tokens: of an observation hardly more than what is told before the conversation, which is",
        "the same in all attempts. That such steps match says nothing about them.",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds: int = parser.parse_args().rounds
    speeds = [
        speed(f"the environment, {SLOTS} slots, words without moves", play_environment, rounds),
        speed(f"the environment, {SLOTS} slots, the rule-based agent", play_rules, rounds),
    ]
    steps = collect()
    found, about = meetings(steps), machine()
    text = markdown(speeds, found, steps, about)
    print(text)
    record = {"about": about, "speed": [*map(asdict, speeds)], "meetings": [*map(asdict, found)]}
    OUT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    OUT.with_suffix(".md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
