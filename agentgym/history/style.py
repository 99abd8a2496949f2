"""Style of pictures: colours, fonts and bytes that are equal wherever they are drawn."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentgym.errors import UsageError
from agentgym.io.optional import load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Okabe and Ito's colours, which the colour-blind can distinguish, without the yellow, which is too light."""

INK, FAINT = "#1F2328", "#6E7781"

_SETTINGS = {
    "font.family": ["DejaVu Sans"],  # matplotlib installs it
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.labelsize": 9.5,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titlepad": 9,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#D0D7DE",
    "grid.linewidth": 0.6,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "legend.labelspacing": 0.35,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "path",
    "svg.hashsalt": "agentgym",
}


def check_format(suffix: str) -> None:
    """Refuse suffixes other than `FORMATS`."""
    if suffix not in FORMATS:
        raise UsageError(
            f"cannot draw {suffix or 'a file without a suffix'}: name one in {' or '.join(FORMATS)}"
        )


@contextmanager
def drawing_style() -> Iterator[None]:
    """Draw in this style within a block, whatever matplotlib is set to elsewhere."""
    style = load("matplotlib.style", "plot", "drawing curves")
    with style.context(["default", _SETTINGS]):
        yield


@contextmanager
def open_figure(size: tuple[float, float]) -> Iterator[Figure]:
    """Open a figure of some inches in this style, whose parts do not overlap."""
    with drawing_style():
        from matplotlib.figure import Figure

        yield Figure(figsize=size, layout="constrained")


def picture_of(figure: Figure, suffix: str) -> bytes:
    """Return a figure as the content of a file: equal figures give equal bytes."""
    file = io.BytesIO()
    about = {"Date": None} if suffix == ".svg" else {"Software": None}
    figure.savefig(file, format=suffix[1:], dpi=200, metadata=about)
    return file.getvalue()
