"""The records of SOTOPIA's files, each read into one form.

* agents: ``agent_id, first_name, last_name, age, gender, gender_pronoun, occupation, public_info, big_five,
  moral_values, schwartz_personal_values, personality_and_values, decision_making_style, secret, mbti``.
* environments: ``env_id, codename, source, scenario, agent_goals: [first, second], relationship,
  age_constraint, occupation_constraint``.
* relationships: ``agent1_id, agent2_id, relationship``.
* combinations: ``combo_id, env_id, agent_ids: [first, second]``.

SOTOPIA's database calls every id ``pk`` and the two of a relationship ``agent_1_id`` and ``agent_2_id``. A
relationship is a number, also as text, or its name there. What is unknown is left out, null, or the text
``nan`` or ``none``. Other fields do not count.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from agentgym.core.options import is_whole
from agentgym.data.jsonfields import Fields, shown
from agentgym.envs.sotopia.scenarios import Character
from agentgym.errors import nearest

MAX_TEXT_LENGTH = 20_000
"""Characters of a text at most."""

MAX_NAME_LENGTH = 200
"""Characters of a name or an id at most."""

OLDEST = 200
"""Years of an age at most."""

RELATIONSHIPS: Mapping[str, int] = {
    name: number
    for number, name in enumerate(
        ("stranger", "know_by_name", "acquaintance", "friend", "romantic_relationship", "family_member")
    )
}

_UNKNOWN = ("", "nan", "none", "null")
_RANGE = re.compile(r"\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")
_HALF = re.compile("[\ud800-\udfff]")
_LIST = re.compile(r"\[([^\[\]]*)\]")


class EnvironmentProfile(NamedTuple):
    """A situation with two goals, for any pair of characters that suits it."""

    id: str
    codename: str
    source: str
    text: str
    goals: tuple[str, str]
    relationship: int
    ages: tuple[tuple[int, int], tuple[int, int]] | None
    """Least and greatest age of each side; None for any."""
    occupations: tuple[tuple[str, ...], tuple[str, ...]] | None
    """Occupations that each side may have, in lower case; None for any."""
    where: str
    """Place in the files, for messages."""


class RelationshipProfile(NamedTuple):
    """Relationship of two characters."""

    agents: tuple[str, str]
    relationship: int


class Combination(NamedTuple):
    """An environment with two characters to play it."""

    id: str
    environment: str
    agents: tuple[str, str]
    where: str
    """Place in the files, for messages."""


def parse_agent(record: Any, where: str) -> Character:
    """Parse a character's record; errors name file, line and field."""
    fields = Fields(record, where)
    return Character(
        id=_id(fields, "pk", "agent_id"),
        first_name=_first_name(fields),
        last_name=_name(fields, "last_name", unknown=()),
        age=_age(fields),
        gender=_name(fields, "gender"),
        pronouns=_name(fields, "gender_pronoun"),
        occupation=_text(fields, "occupation"),
        public_info=_text(fields, "public_info"),
        big_five=_text(fields, "big_five"),
        moral_values=_words(fields, "moral_values"),
        schwartz_values=_words(fields, "schwartz_personal_values"),
        personality_and_values=_text(fields, "personality_and_values"),
        decision_making_style=_text(fields, "decision_making_style"),
        secret=_text(fields, "secret"),
        mbti=_text(fields, "mbti"),
    )


def parse_environment(record: Any, where: str) -> EnvironmentProfile:
    """Return the environment of a record; errors as `parse_agent`."""
    fields = Fields(record, where)
    text = fields.text("scenario")
    goals = _pair(fields, "agent_goals")
    for name, each in (("scenario", text), ("agent_goals", goals[0]), ("agent_goals", goals[1])):
        if not each.strip():
            fields.fail(name, "is empty")
        _check_text(fields, name, each, MAX_TEXT_LENGTH)
    return EnvironmentProfile(
        id=_id(fields, "pk", "env_id"),
        codename=_name(fields, "codename"),
        source=_name(fields, "source"),
        text=text,
        goals=goals,
        relationship=_relationship(fields),
        ages=_ages(fields),
        occupations=_occupations(fields),
        where=where,
    )


def parse_relationship(record: Any, where: str) -> RelationshipProfile:
    """Return the relationship of a record; errors as `parse_agent`."""
    fields = Fields(record, where)
    agents = (_id(fields, "agent1_id", "agent_1_id"), _id(fields, "agent2_id", "agent_2_id"))
    return RelationshipProfile(_two(fields, "agent2_id", agents), _relationship(fields))


