"""Requests that come and go between two decoding steps."""

from collections import deque
from threading import Event, Thread

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.errors import UsageError
from agentgym.inference.engines import GenerationRequest, Sampling
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.responses import SampledResponse
from agentgym.inference.engines.stepping import SteppingEngine
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from tests.training.conftest import TEXTS
from tests.training.plain import close, forward_logprobs, mixed_requests, prompt
from tests.waiting import PATIENCE, wait_until


class BrokenError(Exception):
    """What a step raises."""


class Counting(SteppingEngine):
    """Draws the token 1 for everything in flight, when it is let."""

    context_length = 100

    def __init__(self):
        super().__init__(version=3)
        self.flying, self.error, self.steps, self.room = [], None, 0, 2
        self.may_step = Event()
        self.may_step.set()

    def _begin(self, request):
        return SampledResponse.to(request, self.context_length)

    def _generate(self, responses):
        raise AssertionError

    def _step(self, waiting):
        while waiting and len(self.flying) < self.room:
            self.flying.append(waiting.popleft())
        assert self.flying
        assert self.may_step.wait(PATIENCE)
        self.steps += 1
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        for response in self.flying:
            response.take(1, 0.0)
        over = [response for response in self.flying if response.finish]
        self.flying = [response for response in self.flying if not response.finish]
        return over

    def _drop(self):
        dropped, self.flying = self.flying, []
        return dropped

    def _sync(self, state, version):
        assert not self.flying
        for _ in state:
            pass


def request(tokens=3):
    return GenerationRequest((5, 6), None, Sampling(max_tokens=tokens), seed=0)


def test_what_is_over_leaves_and_what_waits_takes_its_place():
    engine = Counting()
    ends = []
    with engine._changed:
        futures = [engine.submit(request(tokens)) for tokens in (6, 2, 2, 2)]
        for number, future in enumerate(futures):
            future.add_done_callback(lambda _, number=number: ends.append(number))
    assert [len(future.result(PATIENCE).ids) for future in futures] == [6, 2, 2, 2]
    assert ends[:2] == [1, 2]
    assert engine.steps == 6
    assert {future.result().version for future in futures} == {3}


def test_a_failed_step_is_the_error_of_all_that_is_open_and_of_no_more():
    engine = Counting()
    engine.may_step.clear()
    futures = [engine.submit(request()) for _ in range(5)]
    engine.error = BrokenError()
    engine.may_step.set()
    for future in futures:
        with pytest.raises(BrokenError):
            future.result(PATIENCE)
    assert len(engine.generate([request(), request()])) == 2
    engine.sync([], version=4)
    assert engine.submit(request()).result(PATIENCE).version == 4


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_is_ended_ends_what_is_open_and_another_begins():
    engine = Counting()
    engine.may_step.clear()
    futures = [engine.submit(request()) for _ in range(5)]
    engine.error = SystemExit()
    engine.may_step.set()
    for future in futures:
        with pytest.raises(SystemExit):
            future.result(PATIENCE)
    engine._thread.join(PATIENCE)
    assert not engine._thread.is_alive()
    assert len(engine.generate([request(), request()])) == 2


def test_a_request_that_cannot_be_answered_is_refused_at_once():
    with pytest.raises(UsageError, match="has no tokens"):
        Counting().submit(GenerationRequest((), None, Sampling(), seed=0))


def test_weights_wait_for_what_is_in_flight_and_hold_up_what_waits():
    engine = Counting()
    engine.may_step.clear()
    with engine._changed:
        futures = [engine.submit(request(5)) for _ in range(6)]
    wait_until(lambda: len(engine.flying) == 2)
    syncing = Thread(target=engine.sync, args=([], 4))
    syncing.start()
    wait_until(lambda: engine._pauses)
    engine.may_step.set()
    versions = [future.result(PATIENCE).version for future in futures]
    syncing.join(PATIENCE)
    assert versions == [3, 3, 4, 4, 4, 4]
    assert engine.version == 4


def test_weights_that_fail_to_come_hold_up_nothing():
    engine = Counting()

    def broken():
        yield "weight", torch.zeros(1)
        raise BrokenError

    engine.start()
    with pytest.raises(BrokenError):
        engine.sync(broken(), version=4)
    assert engine.version == 3
    assert engine.submit(request()).result(PATIENCE).version == 3


def test_weights_change_within_a_response_where_they_may():
    engine = Counting()
    engine.start(updates_in_flight=True)
    engine.may_step.clear()
    with engine._changed:
        futures = [engine.submit(request(5)) for _ in range(3)]
    wait_until(lambda: len(engine.flying) == 2)
    syncing = Thread(target=engine.sync, args=([], 4))
    syncing.start()
    wait_until(lambda: engine._pauses)
    engine.may_step.set()  # one step is under way
    generations = [future.result(PATIENCE) for future in futures]
    syncing.join(PATIENCE)
    assert [each.version for each in generations] == [3, 3, 4]
    assert [each.versions for each in generations] == [(3, 4, 4, 4, 4), (3, 4, 4, 4, 4), ()]


