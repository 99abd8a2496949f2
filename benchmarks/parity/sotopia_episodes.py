"""Invented episodes to compare games on: scenarios, rules and what both sides do, as plain JSON values.

They take every relationship, action type, order and amount of context, every tag with every viewer, texts
that are XML but for an ampersand, and speech with quotes, line breaks, tags and other scripts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

Record: TypeAlias = dict[str, Any]

ORDERS = ("round-robin", "simultaneous", "random")
DETAILS = ("default", "omniscient", "lite")
TYPES = ("none", "speak", "non-verbal communication", "action", "leave")
CHANCES = {
    "lively": (0.05, 0.55, 0.2, 0.19, 0.01),
    "quiet": (0.55, 0.2, 0.1, 0.1, 0.05),
    "any": (0.2, 0.2, 0.2, 0.2, 0.2),
}
"""How often each type of action is taken, by the mood of an episode."""

BOUNDS = ((0, 10), (-5, 5), (0, 10), (-10, 0), (-10, 0), (-5, 5), (0, 10))
"""Of the judge's seven ratings."""

_FIRST = ("Ada", "Bero", "Cleo", "Dmitri", "Esme", "Farid", "Gunnel", "Hiro")
_LAST = ("Moss", "Tarn", "Vetch", "Quarry", "O'Dell", "Ruiz-Lake")
_WORK = ("Ferry Pilot", "baker", "Clockmaker", "Teacher of Maths", "")
_GENDERS = (
    ("Woman", "She/her"),
    ("Man", "He/him"),
    ("Nonbinary", "They/them"),
    ("Agender", "Ze/zir"),
    ("", ""),
)
_NOUNS = ("lantern", "goat", "tide table", "copper kettle", "raft", "orchard", "brass key", "sled")
_VERBS = ("borrow", "repaint", "sell", "hide", "measure", "auction", "carry", "return")
_TAGS = ("extra_info", "clarification_hint", "strategy_hint", "p", "root", "unheard_of")
_VIEWERS = ("", "agent_0", "agent_1", "agent_2", "environment")
_SPICE = (
    "",
    "",
    "",
    " & co.",
    " &amp; co.",
    " 'so'",
    ' "so"',
    " déjà vu",
    " \u4f60\u597d",
    " \u2014 fine",
    " > 3",
)
_SAID = (
    *(
        "",
        "\n",
        "\r\n",
        "\n\n Turn #3: ",
        " did nothing",
        ";",
        '"',
        "<p viewer='agent_0'>psst</p>",
        " \U0001f600",
    ),
    *(
        "<extra_info>x</extra_info>",
        "<b>bold</b>",
        "<!-- c -->",
        "&lt;i&gt;",
        "\t",
        "said:",
        "left the conversation",
    ),
)
BROKEN = (
    "I <3 this",
    "a < b",
    "5<6 & 7",
    "<extra_info>never closed",
    "closed</p> too often",
    "<b & c>",
    "\x01",
)
"""No XML even where ampersands are mended: a recovering parser decides what 0.1.4 shows of them."""


def draw_episodes(seed: int, count: int, *, broken: bool = False) -> Iterator[Record]:
    """Yield episodes.

    Args:
        seed: of all of them.
        count: how many.
        broken: whether everything said is one of `BROKEN`.
    """
    rng = np.random.default_rng(seed)
    for number in range(count):
        names = rng.choice(len(_FIRST), size=2, replace=False)
        yield {
            "relationship": number % 6,
            "order": ORDERS[number // 6 % 3],
            "detail": DETAILS[number // 18 % 3],
            "scenario": f"Two people {_phrase(rng)} at dusk.{_tagged(rng)} They talk.",
            "goals": [f"{_phrase(rng).capitalize()}{_tagged(rng)}{_lines(rng)}" for _ in range(2)],
            "agents": [_agent(rng, _FIRST[name]) for name in names],
            **_play(rng, broken),
        }


def episodes_of(combinations: Sequence[Mapping[str, Any]], seed: int) -> Iterator[Record]:
    """Yield an episode for each of some scenarios, given with all that `draw_episodes` says of them."""
    rng = np.random.default_rng(seed)
    for number, each in enumerate(combinations):
        rules = {"order": ORDERS[number % 3], "detail": DETAILS[number // 3 % 3]}
        yield {**each, **rules, **_play(rng, broken=False)}


def write(path: Path, records: Sequence[Record]) -> None:
    """Write records as a JSON array."""
    path.write_text(json.dumps(records, ensure_ascii=False))


def _play(rng: np.random.Generator, broken: bool) -> Record:
    """Return the rules of an episode and what both sides try to do in each turn, whoever is to act."""
    turns = int(rng.choice([1, 2, 3, 7, 12, 20, 20, 20]))
    mood = tuple(CHANCES)[int(rng.integers(len(CHANCES)))]
    return {
        "max_turns": turns,
        "draws": rng.integers(2, size=turns + 1).tolist(),
        "actions": [[_action(rng, mood, broken) for _ in range(2)] for _ in range(turns)],
        "ratings": [[int(rng.integers(low, high + 1)) for low, high in BOUNDS] for _ in range(2)],
    }


def _action(rng: np.random.Generator, mood: str, broken: bool) -> list[str]:
    kind = TYPES[int(rng.choice(len(TYPES), p=CHANCES[mood]))]
    if broken and kind not in ("none", "leave"):
        return [kind, _one(rng, BROKEN)]
    return [kind, f"{_phrase(rng)}{_one(rng, _SPICE)}{_one(rng, _SAID)}{_one(rng, _SPICE)}"]


def _agent(rng: np.random.Generator, first: str) -> Record:
    gender, pronouns = _GENDERS[int(rng.integers(len(_GENDERS)))]
    return {
        "first_name": first,
        "last_name": _one(rng, _LAST),
        "age": int(rng.integers(18, 90)),
        "occupation": _one(rng, _WORK),
        "gender": gender,
        "gender_pronoun": pronouns,
        "public_info": f"{first} likes to {_phrase(rng)}{_one(rng, _SPICE[:4])}.",
        "personality_and_values": f"{first} would never {_phrase(rng)}.",
        "secret": f"Once had to {_phrase(rng)}",
    }


def _phrase(rng: np.random.Generator) -> str:
    return f"{_one(rng, _VERBS)} the {_one(rng, _NOUNS)}"


def _tagged(rng: np.random.Generator, depth: int = 0) -> str:
    """Return a text with up to three tags, one within another at most twice."""
    parts = []
    for _ in range(int(rng.integers(3 - depth))):
        tag, viewer = _one(rng, _TAGS), _one(rng, _VIEWERS)
        mark = "'" if rng.random() < 0.5 else '"'
        given = f" viewer={mark}{viewer}{mark}" if viewer else ""
        inside = f"{_phrase(rng)}{_one(rng, _SPICE)}{_tagged(rng, depth + 1) if depth < 2 else ''}"
        parts.append(f" <{tag}{given}>{inside}</{tag}>{_one(rng, _SPICE)}")
    return "".join(parts)


def _lines(rng: np.random.Generator) -> str:
    return "" if rng.random() < 0.7 else f"\n   {_phrase(rng)}\n{_phrase(rng)} "


def _one(rng: np.random.Generator, choices: Sequence[str]) -> str:
    return choices[int(rng.integers(len(choices)))]
