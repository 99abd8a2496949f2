"""Plans reach the goal, are as short as trying everything finds, and are found from any state."""

import os
import subprocess
import sys
from collections import deque
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentgym.core.rng import TurnRng
from agentgym.envs.alfworld.builtin.tasks import builtin_tasks
from agentgym.envs.alfworld.engine.game import Game
from agentgym.envs.alfworld.planner.landmarks import HOPELESS, Relaxation
from agentgym.envs.alfworld.planner.planner import Planner, golden_steps
from agentgym.envs.alfworld.planner.planning_task import planning_task
from agentgym.envs.alfworld.planner.reductions import reachable, relevant, seen_from, simplified
from agentgym.envs.alfworld.source import load_game
from agentgym.envs.alfworld.tasks import stored_tasks
from tests.alfworld.cottage import DOMAIN, GRAMMAR, PROBLEM

COTTAGE = Game(DOMAIN, GRAMMAR, PROBLEM)


def commands(plan):
    return [operation.command for operation in plan.operations]


def replay(game, state, plan):
    """Play a plan by its commands; return the state it ends in."""
    for operation in plan.operations:
        state = game.apply(state, game.operations(state)[operation.command])
    return state


def distances(game):
    """Return {truth of a state: (a state with it, steps to the goal or None)}, by trying everything."""
    truth = (1 << game.planes.width) - 1
    states, sources = {game.initial & truth: game.initial}, {}
    queue = deque(states.values())
    while queue:
        state = queue.popleft()
        for operation in game.operations(state).values():
            after = game.apply(state, operation)
            sources.setdefault(after & truth, []).append(state & truth)
            if after & truth not in states:
                states[after & truth] = after
                queue.append(after)
    steps = {key: 0 for key in states if game.won(key)}
    queue = deque(steps)
    while queue:
        key = queue.popleft()
        for source in sources.get(key, ()):
            if source not in steps:
                steps[source] = steps[key] + 1
                queue.append(source)
    return {key: (state, steps.get(key)) for key, state in states.items()}


def check(game, stride=1):
    """Compare plans and bounds with trying everything, on every ``stride``-th reachable state."""
    planner = Planner(game)
    task = planning_task(game)
    for state, steps in list(distances(game).values())[::stride]:
        plan = planner.solve(state)
        if steps is None:
            assert plan is None
            continue
        assert plan is not None
        assert plan.shortest
        assert len(plan.operations) == steps
        assert game.won(replay(game, state, plan))
        bound = Relaxation(relevant(reachable(task, state))).bound(state)
        assert bound.steps <= steps
        assert (bound.steps == 0) == (steps == 0)


COTTAGE_PLAN = [
    "press lamp 2",
    "take mug 2 from shelf 2",
    "rub mug 2",
    "go to shelf 1",
    "put mug 2 on shelf 1",
]
"""The plan for `COTTAGE`."""

# ---- the cottage ---------------------------------------------------------------------------------


def test_a_plan():
    plan = Planner(COTTAGE).solve(COTTAGE.initial)
    assert commands(plan) == COTTAGE_PLAN
    assert plan.shortest


def test_plans_are_shortest_from_every_state():
    check(COTTAGE, stride=23)


PLACES, THINGS = ("shelf_bar_1", "shelf_bar_2", "chest_bar_7"), ("mug_bar_1", "pot_bar_1")
GOALS = (
    "(exists (?m - thing) (and (in ?m {p}) (warm ?m)))",
    "(exists (?m - thing) (and (in ?m {p}) (not (warm ?m)) (not (open {p}))))",
    "(exists (?m - thing) (and (holds me ?m) (at me {p})))",
    "(and (holds me {t}) (warm {t}) (not (lit lamp_bar_1)))",
    "(and (in {t} {p}) (not (busy me)) (not (at me {p})))",
    "(exists (?m - thing ?n - thing) (and (not (= ?m ?n)) (in ?m {p}) (in ?n {p})))",
)


