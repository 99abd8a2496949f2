"""The documentation: its generated parts say what is there. `make docs-site` builds the site itself."""

import json
import lzma
import re
import runpy
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import agentgym
from agentgym import make, make_vec
from agentgym.evaluation.log.stored_run import read_stored_run
from agentgym.evaluation.suites import suite_file, suite_file_of_run
from agentgym.evaluation.verify.archives import read_archive
from agentgym.evaluation.verify.packed import read_packed
from agentgym.evaluation.verify.submissions import verify_below
from agentgym.io import optional
from agentgym.io.optional import load_reference, only_trusted
from agentgym.recipes import algorithms_with_recipes
from tools import build_site, data_table, env_tables, measured, release_check, template_rows
from tools.notebook_page import has_outputs
from tools.pictures import FILMS, HERE, MAX_FILM_SIZE

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_the_table_of_downloads_is_that_of_the_list():
    text = data_table.PAGE.read_text(encoding="utf-8")
    assert text == data_table.updated(text), "run `make pages`"


def test_the_page_of_models_shows_rows_of_the_file_and_the_site_all():
    text, rows = template_rows.PAGE.read_text(encoding="utf-8"), template_rows.read_rows()
    assert text == template_rows.updated(text, rows), "run python -m tools.model_tables"
    assert f"We tried {len(rows)} templates" in text
    section = template_rows.site_section(rows)
    assert section.count("\n| ") == len(rows) + 2
    assert "| Qwen3-Coder | llama.cpp | d287fb2e | qwen-xml | none | own place | exact |  |" in section


@pytest.mark.parametrize("page", env_tables.pages(), ids=lambda page: page.stem)
def test_pages_of_environments_show_what_those_are(page):
    assert page.read_text(encoding="utf-8") == env_tables.updated(page), "run `make pages`"


def test_no_page_installs_from_an_index_that_does_not_have_the_package():
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    words = re.compile(r"pip install[^`#]*agentgym-suite")
    assert [page.name for page in pages if words.search(page.read_text(encoding="utf-8"))] == []


def test_films_are_small_and_each_page_has_one():
    assert set(FILMS) == set(env_tables.ENV_PAGES)
    assert {path.stem for path in (HERE / "films").glob("*.gif")} == set(FILMS)
    assert max(path.stat().st_size for path in (HERE / "films").glob("*.gif")) <= MAX_FILM_SIZE


def test_the_reference_has_the_modules_of_all_public_names():
    listed = "\n".join(build_site.reference_pages().values())
    modules = {build_site.module_of(name) for name in build_site.public_surface()}
    assert {"agentgym.env", "agentgym.algos.gigpo", "agentgym.agents.table"} <= modules
    for module in modules:
        assert f"automodule:: {module}\n" in listed


def test_a_site_that_lacks_a_public_name_is_found(tmp_path):
    (tmp_path / "api").mkdir()
    *most, last = sorted(build_site.public_surface())
    (tmp_path / "api" / "x.html").write_text("".join(f'<dt id="{name}">' for name in most))
    assert build_site.undocumented(tmp_path) == [last]


def test_every_page_of_the_checkout_has_a_place_on_the_site():
    listed = "\n".join([*build_site.lists().values(), (build_site.SPHINX / "index.md").read_text()])
    for path in build_site.copied():
        shown = path.suffix == ".md" and path.parts[:2] != ("docs", "sphinx") and path.parts[0] != "tests"
        if shown and path != Path("README.md"):
            name = re.escape(str(path.with_suffix("")))
            assert re.search(rf"^/?{name}$| <{name}>$", listed, re.MULTILINE), path
    assert set(build_site.recipe_pages()) == {"index", *algorithms_with_recipes()}


def test_what_is_loaded_from_elsewhere_is_found(tmp_path):
    (tmp_path / "page.html").write_text(
        '<a href="https://example.org">link</a><script src="https://cdn.example/x.js"></script>'
        '<link rel="stylesheet" href="//fonts.example/a.css"><link rel="canonical" href="https://me.example/">'
        '<img src="local.png"><img alt="a" src=https://img.example/a.png>'
    )
    (tmp_path / "a.css").write_text('@import "https://css.example/b.css"; p { background: url(x.png) }')
    assert build_site.loads_from_elsewhere(tmp_path) == [
        "a.css: https://css.example/b.css",
        "page.html: https://cdn.example/x.js",
        "page.html: //fonts.example/a.css",
        "page.html: https://img.example/a.png",
    ]


