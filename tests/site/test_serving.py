"""Serving a site: its files, whatever is asked for, and nothing beside them."""

import threading
from contextlib import closing
from http.client import HTTPConnection

import pytest

from agentgym.errors import UsageError
from agentgym.serving.http_server import SiteServer
from agentgym.site.folder import FolderSite


@pytest.fixture(scope="module")
def ask(made_site):
    """Return a function that asks a server for a path."""
    (made_site.root / "secret.html").write_text("secret")
    (made_site.folder / "data" / "link.html").symlink_to(made_site.root / "secret.html")
    server = SiteServer("127.0.0.1", 0, FolderSite(made_site.folder).answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()

    def asked(path, method="GET"):
        with closing(HTTPConnection(*server.server_address[:2], timeout=120)) as connection:
            connection.request(method, path, headers={"Content-Length": "0"} if method == "POST" else {})
            response = connection.getresponse()
            return response, response.read()

    yield asked
    server.shutdown()
    thread.join()
    server.server_close()
    (made_site.folder / "data" / "link.html").unlink()


def test_files_come_as_they_are_and_are_never_kept(ask, made_site):
    for path, name in (
        ("/", "index.html"),
        ("/board-1.html", "board-1.html"),
        ("/static/site.js", "static/site.js"),
    ):
        response, body = ask(path)
        assert response.status == 200
        assert body == (made_site.folder / name).read_bytes()
        assert response.getheader("Cache-Control") == "no-store"
        assert "script-src 'self'" in response.getheader("Content-Security-Policy")
        assert response.getheader("Set-Cookie") is None
    assert ask("/static/site.css")[0].getheader("Content-Type").startswith("text/css")


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.html", "/%2e%2e/secret.html", "/static/../../secret.html", "//etc/passwd",
        "/data/link.html", "/.hidden", "/none.html", "/static/", "/static", "/board-1.html/",
        "/..%2fsecret.html", "/a\\..\\b",
    ],
)  # fmt: skip
def test_nothing_beside_them_is_served(ask, path):
    response, body = ask(path)
    assert response.status == 404
    assert b"secret" not in body


def test_pages_are_not_written_to(ask):
    assert ask("/index.html", "POST")[0].status == 405


def test_what_is_no_site_is_not_served(tmp_path):
    with pytest.raises(UsageError, match="is not a site"):
        FolderSite(tmp_path)