@st.composite
def evenings(draw):
    """Draw a problem of the cottage: lids, where the things are, and a goal of many kinds."""
    lids = draw(st.sets(st.sampled_from(PLACES)))
    opened = draw(st.sets(st.sampled_from(sorted(lids)))) if lids else set()
    where = [draw(st.sampled_from(PLACES)) for _ in THINGS]
    heavy = draw(st.sets(st.sampled_from(THINGS), max_size=1))
    warm = draw(st.sets(st.sampled_from(THINGS), max_size=1))
    facts = [f"(at me {draw(st.sampled_from(PLACES))})", *(f"(lid {p})" for p in sorted(lids))]
    facts += [f"(stands lamp_bar_1 {p})" for p in PLACES]
    facts += [f"(open {p})" for p in sorted(opened)] + [f"(warm {t})" for t in sorted(warm)]
    facts += [f"(in {t} {p})" for t, p in zip(THINGS, where, strict=True)]
    facts += [f"(heavy {t})" for t in sorted(heavy)]
    goal = draw(st.sampled_from(GOALS)).format(
        p=draw(st.sampled_from(PLACES)), t=draw(st.sampled_from(THINGS))
    )
    return f"""(define (problem evening) (:domain cottage)
      (:objects me - agent {" ".join(PLACES)} - place {" ".join(THINGS)} - thing
        lamp_bar_1 - lamp)
      (:init {" ".join(facts)}) (:goal {goal}))"""


@given(problem=evenings())
@settings(max_examples=25)
def test_plans_are_shortest_in_any_evening(problem):
    game = Game(DOMAIN, GRAMMAR, problem)
    assume(game.goal)
    check(game, stride=401)


def test_any_plan_will_do_beyond_the_budget():
    plan = Planner(COTTAGE).solve(COTTAGE.initial, budget=0)
    assert not plan.shortest
    assert COTTAGE.won(replay(COTTAGE, COTTAGE.initial, plan))


def test_a_goal_out_of_reach_has_no_plan():
    problem = PROBLEM.replace("(in ?m shelf_bar_2)", "(in ?m shelf_bar_2) (holds me ?m)")
    game = Game(DOMAIN, GRAMMAR, problem)
    assert Planner(game).solve(game.initial) is None
    assert golden_steps(game) is None


def test_golden_steps():
    assert golden_steps(COTTAGE) == distances(COTTAGE)[COTTAGE.initial & ((1 << COTTAGE.planes.width) - 1)][1]


# ---- what is left out ----------------------------------------------------------------------------

WORLD = """
(define (domain world) (:types agent place thing)
  (:predicates (at ?a - agent ?p - place) (in ?t - thing ?p - place) (holds ?a - agent ?t - thing)
    (busy ?a - agent) (open ?p - place) (lid ?p - place) (flat ?p - place)
    (road ?p - place ?q - place) (rung) (dull))
  (:action go :parameters (?a - agent ?p - place ?q - place) :precondition (and (at ?a ?p) (road ?p ?q))
    :effect (and (at ?a ?q) (not (at ?a ?p))))
  (:action lift :parameters (?a - agent ?p - place)
    :precondition (and (at ?a ?p) (lid ?p) (not (open ?p))) :effect (open ?p))
  (:action shut :parameters (?a - agent ?p - place)
    :precondition (and (at ?a ?p) (open ?p)) :effect (not (open ?p)))
  (:action take :parameters (?a - agent ?t - thing ?p - place)
    :precondition (and (at ?a ?p) (in ?t ?p) (not (busy ?a)) (or (not (lid ?p)) (open ?p)))
    :effect (and (not (in ?t ?p)) (holds ?a ?t) (busy ?a)))
  (:action drop :parameters (?a - agent ?t - thing ?p - place)
    :precondition (and (at ?a ?p) (holds ?a ?t) (flat ?p) (or (not (lid ?p)) (open ?p)))
    :effect (and (in ?t ?p) (not (holds ?a ?t)) (not (busy ?a))))
  (:action knock :parameters (?a - agent ?p - place) :precondition (and (at ?a ?p) (lid ?p))
    :effect (and (when (open ?p) (rung)) (when (not (open ?p)) (dull)))))
"""

