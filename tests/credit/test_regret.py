"""Regret on graphs worked by hand, by brute force in small games, and on official games of ALFWorld."""

import math
from collections import deque
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agentgym.core.distances import NO_WAY, StepBounds
from agentgym.core.episodes import taken_step
from agentgym.core.types import Completion
from agentgym.credit.regret import (
    EpisodeRegret,
    RegretSummary,
    goal_distance,
    measure_regret,
    regret_of_run,
    step_regret,
    total,
)
from agentgym.envs.alfworld.engine.game import Game
from agentgym.envs.alfworld.env import ALFWorldEnv
from agentgym.envs.alfworld.planner.distances import Distances
from agentgym.envs.alfworld.planner.planner import golden_steps
from agentgym.envs.alfworld.source import load_game
from agentgym.envs.ezpoints.cards import deals, pair_of
from agentgym.envs.ezpoints.env import EZPointsEnv
from agentgym.envs.ezpoints.formula import accepted, positions, wins
from agentgym.envs.sokoban.env import SokobanEnv
from agentgym.envs.webshop.env import WebShopEnv
from agentgym.errors import UsageError
from agentgym.evaluation.log.frames import EpisodeFrame
from agentgym.evaluation.verify.archives import open_run
from benchmarks.credit.regret import actions_in
from tests.alfworld.cottage import DOMAIN, GRAMMAR, PROBLEM
from tests.alfworld.test_planner import distances

RUNS = Path(__file__).parents[2] / "benchmarks" / "runs"

INF = math.inf


def exactly(*steps):
    return tuple(StepBounds(each, each) for each in steps)


def shortest(graph, goal="W"):
    """Return the steps from each node to the goal by trying everything."""
    left = {goal: 0}
    queue = deque([goal])
    while queue:
        node = queue.popleft()
        for before in (each for each, after in graph.items() if node in after and each not in left):
            left[before] = left[node] + 1
            queue.append(before)
    return {node: left.get(node, INF) for node in (*graph, goal)}


