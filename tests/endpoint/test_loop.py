"""The event loop of endpoints: one thread for all, none left behind, and its own in a forked child."""

import os
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, Future, wait

import pytest

from agentgym.endpoint import (
    BudgetSpentError,
    EndpointError,
    EndpointSession,
    EndpointSpec,
    current_session,
    open_endpoint,
    read_ledger,
)
from agentgym.endpoint.client import without_network
from agentgym.endpoint.loop import loop_of_process
from agentgym.errors import UsageError
from tests.endpoint.fake import URL, FakeEndpoint, asking
from tests.waiting import PATIENCE, wait_until

SPEC = EndpointSpec(URL, "tiny")


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def endpoint_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("agentgym-endpoint")]


def test_all_endpoints_share_a_thread_that_ends_with_the_last():
    wait_until(lambda: not endpoint_threads())
    with FakeEndpoint().open() as one, FakeEndpoint().open() as two:
        assert endpoint_threads() == []  # nothing was asked yet
        one.ask([asking()])
        two.ask([asking()])
        assert endpoint_threads().count("agentgym-endpoints") == 1
        one.close()
        assert two.ask([asking("more")])
    wait_until(lambda: not endpoint_threads())
    assert loop_of_process() is None


def test_a_closed_endpoint_says_so():
    with FakeEndpoint().open() as endpoint:
        endpoint.close()
        endpoint.close()
        with pytest.raises(EndpointError, match="is closed: open it again"):
            endpoint.submit(asking())


def test_closing_cancels_what_is_under_way():
    fake = FakeEndpoint(delay=30)
    with fake.open() as endpoint:
        future = endpoint.submit(asking())
        fake.wait_for(1)
    assert future.cancelled()
    assert fake.in_flight == 0


def test_cancelling_ends_the_call():
    fake = FakeEndpoint(delay=30)
    with fake.open() as endpoint:
        future = endpoint.submit(asking())
        fake.wait_for(1)
        assert future.cancel()
        assert wait([future], PATIENCE).done == {future}
        with pytest.raises(CancelledError):
            future.result()
        wait_until(lambda: not fake.in_flight)


def test_cancelling_one_of_equal_calls_leaves_the_others():
    fake = FakeEndpoint(held=True)
    with fake.open() as endpoint:
        futures = [endpoint.submit(asking("same")) for _ in range(3)]
        fake.wait_for(1)
        assert futures[0].cancel()
        fake.release.set()
        assert [future.result(PATIENCE).text for future in futures[1:]] == ["re: same"] * 2
        assert len(fake.bodies) == 1
        for future in [endpoint.submit(asking("other")) for _ in range(2)]:
            future.cancel()
        assert endpoint.ask([asking("other")])[0].text == "re: other"  # another call, which nobody cancelled


def test_a_callback_may_submit_and_never_wait():
    chained: Future[str] = Future()
    waited: Future[str] = Future()
    fake = FakeEndpoint(held=True)  # an answer before the callback is set would call it here, not in the loop
    with fake.open() as endpoint:

        def further(done):
            endpoint.submit(asking(f"repair {done.result().text}")).add_done_callback(
                lambda second: chained.set_result(second.result().text)
            )
            with pytest.raises(EndpointError, match="use submit") as error:
                endpoint.ask([asking("waits")])
            waited.set_result(str(error.value))

        endpoint.submit(asking("one")).add_done_callback(further)
        fake.release.set()
        assert chained.result(PATIENCE) == "re: repair re: one"
        assert waited.result(PATIENCE)


def test_a_call_that_cannot_be_is_no_answer_for_others():
    with FakeEndpoint().open() as endpoint:
        with pytest.raises(TypeError):
            endpoint.ask([asking("a"), asking("b", tools=(object(),))])
        assert endpoint.ask([asking("a")])


def test_a_session_opens_one_endpoint_for_a_spec_and_closes_it():
    fake = FakeEndpoint()
    with without_network(fake.transport):
        with EndpointSession() as session:
            assert current_session() is session
            endpoint = open_endpoint(SPEC)
            assert open_endpoint(EndpointSpec(URL, "tiny")) is endpoint
            assert open_endpoint(EndpointSpec(URL, "other")) is not endpoint
            assert endpoint.ask([asking()])[0].text == "re: Say hello."
        assert endpoint.closed
        assert current_session() is None
        outside = open_endpoint(SPEC)
        assert outside is not endpoint
        assert open_endpoint(SPEC) is outside
        assert outside.ask([asking()])
        outside.close()
        again = open_endpoint(SPEC)
        assert again is not outside
    wait_until(lambda: not endpoint_threads())