def test_docstrings_keep_their_blocks_and_attributes_their_words():
    keep_lines = runpy.run_path(str(build_site.SPHINX / "conf.py"))["keep_lines"]
    lines = [
        "Two kinds of blocks.",
        "",
        "    A_i = (R_i - mean_g R) / std_g R",
        "",
        "And",
        "",
        "    a = b[1]",
        "",
    ]
    keep_lines(None, "module", "x", None, None, lines)
    assert [line for line in lines if "::" in line] == [".. code-block:: text", ".. code-block:: python"]
    about = ["What is compared: episodes."]
    keep_lines(None, "attribute", "x", None, None, about)
    assert about == ["..", "", "What is compared: episodes."]


def test_the_build_says_how_far_it_is(monkeypatch):
    said = []
    monkeypatch.setattr(build_site, "say", said.append)
    progress = build_site.Progress(200)
    for text in (
        "loading... done\nreading sources... [ 1",
        "4%] a .. b\n",
        "writing output... [100%] c .. d\n",
    ):
        progress.write(text)
    assert said == ["  reading: 28 of 200 pages", "  writing: 200 of 200 pages"]


def test_the_front_page_of_the_site_installs_plays_and_shows_the_result(capsys):
    page = (build_site.SPHINX / "index.md").read_text(encoding="utf-8")
    install, code, result = re.findall(
        r"^```(?:bash|python|text)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    assert release_check.OF_CHECKOUT.fullmatch(install.removeprefix("pip install ").strip())
    assert len(code.splitlines()) <= 10
    exec(compile(code, "index.md", "exec"), {})
    assert capsys.readouterr().out == result
    picture = re.search(r"^!\[.+\]\((.+)\)$", page, re.MULTILINE)
    assert (ROOT / picture[1]).is_file()
    # a measure of one's own, whose example the tests of docs/ run
    assert "(docs/evaluation.md#a-measure-of-ones-own)" in page
    assert "\n### A measure of one's own\n" in (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")


def test_notebooks_hold_no_outputs():
    notebooks = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
    assert notebooks
    assert [path for path in notebooks if has_outputs(path)] == []


def test_links_of_pages_lead_somewhere(tmp_path, monkeypatch):
    assert list(release_check.links(tmp_path)) == []
    for page in release_check.PAGES:
        (tmp_path / page).write_text("")
    (tmp_path / "README.md").write_text(
        "# A `b`: c\n[1](#a-b-c) [2](#b) [3](SECURITY.md#x) [4](gone.md) [5](https://a)"
    )
    monkeypatch.setattr(release_check, "ROOT", tmp_path)
    assert list(release_check.links(tmp_path)) == [
        "README.md: #b names no heading",
        "README.md: SECURITY.md#x names no heading",
        "README.md: gone.md leads nowhere",
    ]


def test_install_lines_of_pages_name_extras_that_there_are():
    own = [release_check.OF_CHECKOUT.fullmatch(line) for _, line in release_check.install_lines()]
    named = {name for found in own if found and found[1] for name in found[1].split(",")}
    assert {"train", "endpoint", "serve"} <= named <= set(EXTRAS)


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 130
    assert "docs/images/films/sokoban.gif" in text


@pytest.mark.parametrize("page", measured.PAGES)
def test_measured_numbers_are_those_of_their_reports(page):
    text, lines = (ROOT / page).read_text(encoding="utf-8"), measured.PAGES[page]
    assert text == measured.updated(text, lines), "run `make pages`"


@pytest.mark.parametrize("page", measured.ALL_MEASURED)
def test_numbers_with_a_unit_are_measured(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert list(measured.unmeasured(text, measured.PAGES.get(page, ()))) == [], (
        "add them to tools/measured.toml"
    )


def test_numbers_of_lines(tmp_path, monkeypatch):
    report = {
        "rows": [{"of": {"name": "a"}, "x": 1234.5}, {"of": {"name": "b"}, "x": 0.0567}],
        "when": "today",
    }
    (tmp_path / "r.json").write_text(json.dumps(report))
    monkeypatch.setattr(measured, "ROOT", tmp_path)
    monkeypatch.setattr(measured, "REPORTS", {"r": "r.json"})
    assert measured.value("r", "rows/of.name=b/x") == 0.0567
    lines = ["it plays {r#rows/of.name=a/x 2} steps/s, {r#rows/1/x .1%}"]
    page = "First it plays\n9,999.5 steps/s, 1%, in 7 ms, by it plays"
    assert measured.updated(page, lines) == "First it plays\n1,200 steps/s, 5.7%, in 7 ms, by it plays"
    assert [found[-19:] for found in measured.unmeasured(page, lines)] == ["n 7 ms, by it plays"]
    for wrong in ("", page + page):
        with pytest.raises(LookupError, match=r"this line stands [02] times in the page: it plays"):
            measured.updated(wrong, lines)
    for key in ("rows", "rows/of.name=c/x", "gone", "rows/7"):
        with pytest.raises(LookupError, match=re.escape(f"r#{key}")):
            measured.value("r", key)


def test_pages_hold_no_comment_marks():
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    prose = {
        page: re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.M | re.S)
        for page in pages
    }
    assert [page.name for page, text in prose.items() if "<!--" in text] == []


RUN_ID = re.compile(r"(?:results|benchmarks/runs)/([\w-]+)/([\w.-]+-[0-9a-f]{12})\b")
MADE_UP = "1a2b3c4d5e6f"
"""The request id of a run that only a reader has."""


def test_runs_that_pages_name_are_committed():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    named = {found for page in pages for found in RUN_ID.findall(page.read_text(encoding="utf-8"))}
    real = {(suite, run) for suite, run in named if not run.endswith(f"-{MADE_UP}")}
    assert real, "the pattern finds no run"
    runs = ROOT / "benchmarks" / "runs"
    assert [f"{suite}/{run}" for suite, run in real if not (runs / suite / f"{run}.run.xz").is_file()] == []


# ---- troubleshooting ----------------------------------------------------------------------------


def provoked(tmp_path):
    """Return the lines of errors that people meet, by what brings each about."""
    (tmp_path / "x.zip").write_bytes(b"PK")
    calls = [
        lambda: make("agentgym/Sokobn-v0"),
        lambda: make("agentgym/Sokoban-v0", splt="test"),
        lambda: make("agentgym/Sokoban-v0", split="tst"),
        lambda: make("CartPole-v1"),
        lambda: make_vec("agentgym/Sokoban-v0", 0),
        lambda: make("agentgym/ALFWorld-v0", reward="sparse"),
        lambda: make("agentgym/ALFWorld-v0", dataset="official"),
        lambda: list(verify_below(tmp_path)),
        lambda: suite_file_of_run(tmp_path, "mine"),
        lambda: suite_file("quik"),
        lambda: read_stored_run(tmp_path),
        lambda: read_packed(lzma.compress(b"{}")[:-8], "x.run.xz"),
        lambda: read_archive(tmp_path / "x.zip"),
        lambda: untrusted("tests.corridor:CorridorEnv"),
        original_engine_on_a_newer_python,
    ]
    for call in calls:
        with pytest.raises(agentgym.UsageError) as caught:
            call()
        assert "\n" not in str(caught.value)
        yield str(caught.value)


def original_engine_on_a_newer_python():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "textworld", None)
        patch.setattr(optional, "sys", SimpleNamespace(version_info=(3, 13, 0)))
        make("agentgym/ALFWorld-v0", engine="textworld")


def untrusted(reference):
    with only_trusted(()):
        load_reference(reference)


def test_troubleshooting_holds_the_lines_of_errors(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "none"))
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    lines = list(provoked(tmp_path))
    assert len(rows) == len(lines)
    assert [row for row in rows if not any(row in line for line in lines)] == []
    assert [line for line in lines if not any(row in line for row in rows)] == []
