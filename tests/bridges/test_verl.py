"""What of the bridge to verl needs no verl: episodes played with texts, and advantages of their steps."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest

from agentgym.agents import make_agent
from agentgym.algos.batch import StepBatch
from agentgym.algos.table import ALGORITHMS
from agentgym.bridges.text_episode import TextEpisode, step_advantages, step_batch
from agentgym.errors import UsageError
from agentgym.prompts import load_template
from agentgym.prompts.budget import PromptBuilder
from agentgym.prompts.fitting import PromptTooLongError
from agentgym.registration import make, open_vector
from agentgym.rollout.worker import RolloutWorker
from benchmarks.bridges import recorded

SOKOBAN = "agentgym/Sokoban-v0"
LEVELS = {"num_boxes": 1, "max_optimal": 4, "max_steps": 8}
CREDITED = ("gigpo", "hgpo", "graphgpo", "steppo")
CARRIED = [env_id for env_id in recorded.ENVIRONMENTS if "Visual" not in env_id]
NO_DIFFERENCES = {"rewards": 0, "ends": 0, "hashes": 0, "other": 0}


class Letters:
    """A tokenizer whose tokens are characters."""

    def encode_chat(self, message):
        return [ord(letter) for letter in message]


def text_episode(env_id, *, budget=100_000, **options):
    env = make(env_id, **options)
    template = load_template(env.suite_spec.prompt.wording, "plain", env.tools)
    return TextEpisode(env, PromptBuilder(template, Letters(), budget=budget, history=1))


class TextPlayer:
    """Plays by saying each action as a response."""

    def __init__(self, env_id):
        self._episode = text_episode(env_id)

    def begin(self, task, seed):
        self._episode.begin(task=task, seed=seed)
        return self._episode.info["state_hash"]

    def play(self, action):
        each = self._episode.play(action)
        return recorded.Reached(
            each["reward"], each["terminated"], each["truncated"], each["next_state_hash"]
        )

    def end(self, trajectory):
        records = self._episode.records
        if {each["won"] for each in records} != {trajectory.won} or not self._episode.over:
            yield "another outcome"
        expected = [(step.state_hash, step.valid, step.cost, step.progress) for step in trajectory.steps]
        if [(e["state_hash"], e["valid"], e["cost"], e["progress"]) for e in records] != expected:
            yield "other steps"


@pytest.mark.parametrize("env_id", [env_id for env_id in recorded.SUITES if env_id in CARRIED])
def test_texts_play_recorded_episodes_as_they_were(env_id):
    found = recorded.compare(env_id, recorded.record(env_id, 2), lambda: TextPlayer(env_id))
    assert (found.episodes, found.differences, found.first) == (2, NO_DIFFERENCES, "")


def test_the_committed_report_has_no_differences():
    report = json.loads((recorded.HERE / "verl.json").read_text())
    assert len(report["rows"]) >= 10
    assert {row["env_id"] for row in report["rows"]} <= set(CARRIED)
    assert all(row["episodes"] == 200 and row["differences"] == NO_DIFFERENCES for row in report["rows"])
    assert [each["algorithm"] for each in report["advantages"]] == [
        ALGORITHMS[name].title for name in CREDITED
    ]
    for each in report["advantages"]:
        assert each["padding"] > 0
        assert 2 * each["not_zero"] > each["steps"] > 200
        assert each["largest_difference"] <= 1e-6


@pytest.fixture(scope="module")
def groups():
    """Return two groups of four episodes by the random agent, with wins among them."""
    envs = open_vector(SOKOBAN, 8, options=LEVELS)
    worker = RolloutWorker(envs, make_agent("random", envs), env_id=SOKOBAN)
    found = worker.collect(envs.tasks.ids[:3], group_size=8, seed=0)
    assert any(member.won for group in found for member in group.trajectories)
    return found


@pytest.fixture(scope="module")
def steps(groups):
    """Return the key, the record, and the row in the groups' batch of each of their steps, in any order."""
    found = []
    for group in groups:
        for number, member in enumerate(group.trajectories):
            episode = text_episode(SOKOBAN, **LEVELS)
            episode.begin(task=member.task_id, seed=member.seed)
            for step in member.steps:
                episode.play(step.action)
            found += [((group.task_id, str(number)), each) for each in episode.records]
    found = [(key, record, row) for row, (key, record) in enumerate(found)]
    random.Random(0).shuffle(found)
    return found