def test_a_cancelled_request_is_nobody_s_error():
    engine = Counting()
    engine.may_step.clear()
    first, second, third = (engine.submit(request()) for _ in range(3))
    assert third.cancel()
    assert first.cancel()
    engine.may_step.set()
    assert len(second.result(PATIENCE).ids) == 3
    assert len(engine.submit(request()).result(PATIENCE).ids) == 3


# ---- decoding steps -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny():
    return tiny_model("0.8m", word_tokenizer(TEXTS), context=128, seed=3)


@pytest.fixture(scope="module")
def asked(tiny):
    """Requests of every kind, and their generations in one batch."""
    from agentgym.inference.engines.choices import ActionSpeller

    speller = ActionSpeller(tiny.chat, end=tiny.stop_ids[-1])
    requests = mixed_requests(tiny, speller, (17, 1, 40, 5, 17, 90, 33, 64))
    return requests, HfEngine(tiny.model).generate(requests)


ARRIVALS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 23)), min_size=1, max_size=40)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ARRIVALS, st.sampled_from((1, 200, 131_072)))
def test_whatever_joins_and_leaves_a_response_is_the_same(tiny, asked, arrivals, batch_tokens):
    """Some steps after the one before, another request comes."""
    requests, expected = asked
    engine = HfEngine(tiny.model, batch_tokens=batch_tokens)
    waiting: deque[SampledResponse] = deque()
    drawn = []

    def step():
        if waiting or engine._batch:
            engine._step(waiting)
            if batch_tokens == 1:
                assert len(engine._batch) <= 1

    for steps, number in arrivals:
        for _ in range(steps):
            step()
        drawn.append((engine._begin(requests[number]), expected[number]))
        waiting.append(drawn[-1][0])
    while waiting or engine._batch:
        step()
    assert engine._rows is None
    for response, one in drawn:
        other = response.generation(0)
        assert (other.ids, other.finish) == (one.ids, one.finish)
        assert close(other.logprobs, one.logprobs, 1e-5)


def test_columns_that_no_row_owns_any_more_are_forgotten(tiny):
    engine = HfEngine(tiny.model)
    size = len(tiny.tokenizer)
    waiting: deque[SampledResponse] = deque()
    for number in range(120):
        sampling = Sampling(max_tokens=6 + number % 3)
        waiting.append(engine._begin(GenerationRequest(prompt(size, 20, number), None, sampling, number)))
        engine._step(waiting)
    (layer, *_) = engine._rows._layers
    assert layer.used <= 16
    assert layer.keys.shape[0] <= 16
    assert engine._rows._shared.keys[0].shape[0] <= 20
    engine._drop()


def test_between_two_requests_the_model_has_its_own_form(tiny):
    model = tiny.model
    before = model.config._attn_implementation, model.training
    engine = HfEngine(model)
    for seed in range(5):
        engine.submit(GenerationRequest((5, 6, 7), None, Sampling(max_tokens=4), seed)).result(PATIENCE)
        assert (model.config._attn_implementation, model.training) == before


class Pausing:
    """Lets an engine do so many steps, and no more before weights have come."""

    def hold(self, steps):
        self.left, plain = steps, self._step

        def step(waiting):
            if self.left == 0:
                wait_until(lambda: self._pauses or self.version)
            self.left -= 1
            return plain(waiting)

        self._step = step


class PausingHf(Pausing, HfEngine):
    pass


def test_tokens_say_which_weights_drew_them(tiny):
    other = tiny_model("0.8m", word_tokenizer(TEXTS), context=128, seed=4).model
    requests = [
        GenerationRequest(prompt(len(tiny.tokenizer), 20, seed), None, Sampling(max_tokens=30), seed)
        for seed in range(3)
    ]
    engine = PausingHf(tiny_model("0.8m", word_tokenizer(TEXTS), context=128, seed=3).model)
    engine.start(updates_in_flight=True)
    engine.hold(12)
    futures = [engine.submit(each) for each in requests]
    wait_until(lambda: engine.left == 0)
    engine.sync(other.state_dict().items(), version=1)
    for asked, future in zip(requests, futures, strict=True):
        said = future.result(PATIENCE)
        old = said.versions.count(0) if said.versions else 0
        assert said.versions in ((0,) * old + (1,) * (30 - old), ())
        expected = [forward_logprobs(model, asked, said.ids) for model in (tiny.model, other)]
        assert close(said.logprobs, expected[0][:old] + expected[1][old:])
        assert 8 <= old <= 13
