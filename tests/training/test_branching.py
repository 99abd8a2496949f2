"""3SPO's trees: branches start alike, waves are the same anywhere, runs resume in the middle of trees."""

import threading
import warnings
from collections import defaultdict

import numpy as np
import pytest
import torch

from agentgym.agents.random import RandomPolicy
from agentgym.algos import spo3
from agentgym.algos.batch import StepBatch
from agentgym.algos.state_score import Allotment
from agentgym.core.rng import TurnRng
from agentgym.core.types import Completion
from agentgym.errors import UsageError
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.training.collect.task_order import TaskOrder
from agentgym.training.learner.distributed import Ranks
from agentgym.training.stages.branching.collector import TreeCollector
from agentgym.training.stages.branching.log import ENOUGH, TreeLog
from agentgym.training.stages.branching.state import pack_nodes, unpack_nodes
from agentgym.training.stages.branching.worker import BranchingWorker
from tests.corridor import LENGTHS as CORRIDORS
from tests.corridor import CorridorEnv, CorridorVectorEnv

SOKOBAN = "agentgym/Sokoban-v0"
EZPOINTS = "agentgym/EZPoints-v0"


def corridor(num_envs=4, policy=None, **options):
    envs = CorridorVectorEnv(num_envs, autoreset_mode="Disabled", **options)
    return BranchingWorker(envs, policy or RandomPolicy(), env_id="test/Corridor-v0")


def collector(worker=None, *, allotment=None, trees=4, budget=40, ranks=None, **settings):
    worker = worker or corridor()
    order = TaskOrder(worker.envs.tasks, seed=1)
    return TreeCollector(
        worker, order, allotment or Allotment(alpha=1.0), trees=trees, budget=budget, ranks=ranks, **settings
    )


def signature(collected):
    return [
        (group.task_id, group.initial_hash, [member.steps[0].action for member in group.trajectories])
        for group in collected.groups
    ], [column.tolist() for column in collected.columns.values()]


# ---- the worker -----------------------------------------------------------------------------------


def test_every_branch_starts_from_its_parents_state_and_chance():
    worker = corridor()
    (root,) = worker.begin([EpisodeSpec("corridor5", seed=3, rollout=0)])
    node = root
    for turn in range(3):
        (branches,) = worker.expand([(node, range(100 * turn, 100 * turn + 9))])  # more than there are slots
        assert len(branches) == 9
        assert {branch.step.state_hash for branch in branches} == {node.state_hash}
        assert {len(branch.trajectory(node, "", whole=True).steps) for branch in branches} == {turn + 1}
        by_action = defaultdict(set)
        for branch in branches:
            by_action[branch.step.action].add((branch.step.reward, branch.step.next_state_hash))
        assert len(by_action) > 1
        assert all(len(outcomes) == 1 for outcomes in by_action.values())  # the floor pays alike
        node = next(branch for branch in branches if branch.step.action == "right").node(node)
    assert [step.state_hash for step in node.steps[1:]] == [step.next_state_hash for step in node.steps[:-1]]


def test_a_chain_of_branches_is_the_episode_that_the_rollout_worker_plays():
    class Right:
        def act(self, requests):
            return [Completion("right") for _ in requests]

    worker = corridor(policy=Right())
    spec = EpisodeSpec("corridor3", seed=5, rollout=0)
    (node,) = worker.begin([spec])
    for _ in range(2):
        reached = worker.expand([(node, [0])])[0][0]
        assert reached.extra != node.extra
        node = reached.node(node)
        assert node.extra == reached.extra
    branch = worker.expand([(node, [0])])[0][0]
    (expected,) = RolloutWorker(worker.envs, Right(), env_id=worker.env_id).run([spec])
    ours = branch.trajectory(node, worker.env_id, whole=True)
    assert ours.steps == expected.steps
    more = [[(step.progress, step.cost, step.side) for step in each.steps] for each in (ours, expected)]
    assert more[0] == more[1] == [(pytest.approx(1 / 3), 1.0, None)] * 3
    assert (ours.won, ours.score, ours.end_reason) == (True, 1.0, "success")
    assert (ours.final_observation, ours.extra) == (expected.final_observation, expected.extra)