@pytest.mark.parametrize("name", CREDITED)
def test_advantages_of_steps_in_any_order_are_those_of_the_groups(groups, steps, name):
    keys, records, rows = zip(*steps, strict=True)
    values = np.random.default_rng(0).normal(size=len(rows))
    options = {"truncation": "zero"} if name == "steppo" else {}
    expected = ALGORITHMS[name].advantage(
        StepBatch.from_groups(groups).with_columns(values=values), **options
    )
    batch, order = step_batch(keys, records, values=values[list(rows)])
    found = np.zeros(len(rows))
    found[order] = step_advantages(name, batch, options)
    assert np.abs(expected).max() > 0.1
    assert np.abs(found - expected[list(rows)]).max() <= 1e-12


def test_a_step_that_is_missing_or_doubled_is_refused(steps):
    keys, records, _ = zip(*steps, strict=True)
    first = next(row for row, record in enumerate(records) if record["index"] == 0)
    with pytest.raises(ValueError, match="step must count each trajectory from 0"):
        step_batch(keys[:first] + keys[first + 1 :], records[:first] + records[first + 1 :])
    with pytest.raises(ValueError, match="step must count each trajectory from 0"):
        step_batch((*keys, keys[first]), (*records, records[first]))


@pytest.mark.parametrize(
    ("algorithm", "options", "message"),
    [
        ("gigpp", {}, "unknown algorithm 'gigpp'"),
        ("ppo", {}, "PPO needs more than steps: choose one of rloo, grpo"),
        ("prime", {}, "PRIME needs more than steps"),
        ("gigpo", {"gama": 1.0}, "GiGPO: unknown option 'gama'"),
    ],
)
def test_algorithms_that_cannot_be_had_are_refused_in_one_line(steps, algorithm, options, message):
    keys, records, _ = zip(*steps, strict=True)
    with pytest.raises(UsageError, match=message) as caught:
        step_advantages(algorithm, step_batch(keys, records)[0], options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("need", ["reward_model", "snapshot", "scored_by_reference"])
def test_each_thing_that_an_algorithm_needs_besides_steps_is_refused(steps, monkeypatch, need):
    keys, records, _ = zip(*steps, strict=True)
    needy = replace(ALGORITHMS["gigpo"], **{need: True})
    monkeypatch.setattr("agentgym.bridges.text_episode.find_algorithm", lambda name: needy)
    with pytest.raises(UsageError, match="GiGPO needs more than steps: choose one of rloo"):
        step_advantages("gigpo", step_batch(keys, records)[0], {})


def test_a_row_without_a_task_and_a_prompt_that_does_not_fit_are_refused():
    episode = text_episode(SOKOBAN, budget=10)
    with pytest.raises(UsageError, match="give them a column 'task' or 'seed'"):
        episode.begin()
    episode.begin(seed=0)
    with pytest.raises(PromptTooLongError):
        episode.prompt()


def test_pictures_are_refused():
    with pytest.raises(UsageError, match="VisualSokobanEnv shows pictures, which are not passed on"):
        text_episode("agentgym/VisualSokoban-v0")


def test_a_prompt_tells_the_turn_before_and_what_is_possible():
    episode = text_episode(SOKOBAN, **LEVELS)
    episode.begin(seed=0)
    episode.play("UP ")
    asked = "".join(map(chr, episode.prompt()))
    assert "You went: up" in asked
    assert asked.endswith("Possible actions:\nup, down, left, right")
