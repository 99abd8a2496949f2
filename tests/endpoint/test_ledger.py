"""The ledger of calls, and prices."""

import json
import os
import re
from dataclasses import replace

import pytest

from agentgym.endpoint import (
    EndpointSession,
    LedgerTotals,
    PriceTable,
    TokenPrice,
    UnansweredRequestError,
    read_ledger,
    total,
)
from agentgym.endpoint.ledger import Ledger, LedgerRow
from agentgym.endpoint.replies import TokenUsage
from agentgym.errors import UsageError
from tests.endpoint.fake import URL, FakeEndpoint, asking, completion, refusal

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "prompt_tokens_details": {"cached_tokens": 50},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
ROW = LedgerRow("2026-01-31T12:00:00.000Z", "e", URL, "tiny", "", 1, 2, 0, 0, 0.5, 0, None, False, "stop")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "ledger.jsonl"


def test_a_row_for_every_call(path, tmp_path):
    prices = tmp_path / "prices.toml"
    prices.write_text(
        '[[price]]\nmodel = "tiny"\nsince = 2020-01-01\ninput = 10\noutput = 100\ncached_input = 2\n'
    )
    fake = FakeEndpoint(refusal(503), completion(usage=USAGE), refusal(400, "odd"))
    cache = tmp_path / "cache.sqlite"
    with EndpointSession(cache=cache, mode="write", ledger=path, prices=prices), fake.open() as endpoint:
        endpoint.ask([asking("one", label="a", prompt_id="p")])
        with pytest.raises(UnansweredRequestError):
            endpoint.ask([asking("two", label="b")])
        endpoint.ask([asking("one", label="c", prompt_id="p")])
    paid, failed, cached = read_ledger(path)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", paid.when)
    assert (paid.label, paid.url, paid.model, paid.prompt_id) == ("a", URL, "tiny", "p")
    assert (paid.prompt_tokens, paid.completion_tokens) == (100, 20)
    assert (paid.cached_tokens, paid.reasoning_tokens, paid.retries) == (50, 5, 1)
    assert paid.cost == pytest.approx((50 * 10 + 50 * 2 + 20 * 100) / 1e6)
    assert (paid.from_cache, paid.finish_reason, paid.error) == (False, "stop", "")
    assert (failed.label, failed.error, failed.cost, failed.finish_reason) == (
        "b",
        "UnansweredRequestError",
        None,
        "",
    )
    assert (cached.label, cached.from_cache, cached.cost, cached.seconds) == (
        "c",
        True,
        paid.cost,
        paid.seconds,
    )
    assert total([paid, failed, cached]) == LedgerTotals(3, 1, 1, 1, 100, 20, 50, 5, paid.cost)


def test_equal_calls_have_rows_of_their_own(path):
    fake = FakeEndpoint(delay=0.3)
    with EndpointSession(ledger=path), fake.open() as endpoint:
        endpoint.ask([asking("same", label=str(number)) for number in range(3)])
    assert [(row.label, row.from_cache) for row in read_ledger(path)] == [
        ("0", False),
        ("1", True),
        ("2", True),
    ]


def test_a_row_says_what_was_left_out(path):
    fake = FakeEndpoint(otherwise=lambda body: refusal(400, "'seed'") if "seed" in body else completion())
    with EndpointSession(ledger=path), fake.open() as endpoint:
        endpoint.ask([asking(sampling=asking().sampling.__class__(seed=1))])
    assert read_ledger(path)[0].left_out == ("seed",)


def test_without_prices_there_are_tokens_only(path):
    with EndpointSession(ledger=path), FakeEndpoint().open() as endpoint:
        endpoint.ask([asking()])
    [row] = read_ledger(path)
    assert (row.cost, row.prompt_tokens) == (None, 10)
    assert total([row]).cost is None
    unanswered = replace(row, error="UnansweredRequestError")
    assert total([unanswered]).cost is total([replace(row, from_cache=True)]).cost is None


def test_half_a_row_of_a_crash_is_cut_off(path):
    path.parent.mkdir()
    with Ledger_(path) as ledger:
        ledger.append(ROW)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:20])
    assert len(read_ledger(path)) == 1
    with Ledger_(path) as ledger:
        ledger.append(ROW)
    assert path.read_bytes() == whole * 2
    path.write_bytes(b"x" * 100_000)
    with Ledger_(path):
        assert path.read_bytes() == b""


class Ledger_:  # noqa: N801  # closes what it opens
    def __init__(self, path):
        self.ledger = Ledger(path)

    def __enter__(self):
        return self.ledger

    def __exit__(self, *_):
        self.ledger.close()


