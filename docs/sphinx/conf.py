"""Settings of Sphinx, for the tree of pages that `tools/build_site.py` lays out."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

from agentgym.version import __version__
from tools.equations import visit_block, visit_inline
from tools.navigation import keep_titles, light

project = "agentgym"
author = "The agentgym authors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
autodoc_mock_imports = ["inspect_ai"]  # its tasks are made when their module is imported
include_patterns = ["*.md", "*/**/*.md", "*/*.md"]
exclude_patterns = ["README.md"]
# ref.python: a choice such as Literal["tokens"] or a field named `type` is also the name of some attribute
suppress_warnings = ["config.cache", "ref.python"]

html_theme = "furo"
html_title = "agentgym"
html_static_path = [str(Path(__file__).with_name("static"))]
html_css_files = ["agentgym.css"]
html_js_files = ["agentgym.js"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
highlight_language = "text"  # of blocks that name none: commands, drawings, tables
pygments_style = "friendly"
pygments_dark_style = "github-dark"

myst_heading_anchors = 5
myst_fence_as_directive = ["math"]
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_digits = False  # prices are no equations
myst_dmath_allow_space = False

default_role = "py:obj"
autodoc_default_options = {
    "members": True,
    "ignore-module-all": True,
    "member-order": "bysource",
    "show-inheritance": True,
}
autodoc_mock_imports = ["inspect_ai", "omegaconf", "tensordict", "transfer_queue", "verl"]  # of bridges
autodoc_preserve_defaults = True
autodoc_class_signature = "separated"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
python_use_unqualified_type_names = True

_SECTION = re.compile(r"^[A-Z][A-Za-z ]*:$|^\s*([-*]|\d+\.)\s|^\.\. ")


def written_in(lines: list[str]) -> str:
    """Return what an indented block is written in: Python where it can be read as that, else text."""
    try:
        ast.parse(dedent("\n".join(lines)))
    except SyntaxError:
        return "pycon" if lines[0].lstrip().startswith(">>>") else "text"
    return "python"


def keep_lines(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Mark indented blocks after a paragraph, which are equations and code, as text to be kept as it is."""
    # what is before a colon in an attribute's first line is its type to napoleon: a comment goes before that
    kept = ["..", ""] if what in ("attribute", "data", "property") else []
    paragraph = ""
    for number, line in enumerate(lines):
        indented = line.startswith("    ") and number > 1 and not lines[number - 1].strip()
        plain = paragraph and not paragraph.startswith(" ") and not paragraph.endswith("::")
        if indented and plain and not _SECTION.match(paragraph):
            ends = (n for n in range(number, len(lines)) if lines[n].strip() and lines[n][:4].strip())
            kept += [f".. code-block:: {written_in(lines[number : next(ends, len(lines))])}", ""]
        if line.strip():
            paragraph = line
        kept.append(line)
    lines[:] = kept


def setup(app: Any) -> None:
    """Connect `keep_lines` before napoleon reads the docstrings, and write equations as MathML."""
    app.connect("autodoc-process-docstring", keep_lines, priority=100)
    app.connect("write-started", keep_titles)
    app.connect("html-page-context", light, priority=100)  # before the theme asks for it
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