WORDS = 'grammar :: """{"intro": [{"rhs": "-"}], "task": [{"rhs": "-"}]}""";' + "".join(
    f'action {name} {{ template :: "{name} {words}"; feedback :: "-"; }}'
    for name, words in (
        ("go", "{q}"),
        ("lift", "{p}"),
        ("shut", "{p}"),
        ("take", "{t}"),
        ("drop", "{t} {p}"),
        ("knock", "{p}"),
        ("juggle", "{t}"),
    )
)


JUGGLE = """(:action juggle :parameters (?a - agent ?t - thing) :precondition (holds ?a ?t)
    :effect (not (busy ?a))))"""


def world(goal, *facts, roads="ab ba bc cb ac ca", domain=WORLD):
    """Return a game of three places; things can be put down in a and c, and c has a lid."""
    ways = " ".join(f"(road {way[0]} {way[1]})" for way in roads.split())
    start = " ".join(facts) or "(in key a) (in coin c)"
    return Game(
        domain,
        WORDS,
        f"(define (problem p) (:domain world) (:objects me - agent a b c - place key coin - thing)"
        f"(:init (at me a) (lid c) (flat a) (flat c) {ways} {start}) (:goal {goal}))",
    )


def named(actions):
    """Return schemas and objects, the agent left out."""
    return [" ".join((action.schema, *action.objects[1:])) for action in actions]


def kept(game):
    """Return what a plan from the start may consist of."""
    return set(named(seen_from(simplified(planning_task(game), game.initial), game.initial).actions))


def test_only_what_serves_the_goal_remains():
    # no shutting, no key (nothing to be done with it), no stop at b
    remains = {"go a c", "go c a", "lift c", "take coin a", "take coin c", "drop coin a", "drop coin c"}
    assert kept(world("(holds me coin)")) == remains


def test_what_the_goal_asks_for_is_not_left_out():
    assert "shut c" in kept(world("(and (in key c) (not (open c)))"))
    assert "take key a" in kept(world("(and (in key c) (not (open c)))"))
    assert "go a b" in kept(world("(and (at me b) (in coin c))"))


def test_what_is_held_already_can_be_put_down():
    game = world("(holds me coin)", "(holds me key)", "(busy me)", "(in coin c)")
    assert {"drop key a", "drop key c"} <= kept(game)
    assert not {"take key a", "take key c"} & kept(game)
    assert named(Planner(game).plan(game.initial)) == ["drop key a", "go a c", "lift c", "take coin c"]


def test_a_thing_matters_if_only_taking_it_does():
    assert golden_steps(world("(not (in key b))", "(in key b)", "(in coin c)")) == 2


@pytest.mark.parametrize(
    ("facts", "domain"),
    [
        (["(holds me key)", "(in coin c)"], WORLD),  # holds something, yet is free
        (["(holds me key)", "(holds me coin)", "(busy me)"], WORLD),
        (["(in key a)", "(in coin c)"], WORLD.rstrip()[:-1] + JUGGLE),
    ],
)
def test_who_may_hold_several_things_takes_what_it_likes(facts, domain):
    assert {"take key a", "take key c"} <= kept(world("(holds me coin)", *facts, domain=domain))


def test_what_an_effect_depends_on_remains():
    game = world("(and (rung) (dull))", "(in key a) (in coin c) (open c)", roads="ac")
    plan = named(Planner(game).plan(game.initial))
    assert plan == ["go a c", "knock c", "shut c", "knock c"]
    check(game)


def test_what_is_made_true_and_false_at_once_is_true():
    assert golden_steps(world("(and (not (at me a)) (not (at me b)))", roads="aa ab")) is None