def test_two_may_write_to_one_ledger(path):
    path.parent.mkdir()
    with Ledger_(path) as one, Ledger_(path) as two:
        for _ in range(20):
            one.append(ROW)
            two.append(ROW)
    assert read_ledger(path) == [ROW] * 40


def test_a_full_disk_stops_the_run(path, monkeypatch):
    with EndpointSession(ledger=path), FakeEndpoint().open() as endpoint:
        endpoint.ask([asking("one")])
        monkeypatch.setattr(os, "write", lambda fd, data: 10)
        with pytest.raises(UsageError, match="no space left"):
            endpoint.ask([asking("two")])
        monkeypatch.undo()
    assert len(read_ledger(path)) == 1


def test_a_full_disk_leaves_nobody_waiting(path, monkeypatch):
    fake = FakeEndpoint(delay=0.3)
    with EndpointSession(ledger=path), fake.open() as endpoint:
        futures = [endpoint.submit(asking("same")) for _ in range(3)]
        monkeypatch.setattr(Ledger, "append", refuse_from(2))
        assert [type(future.exception(5)) for future in futures] == [type(None), UsageError, UsageError]


def refuse_from(number):
    calls = []

    def append(self, row):
        calls.append(row)
        if len(calls) >= number:
            raise UsageError("no space left")

    return append


def test_ledgers_are_read_strictly(path):
    path.parent.mkdir()
    for line in (b"{}", b"x", b"[]", json.dumps({"when": 1}).encode()):
        path.write_bytes(line + b"\n")
        with pytest.raises(UsageError, match=r"ledger\.jsonl:1"):
            read_ledger(path)
    with pytest.raises(UsageError, match="cannot read"):
        read_ledger(path.with_name("absent"))


def table(*rows):
    return PriceTable([TokenPrice(**row) for row in rows])


def test_the_newest_price_until_a_day_counts():
    prices = table(
        {"model": "m", "since": "2026-06-01", "input": 2, "output": 0},
        {"model": "m", "since": "2026-01-01", "input": 1, "output": 0},
        {"model": "m", "since": "2026-01-01", "input": 7, "output": 0, "url": "http://own/v1/"},
    )
    assert prices.of("http://h/v1", "m", "2025-12-31") is None
    assert prices.of("http://h/v1", "m", "2026-01-01").input == 1
    assert prices.of("http://h/v1", "m", "2026-12-31").input == 2
    assert prices.of("http://own/v1", "m", "2026-12-31").input == 7
    assert prices.of("http://h/v1", "other", "2026-12-31") is None


def test_cached_tokens_cost_as_others_unless_said():
    usage = TokenUsage(prompt=1_000_000, completion=0, cached=500_000)
    assert TokenPrice("m", "2026-01-01", 4, 8).cost(usage) == 4
    assert TokenPrice("m", "2026-01-01", 4, 8, cached_input=1).cost(usage) == 2.5


def test_an_old_answer_of_the_cache_costs_what_it_did(tmp_path):
    prices = tmp_path / "prices.toml"
    rows = ['since = "2020-01-01"\ninput = 1\noutput = 1', "since = 2999-01-01\ninput = 9\noutput = 9"]
    prices.write_text("".join(f'[[price]]\nmodel = "tiny"\n{row}\n' for row in rows))
    cache = tmp_path / "cache.sqlite"
    costs = []
    for mode in ("write", "replay-only"):
        with EndpointSession(cache=cache, mode=mode, prices=prices), FakeEndpoint().open() as endpoint:
            costs.append(endpoint.ask([asking()])[0].cost)
    assert costs == [13 / 1e6] * 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "price = 1",
        '[[price]]\nmodel = "m"\n',
        '[[price]]\nmodel = "m"\nsince = "soon"\ninput = 1\noutput = 1\n',
        '[[price]]\nmodel = "m"\nsince = 2026-01-01\ninput = -1\noutput = 1\n',
        '[[price]]\nmodel = "m"\nsince = 2026-01-01\ninput = inf\noutput = 1\n',
        '[[price]]\nmodel = "m"\nsince = 2026-01-01\ninput = 1\noutput = 1\ncurrency = "EUR"\n',
        '[[price]]\nmodel = "m"\nsince = 2026-01-01\ninput = 1\noutput = 1\n[other]\n',
    ],
)
def test_files_of_prices_are_read_strictly(text, tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        EndpointSession(prices=path)
    assert "\n" not in str(error.value)
