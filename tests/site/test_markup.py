"""Elements: what drawings are made of can be no script, no address and no style."""

import io

import numpy as np
import pytest
from PIL import Image

from agentgym.core.markup import (
    HTML_TAGS,
    SVG_TAGS,
    Element,
    as_json,
    colours_of,
    element,
    picture,
    pixels_of,
    png,
)


def test_a_drawing_is_tags_attributes_and_texts():
    drawn = element("p", "a ", element("b", "<i>"), None, class_="note muted", aria_label="x")
    assert as_json(drawn) == ["p", {"class": "note muted", "aria-label": "x"}, "a ", ["b", {}, "<i>"]]
    assert drawn.text == "a <i>"


@pytest.mark.parametrize(
    "tag", ["script", "style", "a", "iframe", "object", "form", "use", "foreignObject", "P"]
)
def test_tags_that_do_something_are_refused(tag):
    assert tag not in HTML_TAGS | SVG_TAGS
    with pytest.raises(ValueError, match="no tag"):
        element(tag)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("onclick", "x()"),
        ("style", "color:red"),
        ("href", "#a"),
        ("id", "a"),
        ("src", "https://example.org/a.png"),
        ("src", "data:image/svg+xml;base64,AAAA"),
        ("class_", "a}b"),
        ("fill", "url(#a)"),
        ("width", "1e3"),
        ("width", float("nan")),
        ("d", "M 0 0 <"),
        ("transform", "matrix(1 0 0 1 0 0)"),
    ],
)
def test_attributes_hold_what_they_may(name, value):
    with pytest.raises(ValueError, match="no attribute"):
        element("img", **{name: value})


@pytest.mark.parametrize("colours", [3, 4096])
def test_pictures_are_png_files_that_others_read(colours):
    pixels = np.random.default_rng(0).integers(0, 256, (colours, 3), dtype=np.uint8)
    pixels = np.resize(pixels, (64, 80, 3)).astype(np.uint8)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png(pixels))).convert("RGB")), pixels)
    assert np.array_equal(pixels_of(element("div", "a", picture(pixels, "what"))), pixels)
    assert pixels_of(element("div", "a")) is None


def test_a_palette_is_what_sorting_gives():
    draws = np.random.default_rng(0)
    for colours in (1, 2, 30, 300, 40_000, 40_000, 5):
        codes = draws.integers(0, 1 << 24, colours, np.uint32)[draws.integers(0, colours, (64, 48))]
        for ours, sorted_ones in zip(colours_of(codes), np.unique(codes, return_inverse=True), strict=True):
            assert ours.tolist() == sorted_ones.reshape(ours.shape).tolist()


def test_equal_attributes_are_checked_once_and_still_refused():
    assert element("p", class_="a").attributes is element("b", class_="a").attributes
    assert element("p", "x", None, class_=None) == Element("p", {}, ("x",))
    for _ in range(2):
        with pytest.raises(ValueError, match="no attribute onclick='x'"):
            element("p", onclick="x")
