"""The built-in citation graph: the same papers on every machine, made in a moment.

Papers appear one after another. Each has a subject, a method and a setting, and cites earlier papers: most of
its own kind, some of its subject or area, a few of any, and in each group those more often that are cited
already (preferential attachment, Barabási and Albert 1999).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from agentgym.core.rng import KeyRng
from agentgym.envs.papersearch.builtin.words import (
    AIMS,
    APPROACHES,
    AREAS,
    CLOSINGS,
    CONTRASTS,
    FINDINGS,
    METHODS,
    OPENINGS,
    SETTINGS,
    TITLES,
)
from agentgym.envs.papersearch.data.corpus import PaperRecord

VERSION = 1
"""Version of words and rules; papers of different versions have nothing in common."""

BUILTIN = "builtin"
"""Name of the data set that comes with the package."""

SIZE = 3_000
"""Papers."""

FIRST_YEAR, YEARS = 1995, 30

SUBJECTS = tuple((area, names) for area, subjects in AREAS.items() for names in subjects)

USUAL_METHODS, USUAL_SETTINGS = 5, 4
"""Number of methods and of settings that most of a subject's papers use."""

_IDS = 1_000_000
_STRIDE = 618_033
"""Shares no factor with `_IDS`, so that different numbers give different ids."""

_NAME_WEIGHTS = (0, 0, 0, 0, 1, 1, 1, 2, 2, 2)
"""Tenths of the papers that use a subject's first, second and third name."""

_KIND_WEIGHTS = (0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 4, 4, 4, 4, 4, 4, 5, 5, 5)
"""Twentieths of the references that go to a group of `_kinds`."""


class PaperDesign(NamedTuple):
    """Topic of a built-in paper."""

    subject: int
    method: int
    setting: int
    date: int
    name: int
    """Index of the subject's name that it uses."""


class BuiltinGraph(NamedTuple):
    """All papers, each with its topic."""

    papers: tuple[PaperRecord, ...]
    designs: tuple[PaperDesign, ...]


def paper_id(number: int) -> str:
    """Return the id of a built-in paper, which does not reveal its number.

    Example:
        >>> paper_id(0), paper_id(1)
        ('w618033', 'w236066')
    """
    return f"w{(number + 1) * _STRIDE % _IDS:06d}"


@lru_cache(maxsize=1)
def builtin_graph() -> BuiltinGraph:
    """Return the graph; the same object each time."""
    designs = tuple(_design(number) for number in range(SIZE))
    references = _references(designs)
    papers = tuple(
        PaperRecord(paper_id(number), *_texts(number, design), design.date, cited)
        for number, (design, cited) in enumerate(zip(designs, references, strict=True))
    )
    return BuiltinGraph(papers, designs)


@lru_cache(maxsize=len(SUBJECTS))
def usual_facets(subject: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the methods and settings that most papers on a subject use."""
    draws = KeyRng(VERSION, 1, subject)
    return _some(draws, len(METHODS), USUAL_METHODS), _some(draws, len(SETTINGS), USUAL_SETTINGS)


def _some(draws: KeyRng, count: int, wanted: int) -> tuple[int, ...]:
    chosen: list[int] = []
    while len(chosen) < wanted:
        if (number := draws.below(count)) not in chosen:
            chosen.append(number)
    return tuple(chosen)


def _design(number: int) -> PaperDesign:
    draws = KeyRng(VERSION, 0, number)
    subject = draws.below(len(SUBJECTS))
    methods, settings = usual_facets(subject)
    method = draws.pick(methods) if draws.below(8) else draws.below(len(METHODS))
    setting = draws.pick(settings) if draws.below(8) else draws.below(len(SETTINGS))
    months = number * YEARS * 12 // SIZE  # papers are numbered in the order they appear
    date = (FIRST_YEAR + months // 12) * 10_000 + (months % 12 + 1) * 100
    return PaperDesign(subject, method, setting, date, draws.pick(_NAME_WEIGHTS))


class _Urn:
    """Papers of one kind, each as often as it was cited and once more."""

    def __init__(self) -> None:
        self._papers: list[int] = []

    def add(self, number: int) -> None:
        self._papers.append(number)

    def draw(self, draws: KeyRng) -> int | None:
        return draws.pick(self._papers) if self._papers else None


def _references(designs: Sequence[PaperDesign]) -> list[tuple[str, ...]]:
    """Return whom each paper cites."""
    urns: defaultdict[tuple[object, ...], _Urn] = defaultdict(_Urn)
    references = []
    for number, design in enumerate(designs):
        draws = KeyRng(VERSION, 2, number)
        kinds = _kinds(design)
        cited: dict[int, None] = {}
        for _ in range(draws.between(5, 14)):
            kind = kinds[draws.pick(_KIND_WEIGHTS)]
            target = urns[kind].draw(draws)
            if target is not None:
                cited[target] = None
        for target in cited:
            for kind in _kinds(designs[target]):
                urns[kind].add(target)
        for kind in kinds:
            urns[kind].add(number)
        references.append(tuple(paper_id(target) for target in cited))
    return references


def _kinds(design: PaperDesign) -> tuple[tuple[object, ...], ...]:
    """Return the groups that a paper belongs to, the narrowest first."""
    subject, method, setting, _, name = design
    return (
        ("setting", subject, setting),
        ("method", subject, method),
        ("school", subject, name),
        ("subject", subject),
        ("area", SUBJECTS[subject][0]),
        (),
    )


def _texts(number: int, design: PaperDesign) -> tuple[str, str]:
    """Return title and abstract."""
    draws = KeyRng(VERSION, 3, number)
    area, names = SUBJECTS[design.subject]
    method_names = METHODS[design.method]
    subject = names[design.name]
    method = method_names[draws.below(2)]
    others = AREAS[area]
    slots = {
        "area": area,
        "subject": subject,
        "Subject": _capital(subject),
        "method": method,
        "Method": _capital(method),
        "setting": SETTINGS[design.setting],
        "aim": draws.pick(AIMS),
        "other": draws.pick([other for other in others if other is not names])[0],
        "rival": draws.pick([rival for rival in METHODS if rival is not method_names])[0],
        "years": str(draws.between(2, 19)),
        "sites": str(draws.between(3, 60)),
        "percent": str(draws.between(8, 92)),
    }
    sentences = [draws.pick(OPENINGS), draws.pick(APPROACHES)]
    if draws.below(2):
        sentences.append(draws.pick(CONTRASTS))
    sentences += [
        draws.pick(FINDINGS),
        "Data were collected in {setting}.",
        draws.pick(CLOSINGS),
    ]
    title = draws.pick(TITLES).format_map(slots)
    return title, " ".join(_capital(sentence.format_map(slots)) for sentence in sentences)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
