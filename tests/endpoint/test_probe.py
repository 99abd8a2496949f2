"""What a probe finds out, of endpoints that heed, ignore and refuse."""

import json

import pytest

from agentgym.endpoint import CacheMissError, EndpointSession, KeyRefusedError, read_ledger
from agentgym.endpoint.probe import PROBE_REQUESTS
from tests.endpoint.fake import FakeEndpoint, Said, completion, refusal


def able(body):
    """Answer as a server that heeds all it is asked."""
    limit = body.get("max_tokens", body.get("max_completion_tokens"))
    logprobs = {"content": [{"token": "a", "logprob": -0.1}]} if body.get("logprobs") else None
    more = {"logprobs": logprobs, "token_ids": [1, 2] if body.get("return_token_ids") else None}
    asked = body["messages"][-1]["content"]
    if body.get("tools"):
        call = {
            "id": "c",
            "type": "function",
            "function": {"name": "paint", "arguments": '{"colour": "blue"}'},
        }
        return completion("", "tool_calls", tool_calls=[call], **more)
    if body.get("response_format"):
        return completion('{"colour": "blue"}', **more)
    text = f"{body.get('seed')} words" if body["temperature"] else asked
    said = completion(text, "length" if limit and asked.startswith("Count") else "stop", **more)
    table = json.loads(said.body)
    table["choices"] *= body.get("n", 1)
    table["system_fingerprint"] = "fp"
    return said._replace(body=json.dumps(table).encode())


def test_an_endpoint_that_heeds_all():
    fake = FakeEndpoint(otherwise=able)
    with fake.open() as endpoint:
        probe = endpoint.probe()
    assert len(fake.bodies) == PROBE_REQUESTS
    table = probe.to_json()
    assert (probe.answers_as, probe.fingerprint, probe.usage, probe.repeatable) == (
        "served",
        "fp",
        True,
        True,
    )
    heeded = {name for name, value in table.items() if value == "heeded"}
    assert heeded == {
        *("seed", "n", "logprobs", "token_ids", "response_format", "tools"),
        *("max_tokens", "max_completion_tokens"),
    }
    assert (probe.temperature, probe.refused) == ("accepted", {})
    assert json.loads(json.dumps(table)) == table


def test_an_endpoint_that_ignores_what_it_does_not_know():
    fake = FakeEndpoint(otherwise=lambda body: completion(f"answer {len(fake.bodies)}"))
    with fake.open() as endpoint:
        probe = endpoint.probe()
    assert probe.repeatable is False
    ignored = {name for name, value in probe.to_json().items() if value == "ignored"}
    assert ignored == {
        *("seed", "n", "logprobs", "token_ids", "response_format", "max_tokens", "max_completion_tokens"),
    }
    assert probe.tools == "accepted"  # the model may have chosen not to call it


def strict(*refused):
    def answer(body):
        found = [name for name in refused if name in body]
        return refusal(400, f"Unsupported parameter: '{found[0]}'.", param=found[0]) if found else able(body)

    return answer


def test_an_endpoint_that_refuses():
    names = ("seed", "n", "logprobs", "return_token_ids", "response_format", "tools", "max_tokens")
    with FakeEndpoint(otherwise=strict(*names)).open() as endpoint:
        probe = endpoint.probe()
        left_out = set(endpoint.left_out)
    found = {name for name, value in probe.to_json().items() if value == "refused"}
    assert found == {"seed", "n", "logprobs", "token_ids", "response_format", "tools", "max_tokens"}
    assert probe.max_completion_tokens == "heeded"
    assert probe.refused["n"] == "Unsupported parameter: 'n'."
    assert left_out == {"seed", "logprobs", "return_token_ids", "response_format", "max_tokens"}


def test_a_refusal_that_names_nothing_is_that_of_what_was_added():
    def answer(body):
        return Said(b"unsupported", 400) if body.get("n") == 2 else able(body)

    with FakeEndpoint(otherwise=answer).open() as endpoint:
        probe = endpoint.probe()
    assert (probe.n, probe.refused) == ("refused", {"n": "unsupported"})


def test_what_a_probe_found_is_not_sent():
    fake = FakeEndpoint(otherwise=strict("temperature", "seed"))
    fake.otherwise = lambda body: (
        strict("temperature")({"temperature": 0, **body})
        if "temperature" in body
        else able({**body, "temperature": 0})
    )
    with fake.open() as endpoint:
        assert endpoint.probe().temperature == "refused"
        assert [body for body in fake.bodies if "temperature" in body] == [fake.bodies[0]]


def test_a_probe_is_kept(tmp_path):
    fake = FakeEndpoint(otherwise=strict("seed"))
    cache = tmp_path / "cache.sqlite"
    with EndpointSession(cache=cache, mode="write", ledger=tmp_path / "l"), fake.open() as endpoint:
        probe = endpoint.probe()
    asked = len(fake.bodies)
    assert 10 <= asked <= 20
    with EndpointSession(cache=cache, mode="replay-only"), fake.open() as endpoint:
        assert endpoint.probe() == probe
        assert set(endpoint.left_out) == {"seed"}
    assert len(fake.bodies) == asked
    rows = read_ledger(tmp_path / "l")
    assert {row.label for row in rows} == {"probe"}
    assert len(rows) == asked
    with (
        EndpointSession(cache=cache, mode="replay-only"),
        fake.open(model="other") as endpoint,
        pytest.raises(CacheMissError, match="no probe of other"),
    ):
        endpoint.probe()


def test_a_probe_needs_an_answer():
    with FakeEndpoint(refusal(401)).open() as endpoint, pytest.raises(KeyRefusedError):
        endpoint.probe()