class Forgetful(CorridorEnv):
    def _set_state(self, state):
        self._cell, self._fallen = 0, state[1]


def test_a_state_that_is_not_restored_is_one_line():
    class ForgetfulVector(CorridorVectorEnv):
        env_class = Forgetful

    worker = BranchingWorker(ForgetfulVector(2, autoreset_mode="Disabled"), RandomPolicy(), env_id="x")
    (root,) = worker.begin([EpisodeSpec("corridor5", seed=0, rollout=0)])
    (branches,) = worker.expand([(root, range(8))])
    node = next(each for each in branches if each.step.action == "right").node(root)
    with pytest.raises(UsageError, match="branches would not start alike") as raised:
        worker.expand([(node, range(8))])
    assert "\n" not in str(raised.value)


def test_an_answer_without_an_action_ends_its_branch():
    class Full:
        def act(self, requests):
            return [
                Completion("", error="context_limit") if request.seed % 2 else Completion("right")
                for request in requests
            ]

    worker = corridor(policy=Full())
    (root,) = worker.begin([EpisodeSpec("corridor5", seed=0, rollout=0)])
    (branches,) = worker.expand([(root, [0, 1, 2])])
    assert [branch.end_reason for branch in branches] == [None, "context_limit", None]
    assert branches[1].trajectory(root, "", whole=True).unplayed is not None


@pytest.mark.parametrize("env_id", ["agentgym/Sokoban-v0", "agentgym/VisualSokoban-v0"])
def test_nodes_are_the_same_after_a_checkpoint(env_id, tmp_path):
    worker = BranchingWorker(open_vector(env_id, 3, split="train"), RandomPolicy(), env_id=env_id)
    (root,) = worker.begin([EpisodeSpec(worker.envs.tasks[0].id, seed=0, rollout=0)])
    node = worker.expand([(root, [0])])[0][0].node(root)
    nodes = [root, node, worker.expand([(node, [1])])[0][0].node(node)]
    torch.save(pack_nodes(nodes), tmp_path / "nodes.pt")
    again = unpack_nodes(worker, root.root, torch.load(tmp_path / "nodes.pt", weights_only=True))
    for one, other in zip(nodes, again, strict=True):
        assert one.snapshot.to_bytes() == other.snapshot.to_bytes()
        assert (one.state_hash, one.admissible_actions, one.extra) == (
            other.state_hash,
            other.admissible_actions,
            other.extra,
        )
        seen, found = (
            [*(step.observation for step in each.steps), each.observation] for each in (one, other)
        )
        np.testing.assert_equal(seen, found)
        assert [step.completion for step in one.steps] == [step.completion for step in other.steps]


# ---- waves ----------------------------------------------------------------------------------------


def test_a_wave_compares_the_samples_of_each_state():
    own = collector()
    for version in range(12):
        collected = own.collect(version)
        assert sum(len(group.trajectories) for group in collected.groups) == len(collected.notes)
        batch = StepBatch.from_groups(collected.groups).with_columns(**collected.columns)
        assert np.array_equal(batch.expansion, batch.group)
        for group in collected.groups:
            assert {member.steps[0].state_hash for member in group.trajectories} == {group.initial_hash}
        advantages = spo3.advantage(batch)
        for number in np.unique(batch.expansion):
            assert advantages[batch.expansion == number].sum() == pytest.approx(0.0, abs=1e-9)
        for note, reward in zip(collected.notes, batch.reward, strict=True):
            assert note["reward"] == reward
            assert note["k"] > 1


def test_visits_count_finished_episodes_once_in_each_state():
    own = collector()
    for version in range(20):
        collected = own.collect(version)
    totals = defaultdict(int)
    for (task, state), (successes, total) in own.visits.counts.items():
        assert 0 <= successes <= total
        totals[task] = max(totals[task], total)
        assert state
    assert sum(totals.values()) == own.episodes > 20  # each begins in its task's initial state
    assert len(collected.ends) == min(own.episodes, 64)


