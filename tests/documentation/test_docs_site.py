"""Pages of the documentation's site, built with its own settings and looked at narrow and wide."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.site.conftest import Visitor, npm_modules  # noqa: F401 (a fixture)
from tests.waiting import wait_until
from tools import build_site
from tools.equations import BLOCK, mathml
from tools.navigation import titles

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parents[2]
ALGORITHMS = sorted((ROOT / "docs" / "algorithms").glob("*.md"))
EQUATIONS = [path.stem for path in ALGORITHMS if path.stem not in ("index", "losses")]
OTHERS = ("quickstart", "evaluation", "tutorials/environment", "glossary")
PAGES = ("index", *(f"docs/{name}" for name in OTHERS), *(f"docs/algorithms/{name}" for name in EQUATIONS))
SIZES = ((360, 760), (1280, 900))

HIDDEN = """[...document.querySelectorAll('article pre, article div.math, article table')].filter(box => {
  const style = getComputedStyle(box);
  const scrolls = style.overflowX == 'auto' && style.backgroundImage.split('linear-gradient').length == 5;
  return box.scrollWidth > box.clientWidth && !scrolls;
}).length"""
"""Boxes that go on beyond their edge without a shadow there, or cannot be scrolled."""

WIDE = "[...document.querySelectorAll('article .math')].find(b => b.scrollWidth > b.clientWidth)"


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Return the folder of a site of a few pages."""
    folder = tmp_path_factory.mktemp("docs")
    source = folder / "source"
    shutil.copytree(ROOT / "docs" / "images", source / "docs" / "images")
    for page in PAGES[1:]:
        (source / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / f"{page}.md", source / f"{page}.md")
    listed = "\n".join(PAGES[1:])
    front = build_site.SPHINX.joinpath("index.md").read_text(encoding="utf-8").split("```{toctree}")[0]
    (source / "index.md").write_text(f"{front}\n```{{toctree}}\n:hidden:\n{listed}\n```\n", encoding="utf-8")
    reference = "```{eval-rst}\n.. automodule:: agentgym.algos.algorithm\n```\n"
    (source / "api.md").write_text(f"---\norphan: true\n---\n# One module\n\n{reference}", encoding="utf-8")
    # links to pages that are left out are warnings, which `make docs-site` has none of
    # which a process of its own may give
    command = [sys.executable, "-m", "sphinx", "-Q", "-c", str(build_site.SPHINX)]
    subprocess.run([*command, str(source), str(folder / "html")], cwd=ROOT, check=True)
    return folder / "html"


@pytest.fixture(scope="session")
def window(tmp_path_factory):
    """Return a browser."""
    opened = Visitor(tmp_path_factory.mktemp("window") / "profile")
    yield opened
    opened.close()


def look(window, built, page, size=SIZES[1]):
    """Open a page in a window of a size."""
    window.resize(*size)
    window.look((built / f"{page}.html").as_uri())


@pytest.mark.parametrize("page", EQUATIONS)
def test_equations_are_mathematics(built, page):
    text = (ROOT / "docs" / "algorithms" / f"{page}.md").read_text(encoding="utf-8")
    equations = BLOCK.findall(text)
    shown = (built / "docs" / "algorithms" / f"{page}.html").read_text(encoding="utf-8")
    assert equations
    assert [mathml(equation.strip()) in shown for equation in equations] == [True] * len(equations)
    assert "\\begin" not in shown
    # none is left as text
    assert (
        re.search(r"^```\n[^`]* = [^`]*^```$", re.sub(r"^```\w+\n[^`]*^```$", "", text, flags=re.M), re.M)
        is None
    )
    # GitHub refuses this one
    assert not any("\\operatorname" in equation for equation in equations)


def test_what_is_not_an_equation_is_refused():
    assert (
        mathml(r"\gamma^2", block=False)
        == "<math><msup><mi>\N{GREEK SMALL LETTER GAMMA}</mi><mn>2</mn></msup></math>"
    )
    with pytest.raises(ValueError, match="not an equation"):
        mathml(r"\frac{1")


def test_no_page_loads_from_another_host(built):
    assert build_site.loads_from_elsewhere(built) == []


def test_attributes_keep_their_words(built):
    shown = (built / "api.html").read_text(encoding="utf-8")
    assert "Comparison of outcomes: where they do not differ" in shown
    assert ">Type<" not in shown


@pytest.mark.browser
@pytest.mark.npm
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", ["index", "docs/quickstart", "docs/algorithms/gigpo", "api", "search"])
def test_axe_finds_nothing(built, window, npm_modules, page, scheme):  # noqa: F811
    window.scheme(scheme)
    look(window, built, page)
    assert window.violations(npm_modules) == []
    window.scheme("light")


