"""PDDL is read exactly, or refused with the name of what is wrong."""

import pytest

from agentgym.envs.alfworld.engine.pddl import (
    TRUE,
    And,
    AtomCondition,
    Effect,
    Exists,
    Forall,
    Or,
    negate,
    parse_domain,
    parse_problem,
    read,
)
from agentgym.errors import UsageError
from tests.alfworld.cottage import DOMAIN, PROBLEM


def domain(action="", types="agent box", predicates="(at ?a - agent ?b - box) (shut ?b - box) (tired)"):
    return f"(define (domain d) (:types {types}) (:predicates {predicates}) {action})"


def action(precondition="()", effect="(tired)", parameters="?a - agent ?b - box"):
    return f"(:action go :parameters ({parameters}) :precondition {precondition} :effect {effect})"


def problem(init="(at me crate)", goal="(tired)", objects="me - agent crate - box"):
    return f"(define (problem p) (:domain d) (:objects {objects}) (:init {init}) (:goal {goal}))"


def test_read_is_case_insensitive_and_drops_comments():
    assert read("(A (b) ; (not this\n C)") == ["a", ["b"], "c"]


def test_conditions_become_trees():
    at, shut = AtomCondition("at", ("?a", "?b")), AtomCondition("shut", ("?c",))
    text = action("(and (at ?a ?b) (or (tired) (not (exists (?c - box) (and (shut ?c) (at ?a ?b))))))")
    (schema,) = parse_domain(domain(text)).schemas
    tired = AtomCondition("tired", ())
    nobody = Forall((("?c", "box"),), Or((negate(shut), negate(at))))
    assert schema.precondition == And((at, Or((tired, nobody))))
    assert schema.parameters == (("?a", "agent"), ("?b", "box"))


def test_imply_is_a_disjunction():
    (schema,) = parse_domain(domain(action("(imply (shut ?b) (tired))"))).schemas
    assert schema.precondition == Or((AtomCondition("shut", ("?b",), False), AtomCondition("tired", ())))


def test_negation_is_pushed_down_and_undone():
    condition = Exists((("?b", "box"),), Or((AtomCondition("shut", ("?b",)), TRUE)))
    assert negate(negate(condition)) == condition


def test_effects_carry_their_conditions_and_variables():
    text = "(and (increase (total-cost) 1) (forall (?c - box) (when (shut ?c) (not (shut ?c)))) (at ?a ?b))"
    (schema,) = parse_domain(domain(action(effect=text))).schemas
    shut = AtomCondition("shut", ("?c",))
    assert schema.effects == (
        Effect(negate(shut), shut, (("?c", "box"),)),
        Effect(AtomCondition("at", ("?a", "?b")), TRUE),
    )


def test_a_comma_belongs_to_the_type_before_it():
    (schema,) = parse_domain(domain(action("(exists (?x - box, ?y - box) (at ?a ?y))"))).schemas
    assert schema.precondition == Exists((("?x", "box,"), ("?y", "box")), AtomCondition("at", ("?a", "?y")))


def test_distances_are_no_facts():
    found = parse_problem(problem("(at me crate) (= (distance a b) 3)"), parse_domain(domain()))
    assert found.init == {("at", "me", "crate")}
    assert found.goal == AtomCondition("tired", ())
    assert found.objects == (("me", "agent"), ("crate", "box"))


def test_what_a_domain_changes_and_looks_at():
    found = parse_domain(DOMAIN)
    assert found.fluents == {"at", "in", "holds", "busy", "lit", "warm", "open", "checked", "bright"}
    assert {"heavy", "lid", "stands", "lit", "at"} < found.tested
    assert "checked" not in found.tested
    assert found.arities["holds"] == 2


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "cut short"),
        ("(define (domain d)", "cut short"),
        ("(define (domain d)))", "too many"),
        ("(" * 200 + ")" * 200, "nested"),
        ("(define (problem d))", r"\(domain"),
        ("(define (domain d) (:derived (p) (q)))", ":derived"),
        ("(define (domain d) stray)", "stray"),
        ("(define (domain d) ())", "domain"),
        (domain(types="thing - object box - thing"), "box below thing"),
        (domain(types="box - (either a b)"), "either"),
        (domain(types="box -"), "names and types"),
        (domain(predicates="()"), ":predicates"),
        (domain("(:action)"), "action"),
        (domain("(:action go :parameters)"), "go"),
        (domain("(:action go :duration (= 1 1))"), ":duration"),
        (domain("(:action go :effect tired)"), "go"),
        (domain(action("(asleep ?a)")), "asleep"),
        (domain(action("(shut ?a ?b)")), "shut of 2"),
        (domain(action("(shut ?z)")), r"\?z"),
        (domain(action("(not)")), "not"),
        (domain(action("(exists ?z (shut ?z))")), "variables"),
        (domain(action("(exists (z) (shut z))")), "variables"),
        (domain(action(parameters="?a ?a - agent")), "variables"),
        (domain(action("(when (tired) (shut ?b))")), "when"),
        (domain(action("(< (cost) 1)")), "<"),
        (domain(action("((tired))")), "condition"),
        (domain(action(effect="(asleep ?a)")), "asleep"),
        (domain(action(effect="(at ?a)")), "at of 1"),
        (domain(action(effect="(not tired)")), "effect"),
        (domain(action(effect="(when (tired))")), "when"),
        (domain(action(effect="(assign (cost) 1)")), "assign"),
    ],
)
def test_a_bad_domain_is_named(text, named):
    with pytest.raises(UsageError, match=named):
        parse_domain(text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (PROBLEM[:200], "cut short"),
        (domain(), r"\(problem"),
        (problem("()"), ":init"),
        (problem("(not (tired))"), ":init"),
        (problem("(asleep me)"), "asleep"),
        (problem("(at me)"), "at of 1"),
        (problem("(at me barrel)"), "barrel"),
        (problem(goal="(at me barrel)"), "barrel"),
        (problem(goal="(preference (tired))"), "preference"),
        (problem(goal="(tired) (tired)"), ":goal"),
        (problem(goal=""), ":goal"),
    ],
)
def test_a_bad_problem_is_named(text, named):
    with pytest.raises(UsageError, match=named):
        parse_problem(text, parse_domain(domain()))
