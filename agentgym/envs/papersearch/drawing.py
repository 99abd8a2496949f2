"""Paper search drawing for people: the pool as a citation graph, and the missing papers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from agentgym.core.markup import Element, element
from agentgym.core.suite_spec import SuiteDrawing
from agentgym.core.types import Step
from agentgym.envs.papersearch.data.fields import plain_id, shown_date
from agentgym.envs.papersearch.engine.pages import REJECTED
from agentgym.envs.papersearch.env import PaperSearchEnv

MAX_DRAWN: Final = 48
"""Largest number of papers: of a larger pool the best, then the gold papers that were not found."""

_MARGIN: Final = 18
"""Pixels between the middle of a paper and the edge of the picture."""


class _Place(NamedTuple):
    """A paper in the picture."""

    label: int
    """Number in its circle and before its title."""
    x: float
    y: float


def draw_pool(env: PaperSearchEnv, steps: Sequence[Step]) -> Element:
    """Draw papers on a ring in the order of their dates, with a line for each citation between them."""
    corpus, pool = env.world.corpus, env.pool
    numbers = (corpus.number_of(id) for id in env.topic.gold)
    gold = frozenset(number for number in numbers if number is not None)
    best = sorted(pool.scores, key=lambda number: (-pool.scores[number], number))
    shown = [*best[:MAX_DRAWN]]
    shown += [number for number in sorted(gold) if number not in pool.scores][: MAX_DRAWN - len(shown)]
    shown.sort(key=lambda number: (int(corpus.graph.dates[number]), number))
    places = _ring(shown)
    found = sum(number in gold for number in pool.scores)
    return element(
        "div",
        element("p", element("strong", "Query "), env.topic.query),
        element(
            "p",
            f"{len(pool.scores)} papers in the pool, {len(pool.expanded)} expanded; "
            f"{found} of the {len(env.topic.gold)} asked for",
        ),
        _graph(env, places, gold),
        element("ol", *(_paper(env, number, places[number], gold) for number in shown), class_="papers"),
        element(
            "p", "Filled: asked for and found. Dashed: asked for, not found. Ring: expanded.", class_="muted"
        ),
        class_="pool",
    )


def _ring(numbers: Sequence[int]) -> dict[int, _Place]:
    radius, places = _radius(len(numbers)), {}
    middle = radius + _MARGIN
    for place, number in enumerate(numbers):
        angle = 2 * math.pi * place / len(numbers) - math.pi / 2
        x, y = middle + radius * math.cos(angle), middle + radius * math.sin(angle)
        places[number] = _Place(place + 1, round(x, 1), round(y, 1))
    return places


def _radius(count: int) -> int:
    """Return the radius of a ring of papers, so that they do not touch."""
    return min(170, max(40, 7 * count))


def _graph(env: PaperSearchEnv, places: Mapping[int, _Place], gold: frozenset[int]) -> Element:
    cited = env.world.corpus.graph.cited
    lines = [
        element("line", x1=places[one].x, y1=places[one].y, x2=places[two].x, y2=places[two].y)
        for one in places
        for two in cited.row(one).tolist()
        if two in places
    ]
    size = 2 * (_radius(len(places)) + _MARGIN)
    return element(
        "svg",
        element("title", f"Citations among {len(places)} papers"),
        element("g", *lines, class_="edges"),
        *(_node(env, number, place, number in gold) for number, place in places.items()),
        viewBox=f"0 0 {size} {size}",
        width=size,
        height=size,
        role="img",
        class_="graph",
    )


def _node(env: PaperSearchEnv, number: int, place: _Place, wanted: bool) -> Element:
    expanded = number in env.pool.expanded
    label = str(place.label)
    return element(
        "g",
        element("title", env.world.corpus.paper(number).title),
        element("circle", cx=place.x, cy=place.y, r=13, class_="ring") if expanded else None,
        element("circle", cx=place.x, cy=place.y, r=9),
        element("text", label, x=place.x, y=place.y + 3, text_anchor="middle", font_size=9),
        class_=_class(env, number, wanted),
    )


def _class(env: PaperSearchEnv, number: int, wanted: bool) -> str:
    found = number in env.pool.scores
    return "paper wanted" if wanted and found else "paper unseen" if wanted else "paper"


def _paper(env: PaperSearchEnv, number: int, place: _Place, gold: frozenset[int]) -> Element:
    paper = env.world.corpus.paper(number)
    date = shown_date(int(env.world.corpus.graph.dates[number]))
    expanded = number in env.pool.expanded
    return element(
        "li",
        element("span", f"{place.label} ", class_="muted"),
        paper.title,
        element("span", f" {plain_id(paper.id)}{f', {date}' if date else ''}", class_="muted"),
        element("span", "expanded", class_="tag here") if expanded else None,
        class_=_class(env, number, number in gold),
    )


def side_texts(env: PaperSearchEnv) -> tuple[str, ...]:
    """Return the number of calls, and the notice of an action that was not accepted."""
    made = len(env.snapshot().state.calls)
    return (f"Calls so far: {made}" if made else "Calls so far: none", REJECTED)


DRAWING = SuiteDrawing(draw_pool, side_texts)
