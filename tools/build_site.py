"""Build the documentation as a site: ``python -m tools.build_site``, or ``make docs-site``.

The Markdown of the checkout stays as it is, to be read on its own. This lays out a copy of it under
``build/docs/source``, adds what is generated (the reference, a page for each recipe, the fields of files,
the executed notebook) and lets Sphinx make ``docs/_build/html``, where a warning is an error and no page
loads anything from another host.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import agentgym
from agentgym.algos.table import ALGORITHMS
from agentgym.recipes import algorithms_with_recipes, recipes_of
from agentgym.recipes.comparison import markdown
from agentgym.registration import ENVIRONMENTS, class_of
from tools import data_dictionary, recipe_tables, template_rows

ROOT = Path(__file__).resolve().parents[1]
BUILD, HTML = ROOT / "build" / "docs", ROOT / "docs" / "_build" / "html"
SOURCE = BUILD / "source"
SPHINX = ROOT / "docs" / "sphinx"
BOARD = ROOT / "site"
"""Where ``make site`` builds the leaderboard."""

TOPS = ("docs", "benchmarks", "examples", "agentgym", "tests", "tools", "indexes", "trainers")
SHOWN = {".md", ".png", ".gif", ".svg", ".py", ".toml", ".json", ".jsonl", ".csv", ".tex", ".diff", ".sh"}
"""Files that a page may show or link to."""

FILES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "THIRD_PARTY.md", "LICENSE", "CITATION.cff")

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)\)")

LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*?\b(?:src|data)\s*=\s*["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\brel\s*=\s*["']?[^"'>]*(?:stylesheet|icon|preload|preconnect|prefetch))[^>]*?"""
    r"""\bhref\s*=\s*["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|(?:@import\s*|url\()\s*(?:url\()?["']?((?:https?:)?//[^"')\s]+)""",
    re.IGNORECASE,
)
"""What a browser loads of itself from another host; not links that a reader may follow."""


def copied() -> Iterator[Path]:
    """Yield the files of the checkout that pages are made of or link to, relative to it."""
    for name in FILES:
        yield Path(name)
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("*")):
            inside = path.relative_to(ROOT)
            hidden = any(part.startswith((".", "_build", "__pycache__")) for part in inside.parts)
            results = inside.parts[:2] == ("benchmarks", "results")
            if path.is_file() and path.suffix in SHOWN and not hidden and not results:
                yield inside


def public_surface() -> set[str]:
    """Return the classes and functions that the reference documents, by qualified name.

    Those of ``docs/public_names.txt`` and `agentgym.__all__`, the environments, each algorithm's advantage.
    """
    lines = (ROOT / "docs" / "public_names.txt").read_text(encoding="utf-8").splitlines()
    listed = {line for line in lines if line and not line.startswith("#")}
    files = sorted((ROOT / "agentgym" / "algos").glob("*.py"))
    algorithms = {
        f"agentgym.algos.{path.stem}.advantage"
        for path in files
        if "\ndef advantage(" in path.read_text("utf-8")
    }
    found = [getattr(agentgym, name) for name in agentgym.__all__] + [class_of(name) for name in ENVIRONMENTS]
    exported = {f"{value.__module__}.{value.__qualname__}" for value in found if hasattr(value, "__module__")}
    return listed | algorithms | exported


def module_of(name: str) -> str:
    """Return the module that defines a class or function, by its file."""
    while not ROOT.joinpath(*name.split(".")).with_suffix(".py").exists():
        name = name.rpartition(".")[0]
        if ROOT.joinpath(*name.split("."), "__init__.py").exists():
            return name
    return name