def parse_combination(record: Any, where: str) -> Combination:
    """Return the combination of a record; errors as `parse_agent`."""
    fields = Fields(record, where)
    agents = _two(fields, "agent_ids", _pair(fields, "agent_ids"))
    return Combination(_id(fields, "pk", "combo_id"), _id(fields, "env_id"), agents, where)


# ---- fields ------------------------------------------------------------------------------------------


def _id(fields: Fields, *names: str) -> str:
    """Return the first field that is there, which must be an id."""
    name = next((name for name in names if fields.optional(name) is not None), names[-1])
    text = fields.text(name)
    if not text or text.split() != [text] or not text.isprintable():
        fields.fail(name, f"expected an id without blanks, got {shown(text)}")
    _check_text(fields, name, text, MAX_NAME_LENGTH)
    return text


def _first_name(fields: Fields) -> str:
    name = _name(fields, "first_name", unknown=())  # there are people called Nan
    if not name:
        fields.fail("first_name", "is empty")
    return name


def _name(fields: Fields, name: str, *, unknown: Collection[str] = _UNKNOWN) -> str:
    """Return a text of one line."""
    text = " ".join(_text(fields, name, unknown).split())
    if text and not text.isprintable():
        fields.fail(name, f"expected printable characters, got {shown(text)}")
    _check_text(fields, name, text, MAX_NAME_LENGTH)
    return text


def _text(fields: Fields, name: str, unknown: Collection[str] = _UNKNOWN) -> str:
    """Return a text; nothing where it is unknown."""
    if fields.optional(name) is None:
        return ""
    text = fields.text(name)
    _check_text(fields, name, text, MAX_TEXT_LENGTH)
    return "" if text.strip().lower() in unknown else text


def _words(fields: Fields, name: str) -> tuple[str, ...]:
    """Return a list of words, which may be one text with commas."""
    if isinstance(fields.optional(name), list):
        words = fields.texts(name)
    else:
        words = tuple(_text(fields, name).split(","))
    _check_text(fields, name, ",".join(words), MAX_TEXT_LENGTH)
    return tuple(word.strip() for word in words if word.strip())


def _age(fields: Fields) -> int:
    value = fields.optional("age")
    if value is None:
        return 0
    if not is_whole(value) or not 0 <= value <= OLDEST:
        fields.fail("age", f"expected a number from 0 to {OLDEST}, got {shown(value)}")
    return int(value)


def _pair(fields: Fields, name: str) -> tuple[str, str]:
    texts = fields.texts(name)
    if len(texts) != 2:
        fields.fail(name, f"expected two texts, one for each side, got {len(texts)}")
    return texts[0], texts[1]


def _two(fields: Fields, name: str, agents: tuple[str, str]) -> tuple[str, str]:
    if agents[0] == agents[1]:
        fields.fail(name, f"expected two different agents, got {shown(agents[0])} twice")
    return agents


def _relationship(fields: Fields) -> int:
    value = fields.get("relationship")
    if is_whole(value) and 0 <= value < len(RELATIONSHIPS):
        return int(value)
    if isinstance(value, str):
        if len(value) == 1 and value in "012345":
            return int(value)
        name = value.removeprefix("RelationshipType.")  # Python 3.10 writes the class before the name
        if name in RELATIONSHIPS:
            return RELATIONSHIPS[name]
    fields.fail(
        "relationship",
        f"expected a number from 0 (stranger) to {len(RELATIONSHIPS) - 1} (family_member), or its name, got "
        f"{shown(value)}{nearest(value, RELATIONSHIPS) if isinstance(value, str) else ''}",
    )


def _ages(fields: Fields) -> tuple[tuple[int, int], tuple[int, int]] | None:
    text = _text(fields, "age_constraint")
    if not text:
        return None
    found = [(int(least), int(greatest)) for least, greatest in _RANGE.findall(text)]
    if len(found) != 2:
        fields.fail("age_constraint", f"expected two ranges like [(18, 70), (18, 70)], got {shown(text)}")
    return found[0], found[1]


def _occupations(fields: Fields) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    text = _text(fields, "occupation_constraint")
    if not text:
        return None
    lists = _LIST.findall(text)
    sides = lists[0].split(",") if len(lists) == 1 else lists
    if len(sides) != 2:
        fields.fail("occupation_constraint", f"expected a list for each of two sides, got {shown(text)}")
    first, second = (
        tuple(word for each in side.split(",") if (word := each.strip(" '\"").lower())) for side in sides
    )
    return first, second


def _check_text(fields: Fields, name: str, text: str, longest: int) -> None:
    if len(text) > longest:
        fields.fail(name, f"has {len(text):,} characters, more than the {longest:,} that are read")
    if _HALF.search(text):
        fields.fail(name, "has half of a surrogate pair, which is no character")
