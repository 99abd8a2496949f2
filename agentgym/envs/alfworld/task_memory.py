"""Task memory: a player's memory of the objects that the task names, in few words.

`agentgym.envs.alfworld.memory.RoomMemory` reads an episode; `recall_for_task` tells of it what the words of
the task name, where there is something to be found still, and what was done in vain. The wording
``alfworld-memory-task`` tells that instead of past turns.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

from agentgym.core.types import Request
from agentgym.envs.alfworld.memory import NONE, RoomMemory, commands_of, named
from agentgym.prompts.fields import PromptFields


def recall_for_task(request: Request, task: str = "") -> str:
    """Return the remembered objects and places that a task names.

    - ``unknown``: the places not looked into yet, in the order of names. A kind of places follows its mark
      without a blank: for a model whose tokens are words those are other tokens than elsewhere.
    - ``held``: what is held, with what was done to it.
    - ``here``: the place gone to last, and whether it is closed.
    - ``tried``: the commands given since something became known, or was moved, taken or treated, the last
      one first and each once. Of ``go to`` the place alone is told.
    - ``named``: of each word of the task that names a kind of things or places known so far, in the task's
      order, whether such a thing is ``held``, which ones were ``moved`` where by the player and which others
      were ``seen`` where, ``here`` for the place gone to last; or whether such a place is ``here`` or
      ``away``.

    Things that the task does not name are left out, and places that were looked into.

    Example:
        >>> request = Request(episode=0, task_id="t", task_type="", turn=0, observation="A kitchen.", seed=7,
        ...                   admissible_actions=("go to drawer 2", "go to drawer 1", "look"), state_hash="0")
        >>> print(recall_for_task(request, "put a mug in drawer."))
        unknown:drawer 1 2
        held: none
        here: none
        tried: none
        named: drawer away
    """
    tried: list[str] = []
    known: Hashable = None
    memory = RoomMemory()
    for turn, memory in enumerate(RoomMemory.replay(request)):
        before, known = known, _knowledge(memory)
        if turn:
            tried = [*tried, request.history[turn - 1].action] if known == before else []
    unknown = _by_kind(memory.receptacles - memory.searched)
    facts = {
        "held": " ".join(memory.held_words()),
        "here": " ".join(memory.place_words()),
        "tried": " ".join(_shortened(reversed(tried))),
        "named": " ".join(named(memory, task, _placed)),
    }
    lines = [f"{label}: {words or NONE}" for label, words in facts.items()]
    return "\n".join((f"unknown:{unknown}" if unknown else f"unknown: {NONE}", *lines))


def task_memory_fields(request: Request, *, history: int) -> PromptFields:
    """Return the parts of a prompt, with `recall_for_task` for the observation and past turns.

    The task is told after it, for what a small model reads last it finds most easily.
    """
    given = PromptFields.of(request, history=0)
    return replace(given, task="", observation=f"{recall_for_task(request, given.task)}\ntask: {given.task}")


def _knowledge(memory: RoomMemory) -> Hashable:
    """Return the knowledge without the player's own place and the open doors there."""
    return (
        frozenset(memory.receptacles - memory.searched),
        frozenset(memory.at.items()),
        memory.held,
        frozenset(memory.treated),
    )


def _by_kind(places: Iterable[str]) -> str:
    """Return places in order, each kind once, with a mark between kinds: ``drawer 1 10 2,shelf 4``."""
    numbers: dict[str, list[str]] = {}
    for place in sorted(places):
        kind, _, number = place.partition(" ")
        numbers.setdefault(kind, []).append(number)
    return ",".join(f"{kind} {' '.join(own)}" for kind, own in numbers.items())


def _shortened(actions: Iterable[str]) -> list[str]:
    """Return commands in few words, each once; what is no command is left out."""
    commands = commands_of(tuple(dict.fromkeys(action.strip() for action in actions)))
    return [
        " ".join(([] if verb == "go to" else [verb]) + [thing] + ([place] if place else []))
        for _, verb, thing, place in commands
    ]


def _placed(memory: RoomMemory, label: str, things: Iterable[str]) -> list[str]:
    """Return, for each place of some things, a label, the things' numbers and the place; ``here`` first."""
    numbers: dict[str, list[str]] = {}
    for thing in things:
        numbers.setdefault(memory.at[thing], []).append(thing.partition(" ")[2])
    order = sorted(numbers, key=lambda place: (place != memory.place, place))
    return [
        word
        for place in order
        for word in (label, *numbers[place], "here" if place == memory.place else place)
    ]