def reference_pages() -> dict[str, str]:
    """Return the pages of the reference by name, one for each folder with public names, and their list."""
    pages: dict[str, list[str]] = {}
    for module in sorted({module_of(name) for name in public_surface()}):
        page = module if ROOT.joinpath(*module.split(".")).is_dir() else module.rpartition(".")[0]
        parts = pages.setdefault(page, [f"# {page}"])
        if page != module:
            parts.append(f"## {module}")
        parts.append(f"```{{eval-rst}}\n.. automodule:: {module}\n```")
    listed = "\n".join(sorted(pages))
    index = (
        "# Reference\n\nThe modules that programs import, by folder: most need `agentgym` alone.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n{listed}\n```\n"
    )
    return {"index": index, **{name: "\n\n".join(parts) + "\n" for name, parts in pages.items()}}


def recipe_pages() -> dict[str, str]:
    """Return a page for each recipe, its presets beside the papers' values, and the list of them."""
    names = sorted(algorithms_with_recipes())
    head = "What `agentgym train NAME` sets, beside the paper's own value and with its source."
    listed = "\n".join(names)
    pages = {"index": f"# Recipes\n\n{head}\n\n```{{toctree}}\n:maxdepth: 1\n{listed}\n```\n"}
    for name in names:
        algorithm = ALGORITHMS[name]
        about = f"The [algorithm](../docs/algorithms/{algorithm.page}.md). {algorithm.paper}"
        pages[name] = f"# {algorithm.title}\n\n{about}\n\n{markdown(recipes_of(name))}"
    return pages


def list_page(title: str, about: str, pages: list[Path]) -> str:
    """Return a page that lists others."""
    listed = "\n".join(f"/{page.with_suffix('').as_posix()}" for page in pages)
    return f"# {title}\n\n{about}\n\n```{{toctree}}\n:maxdepth: 1\n{listed}\n```\n"


def named_pages() -> set[Path]:
    """Return the pages that the site's index names, and those that it leaves out."""
    text = (SPHINX / "index.md").read_text(encoding="utf-8")
    lines = re.findall(r"^(?:[^<>\n]+ <)?([\w/-]+)>?$", text, re.MULTILINE)
    return {Path(f"{line}.md") for line in lines} | {Path("README.md")}


def lists() -> dict[str, str]:
    """Return the pages that list what the index does not name one by one."""
    left = [path for path in copied() if path.suffix == ".md" and path not in named_pages()]
    left = [path for path in left if path.parts[:2] != ("docs", "sphinx") and path.parts[0] != "tests"]
    kinds = {
        "algorithms": (
            "Each algorithm",
            "A page each: idea, equations, options, worked example.",
            "docs/algorithms/",
        ),
        "environments": ("More of environments", "Data, engines and scenarios.", "docs/envs/"),
        "benchmarks": (
            "Measured",
            "Reports of what was run, each with its command, or with its script where it is frozen.",
            "benchmarks/",
        ),
        "more": ("More pages", "What is nowhere else.", ""),
    }
    pages = {}
    for name, (title, about, start) in kinds.items():
        chosen = [path for path in left if path.as_posix().startswith(start)]
        left = [path for path in left if path not in chosen]
        pages[name] = list_page(title, about, chosen)
    return pages


def without_folders(page: Path) -> str:
    """Return a page's text, where a link to a folder of the checkout is its words alone."""

    def plain(link: re.Match[str]) -> str:
        is_folder = (ROOT / page.parent / link[2]).is_dir()
        return link[1] if is_folder else link[0]

    return LINK.sub(plain, (ROOT / page).read_text(encoding="utf-8"))