def test_a_stop_on_the_only_way_is_no_detour():
    game = world("(in key c)", roads="ab bc")
    plan = Planner(game).plan(game.initial)
    assert named(plan) == ["take key a", "go a b", "go b c", "lift c", "drop key c"]


@pytest.mark.parametrize("roads", ["ab ba bc cb ac ca", "ab bc ca", "ab ba bc cb", "ac ca"])
@pytest.mark.parametrize(
    "goal",
    [
        "(in key c)",
        "(and (in key c) (not (open c)))",
        "(and (in key c) (in coin a))",
        "(and (in key c) (in coin a) (at me b))",
        "(and (not (in coin c)) (not (open c)))",
        "(or (and (in key b) (in coin b)) (and (in key a) (holds me coin) (not (open c))))",
        "(and (not (busy me)) (not (in coin c)))",
        "(and (busy me) (at me c))",
        "(and (in key c) (not (at me a)) (not (at me c)))",
        "(and (rung) (not (open c)) (in coin a))",
    ],
)
def test_nothing_left_out_makes_a_plan_longer(goal, roads):
    check(world(goal, roads=roads))


def test_a_bound_counts_landmarks():
    game = world("(in coin a)")
    task = seen_from(simplified(planning_task(game), game.initial), game.initial)
    bound = Relaxation(task).bound(game.initial)
    assert bound.steps == 4  # go, lift, take, drop; going back is for nothing where nothing becomes false
    assert {task.actions[k].schema for k in bound.landmarks} == {"go", "lift", "take", "drop"}
    assert golden_steps(game) == 5


def test_a_dead_end_has_no_plan():
    game = world("(in key c)", roads="ab ac")
    state = game.initial
    for step in ("take key a", "go a b"):
        operations = game.operations(state).values()
        state = game.apply(state, next(o for o in operations if named([o]) == [step]))
    assert Relaxation(planning_task(game)).bound(state).steps < HOPELESS  # as if one could always go
    assert Planner(game).solve(state) is None
    assert Planner(game).solve(game.initial) is not None


def test_plans_are_the_same_in_every_process():
    program = (
        "from tests.alfworld.cottage import *; from agentgym.envs.alfworld.engine.game import Game;"
        "from agentgym.envs.alfworld.planner.planner import Planner; game = Game(DOMAIN, GRAMMAR, PROBLEM);"
        "print([o.command for o in Planner(game).plan(game.initial)])"
    )
    root = Path(__file__).parents[2]
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert printed == {f"{COTTAGE_PLAN}\n"}


# ---- real kitchens -------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["train", "valid_seen", "valid_unseen"])
def test_generated_games_are_as_long_as_they_say(split):
    for task in builtin_tasks(split)[:30]:
        assert golden_steps(load_game(task.content)) == task.metadata["optimal_steps"]


def wander(game, seed):
    """Play at random, but never win; return where that leads."""
    draws = TurnRng(seed, turn=0)
    state = game.initial
    for _ in range(draws.below(200)):
        operations = game.operations(state)
        after = game.apply(state, operations[sorted(operations)[draws.below(len(operations))]])
        if not game.won(after):
            state = after
    return state


@pytest.mark.assets
@pytest.mark.slow
def test_every_published_game_can_be_won_from_any_state():
    """From the start within the step limit; after wandering about, unless the goal is out of reach."""
    proven = []
    for number, task in enumerate(
        stored_tasks("valid_seen", "official", types=None, dialect="game", on_error="raise")
    ):
        game = load_game(task.content)
        planner = Planner(game)
        plan = planner.solve(game.initial)
        assert game.won(replay(game, game.initial, plan))
        assert len(plan.operations) <= 50
        proven.append(plan.shortest)
        state = wander(game, number)
        plan = planner.solve(state)
        if plan is None:
            assert not reachable(planning_task(game), state).goals
        else:
            assert game.won(replay(game, state, plan))
            proven.append(plan.shortest)
    assert len(proven) > 250
    assert all(proven)
