"""A machine in this process: its own folders, a list of downloads, and the host of its copies."""

import hashlib
import os
from functools import partial
from pathlib import Path

import pytest

from agentgym import cli
from agentgym.data.fetching import Fetcher
from tests.official.copies import Copies
from tests.official.host import Host
from tests.official.machines import state_of
from tests.official.tables import rewritten, write

DATA = Path(os.environ.get("AGENTGYM_DATA", "")).absolute()


@pytest.fixture(scope="session")
def copies():
    return Copies(DATA)


class Here:
    """Commands in this process, with the list and the hosts of a test."""

    def __init__(self, folder, host, copies, monkeypatch, capsys):
        self.folder, self.host, self.capsys = folder, host, capsys
        self.table = rewritten(copies.of, host.address)
        self.path = folder / "sources.toml"
        self.replaced = {}
        host.content = lambda url: self.replaced[url] if url in self.replaced else copies.of(url)
        self.waits = []
        patient = partial(Fetcher, sleep=self.waits.append)
        monkeypatch.setattr("agentgym.cli.download.Fetcher", patient)
        monkeypatch.setattr("agentgym.data.sources.SOURCES", self.path)
        for name, place in (("AGENTGYM_DATA", "data"), ("AGENTGYM_CACHE", "cache"), ("HOME", "home")):
            monkeypatch.setenv(name, str(folder / "box" / place))
        for name in ("HF_TOKEN", "HF_ENDPOINT", "HF_HOME", "http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.chdir(folder)

    @property
    def data(self):
        return self.folder / "box" / "data"

    def file(self, name):
        """Return the entry of a file."""
        return next(file for file in self.table["file"] if file["name"] == name)

    def replace(self, name, content):
        """Let the hosts offer something else, which is what the list expects."""
        file = self.file(name)
        for url in file["urls"]:
            self.replaced[f"https:/{url.removeprefix(self.host.url)}"] = content
        for key in file.keys() & {"sha256", "md5"}:
            file[key] = hashlib.new(key, content).hexdigest()
        if "size" in file:
            file["size"] = len(content)

    def run(self, *words):
        """Run a command; return its exit code, what it prints, and the lines of its errors."""
        if self.table is not None:
            write(self.path, self.table)
        code = cli.main(words)
        out, err = self.capsys.readouterr()
        assert "Traceback" not in err
        self.said = err
        return code, out, [line for line in err.splitlines() if line.startswith("agentgym: ")]

    def outside(self):
        """Return what lies beside the machine's own folders."""
        return [path for path in state_of(self.folder) if not path.startswith("box/")]


@pytest.fixture
def here(tmp_path, copies, monkeypatch, capsys):
    with Host(copies.of) as host:
        yield Here(tmp_path, host, copies, monkeypatch, capsys)
