"""The site in this process, over the small shop of the WebShop tests or the built-in one."""

import http.client
import threading
from contextlib import closing
from html.parser import HTMLParser
from urllib.parse import urlencode

import pytest

from agentgym.core.suite_spec import PLACE
from agentgym.envs.webshop.site.documents import PAGES
from agentgym.envs.webshop.site.html import CHOICE, NODE, QUERY
from agentgym.rollout.datapool import DataPool
from agentgym.serving.http_server import SiteServer
from agentgym.serving.site import EnvSite

WAIT = 300.0


class Parsed(HTMLParser):
    """The nodes of a document, its forms' fields, its elements."""

    def __init__(self, text):
        super().__init__()
        self.nodes, self.buttons, self.hidden, self.tags = [], [], {}, []
        self._open, self._button = None, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        if tag == "input" and attributes.get("type") == "hidden":
            self.hidden[attributes["name"]] = attributes["value"]
        if tag == "button":
            self.buttons.append([attributes, ""])
            self._button = tag
        if NODE in attributes:
            self.nodes.append("")
            self._open = tag

    def handle_data(self, data):
        if self._open:
            self.nodes[-1] += data
        if self._button:
            self.buttons[-1][1] += data

    def handle_endtag(self, tag):
        if tag == self._open:
            self._open = None
        if tag == self._button:
            self._button = None

    @property
    def texts(self):
        """The texts of the nodes, as text observations have them."""
        return [text.strip() for text in self.nodes]

    def choices(self):
        """What can be clicked in the shop: values by text."""
        return {
            text: found["value"]
            for found, text in self.buttons
            if found.get("name") == CHOICE and "value" in found
        }


class Visit:
    """A visitor without a browser."""

    def __init__(self, server):
        self.address = server.server_address[:2]
        self.cookie = ""

    def ask(self, method, path, fields=None, **headers):
        """Send one request; return the response and its body."""
        body = None
        if fields is not None:
            body = urlencode(fields)
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        with closing(http.client.HTTPConnection(*self.address, timeout=WAIT)) as connection:
            connection.request(method, path, body, {"Cookie": self.cookie} | headers)
            response = connection.getresponse()
            text = response.read().decode()
        self.cookie = (response.getheader("Set-Cookie") or self.cookie).partition(";")[0]
        return response, text

    def get(self, path="/"):
        """Open an address, follow where it leads."""
        response, text = self.ask("GET", path)
        while response.status == 303:
            response, text = self.ask("GET", response.getheader("Location"))
        self.page = Parsed(text)
        return response, text

    def post(self, path="/act", **fields):
        """Send a form of the page that was read last."""
        response, text = self.ask("POST", path, {PLACE: self.page.hidden.get(PLACE, "")} | fields)
        return self.get(response.getheader("Location")) if response.status == 303 else (response, text)

    def begin(self, **fields):
        """Choose a split, a task or both, as the footer's form does."""
        return self.post("/begin", **fields)

    def search(self, query):
        return self.post(**{QUERY: query})

    def click(self, text):
        return self.post(**{CHOICE: self.page.choices()[text]})


@pytest.fixture(scope="module")
def model():
    """A model for the gateway, whose modules only its tests import."""
    from tests.serving.gateway_stand_ins import make_model

    return make_model()


@pytest.fixture
def engine(model):
    from tests.serving.gateway_stand_ins import SayingEngine

    return SayingEngine(model)


@pytest.fixture
def pool(tmp_path):
    with DataPool(tmp_path / "pool", group_size=2) as opened:
        yield opened


@pytest.fixture
def gateway(model, engine, pool):
    """A gateway to games of Sokoban, which keeps their episodes."""
    from tests.serving.gateway_stand_ins import talking

    with talking(model, engine, env="agentgym/Sokoban-v0", pool=pool) as running:
        yield running


@pytest.fixture
def serve():
    """Return a function that opens a site and returns it with its server."""
    opened = []

    def make(**settings):
        site = EnvSite(PAGES, **({"split": "test", "options": {}} | settings))
        server = SiteServer("127.0.0.1", 0, site.answer)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        opened.append((server, thread))
        return site, server

    yield make
    for server, thread in opened:
        server.shutdown()
        thread.join()
        server.server_close()