def lay_out(source: Path, *, reference: bool = True) -> None:
    """Write the tree that Sphinx reads, but for the notebook's page.

    Args:
        source: the folder; what is there goes.
        reference: whether the pages of modules are in it.
    """
    shutil.rmtree(source, ignore_errors=True)
    for path in copied():
        if path.parts[:2] != ("docs", "sphinx"):
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".md":
                text = recipe_tables.with_links(path, without_folders(path))
                (source / path).write_text(text, encoding="utf-8")
            else:
                shutil.copyfile(ROOT / path, source / path)
    of_modules = reference_pages() if reference else {"index": "# Reference\n"}
    single = {**lists(), "fields": data_dictionary.page()}
    for folder, pages in (("api", of_modules), ("recipes", recipe_pages()), (".", single)):
        (source / folder).mkdir(exist_ok=True)
        for name, text in pages.items():
            (source / folder / f"{name}.md").write_text(text, encoding="utf-8")
    with (source / "docs" / "models.md").open("a", encoding="utf-8") as page:
        page.write(template_rows.site_section(template_rows.read_rows()))
    shutil.copyfile(SPHINX / "index.md", source / "index.md")
    (source / "leaderboard").mkdir()
    shutil.copyfile(SPHINX / "leaderboard.md", source / "leaderboard" / "index.md")


def loads_from_elsewhere(folder: Path) -> list[str]:
    """Return ``FILE: ADDRESS`` for everything that pages and style sheets load from another host."""
    return [
        f"{path.relative_to(folder)}: {next(filter(None, found.groups()))}"
        for path in sorted(folder.rglob("*"))
        if path.suffix in {".html", ".css"}
        for found in LOADED.finditer(path.read_text(encoding="utf-8"))
    ]


def undocumented(html: Path) -> list[str]:
    """Return the public names that the reference in a built site lacks."""
    pages = "".join(path.read_text(encoding="utf-8") for path in (html / "api").glob("*.html"))
    return [name for name in sorted(public_surface()) if f'id="{name}"' not in pages]


def say(words: str) -> None:
    """Tell how far the build is, at once, even to a file."""
    out = sys.__stdout__ or sys.stdout
    out.write(f"{words}\n")
    out.flush()


class Progress(io.TextIOBase):
    """What Sphinx tells, shortened to how many pages are done."""

    def __init__(self, pages: int) -> None:
        """Begin, with so many pages to come."""
        self.pages, self._line = pages, ""

    def write(self, text: str) -> int:
        """Take a piece of what Sphinx tells."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            if told := re.match(r"(reading|writing)\b.*\[ *(\d+)%\]", line):
                say(f"  {told[1]}: {round(self.pages * int(told[2]) / 100)} of {self.pages} pages")
        return len(text)


def main() -> int:
    """Build, and say what is wrong; 1 where something is."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", default="2", help="processes (default: 2)")
    parser.add_argument("--without-reference", action="store_true", help="for a quick look")
    given = parser.parse_args()
    from sphinx.cmd.build import main as sphinx

    from tools.notebook_page import write_page

    say("1 of 4: lay out the pages")
    lay_out(SOURCE, reference=not given.without_reference)
    say("2 of 4: execute the notebook")
    write_page(ROOT / "docs" / "notebooks" / "results.ipynb", SOURCE / "notebook" / "results.md")
    shutil.rmtree(HTML, ignore_errors=True)
    pages = len(list(SOURCE.rglob("*.md")))
    say(f"3 of 4: read and write {pages} pages with Sphinx, by {given.jobs} processes")
    options = ["-W", "--keep-going", "-j", given.jobs, "-d", str(BUILD / "doctrees"), "-c", str(SPHINX)]
    with contextlib.redirect_stdout(Progress(pages)):
        code = int(sphinx([*options, str(SOURCE), str(HTML)]))
    if code:
        return code
    say("4 of 4: check what pages load, and what the reference has")
    if (BOARD / "index.html").exists():
        shutil.copytree(BOARD, HTML / "leaderboard", dirs_exist_ok=True)
    problems = [f"loaded from elsewhere: {found}" for found in loads_from_elsewhere(HTML)]
    if not given.without_reference:
        problems += [f"not in the reference: {name}" for name in undocumented(HTML)]
    print("\n".join(problems) or f"{HTML / 'index.html'}", file=sys.stderr if problems else sys.stdout)
    say(f"{sum(os.times()[:4]):.0f} seconds of processor time")
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main())
