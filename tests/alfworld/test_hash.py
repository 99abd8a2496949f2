"""States hash by what is, not by how it came to be: equal where and only where the facts are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.core.types import Snapshot
from agentgym.envs.alfworld.engine.game import HISTORY, Game
from agentgym.envs.alfworld.engine.pddl import parse_domain, predicates_read
from agentgym.envs.alfworld.engine.scene import Scene
from agentgym.envs.alfworld.env import ALFWorldEnv
from agentgym.envs.alfworld.source import load_scene
from benchmarks.parity.state_hash import Audit, BitsView, audit, flip
from tests.alfworld.cottage import DOMAIN, GRAMMAR, PROBLEM
from tests.alfworld.naive import Naive

SCENE, NAIVE = Scene(Game(DOMAIN, GRAMMAR, PROBLEM)), Naive(DOMAIN, PROBLEM)
COTTAGE = SCENE.game

LAMP = """
(define (domain lamps)
 (:types agent location receptacle object)
 (:predicates (atLocation ?a - agent ?l - location) (isOn ?o - object) (warm ?o - object)
  (isToggled ?o - object) (checked ?what))
 (:action look :parameters (?a - agent ?l - location) :precondition (atLocation ?a ?l)
  :effect (checked ?l))
 (:action use :parameters (?a - agent ?l - location ?o - object) :precondition (atLocation ?a ?l)
  :effect (and (isToggled ?o) (when (isOn ?o) (not (isOn ?o))) (when (not (isOn ?o)) (isOn ?o))
   (when (isOn ?o) (warm ?o)))))
"""
"""A lamp that has a switch: it was used, it is lit, and it grew warm since it was lit when used."""

PATHS = st.lists(st.lists(st.integers(0, 60), max_size=40), min_size=2, max_size=4)


def follow(path):
    """Yield (state, facts by the book) along a path, checking that both can do the same."""
    state, facts = COTTAGE.initial, NAIVE.problem.init
    yield state, facts
    for step in path:
        operations = COTTAGE.operations(state)
        commands = tuple(operations)
        # what would change nothing at all is not offered; all else by the book is
        offered = {(o.schema, o.objects) for o in operations.values()}
        book = NAIVE.applicable(facts)
        assert offered <= book
        assert all(NAIVE.apply(facts, *key) == facts for key in book - offered)
        operation = operations[commands[step % len(commands)]]
        state = COTTAGE.apply(state, operation)
        facts = frozenset(NAIVE.apply(facts, operation.schema, operation.objects))
        assert COTTAGE.won(state) == NAIVE.won(facts)
        yield state, facts


@settings(max_examples=60)
@given(PATHS)
def test_physical_states_are_facts_by_the_book_without_their_history(paths):
    facts_of, bytes_of = {}, {}
    for path in paths:
        for state, facts in follow(path):
            physical = SCENE.identity(state)
            lasting = frozenset(fact for fact in facts if fact[0] not in HISTORY)
            assert facts_of.setdefault(physical, lasting) == lasting
            assert bytes_of.setdefault(lasting, physical) == physical


def test_history_counts_where_something_depends_on_it():
    anytime, once = (
        ":precondition () :effect (and (checked",
        ":precondition (not (checked ?a)) :effect (and (checked",
    )
    never_twice = DOMAIN.replace(anytime, once)
    assert never_twice != DOMAIN
    for domain, differs in ((DOMAIN, False), (never_twice, True)):
        scene = Scene(Game(domain, GRAMMAR, PROBLEM))
        game = scene.game
        after = game.apply(game.initial, game.operations(game.initial)["wait"])
        assert after != game.initial
        assert (scene.identity(after) != scene.identity(game.initial)) == differs


def lasting_facts(game, bits):
    """Return a state's facts without history; of predicates whose record is not the truth, the truth."""
    truth, shown = game.planes.truth, game.planes.shown
    recorded_apart = {fact[0] for fact, bit in truth.items() if shown[fact] != bit}
    facts = {fact for fact in game.facts(bits) if fact[0] not in HISTORY | recorded_apart}
    facts |= {fact for fact, bit in truth.items() if fact[0] in recorded_apart and bits & bit}
    return frozenset(fact for fact in facts if not fact[0].startswith("not_"))


@settings(max_examples=15)
@given(number=st.integers(0, 11), paths=PATHS)
def test_hashes_of_an_environment_tell_states_apart(number, paths):
    env = ALFWorldEnv(max_steps=1000)
    task = env.tasks[number]
    game = load_scene(task.content).game
    hash_of, facts_of, commands_of = {}, {}, {}
    for path in paths:
        _, info = env.reset(options={"task": task.id})
        for step in path:
            facts, key, commands = (
                lasting_facts(game, env.snapshot().state.bits),
                info["state_hash"],
                info["admissible_actions"],
            )
            assert hash_of.setdefault(facts, key) == key
            assert facts_of.setdefault(key, facts) == facts
            assert commands_of.setdefault(key, commands) == commands
            _, _, terminated, _, info = env.step(commands[step % len(commands)])
            if terminated:
                break


