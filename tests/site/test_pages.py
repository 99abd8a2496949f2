"""Every page in a real browser: from a disk and over HTTP, without an error, without a request elsewhere."""

import pytest

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("over", ["file", "http"])
def test_no_errors_and_nothing_from_elsewhere(made_site, served, visitor, over):
    base = made_site.url if over == "file" else served(made_site.folder)
    visitor.events.clear()
    pages = sorted(path.name for path in made_site.folder.glob("*.html"))
    for page in pages:
        visitor.look(base + page)
        assert visitor.value("typeof agentgym") == "object"
        assert visitor.value("document.querySelectorAll('h1').length") == 1
    assert visitor.errors == []
    assert visitor.elsewhere(base) == []
    assert len(visitor.requests()) >= 3 * len(pages)