def test_k_of_one_teaches_nothing():
    own = collector(allotment=Allotment(fixed=1))
    collected = own.collect(0)
    assert collected.groups == []
    assert collected.diagnostics["trees"]["waves"] == own.worker.envs.max_steps
    assert collected.diagnostics["k"]["1"] > 0
    assert own.episodes > 0


def test_an_exhausted_state_stops_its_branch():
    """Whoever falls fails: with xi = 1 nothing is expanded twice, and in the end nothing at all."""

    class Falls:
        def act(self, requests):
            return [Completion("fall") for _ in requests]

    own = collector(corridor(policy=Falls()), allotment=Allotment(xi=1), trees=3)
    collected = own.collect(0)
    assert collected.groups == []  # all samples of a state fall, so there is nothing to compare
    assert own.over_ranks()[0] == collected.diagnostics["k"]["8"] == len(CORRIDORS)
    assert collected.diagnostics["k"]["0"] > 0
    assert own.episodes == len(CORRIDORS)  # eight samples that fall are one episode, said eight times
    assert sum(total for _, total in own.visits.counts.values()) == own.episodes


def test_a_lost_end_is_worth_no_more_for_having_been_lost_before():
    """If it were given up after xi losses, S(s) - 0 would pay for losing what R_succ pays for winning."""
    own = collector(allotment=Allotment(alpha=1.0, xi=2, repeats=4))
    lost = 0
    for version in range(20):
        collected = own.collect(version)
        members = [member for group in collected.groups for member in group.trajectories]
        for member, note in zip(members, collected.notes, strict=True):
            if member.end_reason == "failure":
                assert note["next_score"] == 1.0
                assert note["reward"] <= 0.5 * np.exp(-0.1 * note["visits"])  # w R_novel alone
                lost += note["visits"] > 2
    assert lost > 10


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_tree_expands_no_state_twice_and_a_task_has_as_many_trees_as_it_shall(repeats):
    own = collector(allotment=Allotment(alpha=1.0, repeats=repeats), trees=2)
    expanded, tasks = defaultdict(list), {}
    while own._positions < 5:
        own._wave()
        for tree in own._trees:
            if tree is not None:
                tasks[tree.number] = tree.root.task_id
                if tree.current is not None:
                    expanded[tree.number].append(own._key(tree.current))
    assert all(len(set(states)) == len(states) for states in expanded.values())
    growing = {tree.root.task_id for tree in own._trees if tree is not None}
    over = [task for task in tasks.values() if task not in growing]
    assert len(set(over)) >= 3
    assert {over.count(task) for task in over} == {repeats}


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_tree_begins_as_the_rollout_of_its_number_does(repeats, monkeypatch):
    own, begun = collector(allotment=Allotment(alpha=1.0, repeats=repeats), trees=2), []
    begin = own.worker.begin
    monkeypatch.setattr(own.worker, "begin", lambda specs: (begun.extend(specs), begin(specs))[1])
    while own._positions < 5:
        own._wave()
    rollouts = [own.order.episodes(position, repeats) for position in range(5)]
    assert all(any(spec in tasks for tasks in rollouts) for spec in begun)
    assert [sum(spec.rollout == number for spec in begun) > 0 for number in range(repeats + 1)] == [
        *[True] * repeats,
        False,
    ]


class Tabular:
    """A softmax over the actions of each observation, by the policy gradient of samples with advantages."""

    def __init__(self):
        self.logits = defaultdict(lambda: defaultdict(float))

    def shares(self, observation, actions):
        weights = np.exp([self.logits[observation][action] for action in actions])
        return weights / weights.sum()

    def act(self, requests):
        return [Completion(self._draw(request)) for request in requests]

    def _draw(self, request):
        below = TurnRng(request.seed, request.turn).below(1 << 30) / (1 << 30)
        cumulative = self.shares(request.observation, request.admissible_actions).cumsum()
        place = min(int((cumulative < below).sum()), len(cumulative) - 1)
        return request.admissible_actions[place]

    def learn(self, collected):
        batch = StepBatch.from_groups(collected.groups).with_columns(**collected.columns)
        steps = [member.steps[0] for group in collected.groups for member in group.trajectories]
        for step, advantage in zip(steps, spo3.advantage(batch), strict=True):
            now = self.shares(step.observation, step.admissible_actions)
            for action, share in zip(step.admissible_actions, now, strict=True):
                self.logits[step.observation][action] += 0.1 * advantage * ((action == step.action) - share)

    def chance(self, cells):
        """Of walking straight to the end of a corridor."""
        chance = 1.0
        for cell in range(cells):
            actions = ("right", "left", "fall") if cell else ("right", "fall")
            chance *= self.shares(f"cell {cell} of {cells}", actions)[0]
        return chance