def test_sessions_may_be_nested():
    with EndpointSession() as outer:
        one = open_endpoint(SPEC)
        with EndpointSession() as inner:
            assert current_session() is inner
            assert open_endpoint(SPEC) is not one
        assert current_session() is outer
        assert open_endpoint(SPEC) is one


def test_a_session_is_entered_once():
    with EndpointSession() as session, pytest.raises(UsageError, match="is entered once: make another one"):
        session.__enter__()
    with pytest.raises(UsageError, match="is entered once"):
        session.__enter__()


def release_once_ending(session, fake):
    wait_until(lambda: session.ending)
    fake.release.set()


def test_the_end_of_a_session_waits_for_what_was_sent(tmp_path):
    fake = FakeEndpoint(held=True)
    files = {"cache": tmp_path / "cache.sqlite", "ledger": tmp_path / "ledger.jsonl"}
    session = EndpointSession(mode="write", **files)
    with fake.open(concurrency=4) as endpoint:
        session.__enter__()
        futures = [endpoint.submit(asking(str(number))) for number in range(4)]
        fake.wait_for(4)
        futures += [endpoint.submit(asking("waits for a place"))]
        release = threading.Thread(target=release_once_ending, args=(session, fake))
        release.start()
        session.__exit__(BudgetSpentError, BudgetSpentError("as a run ends"), None)
        release.join()
        assert [future.cancelled() for future in futures] == [False] * 4 + [True]
        with EndpointSession(cache=files["cache"], mode="replay-only"):
            assert len(endpoint.ask([asking(str(number)) for number in range(4)])) == 4
    assert len(read_ledger(files["ledger"])) == 4  # what was paid for is kept


def test_a_callback_of_the_last_reply_asks_nothing_outside_of_its_session():
    fake, later = FakeEndpoint(held=True), []
    session = EndpointSession()
    with without_network(fake.transport):
        session.__enter__()
        future = open_endpoint(SPEC).submit(asking("last"))
        future.add_done_callback(lambda _: later.append(open_endpoint(SPEC).submit(asking("one more"))))
        fake.wait_for(1)
        release = threading.Thread(target=release_once_ending, args=(session, fake))
        release.start()
        session.__exit__(None, None, None)
        release.join()
    assert future.result().text == "re: last"
    with pytest.raises(EndpointError, match="has ended"):
        later[0].result(PATIENCE)
    assert len(fake.bodies) == 1


def test_an_interrupt_waits_for_nothing(tmp_path):
    fake = FakeEndpoint(delay=30)
    session = EndpointSession(ledger=tmp_path / "ledger.jsonl")
    with fake.open() as endpoint:
        session.__enter__()
        future = endpoint.submit(asking())
        fake.wait_for(1)
        session.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        assert future.cancelled()
    assert [row.error for row in read_ledger(tmp_path / "ledger.jsonl")] == ["CancelledError"]


def test_a_forked_child_asks_with_a_loop_of_its_own(tmp_path):
    fake = FakeEndpoint()
    session = EndpointSession(cache=tmp_path / "c.sqlite", mode="write", ledger=tmp_path / "l")
    with session, fake.open() as endpoint:
        assert endpoint.ask([asking("before")])[0].text == "re: before"
        child = os.fork()
        if child == 0:
            status = 1
            try:
                same = endpoint.ask([asking("before"), asking("in the child")])
                status = 0 if [reply.from_cache for reply in same] == [True, False] else 2
                endpoint.close()
                status = status or (3 if loop_of_process() is not None else 0)
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        after = endpoint.ask([asking("after"), asking("in the child")])
        assert [reply.from_cache for reply in after] == [False, True]
    assert [row.label for row in read_ledger(tmp_path / "l")] == [""] * 5


def test_nothing_is_left_open_at_the_end_of_the_process():
    code = """
from agentgym.endpoint.client import without_network
from agentgym.endpoint import EndpointSpec, open_endpoint
from tests.endpoint.fake import FakeEndpoint, asking
fake = FakeEndpoint()
with without_network(fake.transport):
    print(open_endpoint(EndpointSpec("http://h/v1", "m")).ask([asking()])[0].text)
    slow = FakeEndpoint(delay=30)
with without_network(slow.transport):
    open_endpoint(EndpointSpec("http://h/v1", "slow")).submit(asking())
"""
    result = run_python(code)
    assert (result.returncode, result.stdout, result.stderr) == (0, "re: Say hello.\n", "")


def test_importing_needs_none_of_the_extra():
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("openai", "aiolimiter", "httpx", "httpx2"):
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Absent())
from agentgym.endpoint import *
endpoint = open_endpoint(EndpointSpec("http://h/v1", "m"))
try:
    endpoint.ask([ChatRequest((ChatMessage("user", "x"),))])
except Exception as error:
    print(error)
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("asking an endpoint needs aiolimiter: pip install")
