"""States hash by what is, not by how it came to be: equal where and only where the facts are."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.alfworld.engine.game import HISTORY, Game
from agentgym.envs.alfworld.env import ALFWorldEnv
from agentgym.envs.alfworld.source import load_game
from tests.alfworld.cottage import DOMAIN, GRAMMAR, PROBLEM
from tests.alfworld.naive import Naive

COTTAGE, NAIVE = Game(DOMAIN, GRAMMAR, PROBLEM), Naive(DOMAIN, PROBLEM)

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
            physical = COTTAGE.physical(state)
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
        game = Game(domain, GRAMMAR, PROBLEM)
        after = game.apply(game.initial, game.operations(game.initial)["wait"])
        assert after != game.initial
        assert (game.physical(after) != game.physical(game.initial)) == differs


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
    game = load_game(task.content)
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
