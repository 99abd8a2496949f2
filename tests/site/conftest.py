"""A small site, built once, and a browser that counts what went wrong and what was asked of others."""

import functools
import http.server
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentgym.evaluation.play.bench import run_bench
from agentgym.site.build import build_site
from tests.serving.browser import Browser
from tests.suite_texts import ORACLE, RANDOM, RULES, env_table, suite_text, write_suite

PACKAGES = ("axe-core@4.14.1", "typescript@7.0.2")
"""From npm, for tests only."""

SUITE = suite_text(
    "pages",
    env_table("agentgym/EZPoints-v0", 3),
    env_table(
        "agentgym/Sokoban-v0",
        3,
        label="Sokoban, easy",
        by_type=True,
        measures=["spl", "won_15"],
        kwargs={"max_steps": 15},
    ),
    agents=(RANDOM, ORACLE, RULES),
    seed=3,
    attempts=2,
)


@dataclass(frozen=True)
class MadeSite:
    """A site of the suite above, and what it was built from."""

    root: Path
    results: Path
    folder: Path

    @property
    def url(self) -> str:
        """Where it is on this disk."""
        return self.folder.as_uri() + "/"


@pytest.fixture(scope="session")
def made_site(tmp_path_factory) -> MadeSite:
    """Return a site of three agents."""
    root = tmp_path_factory.mktemp("site")
    run_bench(write_suite(root, SUITE), root / "results", num_envs=4)
    build_site(root / "results", root / "site")
    return MadeSite(root, root / "results", root / "site")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        """Say nothing."""


@pytest.fixture(scope="session")
def served():
    """Return a function that serves a folder over HTTP, and returns its address."""
    opened = []

    def serve(folder: Path) -> str:
        handler = functools.partial(_Quiet, directory=str(folder))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        opened.append((server, thread))
        return f"http://127.0.0.1:{server.server_address[1]}/"

    yield serve
    for server, thread in opened:
        server.shutdown()
        thread.join()
        server.server_close()


class Visitor(Browser):
    """A tab with scripts, whose errors and requests are kept."""

    def __init__(self, folder: Path):
        super().__init__(folder, scripts=True)
        for domain in ("Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def look(self, url: str) -> None:
        """Go to a page, also to another place of the one that is open."""
        self.open("about:blank")
        self.open(url)
        self.settle()

    def scripts(self, on: bool) -> None:
        """Turn the pages' own scripts on or off."""
        self._scripted = on
        super().scripts(on)

    def settle(self) -> None:
        """Wait until scripts that were appended have run."""
        if not self._scripted:
            return
        self.call(
            "Runtime.evaluate",
            expression="new Promise(r => requestAnimationFrame(() => setTimeout(r, 30)))",
            awaitPromise=True,
        )

    def scheme(self, name: str) -> None:
        """Prefer ``light`` or ``dark``."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def violations(self, modules: Path) -> list:
        """Return what axe finds against levels A and AA of WCAG 2.2 on the open page, with some places."""
        self.call("Runtime.evaluate", expression=(modules / "axe-core" / "axe.min.js").read_text())
        found = self.call(
            "Runtime.evaluate",
            expression="axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}).then("
            "r => r.violations.map(v => [v.id, v.impact, ...v.nodes.slice(0, 3).map(n => n.html)]))",
            awaitPromise=True,
            returnByValue=True,
        )
        return found["result"]["value"]

    @property
    def errors(self) -> list[str]:
        """What pages put on the console as errors, and scripts that failed."""
        found = []
        for event in self.events:
            told = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(told["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled" and told["type"] in ("error", "assert"):
                found.append(str(told["args"]))
            elif event["method"] == "Log.entryAdded" and told["entry"]["level"] == "error":
                found.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")
        return found

    def requests(self) -> list[str]:
        """Return the addresses that were asked for."""
        asked = [
            e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in asked if not url.startswith(("data:", "about:"))]

    def elsewhere(self, base: str) -> list[str]:
        """Return the addresses asked for that are not below one."""
        return [url for url in self.requests() if not url.startswith(base)]


@pytest.fixture(scope="session")
def visitor(tmp_path_factory):
    """Return a browser, the same for all tests of a worker."""
    opened = Visitor(tmp_path_factory.mktemp("browser") / "profile")
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def npm_modules() -> Path:
    """Return a folder with `PACKAGES`, installed once into the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = cache / "agentgym-tests" / "-".join(name.replace("@", "_") for name in PACKAGES)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=folder.parent))
        npm = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(draft)]
        # npm brings authorities of its own, which a network may not be signed by
        signed = {"NODE_EXTRA_CA_CERTS": ssl.get_default_verify_paths().cafile or ""} | os.environ
        subprocess.run([*npm, *PACKAGES], check=True, capture_output=True, env=signed)
        try:
            draft.rename(folder)
        except OSError:  # another worker was first
            shutil.rmtree(draft)
    return folder / "node_modules"
