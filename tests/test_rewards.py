"""Reward schemes: what papers pay, in every suite and form, and the invalid-action penalty beside it."""

from typing import get_args

import gymnasium
import numpy as np
import pytest

from agentgym.algos.advantage import step_rewards, trajectory_sums
from agentgym.algos.batch import StepBatch
from agentgym.algos.table import ALGORITHMS
from agentgym.core.rewards import RewardScheme
from agentgym.core.types import Completion
from agentgym.env import Outcome
from agentgym.errors import UsageError
from agentgym.rollout.worker import RolloutWorker
from tests.corridor import CorridorEnv
from tests.policy_requests import request

SUITES = [
    f"agentgym/{name}-v0"
    for name in (
        "ALFWorld", "EZPoints", "HotpotQA", "PaperSearch", "Sokoban", "Sotopia", "VisualSokoban", "WebShop"
    )
]  # fmt: skip
"""Of multi-hop question answering one: the others are the same class."""

STRANGE = "no such action"


class _Stumbling:
    """An oracle that says what no game accepts at first, and gives up where it is told to."""

    def __init__(self, oracle, stumbles, quits=False):
        self.oracle, self.stumbles, self.quits = oracle, stumbles, quits

    def act(self, requests):
        return [
            Completion(STRANGE)
            if request.turn < self.stumbles or self.quits
            else self.oracle.act([request])[0]
            for request in requests
        ]


def _played(env_id, reward, stumbles=1, quits=False, **options):
    envs = gymnasium.make_vec(env_id, num_envs=1, autoreset_mode="Disabled", reward=reward, **options)
    worker = RolloutWorker(envs, _Stumbling(envs.oracle(), stumbles, quits), env_id=env_id)
    (group,) = worker.collect(envs.tasks.ids[:1], group_size=1, seed=3)
    envs.close()
    return group


def _test_split(env_id):
    return {"split": "valid_seen"} if "ALFWorld" in env_id else {"split": "test"}


@pytest.mark.parametrize("env_id", SUITES)
def test_every_suite_pays_by_every_scheme(env_id):
    options = {**_test_split(env_id), "max_steps": 12 if "Search" not in env_id else None}
    native, sparse, success = (
        _played(env_id, reward, **options).trajectories[0] for reward in get_args(RewardScheme)
    )
    assert native.state_hashes == sparse.state_hashes == success.state_hashes  # states know no rewards
    assert native.won == sparse.won == success.won
    assert [step.reward for step in sparse.steps] == [0.0] * (len(sparse.steps) - 1) + [10.0 * sparse.won]
    if "WebShop" in env_id:
        assert success.episode_return == native.score + 1.0
    elif any(name in env_id for name in ("PaperSearch", "Sotopia", "HotpotQA")):
        assert [step.reward for step in success.steps] == [step.reward for step in native.steps]
    else:
        assert success.episode_return == float(success.won)
    lost = _played(env_id, "sparse10", quits=True, **{**options, "max_steps": 2}).trajectories[0]
    assert lost.episode_return == 10.0 * lost.won


@pytest.mark.parametrize("reward", ["sparse", "sparse10", "score+success"])
def test_array_forms_of_sokoban_pay_alike(reward):
    env_ids = ["agentgym/Sokoban-v0", "agentgym/VisualSokoban-v0"]
    for env_id in env_ids:
        single = gymnasium.make(env_id, split="test", reward=reward).unwrapped
        slots = gymnasium.make_vec(env_id, num_envs=1, split="test", reward=reward)
        task = single.tasks.ids[0]
        single.reset(options={"task": task})
        slots.reset(options={"tasks": [task]})
        one = slots.oracle()
        paid, over = [], False
        while not over:
            actions, snapshot = single.admissible_actions(), single.snapshot
            asked = request(task_id=single.task.id, admissible_actions=actions, snapshot=snapshot)
            action = one.act([asked])[0].action
            _, expected, over, _, _ = single.step(action)
            paid.append((expected, slots.step([action])[1][0]))
        assert [a for a, _ in paid] == [b for _, b in paid]
        assert paid[-1][0] == (1.0 if reward == "score+success" else 10.0)


