"""``agentgym view --export``: a page that needs nothing else, a film, a step."""

import re

import pytest
from PIL import Image

from agentgym.errors import UsageError
from agentgym.site.export import export_episode


@pytest.fixture(scope="module")
def run(made_site):
    (folder,) = (made_site.results / "pages").glob("random-*")
    return folder


def test_a_film_that_a_person_can_watch(run, tmp_path):
    for name, most in (("EZPoints", 16), ("Sokoban, easy", 16)):
        out = tmp_path / "film.gif"
        assert export_episode(run, first_of(run, name), out) is None
        with Image.open(out) as film:
            assert film.size[0] == 640
            assert 2 <= film.n_frames <= most
        assert out.stat().st_size < 1_000_000


def first_of(run, label):
    """Return the id of the first episode of an environment."""
    from agentgym.evaluation.log.runfiles import read_episodes

    return next(episode.id for episode in read_episodes(run) if episode.env == label)


def test_one_step_or_a_sheet(run, tmp_path):
    name = first_of(run, "Sokoban, easy")
    export_episode(run, name, tmp_path / "one.png", step=1)
    export_episode(run, name, tmp_path / "sheet.PNG")
    with Image.open(tmp_path / "one.png") as one, Image.open(tmp_path / "sheet.PNG") as sheet:
        assert one.size[0] * 3 == sheet.size[0]
        assert sheet.size[1] == 4 * one.size[1]


def test_what_cannot_be_written(run, tmp_path):
    with pytest.raises(UsageError, match=r"writes \.html, \.gif or \.png, got 'film\.txt'"):
        export_episode(run, "1", tmp_path / "film.txt")
    with pytest.raises(UsageError, match="the episode has steps 0 to"):
        export_episode(run, "1", tmp_path / "a.png", step=1000)
    with pytest.raises(UsageError, match=r"--regret is shown on a page: --export a\.html"):
        export_episode(run, "1", tmp_path / "a.png", regret=True)


@pytest.mark.browser
def test_a_page_needs_nothing_else_and_allows_nothing_else(run, tmp_path, visitor):
    out = tmp_path / "page.html"
    export_episode(run, first_of(run, "Sokoban, easy"), out)
    text = out.read_text()
    assert "unsafe" not in re.search(r'Content-Security-Policy" content="([^"]+)', text)[1]
    visitor.events.clear()
    visitor.look(out.as_uri())
    assert visitor.errors == []
    assert visitor.requests() == [out.as_uri()]
    assert visitor.value("document.getElementById('where').textContent") == "Step 0 of 15"
    visitor.press("ArrowRight")
    assert visitor.value("document.getElementById('where').textContent") == "Step 1 of 15"
    assert visitor.value("document.querySelectorAll('.drawing img').length") == 1
    visitor.value(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.owned = 1';"
        " document.body.append(s) })()"
    )
    assert visitor.value("typeof window.owned") == "undefined"
    assert any("Content Security Policy" in error for error in visitor.errors)
    visitor.events.clear()
