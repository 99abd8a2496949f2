import os

import pytest

from tests.multihop import copies
from tests.multihop.copies import DEV, TRAIN


@pytest.fixture(scope="session")
def real_data():
    return os.environ.get("AGENTGYM_DATA", "")


@pytest.fixture
def own_places(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def copy(tmp_path):
    return tmp_path / "copy"


@pytest.fixture
def hotpotqa(copy):
    copies.write(copy / DEV, [copies.hotpot()])
    train = [
        copies.hotpot("t1", answer="Lind", context=[copies.VALE, copies.OTHER_VALE]),
        copies.hotpot("t2", "Is Bo Lind a mayor?", "yes", supporting_facts=[["Bo Lind", 0]], level="easy"),
    ]
    copies.write(copy / TRAIN, train)
    return copy
