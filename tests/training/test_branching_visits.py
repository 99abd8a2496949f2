"""3SPO by number: whose visits a state has, what time it is, what an action costs, when a run is over."""

import numpy as np
import pytest

from agentgym.agents.random import RandomPolicy
from agentgym.algos.state_score import Allotment
from agentgym.core.types import Completion
from agentgym.training.stages.branching.worker import BranchingWorker
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.training.test_branching import collector, corridor


class Nameless(CorridorEnv):
    """A corridor whose observations do not tell its length, so that those of other tasks read alike."""

    def _observe(self):
        return f"cell {self._cell}"


class NamelessVector(CorridorVectorEnv):
    env_class = Nameless


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # cell 0 of the corridor of 3: one trajectory of its task, won; depth 1, one visit, two of the run
        ({"scope": "task", "schedule": "depth"}, ((1, 1), 1.0)),
        ({"scope": "task", "schedule": "visits"}, ((1, 1), 1.0)),
        ({"scope": "task", "schedule": "global"}, ((1, 1), 0.33333333)),  # exp(-ln 3)
        # the corridor of 5 shows the same text, and was lost: p = 1/2
        ({"scope": "all", "schedule": "depth"}, ((1, 2), 1.0)),
        ({"scope": "all", "schedule": "visits"}, ((1, 2), 0.70710678)),  # exp(-ln 2 / 2)
        ({"scope": "all", "schedule": "global"}, ((1, 2), 0.57735027)),  # exp(-ln 3 / 2), the public code's
    ],
)
def test_whose_visits_a_state_has_and_what_time_it_is(options, expected):
    worker = BranchingWorker(
        NamelessVector(2, autoreset_mode="Disabled"), RandomPolicy(), env_id="test/Corridor-v0"
    )
    own = collector(worker, allotment=Allotment(alpha=1.0, **options), trees=7, by_text=True)
    own._plant()
    ways = {"corridor3": (["right"] * 3, True), "corridor5": (["right", "fall"], False)}
    names = {task.id: task.source_id for task in worker.envs.tasks}
    trees = {}
    for tree in own._trees:
        name = names[tree.root.task_id]
        if name in ways:
            trees[name] = tree
            actions, won = ways[name]
            node = tree.current
            for action in actions:
                worker.policy = Always(action)
                (branch,) = worker.expand([(node, [0])])[0]
                ended = branch.trajectory(node, worker.env_id, whole=True)
                node = node if branch.end_reason else branch.node(node)
            assert (ended.won, len(ended.steps)) == (won, len(actions))
            own._finish(tree, ended)
    root = trees["corridor3"]
    visits, score = own._scored(root, own._key(root.current), root.current.depth)
    assert visits == expected[0]
    assert score == pytest.approx(expected[1], abs=1e-6)


class Always:
    def __init__(self, action):
        self.action = action

    def act(self, requests):
        return [Completion(self.action) for _ in requests]


def test_an_action_that_is_not_accepted_costs_its_sample_the_penalty():
    class Jumps:
        def act(self, requests):
            return [Completion("jump" if request.seed % 2 else "right") for request in requests]

    def rewards(**options):
        own = collector(corridor(policy=Jumps()), allotment=Allotment(alpha=1.0, **options), trees=7)
        (group, *_), found = (lambda c: (c.groups, c.columns["reward"]))(own.collect(0))
        valid = [member.steps[0].valid for member in group.trajectories]
        return valid, found[: len(valid)]

    valid, plain = rewards()
    assert set(valid) == {True, False}
    same, dearer = rewards(penalty=0.1)
    assert same == valid
    np.testing.assert_allclose(plain - dearer, np.where(valid, 0.0, 0.1), atol=1e-12)


@pytest.mark.parametrize("batches", [1, 3])
def test_a_run_of_batches_is_over_with_their_last_tree(batches):
    own = collector(allotment=Allotment(alpha=1.0, batches=batches), trees=4, budget=20)
    for version in range(1000):
        collected = own.collect(version)
        if collected.over:
            break
    assert own._begun == 4 * batches
    assert own.over_ranks()[1] == 0
    assert collected.diagnostics["trees"]["batches"] == batches
    assert own.collect(version + 1).groups == []
