"""A household in words: the task's sentence, and the whole game's text."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

from agentgym.core.hashing import content_id
from agentgym.envs.alfworld.builtin.catalogue import ROOMS
from agentgym.envs.alfworld.builtin.generator import Household
from agentgym.envs.alfworld.builtin.problem import problem
from agentgym.envs.alfworld.builtin.walkthrough import walkthrough
from agentgym.envs.alfworld.engine.gametext import GameText

_SENTENCES = {
    "pick": ("bring {a_thing} to {a_target}", "find {a_thing} and leave it at {a_target}"),
    "look": ("inspect {a_thing} by the light of {a_target}", "switch on {a_target} while holding {a_thing}"),
    "clean": ("bring a clean {thing} to {a_target}", "wash {a_thing}, then bring it to {a_target}"),
    "heat": ("bring a hot {thing} to {a_target}", "warm up {a_thing}, then bring it to {a_target}"),
    "cool": ("bring a cold {thing} to {a_target}", "chill {a_thing}, then bring it to {a_target}"),
    "pick2": ("gather two {thing} at one {target}", "find two {thing} and leave both at the same {target}"),
}
"""By family."""

_OWN_RULES = """
grammar :: \"""
    {{
        "room": [{{"rhs": "{room}"}}],
        "task": [{{"rhs": "Your task is to: {sentence}."}}]
    }}
\""";
"""
"""What a game's grammar has besides the shared one."""


class Language(NamedTuple):
    """Domain and grammar that all generated games share."""

    domain: str
    grammar: str


class Script(NamedTuple):
    """A household written down."""

    household: Household
    problem: str
    """PDDL."""
    task_id: str
    """32 hex digits over the problem, on which all else depends."""

    @classmethod
    def of(cls, household: Household) -> Script:
        """Write the problem."""
        text = problem(household)
        return cls(household, text, content_id(text))

    @property
    def sentence(self) -> str:
        """The task in words, in one of the forms of its family."""
        quest = self.household.quest
        forms = _SENTENCES[quest.family]
        form = forms[int(self.task_id[:8], 16) % len(forms)]
        return form.format(
            thing=quest.thing,
            target=quest.target,
            a_thing=_with_article(quest.thing),
            a_target=_with_article(quest.target),
        )

    def text(self) -> GameText:
        """Return the whole game."""
        domain, grammar = language()
        room = ROOMS[self.household.layout.room].name
        own = _OWN_RULES.format(room=room, sentence=self.sentence)
        return GameText(domain, grammar + own, self.problem, walkthrough(self.household), solvable=True)


@cache
def language() -> Language:
    """Return the domain and the grammar of all generated games."""
    folder = files("agentgym.envs.alfworld.builtin")
    return Language(*((folder / name).read_text("utf-8") for name in ("domain.pddl", "grammar.twl2")))


def _with_article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