GRAPHS = {
    # S - A - W, and from A back to S
    "cycle": ({"S": "A", "A": "SW"}, "SASAW", 9, (2, 1, 2, 1, 0), (0, 2, 0, 0), None),
    # B leads to itself alone
    "dead end": ({"S": "AB", "A": "W", "B": "B"}, "SBBB", 9, (2, INF, INF, INF), (INF, 0, 0), 1),
    # T looks like a way and is four steps from W
    "trap": ({"S": "AT", "A": "W", "T": "C", "C": "D", "D": "E", "E": "W"}, "STCDEW", 9,
             (2, 4, 3, 2, 1, 0), (3, 0, 0, 0, 0), None),
    # both of the same length
    "two ways": ({"S": "AB", "A": "W", "B": "W"}, "SBW", 9, (2, 1, 0), (0, 0), None),
    # the same trap with four steps in all: after the first, four are needed and three are left
    "step limit": ({"S": "AT", "A": "W", "T": "C", "C": "D", "D": "E", "E": "W"}, "STCDE", 4,
                   (2, 4, 3, 2, 1), (3, 0, 0, 0), 1),
    # standing still until two steps are needed and one is left
    "waiting": ({"S": "SA", "A": "W"}, "SSSS", 3, (2, 2, 2, 2), (1, 1, 1), 2),
    # lost before it begins
    "no way": ({"S": "S"}, "SSS", 9, (INF, INF, INF), (0, 0), None),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph(name):
    graph, path, limit, left, regret, decisive = GRAPHS[name]
    found = shortest(graph)
    assert tuple(found[node] for node in path) == left
    measured = EpisodeRegret(exactly(*left), exactly(*regret), limit)
    assert measured.known == exactly(*regret)
    assert measured.decisive == decisive
    if path[-1] == "W":
        assert total(measured.known).high == len(path) - 1 - left[0]


def test_progress_is_undone_where_more_steps_are_left():
    assert EpisodeRegret(exactly(2, 1, 2, 2, 1), (), 9).undone == (False, True, False, False)


@pytest.mark.parametrize(
    ("before", "after", "regret"),
    [
        ((3, 3), (2, 2), (0, 0)),
        ((3, 5), (4, 4), (0, 2)),
        ((3, 3), (4, 6), (2, 4)),
        ((3, INF), (4, INF), (0, INF)),
        ((3, 3), (INF, INF), (INF, INF)),
        ((INF, INF), (INF, INF), (0, 0)),
    ],
)
def test_bounds_of_distances_are_bounds_of_regret(before, after, regret):
    assert step_regret(StepBounds(*before), StepBounds(*after)) == regret


def test_a_step_is_decisive_only_where_it_is_proven():
    doubtful = EpisodeRegret((StepBounds(2, 2), StepBounds(2, 9), StepBounds(3, 9)), (), 4)
    assert doubtful.decisive == 2
    assert doubtful.undone == (False, False)


def test_a_summary():
    won = EpisodeRegret(exactly(2, 1, 2, 1, 0), exactly(0, 1, 0, 0), 9)
    lost = EpisodeRegret(exactly(2, INF, INF), exactly(INF, 0), 9)
    summary = RegretSummary.of([won, lost])
    assert (summary.episodes, summary.steps, summary.undone, summary.dead_ends) == (2, 6, 2, 1)
    assert (summary.known, summary.belief) == exactly(0.4, 0.2)
    assert (summary.decisive, summary.unproven) == ((1,), 0)
    assert str(RegretSummary.of([]).known) == "0"


def test_bounds_in_words():
    assert [str(StepBounds(*each)) for each in ((3, 3), (3, 4.5), (3, INF), NO_WAY)] == [
        "3", "3..4.5", "3..none", "none",
    ]  # fmt: skip


# ---- games, by brute force -----------------------------------------------------------------------


def test_ezpoints_from_every_position():
    env = EZPointsEnv(split="unseen_pairs")
    seen = 0
    for task in {pair_of(task.content): task for task in deals("unseen_pairs")}.values():
        env.reset(options={"task": task.id})
        distance, pair = goal_distance(env), pair_of(task.content)
        left = {}
        for tokens in sorted(positions(pair), key=len, reverse=True):  # a position's successors are longer
            after = [left[(*tokens, action)] for action in accepted(pair, tokens)]
            left[tokens] = 0 if wins(pair, tokens) else 1 + min(after, default=INF)
            assert distance.left(tokens) == (left[tokens], left[tokens])
            seen += 1
    assert seen > 1000


@pytest.mark.parametrize(("boxes", "seed"), [(1, 0), (1, 3), (2, 1)])
def test_sokoban_from_every_board(boxes, seed):
    env = SokobanEnv(num_boxes=boxes, max_steps=None)
    env.reset(seed=seed)
    first = env.snapshot()
    boards, before = {first.state.board: first}, {}
    queue = deque(boards.values())
    while queue and len(boards) < 3000:
        snapshot = queue.popleft()
        if snapshot.terminated:
            continue
        for action in ("up", "down", "left", "right"):
            env.restore(snapshot)
            env.step(action)
            after = env.snapshot()
            before.setdefault(after.state.board, set()).add(snapshot.state.board)
            if after.state.board not in boards:
                boards[after.state.board] = after
                queue.append(after)
    assert not queue
    left = {board: 0 for board in boards if b"$" not in board}
    queue = deque(left)
    while queue:
        board = queue.popleft()
        for each in before.get(board, set()) - left.keys():
            left[each] = left[board] + 1
            queue.append(each)
    distance = goal_distance(env)
    for board, snapshot in list(boards.items())[:: 1 + len(boards) // 400]:
        steps = left.get(board, INF)
        assert distance.left(snapshot.state) == (steps, steps)


def test_distances_are_shortest_from_every_state_of_the_cottage():
    game = Game(DOMAIN, GRAMMAR, PROBLEM)
    proven = Distances(game)
    for state, steps in distances(game).values():
        assert proven.left(state) == ((INF, INF) if steps is None else (steps, steps))


def test_a_budget_leaves_an_interval():
    env = ALFWorldEnv(split="valid_seen")
    env.reset(seed=1)
    game = load_game(env.task.content)
    steps = golden_steps(game)
    low, high = Distances(game).left(game.initial, budget=1)
    assert low <= steps <= high < INF


def test_a_suite_without_shortest_ways_is_one_line():
    env = WebShopEnv()
    env.reset(seed=0)
    with pytest.raises(UsageError, match="webshop: no shortest way to a win can be proven"):
        goal_distance(env)


# ---- what a player cannot know -------------------------------------------------------------------


def played(env, actions):
    """Play an episode; return its regret."""
    observation, info = env.reset(options={"task": env.task.id})

    def states():
        nonlocal observation, info
        yield EpisodeFrame(None, observation, info["admissible_actions"], info["state_hash"], "", 0.0, False)
        for action in actions:
            outcome = env.step(action)
            step = taken_step(observation, info, Completion(action), outcome, sided=False)
            observation, info = outcome[0], outcome[4]
            yield EpisodeFrame(step, observation, (), info["state_hash"], "", 0.0, info["won"])

    return measure_regret(env, states())


def house(family, seed):
    env = ALFWorldEnv(split="valid_seen", task_types=[family])
    env.reset(seed=seed)
    return env


def test_looking_into_unseen_places_is_no_mistake():
    # the book is on the ottoman, and might be in the drawer; going there again, or nowhere, is a mistake
    env = house("pick", 3)
    actions = (
        "go to drawer 1",
        "open drawer 1",
        "look",
        "go to shelf 1",
        "go to drawer 1",
        "go to ottoman 1",
    )
    regret = played(env, (*actions, "take book 1 from ottoman 1", "move book 1 to sofa 1"))
    assert regret.left == exactly(4, 4, 4, 4, 4, 4, 3, 2, 2)
    assert regret.known == exactly(1, 1, 1, 1, 1, 0, 0, 1)
    assert regret.belief == exactly(0, 0, 1, 0, 1, 0, 0, 1)


def test_what_is_sought_has_to_fit():
    # laptops and lamps are never in drawers; a lamp may be on the sofa
    regret = played(house("look", 1), ("go to drawer 1", "open drawer 1", "go to sofa 1"))
    assert regret.known == exactly(1, 1, 1)
    assert regret.belief == exactly(1, 1, 0)


def test_a_place_seen_by_its_things_alone_is_no_excuse():
    env = house("look", 1)
    regret = played(env, ("go to coffeetable 1", "take laptop 1 from coffeetable 1", "go to sofa 1", "look"))
    assert regret.known == exactly(0, 0, 1, 1)
    assert regret.belief == exactly(0, 0, 0, 1)


@pytest.mark.parametrize("family", ["pick", "look", "clean", "heat", "cool", "pick2"])
def test_belief_regret_is_at_most_regret(family):
    env = house(family, 5)
    rng = np.random.default_rng(5)
    actions = []
    for _ in range(25):
        actions.append(str(rng.choice(env.admissible_actions())))
        env.step(actions[-1])
    regret = played(env, actions)
    assert len(regret.belief) == len(regret.known) == 25
    assert all(
        0 <= b.low <= k.low and b.high <= k.high for b, k in zip(regret.belief, regret.known, strict=True)
    )


def test_where_all_is_seen_both_are_one():
    env = SokobanEnv(num_boxes=2)
    env.reset(seed=1)
    regret = played(env, ("up", "left", "down", "right", "up"))
    assert regret.belief == regret.known


# ---- runs ----------------------------------------------------------------------------------------


def check_run(name, *, oracle=False):
    run = open_run(RUNS / name)
    found = list(regret_of_run(run, [each for each in run.results if not each.env.startswith("WebShop")]))
    assert found
    for episode, regret in found:
        assert all(left.low == left.high for left in regret.left)
        if episode.won:
            assert total(regret.known).high == episode.length - regret.left[0].high
            assert regret.left[-1] == (0, 0)
            assert regret.decisive is None
        if oracle:
            assert total(regret.known) == total(regret.belief) == (0, 0)
    return found


def test_a_committed_run():
    found = check_run("demo/random-65e5d599f8e1.run.xz")
    assert sum(episode.won for episode, _ in found) == 296
    assert all(regret.decisive for episode, regret in found if not episode.won)


@pytest.mark.assets
@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("unseen-game/oracle-00982e5da40f", True),
        ("unseen-game/rules-542c4837c9ff", False),
        ("unseen-current/oracle-96d8703cae99", True),
        ("seen-game/oracle-95691bcd4e63", True),
        ("seen-game/rules-71b264b4dd7a", False),
    ],
)
def test_official_games(name, oracle):
    assert len(check_run(f"official-alfworld-{name}.run.xz", oracle=oracle)) in (134, 140)


def test_a_run_that_replays_otherwise_is_refused():
    run = open_run(RUNS / "demo" / "random-65e5d599f8e1.run.xz")
    episode = run.results[0]
    forged = replace(episode, actions=("up", *episode.actions[1:]), hash_chain=episode.hash_chain[:1] * 3)
    with pytest.raises(UsageError, match=r"step 1: the replay comes to another state .*`agentgym verify` it"):
        list(regret_of_run(run, [forged]))


def test_thoughts_of_a_log_are_no_actions():
    text = (
        "> think: a mug?\nOK.\n>go to desk 1\nYou see a mug 1.\n> Think: so\n> ActionPath: Start\n> look\n>\n"
    )
    assert actions_in(text) == ["go to desk 1", "look"]
