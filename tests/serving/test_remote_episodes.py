"""Episodes that search a server: as with the index itself, and an error where the server goes away."""

import threading

import pytest

from agentgym.core.queries import UnansweredError
from agentgym.envs.multihop.builtin.articles import builtin_passages
from agentgym.registration import open_env
from agentgym.retrieval.engines import http_client
from agentgym.retrieval.searcher import search_in_memory
from agentgym.serving.retrieval.app import RetrievalService
from agentgym.serving.retrieval.server import RetrievalServer


def test_episodes_search_a_server_until_it_goes_away(monkeypatch):
    monkeypatch.setattr(http_client, "_FIRST_PAUSE", 0.001)
    service = RetrievalService(search_in_memory(builtin_passages(), corpus="multihop builtin"))
    with RetrievalServer("127.0.0.1", 0, service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            far = open_env("agentgym/HotpotQA-v0", options={"search": f"remote:{server.url}"})
            near = open_env("agentgym/HotpotQA-v0")
            observations = [env.reset(seed=3)[0] for env in (far, near)]
            assert observations[0] == observations[1]
            found = [env.step("search[which river crosses the capital]")[0] for env in (far, near)]
            assert found[0] == found[1]
            assert far.query_backends["search"].kind.standing == "attested"
        finally:
            server.stop()
            thread.join()
    with pytest.raises(UnansweredError, match="cannot be asked") as raised:
        far.step("search[another river]")
    assert "\n" not in str(raised.value)
    near.step("search[another river]")
