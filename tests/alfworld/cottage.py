"""A small world with every construct that the engine understands; nothing in it is published."""

DOMAIN = """
(define (domain cottage)
  (:requirements :adl :typing)
  (:types agent place thing lamp)
  (:predicates (at ?a - agent ?p - place) (in ?t - thing ?p - place) (holds ?a - agent ?t - thing)
    (stands ?l - lamp ?p - place)
    (busy ?a - agent) (lit ?l - lamp) (warm ?t - thing) (open ?p - place) (lid ?p - place)
    (checked ?o) (heavy ?t - thing) (bright))
  (:functions (total-cost) - number)
  (:action wait :parameters (?a - agent) :precondition () :effect (and (checked ?a)))
  (:action walk :parameters (?a - agent ?from - place ?to - place)
    :precondition (and (at ?a ?from) (not (= ?from ?to)))
    :effect (and (not (at ?a ?from)) (at ?a ?to) (increase (total-cost) 1)))
  (:action lift :parameters (?a - agent ?p - place)   ; a lid
    :precondition (and (at ?a ?p) (lid ?p) (not (open ?p))) :effect (open ?p))
  (:action shut :parameters (?a - agent ?p - place)
    :precondition (and (at ?a ?p) (lid ?p) (open ?p)) :effect (not (open ?p)))
  (:action take :parameters (?a - agent ?t - thing ?p - place)
    :precondition (and (at ?a ?p) (in ?t ?p) (not (busy ?a)) (not (heavy ?t)) (imply (lid ?p) (open ?p)))
    :effect (and (not (in ?t ?p)) (holds ?a ?t) (busy ?a) (not (warm ?t))))
  (:action drop :parameters (?a - agent ?t - thing ?p - place)
    :precondition (and (at ?a ?p) (holds ?a ?t) (or (not (lid ?p)) (open ?p)))
    :effect (and (in ?t ?p) (not (holds ?a ?t)) (not (busy ?a))))
  (:action rub :parameters (?a - agent ?t - thing)
    :precondition (exists (?p - place) (and (at ?a ?p) (or (in ?t ?p) (holds ?a ?t))))
    :effect (and (warm ?t) (checked ?t)))
  (:action press :parameters (?a - agent ?l - lamp)
    :precondition (or (bright) (exists (?p - place) (and (at ?a ?p) (stands ?l ?p))))
    :effect (and (when (lit ?l) (not (lit ?l))) (when (not (lit ?l)) (lit ?l))))
  (:action clap :parameters (?a - agent) :precondition ()
    :effect (and (bright)
      (forall (?l - lamp) (when (exists (?p - place) (and (at ?a ?p) (stands ?l ?p))) (lit ?l))))))
"""

PROBLEM = """
(define (problem evening) (:domain cottage)
  (:objects me - agent shelf_bar_1 shelf_bar_2 chest_bar_7 - place
    mug_bar_1 mug_bar_2 anvil_bar_1 - thing lamp_bar_1 lamp_bar_2 - lamp)
  (:init (at me shelf_bar_1) (lid chest_bar_7) (= (total-cost) 0)
    (in mug_bar_1 shelf_bar_1) (in mug_bar_2 chest_bar_7) (stands lamp_bar_1 shelf_bar_1)
    (stands lamp_bar_2 shelf_bar_2) (in anvil_bar_1 shelf_bar_2) (heavy anvil_bar_1) (lit lamp_bar_2))
  (:goal (exists (?m - thing) (and (in ?m shelf_bar_2) (warm ?m) (not (heavy ?m)) (lit lamp_bar_1)))))
"""

GRAMMAR = '''
grammar :: """
    {
        "intro": [{"rhs": "An evening in.\\n#around#\\n\\n#task#"}],
        "task": [{"rhs": "Your task is to: warm a mug."}],
        "around": [
            {"condition": "at(a:agent, p:place) & lid(p:place) & not_open(p:place)", "rhs": "It was shut."},
            {"rhs": "Here: [{t.indefinite + ' ' + t.name | at(a:agent, p:place) & in(t:thing, p:place)}]."}
        ],
        "mood": [{"condition": "bright()", "rhs": "bright"}, {"rhs": "dim"}],
        "list_empty": [{"rhs": "nothing"}],
        "list_separator": [{"rhs": ", "}],
        "list_last_separator": [{"rhs": ", and "}]
    }
""";

action wait { template :: "wait"; feedback :: "It is #mood#. #around#"; }
action walk { template :: "go to {to}"; feedback :: "At {to.name}. #around#"; }
action lift { template :: "open {p}"; feedback :: "{p.definite + ' ' + p.name} is open. #around#"; }
action shut { template :: "close {p}"; feedback :: "Closed."; }
action take { template :: "take {t} from {p}"; feedback :: "You take {t} ({t.id})."; }
action drop { template :: "put {t} on {p}"; feedback :: "You put {t} down.{#list# | holds(a:agent, t:thing)}";
    grammar :: """
        # what else is held
        {"list": [{"rhs": " Still."}]}
    """;
}
action rub { template :: "rub {t}"; feedback :: "#rubbed#";
    grammar :: """
        {"rubbed": [
            {"condition": "warm(t:thing) & holds(a:agent, t:thing)", "rhs": "{t} warms your hand."},
            {"rhs": "{t} is warm."}
        ]}
    """;
}
action press { template :: "press {l}"; feedback :: "#pressed#";
    grammar :: """
        {"pressed": [{"condition": "lit(l:lamp)", "rhs": "{l} is lit."}, {"rhs": "{l} is dark."}]}
    """;
}
action clap { template :: "clap";
    feedback :: "Lit: [{l.name | lit(l:lamp)}], dark: [{l.name | not_lit(l:lamp)}]."; }
'''
