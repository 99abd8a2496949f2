"""Games of a domain and a grammar share their code, and what they do not share is in their tables."""

import pytest

from agentgym.envs.alfworld.engine.game import Game
from agentgym.envs.alfworld.engine.grounding import ground, ground_problem
from agentgym.envs.alfworld.engine.packing import pack, pack_problem, problem_digest, unpack
from agentgym.envs.alfworld.engine.pddl import goal_form, parse_domain, parse_goal
from agentgym.envs.alfworld.engine.program import SplitGrammar, split_grammar
from agentgym.errors import UsageError
from tests.alfworld.cottage import DOMAIN, GRAMMAR, PROBLEM

SENTENCE = "Your task is to: warm a mug."


def test_games_that_differ_in_the_task_share_their_code():
    one = Game(DOMAIN, GRAMMAR, PROBLEM)
    other = Game(DOMAIN, GRAMMAR.replace(SENTENCE, "Rest."), PROBLEM.replace("evening", "morning"))
    assert one.program is other.program
    assert (one.task(), other.task()) == (SENTENCE, "Rest.")
    assert other.intro() == one.intro().replace(SENTENCE, "Rest.")


@pytest.mark.parametrize("sentence", ["#mood#", "warm {x}", ""])
def test_a_task_that_is_no_plain_sentence_stays_in_the_grammar(sentence):
    grammar = GRAMMAR.replace(SENTENCE, sentence)
    assert split_grammar(grammar) == SplitGrammar(grammar, None)


def test_a_task_made_by_a_rule_is_said():
    assert (
        Game(DOMAIN, GRAMMAR.replace(SENTENCE, "It is #mood#: rest."), PROBLEM).task() == "It is dim: rest."
    )


def test_two_tasks_stay_in_the_grammar():
    grammar = GRAMMAR + 'grammar :: """{"task": [{"rhs": "Rest."}]}""";'
    assert split_grammar(grammar).task is None
    assert Game(DOMAIN, grammar, PROBLEM).task() == "Rest."


def test_everything_that_applies_is_an_operator_and_the_other_way_round():
    game = Game(DOMAIN, GRAMMAR, PROBLEM)
    operators = {(schema, objects): tests for schema, objects, tests in game.operators()}
    truth = game.planes.truth
    seen, queue = {game.initial}, [game.initial]
    while queue and len(seen) < 300:
        state = queue.pop(0)
        found = game.operations(state)
        able = set()
        for (schema, objects), tests in operators.items():
            for needs, forbids in tests:
                wanted = all(state & truth[fact] for fact in needs)
                unwanted = any(state & truth.get(fact, 0) for fact in forbids)
                operation = game.operation(schema, objects)
                if wanted and not unwanted and operation is not None:
                    able.add(operation.command)
        assert able == set(found)
        for operation in found.values():
            after = game.apply(state, operation)
            if after not in seen:
                seen.add(after)
                queue.append(after)


def test_forall_is_for_goals_only():
    game = Game(DOMAIN, GRAMMAR, PROBLEM.replace("(exists (?m - thing) (and", "(forall (?m - lamp) (and"))
    assert not game.won(game.initial)
    domain = DOMAIN.replace("(when (lit ?l) (not", "(when (forall (?x - lamp) (lit ?x)) (not")
    assert domain != DOMAIN
    with pytest.raises(UsageError, match="forall"):
        Game(domain, GRAMMAR, PROBLEM)


def test_a_condition_too_large_is_refused():
    parts = " ".join(f"(exists (?m{k} - thing) (warm ?m{k}))" for k in range(120))
    start = PROBLEM.index("(:goal")
    with pytest.raises(UsageError, match="too large to compile"):
        Game(DOMAIN, GRAMMAR, f"{PROBLEM[:start]}(:goal (and {parts})))")


def test_an_object_without_a_fact_has_no_name():
    game = Game(DOMAIN, GRAMMAR, PROBLEM.replace("chest_bar_7 - place", "chest_bar_7 attic - place"))
    with pytest.raises(UsageError, match="no fact mentions attic"):
        game.choices(game.initial)


def test_a_problem_survives_its_bytes():
    domain = parse_domain(DOMAIN)
    found = ground_problem(domain, PROBLEM)
    read = unpack(pack_problem(DOMAIN, PROBLEM))
    assert (read.fluents, read.static, set(read.start)) == (found.fluents, found.static, set(found.start))
    assert read.goal == found.goal == parse_goal(goal_form(PROBLEM))
    assert ground(domain, read.problem(), read.objects).fluents == found.fluents
    game = Game(DOMAIN, GRAMMAR, PROBLEM, read)
    assert (
        game.choices(game.initial).commands == Game(DOMAIN, GRAMMAR, PROBLEM).choices(game.initial).commands
    )
    assert problem_digest(DOMAIN, PROBLEM) != problem_digest(DOMAIN, PROBLEM + " ")


def test_a_problem_too_large_for_its_bytes_is_refused():
    names = " ".join(f"m{k}" for k in range(66_000))
    found = ground_problem(parse_domain(DOMAIN), PROBLEM)
    types = {**found.objects.type_of, **dict.fromkeys(names.split(), "thing")}
    large = type(found)(type(found.objects)(types), found.static, found.fluents, found.start, found.goal)
    with pytest.raises(UsageError, match="65,535"):
        pack(large, goal_form(PROBLEM))
