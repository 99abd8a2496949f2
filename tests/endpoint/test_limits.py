"""How much is asked at once and in all: slots, rates, budgets, memory."""

import asyncio
import resource
import threading
from pathlib import Path

import pytest

from agentgym.endpoint import (
    BudgetSpentError,
    ChatSampling,
    EndpointBudget,
    EndpointError,
    EndpointSession,
    Spending,
)
from agentgym.endpoint.budget import BudgetMeter
from agentgym.endpoint.loop import loop_of_process
from agentgym.errors import UsageError
from tests.endpoint.fake import FakeEndpoint, asking, completion, refusal
from tests.waiting import PATIENCE


def requests(count, **fields):
    return [asking(f"request {number}", **fields) for number in range(count)]


def test_as_many_are_in_flight_as_are_asked():
    fake = FakeEndpoint(held=True)
    with fake.open() as endpoint:
        futures = [endpoint.submit(request) for request in requests(64)]
        fake.wait_for(64)
        fake.release.set()
        texts = [future.result(PATIENCE).text for future in futures]
    assert texts == [f"re: request {number}" for number in range(64)]


def test_a_slow_answer_holds_nobody_up():
    fake = FakeEndpoint(held="slow")
    with fake.open() as endpoint:
        slow = endpoint.submit(asking("slow"))
        assert len(endpoint.ask(requests(70))) == 70
        assert not slow.done()
        fake.release.set()
        assert slow.result(PATIENCE).text == "re: slow"


def test_no_more_are_in_flight_than_may_be():
    fake = FakeEndpoint(delay=0.005)
    with fake.open(concurrency=5) as endpoint:
        endpoint.ask(requests(40))
    assert fake.most_in_flight == 5


def turns_of_the_loop():
    """Let the loop of all endpoints go round so often that whatever may be sent is sent."""

    async def turn():
        for _ in range(100):
            await asyncio.sleep(0)

    loop_of_process().submit(turn()).result(PATIENCE)


def test_requests_a_minute():
    fake = FakeEndpoint()
    with fake.open(requests_per_minute=2) as endpoint:
        futures = [endpoint.submit(request) for request in requests(6)]
        for future in futures[:2]:
            future.result(PATIENCE)
        turns_of_the_loop()
        assert len(fake.bodies) == 2  # the others wait for the minute to go on
        for future in futures:
            future.cancel()


def test_tokens_a_minute():
    fake = FakeEndpoint()
    sampling = ChatSampling(max_tokens=9_000)
    with fake.open(tokens_per_minute=20_000) as endpoint:
        futures = [endpoint.submit(request) for request in requests(6, sampling=sampling)]
        for future in futures[:2]:
            future.result(PATIENCE)
        turns_of_the_loop()
        assert len(fake.bodies) == 2
        for future in futures:
            future.cancel()
    with FakeEndpoint().open(tokens_per_minute=10) as endpoint:  # a request beyond the limit is sent alone
        assert endpoint.ask(requests(1))


def test_a_thousand_in_flight_take_little_memory_and_no_threads():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fake = FakeEndpoint(held=True)
    with fake.open(concurrency=1_000) as endpoint:
        futures = [endpoint.submit(request) for request in requests(1_000)]
        fake.wait_for(1_000)
        own = [each.name for each in threading.enumerate() if each.name.startswith("agentgym-endpoint")]
        fake.release.set()
        assert all(future.result(PATIENCE).text for future in futures)
    assert len(own) <= 5  # the loop's, and those that look up names
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # KiB


def test_a_budget_of_requests():
    fake = FakeEndpoint(refusal(500), refusal(500))
    with EndpointSession(budget=EndpointBudget(requests=5)) as session, fake.open() as endpoint:
        assert [reply.retries for reply in endpoint.ask(requests(1))] == [2]  # further attempts count
        endpoint.ask(requests(3)[1:])
        with pytest.raises(BudgetSpentError, match="the budget of 5 requests is spent: 5 so far") as error:
            endpoint.ask(requests(6)[5:])
        assert "\n" not in str(error.value)
        assert session.spent == Spending(5, 39, 0.0)
    assert len(fake.bodies) == 5


def test_a_budget_is_never_exceeded_by_calls_in_flight():
    fake = FakeEndpoint(delay=0.01)
    with EndpointSession(budget=EndpointBudget(requests=10)) as session, fake.open() as endpoint:
        futures = [endpoint.submit(request) for request in requests(30)]
        errors = [future.exception() for future in futures]
        assert [type(error) for error in errors] == [type(None)] * 10 + [BudgetSpentError] * 20
        assert session.spent.requests == 10
    assert len(fake.bodies) == 10