@pytest.mark.browser
@pytest.mark.parametrize("query", ["policy gradient", "verify"])
def test_a_search_finds_pages_and_is_reached_by_keyboard(built, window, query):
    look(window, built, "index")
    field = "document.querySelector('.sidebar-search')"
    for _ in range(40):
        window.press("Tab")
        if window.value(f"document.activeElement === {field}"):
            break
    assert window.value(f"document.activeElement === {field} && !!({field}.placeholder || {field}.ariaLabel)")
    window.look((built / "search.html").as_uri() + f"?q={query}")
    wait_until(lambda: window.value("document.querySelectorAll('#search-results li').length") > 0)


@pytest.mark.browser
@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_cut_without_a_cue(built, window, page):
    window.events.clear()
    for size in SIZES:
        look(window, built, page, size)
        assert window.value("document.documentElement.scrollWidth") <= size[0]
        assert window.value(HIDDEN) == 0
        # titles are whole
        assert window.value("[...document.querySelectorAll('h1')].every(h => h.scrollWidth <= h.clientWidth)")
    assert window.errors == []
    assert window.elsewhere(built.as_uri()) == []


@pytest.mark.browser
def test_the_cue_is_seen(built, window):
    look(window, built, "docs/algorithms/prime", SIZES[0])
    for scrolled, dark_side in ((0, "right"), (9999, "left")):
        window.value(
            f"window.box = {WIDE}; box.scrollIntoView({{block: 'center'}}); box.scrollLeft = {scrolled}; 0"
        )
        window.settle()
        bright = {side: brightness(window, side) for side in ("left", "right")}
        assert bright.pop(dark_side) < min(bright.values()) - 60, scrolled


def brightness(window, side):
    """Return how bright a box of the page is at an edge, at the place where it has no text."""
    from io import BytesIO

    from PIL import Image

    box = window.value("(() => {const b = box.getBoundingClientRect(); return [b.left, b.top, b.right]})()")
    x = box[0] + 2 if side == "left" else box[2] - 3
    return sum(Image.open(BytesIO(window.screenshot())).convert("RGB").getpixel((int(x), int(box[1]) + 4)))


@pytest.mark.browser
@pytest.mark.parametrize("page", PAGES)
def test_what_is_copied_of_python_is_a_script(built, window, page):
    look(window, built, page)
    blocks = "[...document.querySelectorAll('article .highlight-python')]"
    for text in window.value(f"{blocks}.map(b => pasted(b.querySelector('pre').textContent))"):
        assert not re.search(r"^(>>>|\.\.\.)", text, re.MULTILINE)
        if not text.startswith(" "):  # else a method, as a tutorial shows it
            compile(text, page, "exec")


@pytest.mark.browser
def test_a_button_copies_without_prompts_and_outputs(built, window):
    look(window, built, "docs/quickstart")
    window.value(
        "navigator.clipboard.writeText = text => {window.copied = text; return Promise.resolve()}; 0"
    )
    window.value("document.querySelector('.highlight-python button.copy').click()")
    window.settle()
    copied = window.value("copied")
    assert copied.startswith("import agentgym\nenv = agentgym.make(")
    assert 'for action in ("3", "*", "4", "="):\n    observation, reward' in copied
    assert "(10.0, True)" not in copied
    values: dict[str, object] = {}
    exec(copied, values)
    assert values["reward"] == 10
    assert window.value(r"pasted('$ agentgym bench\nquick\n')") == "agentgym bench\n"
    assert window.value(r"pasted('make bench\n...\n')") == "make bench\n...\n"


@pytest.mark.browser
def test_a_telephone_reaches_every_page(built, window):
    look(window, built, "index", SIZES[0])
    drawer = "document.querySelector('.sidebar-drawer').getBoundingClientRect()"
    assert window.value(f"{drawer}.right") <= 0
    window.value("document.querySelector('label[for=\"__navigation\"]').click()")
    window.call(
        "Runtime.evaluate", expression="new Promise(r => setTimeout(r, 600))", awaitPromise=True
    )  # it slides in
    assert window.value(f"{drawer}.left") >= 0
    assert window.value(f"{drawer}.right") <= SIZES[0][0]
    links = window.value("[...document.querySelectorAll('.sidebar-tree a')].map(a => a.getAttribute('href'))")
    assert {f"{page}.html" for page in PAGES[1:]} <= set(links)


def test_the_navigation_is_what_sphinx_makes_of_whole_contents():
    from docutils import nodes
    from sphinx import addnodes

    def entry(name, *below):
        return nodes.list_item("", addnodes.compact_paragraph("", name), *below)

    tree = addnodes.toctree(entries=[(None, "other")])
    with_pages = entry("page", nodes.bullet_list("", entry("heading"), tree))
    without = entry("page", nodes.bullet_list("", entry("heading")))
    assert [node.tagname for node in titles(nodes.bullet_list("", with_pages)).findall()][-2:] == [
        "bullet_list",
        "toctree",
    ]
    assert titles(nodes.bullet_list("", without)).astext() == "page"