def test_two_ways_to_one_state():
    env = ALFWorldEnv()
    task = env.tasks[0]
    env.reset(options={"task": task.id})
    first, second = [action for action in env.admissible_actions() if action.startswith("go to")][:2]
    straight = env.step(first)[-1]["state_hash"]
    env.reset(options={"task": task.id})
    env.step("look")
    env.step("inventory")
    env.step(second)
    assert env.state_hash() != straight
    assert env.step(first)[-1]["state_hash"] == straight


@pytest.mark.parametrize(
    ("texts", "roots", "read"),
    [
        ((), (), {"atlocation"}),
        ((), ("istoggled",), {"atlocation"}),
        (("checked",), (), {"atlocation", "checked"}),
        ((), ("ison",), {"atlocation", "ison"}),
        (("warm",), (), {"atlocation", "warm", "ison"}),
        ((), ("warm",), {"atlocation", "ison"}),
    ],
)
def test_what_only_an_unread_atom_depends_on_is_unread(texts, roots, read):
    assert predicates_read(parse_domain(LAMP), frozenset(texts), frozenset(roots)) == read


OLD_IDS = ("a60d2e2c46c6394853cd8755dd743006", "5f69c8ba14f185420d88f7ed0455101f")
NEW_IDS = ("cec2576ad96a3442b4f6fd7d54194c83", "d80fb6b2173fe14384bc830b262f5d39")

DIALECTS = [("builtin", "game"), ("official", "game"), ("official", "current")]


@pytest.mark.assets
@pytest.mark.parametrize("dialect", ["game", "current"])
def test_a_lamp_used_twice_is_one_state(dialect):
    """What is said and can be done is equal, and so is the hash; by state schema 1 each use made another."""
    hashes = {}
    for schema in (1, 2):
        env = ALFWorldEnv(split="valid_seen", dataset="official", dialect=dialect, max_steps=1_000)
        env.state_schema = schema
        task = next(task for task in env.tasks if task.type == "look")
        _, info = env.reset(options={"task": task.id})
        commands = info["admissible_actions"]
        while not (use := [command for command in commands if command.startswith("use ")]):
            place = next(command for command in commands if command.startswith("go to "))
            commands = env.step(place)[-1]["admissible_actions"]
            rest = iter([command for command in env.admissible_actions() if command.startswith("go to ")])
            while not [c for c in commands if c.startswith("use ")]:
                commands = env.step(next(rest))[-1]["admissible_actions"]
        answers = [env.step(use[0]) for _ in range(3)]
        assert len({answer[0] for answer in answers}) == 1
        assert len({answer[-1]["admissible_actions"] for answer in answers}) == 1
        hashes[schema] = [answer[-1]["state_hash"] for answer in answers]
    assert len(set(hashes[1])) == 2
    assert len(set(hashes[2])) == 1
    assert not set(hashes[1]) & set(hashes[2])


@pytest.mark.parametrize(
    ("dataset", "dialect"),
    [pytest.param(*each, marks=pytest.mark.assets if each[0] == "official" else ()) for each in DIALECTS],
)
def test_states_that_hash_equal_are_bisimilar(dataset, dialect):
    """A small `benchmarks.parity.state_hash`: equal hashes answer alike, and unread atoms show in nothing."""
    found, rng = Audit(dialect), np.random.default_rng(1)
    env = ALFWorldEnv(split="valid_unseen", dataset=dataset, dialect=dialect)
    for task in env.tasks[:3]:
        view = BitsView(load_scene(task.content, dialect))
        seen = audit(view, found, 120, rng)
        flip(view, seen[:2], found, rng)
    assert not any(found.differences.values())
    assert found.hashes < found.states > 300
    left_out = {kind: counts for kind, counts in found.flips.items() if "left out" in kind}
    assert all(noticed == 0 < turned for turned, noticed in left_out.values())
    assert any(noticed for kind, (_, noticed) in found.flips.items() if kind not in left_out)


def test_the_audit_notices_a_hash_that_covers_too_little():
    class Coarse(BitsView):
        def identity(self, state):
            return b""

    found = Audit("coarse")
    audit(Coarse(SCENE), found, 40, np.random.default_rng(0))
    assert found.differences["shown"] > 0


def test_schema_1_is_hashed_as_it_was():
    """Ids of golden episode 0's first two states before schema 2, and now."""
    ids = {}
    for schema in (1, 2):
        env = ALFWorldEnv()
        env.state_schema = schema
        _, info = env.reset(seed=0)
        ids[schema] = info["state_hash"], env.step(info["admissible_actions"][0])[-1]["state_hash"]
    assert ids == {1: OLD_IDS, 2: NEW_IDS}


def test_a_snapshot_of_schema_1_is_restored():
    env = ALFWorldEnv()
    env.reset(seed=0)
    env.step(env.admissible_actions()[0])
    new = env.snapshot()
    env.state_schema = 1
    env.reset(seed=0)
    env.step(env.admissible_actions()[0])
    old = env.snapshot()
    assert (old.schema, new.schema) == (1, 2)
    elsewhere = ALFWorldEnv()
    observation, info = elsewhere.restore(Snapshot.from_bytes(old.to_bytes()))
    again, told = elsewhere.restore(Snapshot.from_bytes(new.to_bytes()))
    assert (observation, info) == (again, told)