def test_a_tabular_policy_learns_a_bandit_and_to_walk_to_the_end_of_corridors():
    """A corridor of one cell is a bandit; in longer ones only S tells a step that leads on from one back."""
    policy = Tabular()
    own = collector(corridor(8, policy), allotment=Allotment(alpha=1.0, xi=50), trees=7, budget=60)
    assert policy.chance(3) < 0.06
    for version in range(80):
        collected = own.collect(version)
        if collected.groups:
            policy.learn(collected)
    assert policy.chance(1) > 0.9
    assert min(policy.chance(cells) for cells in (2, 3, 4)) > 0.8


@pytest.mark.parametrize(
    "changes",
    [
        {"frontier": "all"},
        {"counts": "tree"},
        {"fixed_weight": 0.05},
        {"schedule": "visits"},
        {"schedule": "global"},
    ],
)
def test_options_of_trees_change_what_is_expanded(changes):
    def played(**options):
        own = collector(allotment=Allotment(alpha=1.0, **options))
        return [signature(own.collect(version)) for version in range(15)]

    assert played() == played()
    assert played(**changes) != played()


def test_without_backtracking_a_tree_is_one_branch():
    """3SPO, Table 2, "w/o Backtrack": the best is followed to its end, and the tree ends there."""
    begun = {}
    for backtracking in (False, True):
        worker = BranchingWorker(open_vector(EZPOINTS, 4, split="train"), RandomPolicy(), env_id=EZPOINTS)
        own = collector(worker, allotment=Allotment(backtracking=backtracking), budget=100)
        waited = 0
        for _ in range(12):
            own._wave()
            waited += sum(len(tree.frontier) for tree in own._trees if tree is not None)
        assert (waited > 0) == backtracking
        begun[backtracking] = own._begun
    assert begun[False] > begun[True]


def test_scores_are_logged_by_the_type_of_their_task():
    own = collector(trees=len(CORRIDORS))
    for _ in range(6):
        own._wave()
    by_type, scores = own.log._scores, own.log.taken()
    assert scores["score_by_task_type"] == {
        name: pytest.approx(np.mean(each)) for name, each in by_type.items()
    }
    assert set(by_type) == {"odd0", "odd1"}
    assert scores["states"]["score"] == pytest.approx(np.mean([x for each in by_type.values() for x in each]))
    assert "score_by_task_type" not in own.log.taken()


def test_what_is_left_out_of_the_reward_is_zero():
    full = Allotment().reward(True, 1.0, 0.5, 0.1, 10)
    assert full == pytest.approx(0.81036383, abs=1e-8)
    w = 0.5 * np.exp(-1)
    assert Allotment(novelty=False).reward(True, 1.0, 0.5, 0.1, 10) == pytest.approx(full - w)
    assert Allotment(gain=False).reward(True, 1.0, 0.5, 0.1, 10) == pytest.approx(full - (0.5 - w) * 0.4)
    assert Allotment(state_score=False).score(0, 100, depth=9) == 1.0
    fixed = [Allotment(fixed_weight=0.25).reward(True, 1.0, 0.5, 0.1, total) for total in (0, 10, 1000)]
    assert fixed == [pytest.approx(0.25 + 0.25 * 0.4 + 0.5)] * 3


MEETING, PARTS = threading.Barrier(2), {}