def test_a_webshop_purchase_pays_its_score_and_its_completion():
    env = gymnasium.make("agentgym/WebShop-v0", split="test", reward="score+success").unwrapped
    _, info = env.reset(seed=0)
    env.step(f"search[{info['goal']}]")
    product = env.admissible_actions()[3]  # after search, back and next
    paid = [env.step(action)[1] for action in ("click[nothing]", product)]
    _, reward, _, _, info = env.step("click[buy now]")
    assert (paid, reward) == ([0.0, 0.0], info["score"] + 1.0)


@pytest.mark.parametrize("rewards", ["verl-agent", "gym-cards"])
def test_an_invalid_action_costs_the_penalty_once(rewards):
    group = _played("agentgym/EZPoints-v0", "sparse10", stumbles=3, rewards=rewards)
    (trajectory,) = group.trajectories
    batch = StepBatch.from_groups([group])
    assert (trajectory.won, trajectory.invalid_count) == (True, 3)
    assert batch.reward.tolist() == [0.0] * (len(batch) - 1) + [10.0]  # the environment takes nothing
    paid = step_rewards(batch)
    assert paid.tolist() == [-0.1] * 3 + [0.0] * (len(batch) - 4) + [10.0]
    assert trajectory_sums(batch, paid)[0] == pytest.approx(10.0 - 3 * 0.1)


A_E = {
    "grpo": {}, "dapo": {}, "gspo": {}, "gigpo": {"weight": 0.0}, "graphgpo": {"graph_weight": 0.0},
    "g2po": {"weight": 0.0}, "sampo": {"weight": 0.0},
}  # fmt: skip
"""Algorithms that divide A^E by the group's deviation, and what leaves only A^E of their advantage."""


@pytest.mark.parametrize("invalid", [(0, 3, 6, 9, 12, 15, 18), (0, 0, 1, 2, 4, 8, 18), (0,) * 7])
@pytest.mark.parametrize("name", A_E)
def test_a_lone_winner_stands_out_and_no_failure_is_rewarded(name, invalid):
    counts = [3, *invalid]
    rows = [(member, step < count) for member, count in enumerate(counts) for step in range(20)]
    trajectory = np.array([member for member, _ in rows])
    won = trajectory == 0
    last = np.array([row % 20 == 19 for row in range(len(rows))])
    batch = StepBatch.of(
        group=np.zeros(len(rows)), trajectory=trajectory, state=range(len(rows)), won=won,
        reward=np.where(last & won, 10.0, 0.0), valid=[not rejected for _, rejected in rows],
        tokens=np.ones(len(rows)),
    )  # fmt: skip
    advantage = ALGORITHMS[name].advantage(batch, **A_E[name])[::20]
    assert advantage[0] == pytest.approx(2.44, abs=0.04)
    assert (advantage[1:] < 0).all()


class _Patience(CorridorEnv):
    """A corridor whose end is no end: it is won where the last of two steps stands there."""

    def _apply(self, action):
        return Outcome(super()._apply(action).reward and 0.25)

    def __init__(self, reward):
        super().__init__(max_steps=2)
        self.reward_scheme = reward


@pytest.mark.parametrize(
    ("reward", "paid"), [("native", [0.25, 0.25]), ("sparse10", [0.0, 10.0]), ("score+success", [0.0, 1.0])]
)
def test_what_is_won_pays_where_the_episode_ends(reward, paid):
    env = _Patience(reward)
    env.reset(options={"task": "corridor1"})
    steps = [env.step("right"), env.step("right")]
    assert [step[4]["won"] for step in steps] == [True, False]  # passed through, and left again
    assert [step[1] for step in steps] == [paid[0], paid[0]]
    env.reset(options={"task": "corridor2"})
    assert [env.step("right")[1] for _ in range(2)] == paid


def test_an_unknown_reward_is_refused():
    for env_id, given in (("agentgym/ALFWorld-v0", "sparse"), ("agentgym/Sotopia-v0", "sparse1")):
        with pytest.raises(UsageError, match=r"unknown reward .*choose one of native, sparse10, score"):
            gymnasium.make(env_id, reward=given)
    with pytest.raises(UsageError, match="unknown reward"):
        gymnasium.make("agentgym/ALFWorld-v0", reward=["sparse10"])
