"""What tutorials and CONTRIBUTING.md show of a file is what stands in it."""

import re
from pathlib import Path

import pytest

from tests.examples.test_commands import commands

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "tutorials").glob("*.md"))
PAGES = ("CONTRIBUTING.md", *TUTORIALS)
FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)\)")


def blocks(page):
    """Return (language, file, text) of a page's blocks."""
    return FENCE.findall((ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES)
def test_code_is_the_files(page):
    shown = [(language, file, text) for language, file, text in blocks(page) if language]
    shown = [block for block in shown if not block[2].startswith(">>> ")]  # doctest executes those
    assert shown or commands(ROOT / page), "neither code nor commands"
    for language, file, text in shown:
        assert file, f"a {language} block without a title"
        assert text in (ROOT / file).read_text(encoding="utf-8"), f"{file} has no\n{text}"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    folder = (ROOT / page).parent
    links = LINK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (folder / link.replace("\n", " ").strip()).exists()] == []


def test_each_example_has_a_page():
    shown = {file for page in TUTORIALS for _, file, _ in blocks(page)}
    names = ("own_env", "own_agent", "own_algorithm", "own_loss", "own_sampler", "minimal_gigpo")
    assert {f"examples/{name}.py" for name in names} <= shown