def test_a_budget_of_tokens_waits_for_what_is_in_flight():
    # a call may take 10 + 90 tokens and takes 13: four at once fit at first, in the end thirty-one do
    fake = FakeEndpoint(delay=0.001)
    sampling = ChatSampling(max_tokens=90)
    with EndpointSession(budget=EndpointBudget(tokens=500)) as session, fake.open() as endpoint:
        futures = [endpoint.submit(request) for request in requests(50, sampling=sampling)]
        done = [future for future in futures if future.exception() is None]
        assert fake.most_in_flight <= 5
        assert 400 - 13 <= 13 * len(done) <= 500
        assert session.spent == Spending(len(done), 13 * len(done))


PRICES = """
[[price]]
model = "tiny"
since = 2020-01-01
input = 1000.0
cached_input = 100.0
output = 10000.0

[[price]]
model = "tiny"
since = "2999-01-01"
input = 1.0
output = 1.0
"""


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(PRICES)
    return path


def test_a_budget_of_dollars(prices):
    fake = FakeEndpoint()
    sampling = ChatSampling(max_tokens=3)
    with (
        EndpointSession(budget=EndpointBudget(dollars=0.1), prices=prices) as session,
        fake.open() as endpoint,
    ):
        [reply] = endpoint.ask(requests(1, sampling=sampling))
        assert reply.cost == pytest.approx(0.04)  # 10 tokens of $1000 and 3 of $10000 a million
        with pytest.raises(BudgetSpentError, match=r"the budget of 0\.1 dollars is spent: 0\.08 so far"):
            endpoint.ask(requests(9, sampling=sampling)[1:])
        assert session.spent.dollars == pytest.approx(0.08)
    assert len(fake.bodies) == 2


def test_a_budget_of_dollars_needs_prices(prices):
    with pytest.raises(UsageError, match="needs prices"):
        EndpointSession(budget=EndpointBudget(dollars=1))
    fake = FakeEndpoint()
    session = EndpointSession(budget=EndpointBudget(dollars=1), prices=prices)
    with (
        session,
        fake.open(model="unheard-of") as endpoint,
        pytest.raises(EndpointError, match="needs a price"),
    ):
        endpoint.ask([asking()])
    assert fake.bodies == []


def test_answers_of_the_cache_are_free(prices, tmp_path):
    fake = FakeEndpoint()
    cache = tmp_path / "cache.sqlite"
    with EndpointSession(cache=cache, mode="write"), fake.open() as endpoint:
        endpoint.ask([asking()])
    budget = EndpointBudget(requests=0, tokens=0, dollars=0.0)
    with EndpointSession(cache=cache, mode="read", budget=budget, prices=prices), fake.open() as endpoint:
        [reply] = endpoint.ask([asking()])
        assert reply.cost == pytest.approx(0.04)
        with pytest.raises(BudgetSpentError):
            endpoint.ask([asking("new")])
    assert len(fake.bodies) == 1


def test_what_an_endpoint_does_not_count_is_estimated():
    fake = FakeEndpoint(completion("a" * 400, usage=None))
    with EndpointSession(budget=EndpointBudget(tokens=10_000)) as session, fake.open() as endpoint:
        [reply] = endpoint.ask([asking("b" * 400)])
        assert (reply.prompt_tokens, reply.completion_tokens) == (0, 0)
        assert session.spent.tokens == 106 + 100


def test_refused_requests_take_no_tokens_and_lost_ones_their_prompt():
    fake = FakeEndpoint(refusal(503), ConnectionResetError())
    with EndpointSession(budget=EndpointBudget(tokens=10_000)) as session, fake.open() as endpoint:
        endpoint.submit(asking("b" * 400)).exception()
        assert session.spent.tokens in (106, 106 + 13)


@pytest.mark.parametrize("limit", [{"requests": -1}, {"tokens": float("nan")}, {"dollars": float("inf")}])
def test_budgets_that_are_none(limit):
    with pytest.raises(UsageError):
        EndpointBudget(**limit)


def test_a_meter_serves_in_turn():
    async def run():
        meter = BudgetMeter(EndpointBudget(tokens=100))
        order: list[str] = []

        async def call(name: str, most: int) -> None:
            await meter.reserve(Spending(1, most))
            order.append(name)
            await asyncio.sleep(0)
            meter.settle(Spending(1, most), Spending(1, 1))

        await asyncio.gather(call("large", 90), call("larger", 95), call("small", 5))
        return order, meter.spent

    assert asyncio.run(run()) == (["large", "larger", "small"], Spending(3, 3))
