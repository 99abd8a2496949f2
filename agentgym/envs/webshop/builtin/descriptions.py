"""Putting a design into words: title, features, description."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agentgym.core.rng import KeyRng
from agentgym.envs.webshop.builtin.departments import plain
from agentgym.envs.webshop.builtin.phrases import AUDIENCE, FILLER, HAS, HEADLINES, IS, PRAISE, SHORT
from agentgym.envs.webshop.builtin.product_templates import Design

TITLE_WORDS = (7, 9, 11, 13, 15, 17, 18, 19, 20, 22, 24, 26, 28, 30)
"""Lengths that titles are filled up to, if need be."""

BULLETS = (1, 3, 4, 4, 5, 5, 5, 5, 5, 6, 7, 8)
"""Numbers of features in a list, one of which is drawn."""

BULLET_SENTENCES = (0, 0, 1, 1, 1, 2, 2, 2, 3, 4)
"""Sentences of a feature; none makes it one of `phrases.SHORT`."""

DESCRIPTION_SENTENCES = (0, 0, 0, 0, 2, 3, 3, 4, 5, 7, 9, 12, 16, 20)
"""Sentences of a description."""

IN_TITLE, IN_FIRST, IN_REST, IN_DESCRIPTION = 26, 15, 53, 22
"""Attributes in a hundred that are told of in the title, the first feature, the others, the description."""


class DescriptionWords(NamedTuple):
    """Words of a product's page."""

    title: str
    bullets: tuple[str, ...]
    description: str


class _Places(NamedTuple):
    """Places of attributes on a product's page; each attribute has one."""

    title: list[str]
    first: list[str]
    rest: list[str]
    description: list[str]


def write(design: Design, draws: KeyRng) -> DescriptionWords:
    """Put a design into words."""
    bullets, sentences = draws.pick(BULLETS), draws.pick(DESCRIPTION_SENTENCES)
    places = _places(design.attributes, bullets > 1, sentences > 0, draws)
    title = _title(design, places.title, draws)
    description = " ".join(_sentences(design, places.description, sentences, draws))
    return DescriptionWords(title, _bullets(design, places, bullets, draws), description)


def _places(attributes: Sequence[str], has_rest: bool, has_description: bool, draws: KeyRng) -> _Places:
    places = _Places([], [], [], [])
    for attribute in attributes:
        placed = False
        for place, chance, there in (
            (places.title, IN_TITLE, True),
            (places.first, IN_FIRST, True),
            (places.rest, IN_REST, has_rest),
            (places.description, IN_DESCRIPTION, has_description),
        ):
            if draws.below(100) < chance and there:
                place.append(attribute)
                placed = True
        if not placed:
            (places.rest if has_rest else places.first).append(attribute)
    return places


def _title(design: Design, attributes: Sequence[str], draws: KeyRng) -> str:
    is_, has = (
        [_titled(a) for a in attributes if not a.startswith("+")],
        [_titled(plain(a)) for a in attributes if a.startswith("+")],
    )
    length = draws.pick(TITLE_WORDS)
    start = [design.brand, *([draws.pick(PRAISE)] if draws.below(2) else [])]
    title = " ".join(
        [*start, ", ".join(is_), _titled(design.noun)] if is_ else [*start, _titled(design.noun)]
    )
    if has:
        title += " with " + " and ".join(has)
    extras = [*(f"for {use}" for use in design.department.uses), *AUDIENCE]
    extras += [_titled(values[0]) for _, values in design.options]
    while len(title.split()) < length:
        title += (", " if draws.below(3) else " - ") + extras.pop(draws.below(len(extras)))
    return title


def _bullets(design: Design, places: _Places, count: int, draws: KeyRng) -> tuple[str, ...]:
    per_bullet: list[list[str]] = [places.first, *([] for _ in range(count - 1))]
    for attribute in places.rest:
        per_bullet[1 + draws.below(count - 1)].append(attribute)
    bullets = []
    for attributes in per_bullet:
        sentences = draws.pick(BULLET_SENTENCES)
        if not (sentences or attributes):
            bullets.append(_filled(draws.pick(SHORT), design, draws))
            continue
        text = " ".join(_sentences(design, attributes, sentences, draws))
        headed = draws.below(10) < 3
        bullets.append(f"{draws.pick(HEADLINES)}: {text}" if headed else text)
    return tuple(bullets)


def _sentences(design: Design, attributes: Sequence[str], count: int, draws: KeyRng) -> list[str]:
    """Return a sentence for each attribute, and others up to a number, mixed."""
    sentences = []
    for attribute in attributes:
        pattern = draws.pick(HAS if attribute.startswith("+") else IS)
        sentences.append(_filled(pattern, design, draws, plain(attribute)))
    left = list(FILLER)
    for _ in range(count - len(attributes)):
        filler = _filled(left.pop(draws.below(len(left))), design, draws)
        sentences.insert(draws.below(len(sentences) + 1), filler)
    return sentences


def _filled(pattern: str, design: Design, draws: KeyRng, attribute: str = "") -> str:
    text = pattern.format(
        a=attribute,
        noun=design.noun,
        brand=design.brand,
        use=draws.pick(design.department.uses).lower(),
        model=f"{design.brand[:2].upper()}-{draws.between(100, 9999)}",
    )
    return text[0].upper() + text[1:]


def _titled(text: str) -> str:
    return " ".join(word[0].upper() + word[1:] for word in text.split())
