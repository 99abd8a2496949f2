"""Equations of pages, written in LaTeX, as MathML: browsers show it without a script or a font of ours."""

from __future__ import annotations

import re
from typing import Any

BLOCK = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""An equation in Markdown, as GitHub shows it, too."""


def mathml(latex: str, *, block: bool = True) -> str:
    """Return an equation as MathML, in a line of text or on its own.

    Raises:
        ValueError: it is not LaTeX.
    """
    from math_core import LatexError, LatexToMathML

    try:
        return str(LatexToMathML().convert_with_local_state(latex, displaystyle=block))
    except LatexError as error:
        raise ValueError(f"not an equation: {latex}") from error


def visit_inline(writer: Any, node: Any) -> None:
    """Write an equation in a line, for Sphinx."""
    writer.body.append(mathml(node.astext(), block=False))
    node.clear()  # or its LaTeX follows as text


def visit_block(writer: Any, node: Any) -> None:
    """Write an equation in a box of its own, which scrolls where it is too wide, for Sphinx."""
    writer.body.append(f'<div class="math" tabindex="0">{mathml(node.astext())}</div>\n')
    node.clear()  # or its LaTeX follows as text