class Pair(Ranks):
    """Two ranks as threads of one process, which meet where they gather."""

    def gather(self, items):
        PARTS[self.rank] = list(items)
        MEETING.wait(300)
        both = [PARTS[0], PARTS[1]]
        MEETING.wait(300)
        return [both[n % 2][n // 2] for n in range(len(both[0]) + len(both[1]))]


def test_two_ranks_grow_the_trees_of_one():
    alone = collector()
    expected = [signature(alone.collect(version)) for version in range(10)]
    found = {}

    def play(rank):
        own = collector(ranks=Pair(rank, 2))
        found[rank] = [signature(own.collect(version)) for version in range(10)], own.state_dict()

    threads = [threading.Thread(target=play, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1] == (expected, alone.state_dict())


def test_waves_are_the_same_in_any_number_of_slots_and_after_a_checkpoint(tmp_path):
    whole = collector(corridor(num_envs=16))
    expected = [signature(whole.collect(version)) for version in range(12)]
    first = collector(corridor(num_envs=2))
    parts = [signature(first.collect(version)) for version in range(5)]
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second = collector(corridor(num_envs=3))
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    parts += [signature(second.collect(version)) for version in range(5, 12)]
    assert parts == expected
    assert second.state_dict() == whole.state_dict()
    with pytest.raises(UsageError, match=r"leave rollout\.tasks as it was"):
        collector(trees=3).load_state_dict(first.state_dict())


def test_constants_that_allot_nothing_between_are_warned_of_once():
    worker = corridor()
    (root,) = worker.begin([EpisodeSpec("corridor5", seed=0, rollout=0)])
    branches = worker.expand([(root, range(8))])[0]
    node = next(each for each in branches if each.step.action == "right").node(root)
    for alpha, warned in ((50.0, True), (1.0, False)):
        own = Allotment(alpha=alpha)
        log = TreeLog(own)
        states = [((won, 20), own.score(won, 20, depth=2)) for won in range(21)] * 6
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for visits, scored in states:
                log.state(node, visits, float(scored), own.samples(scored))
        assert ["G_max rollouts only" in str(each.message) for each in caught] == [True] * warned
        assert len(log.known) == ENOUGH
        resumed = TreeLog(own)
        resumed.load_state_dict(log.state_dict())
        resumed.state(node, (1, 20), 0.0, 0)  # no second warning


class Peaked:
    """Nine times out of ten the action that it likes best in a state, as a policy has that was trained."""

    def act(self, requests):
        return [Completion(self._draw(request)) for request in requests]

    def _draw(self, request):
        draws, actions = TurnRng(request.seed, request.turn), request.admissible_actions
        liked = int(request.state_hash[:6], 16)
        return actions[liked % len(actions) if draws.below(10) else draws.below(len(actions))]


def test_trees_find_more_states_than_groups_of_whole_episodes():
    """The same peaked policy and the same tasks, at equal samples and at equal steps of environments."""
    options = {"dim_room": [6, 6], "num_boxes": 1, "max_steps": 15}
    envs = open_vector(SOKOBAN, 8, split="train", options=options)
    order, steps, states = TaskOrder(envs.tasks, seed=0), 0, set()
    worker = RolloutWorker(envs, Peaked(), env_id=SOKOBAN)
    for position in range(3):
        for trajectory in worker.run(order.episodes(position, 8)):
            steps += len(trajectory.steps)
            states |= {f"{trajectory.task_id} {state}" for state in trajectory.state_hashes}
    branching = BranchingWorker(envs, Peaked(), env_id=SOKOBAN)
    own = TreeCollector(branching, order, Allotment(repeats=10**6), trees=3, budget=steps)
    while own.log.samples <= steps - 3 * own.allotment.largest:
        own._wave()
    assert own.log.samples <= steps
    assert len(own.log.hashes) > 1.1 * len(states)
    while own.log.played <= steps - 3 * own.allotment.largest:
        own._wave()
    assert own.log.played <= steps
    assert len(own.log.hashes) > 2 * len(states)
    assert {root for root, _ in own.visits.counts} <= {order.episodes(n, 1)[0].task_id for n in range(3)}
