"""PDDL by the book: states are sets of facts, and everything is tried. Slow, and no part of the engine."""

from itertools import product

from agentgym.envs.alfworld.engine.pddl import (
    And,
    AtomCondition,
    Exists,
    Forall,
    Or,
    parse_domain,
    parse_problem,
)


class Naive:
    """A problem's objects and rules."""

    def __init__(self, domain, problem):
        self.domain = parse_domain(domain)
        self.problem = parse_problem(problem, self.domain)
        self.changing = {
            effect.literal.predicate for schema in self.domain.schemas for effect in schema.effects
        }

    def objects(self, kind):
        return [name for name, own in self.problem.objects if kind in (own, "object")]

    def bindings(self, variables):
        names = [name for name, _ in variables]
        for values in product(*(self.objects(kind) for _, kind in variables)):
            yield dict(zip(names, values, strict=True))

    def holds(self, condition, facts, binding):
        match condition:
            case AtomCondition("=", (one, other), positive):
                return (binding.get(one, one) == binding.get(other, other)) == positive
            case AtomCondition(predicate, arguments, positive):
                return ((predicate, *(binding.get(a, a) for a in arguments)) in facts) == positive
            case And(parts):
                return all(self.holds(part, facts, binding) for part in parts)
            case Or(parts):
                return any(self.holds(part, facts, binding) for part in parts)
            case Exists(variables, body):
                return any(self.holds(body, facts, binding | own) for own in self.bindings(variables))
            case Forall(variables, body):
                return all(self.holds(body, facts, binding | own) for own in self.bindings(variables))

    def applicable(self, facts):
        """Return (action, objects) of everything whose precondition holds."""
        return {
            (schema.name, tuple(binding.values()))
            for schema in self.domain.schemas
            for binding in self.bindings(schema.parameters)
            if self.holds(schema.precondition, facts, binding)
        }

    def apply(self, facts, name, objects):
        """Return the facts after an action."""
        (schema,) = (schema for schema in self.domain.schemas if schema.name == name)
        binding = {variable: value for (variable, _), value in zip(schema.parameters, objects, strict=True)}
        adds, deletes = set(), set()
        for effect in schema.effects:
            for own in self.bindings(effect.variables):
                full = binding | own
                if self.holds(effect.condition, facts, full):
                    fact = (effect.literal.predicate, *(full.get(a, a) for a in effect.literal.arguments))
                    (adds if effect.literal.positive else deletes).add(fact)
        return (facts - deletes) | adds

    def won(self, facts):
        return self.holds(self.problem.goal, facts, {})
