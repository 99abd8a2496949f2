; Housework: one agent with one hand, in one room.
;
; Every receptacle stands at a location, and several may share one. The agent reaches whatever stands
; where it is. Names of predicates, types and actions are those that ALFRED's planning files use, so
; that tools written for these work on both.
;
; "imply (openable ?r) (opened ?r)" reads: no door is in the way.

(define (domain housework)
  (:requirements :adl :typing)

  (:types agent location receptacle object rtype otype)

  (:predicates
    ; fixed
    (receptacleAtLocation ?r - receptacle ?l - location)
    (receptacleType ?r - receptacle ?t - rtype)
    (openable ?r - receptacle)
    (objectType ?o - object ?t - otype)
    (canContain ?r - rtype ?o - otype)
    (pickupable ?o - object)
    (cleanable ?o - object)
    (heatable ?o - object)
    (coolable ?o - object)
    (sliceable ?o - object)
    (toggleable ?o - object)
    ; changing
    (atLocation ?a - agent ?l - location)
    (inReceptacle ?o - object ?r - receptacle)
    (holds ?a - agent ?o - object)
    (holdsAny ?a - agent)
    (opened ?r - receptacle)
    (isClean ?o - object)
    (isHot ?o - object)
    (isCool ?o - object)
    (isSliced ?o - object)
    (isToggled ?o - object)
    ; what has been looked at: the effect of actions that change nothing
    (checked ?what)
  )

  ; ---- moving about ------------------------------------------------------------------------

  (:action GotoLocation
    :parameters (?a - agent ?from - location ?to - location ?r - receptacle)
    :precondition (and (receptacleAtLocation ?r ?to) (atLocation ?a ?from) (not (= ?from ?to)))
    :effect (and (atLocation ?a ?to) (not (atLocation ?a ?from))))

  (:action OpenObject
    :parameters (?a - agent ?l - location ?r - receptacle)
    :precondition (and (openable ?r) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (not (opened ?r)))
    :effect (opened ?r))

  (:action CloseObject
    :parameters (?a - agent ?l - location ?r - receptacle)
    :precondition (and (openable ?r) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (opened ?r))
    :effect (not (opened ?r)))

  ; ---- carrying ----------------------------------------------------------------------------

  (:action PickupObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
    :precondition (and
      (pickupable ?o)
      (receptacleAtLocation ?r ?l)
      (atLocation ?a ?l)
      (inReceptacle ?o ?r)
      (imply (openable ?r) (opened ?r))
      (not (holdsAny ?a)))
    :effect (and (holds ?a ?o) (holdsAny ?a) (not (inReceptacle ?o ?r))))

  (:action PutObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle ?ot - otype ?rt - rtype)
    :precondition (and
      (canContain ?rt ?ot)
      (receptacleType ?r ?rt)
      (objectType ?o ?ot)
      (receptacleAtLocation ?r ?l)
      (atLocation ?a ?l)
      (holds ?a ?o)
      (imply (openable ?r) (opened ?r)))
    :effect (and (inReceptacle ?o ?r) (not (holds ?a ?o)) (not (holdsAny ?a))))

  ; ---- working on what is held -------------------------------------------------------------

  (:action CleanObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and
      (cleanable ?o)
      (receptacleType ?r SinkBasinType)
      (receptacleAtLocation ?r ?l)
      (atLocation ?a ?l)
      (holds ?a ?o))
    :effect (isClean ?o))

  (:action HeatObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and
      (heatable ?o)
      (receptacleType ?r MicrowaveType)
      (receptacleAtLocation ?r ?l)
      (atLocation ?a ?l)
      (holds ?a ?o))
    :effect (and (isHot ?o) (not (isCool ?o))))

  (:action CoolObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and
      (coolable ?o)
      (receptacleType ?r FridgeType)
      (receptacleAtLocation ?r ?l)
      (atLocation ?a ?l)
      (holds ?a ?o))
    :effect (and (isCool ?o) (not (isHot ?o))))

  (:action SliceObject
    :parameters (?a - agent ?l - location ?co - object ?ko - object ?r - receptacle)
    :precondition (and
      (sliceable ?co)
      (or (objectType ?ko KnifeType) (objectType ?ko ButterKnifeType))
      (receptacleAtLocation ?r ?l)
      (atLocation ?a ?l)
      (inReceptacle ?co ?r)
      (imply (openable ?r) (opened ?r))
      (holds ?a ?ko))
    :effect (isSliced ?co))

  ; ---- a switch has two actions, both of which one commands with "use" -----------------------

  (:action ToggleObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
    :precondition (and
      (toggleable ?o)
      (receptacleAtLocation ?r ?l)
      (atLocation ?a ?l)
      (inReceptacle ?o ?r)
      (not (isToggled ?o)))
    :effect (isToggled ?o))

  (:action ToggleObjectOff
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
    :precondition (and
      (toggleable ?o)
      (receptacleAtLocation ?r ?l)
      (atLocation ?a ?l)
      (inReceptacle ?o ?r)
      (isToggled ?o))
    :effect (not (isToggled ?o)))

  ; ---- looking -----------------------------------------------------------------------------

  (:action look
    :parameters (?a - agent ?l - location)
    :precondition (atLocation ?a ?l)
    :effect (checked ?l))

  (:action examineReceptacle
    :parameters (?a - agent ?l - location ?r - receptacle)
    :precondition (and (receptacleAtLocation ?r ?l) (atLocation ?a ?l))
    :effect (checked ?r))

  (:action examineObject
    :parameters (?a - agent ?o - object)
    :precondition (holds ?a ?o)
    :effect (checked ?o))

  (:action inventory
    :parameters (?a - agent)
    :precondition ()
    :effect (checked ?a))

  (:action help
    :parameters (?a - agent)
    :precondition ()
    :effect (checked ?a))
)
