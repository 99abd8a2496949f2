"""What can happen in a problem, as Fast Downward's translator finds it."""

import pytest

from agentgym.envs.alfworld.engine.grounding import Objects, disjuncts, ground
from agentgym.envs.alfworld.engine.pddl import AtomCondition, Exists, Forall, Or, parse_domain, parse_problem
from agentgym.errors import UsageError
from tests.alfworld.cottage import DOMAIN, PROBLEM


def grounded(domain, problem):
    domain = parse_domain(domain)
    problem = parse_problem(problem, domain)
    return ground(domain, problem, Objects.of(domain, problem))


def tiny(actions, init="(at spot)", objects="spot other - place rock - thing"):
    head = "(:types place thing) (:predicates (at ?p - place) (seen ?p - place) (near ?p ?q - place))"
    domain = f"(define (domain d) {head} {actions})"
    return grounded(domain, f"(define (problem p) (:objects {objects}) (:init {init}) (:goal (at spot)))")


def test_only_what_can_be_reached_can_change():
    found = grounded(DOMAIN, PROBLEM)
    fluents = set(found.fluents)
    assert list(found.fluents) == sorted(fluents)
    assert ("in", "mug_bar_1", "chest_bar_7") in fluents
    assert ("holds", "me", "mug_bar_2") in fluents
    assert ("holds", "me", "anvil_bar_1") not in fluents  # too heavy, and stays where it is
    assert ("open", "shelf_bar_1") not in fluents  # it has no lid
    assert ("lid", "chest_bar_7") in found.static
    assert all(fact[0] != "lid" for fact in fluents)


def test_operators_with_every_way_their_precondition_can_hold():
    found = grounded(DOMAIN, PROBLEM)
    walks = [objects for schema, objects in found.operators if schema == "walk"]
    assert len(walks) == 3 * 2  # never from a place to itself
    tests = found.operators["take", ("me", "mug_bar_2", "chest_bar_7")]
    needs = {frozenset(test[0]) for test in tests}
    assert needs == {
        frozenset({("at", "me", "chest_bar_7"), ("in", "mug_bar_2", "chest_bar_7"), ("open", "chest_bar_7")})
    }
    assert all(forbids == (("busy", "me"),) for _, forbids in tests)
    (free,) = found.operators["clap", ("me",)]
    assert free == ((), ())


def test_an_undeclared_type_has_no_objects():
    found = tiny(
        "(:action look :parameters () :precondition (exists (?p - place, ?q - place) (near ?p ?q))"
        " :effect (seen spot))",
        init="(near spot other)",
    )
    assert found.operators == {}


def test_the_root_type_has_every_object():
    domain = parse_domain("(define (domain d) (:types place) (:constants home - place))")
    problem = parse_problem("(define (problem p) (:objects rock) (:init) (:goal ()))", domain)
    objects = Objects.of(domain, problem)
    assert objects.members == {"place": ("home",), "object": ("home", "rock")}
    assert objects.type_of == {"home": "place", "rock": "object"}


def test_a_variable_that_nothing_binds_takes_every_object_of_its_type():
    found = tiny("(:action glance :parameters (?p - place) :precondition () :effect (seen ?p))")
    assert {objects for _, objects in found.operators} == {("spot",), ("other",)}


def test_one_variable_twice_in_an_atom():
    action = "(:action spin :parameters (?p - place) :precondition (near ?p ?p) :effect (seen ?p))"
    found = tiny(action, init="(near spot other) (near other other)")
    assert list(found.operators) == [("spin", ("other",))]


def test_exists_and_or_give_one_conjunction_each():
    condition = Exists((("?p", "place"),), Or((AtomCondition("at", ("?p",)), AtomCondition("seen", ("?p",)))))
    found = list(disjuncts(condition, None))
    assert [(list(variables.values()), [x.predicate for x in literals]) for variables, literals in found] == [
        (["place"], ["at"]),
        (["place"], ["seen"]),
    ]


def test_forall_goes_over_the_objects_there_are():
    domain = parse_domain("(define (domain d) (:types place) (:predicates (at ?p - place)))")
    text = "(define (problem p) (:objects a b - place) (:init) (:goal ()))"
    objects = Objects.of(domain, parse_problem(text, domain))
    ((variables, literals),) = disjuncts(Forall((("?p", "place"),), AtomCondition("at", ("?p",))), objects)
    assert variables == {}
    assert literals == (AtomCondition("at", ("a",)), AtomCondition("at", ("b",)))


@pytest.mark.parametrize(
    ("precondition", "named"),
    [("(forall (?q - place) (at ?q))", "forall"), ("(= ?p spot)", "=")],
)
def test_what_preconditions_cannot_be(precondition, named):
    action = f"(:action go :parameters (?p - place) :precondition {precondition} :effect (seen ?p))"
    with pytest.raises(UsageError, match=f"unknown construct in PDDL action.*{named}|{named} in a precond"):
        tiny(action)
