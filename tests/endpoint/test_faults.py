"""What an endpoint may do wrong, and what becomes of the request: each fault alone."""

import email.utils
import json
from contextlib import suppress
from types import SimpleNamespace

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.endpoint import (
    BudgetSpentError,
    ChatSampling,
    ContentFilteredError,
    ContextOverflowError,
    EndpointError,
    KeyRefusedError,
    UnansweredRequestError,
    transport,
)
from agentgym.endpoint.faults import read_refusal, retry_after
from agentgym.endpoint.replies import MalformedAnswerError, read_answer_body
from tests.endpoint.fake import FakeEndpoint, Said, asking, completion, refusal, reply_text

HTML = (b"content-type", b"text/html")


def one_line(error: pytest.ExceptionInfo[Exception]) -> str:
    text = str(error.value)
    assert text
    assert "\n" not in text
    return text


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_a_busy_endpoint_is_asked_again(status):
    fake = FakeEndpoint(refusal(status, "busy"), refusal(status, "busy"))
    with fake.open() as endpoint:
        [reply] = endpoint.ask([asking()])
    assert (reply.text, reply.retries, len(fake.bodies)) == ("re: Say hello.", 2, 3)
    first, second = fake.pauses
    assert 0.25 <= first <= 0.5 <= second <= 1.0  # doubled, with jitter


def test_the_first_retry_is_told_at_once_and_no_other(caplog):
    told = []
    fake = FakeEndpoint(*[refusal(503, "no\nroom\x1b[31m")] * 4)
    with fake.open(attempts=6) as endpoint:
        fake.pauses = type("Pauses", (list,), {"append": lambda *_: told.append(len(caplog.messages))})()
        endpoint.ask([asking()])
        endpoint.ask([asking()])
    assert told == [1] * 4
    assert caplog.messages == [
        "tiny at http://endpoint.test/v1 gives no answer (it is busy (503: no room [31m)): "
        "it is asked again, up to 6 times in all"
    ]


def test_after_all_attempts_the_error_is_one_line():
    fake = FakeEndpoint(otherwise=lambda _: refusal(503, "no\nroom\x1b[31m"))
    with fake.open(attempts=3) as endpoint, pytest.raises(UnansweredRequestError) as error:
        endpoint.ask([asking(label="episode 7")])
    assert one_line(error) == (
        "episode 7: tiny at http://endpoint.test/v1 gave no answer in 3 attempts: "
        "it is busy (503: no room [31m)"
    )
    assert len(fake.bodies) == 3


def test_retry_after_in_seconds():
    fake = FakeEndpoint(refusal(429, "slow down", {"retry-after": "7"}))
    with fake.open() as endpoint:
        assert reply_text(endpoint)
    assert 7 <= fake.pauses[0] <= 7.5


def test_retry_after_as_a_date(monkeypatch):
    monkeypatch.setattr(transport, "time", SimpleNamespace(time=lambda: 1_000_000.0))
    date = email.utils.formatdate(1_000_020.0, usegmt=True)
    fake = FakeEndpoint(refusal(503, "slow down", {"Retry-After": date}))
    with fake.open() as endpoint:
        assert reply_text(endpoint)
    assert 20 <= fake.pauses[0] <= 21


def test_a_pause_of_one_request_is_kept_by_all():
    fake = FakeEndpoint(refusal(429, "slow down", {"retry-after": "600"}))
    with fake.open(longest_pause=600.0) as endpoint:
        assert reply_text(endpoint)
        before = len(fake.pauses)
        assert reply_text(endpoint, asking("Another."))
    assert all(pause > 300 for pause in fake.pauses[before:])
    assert len(fake.pauses) > before


def test_a_pause_beyond_the_longest_is_not_waited_for():
    fake = FakeEndpoint(refusal(429, "tomorrow", {"retry-after": "3600"}))
    with fake.open() as endpoint, pytest.raises(UnansweredRequestError, match="raise longest_pause") as error:
        endpoint.ask([asking()])
    assert "in 1 attempt: " in one_line(error)
    assert fake.pauses == []


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("2", 2.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("nan", 0.0),
        ("inf", 0.0),
        ("soon", 0.0),
        ("", 0.0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 90.0),
        ("Thu, 01 Jan 1970 00:00:00 -0000", 0.0),
    ],
)
def test_headers_of_pauses(header, seconds):
    assert retry_after({"retry-after": header}, now=10.0) == seconds


@pytest.mark.parametrize(
    "fault",
    [
        httpx2.ConnectError("refused"),
        httpx2.ReadError("reset"),
        httpx2.RemoteProtocolError("cut"),
        httpx2.ReadTimeout("slow"),
        httpx2.ConnectTimeout("slow"),
        httpx2.WriteError("gone"),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_a_broken_connection_is_tried_again(fault):
    with FakeEndpoint(fault).open() as endpoint:
        assert endpoint.ask([asking()])[0].retries == 1
    with (
        FakeEndpoint(fault, fault).open(attempts=2) as endpoint,
        pytest.raises(UnansweredRequestError) as error,
    ):
        endpoint.ask([asking()])
    assert "in 2 attempts" in one_line(error)


def test_an_endpoint_that_never_answers_is_given_up():
    fake = FakeEndpoint(delay=30)
    with (
        fake.open(timeout=0.02, attempts=2) as endpoint,
        pytest.raises(UnansweredRequestError, match=r"in 2 attempts: no whole answer within 0\.02 s$"),
    ):
        endpoint.ask([asking()])
    assert len(fake.pauses) == 1  # an attempt on a busy machine may end before its request is out
    assert fake.in_flight == 0


def changed(**fields):
    table = json.loads(completion().body)
    return Said(json.dumps({**table, **fields}).encode())


def with_choice(**fields):
    return changed(choices=[{**json.loads(completion().body)["choices"][0], **fields}])


MALFORMED = {
    "empty": Said(b""),
    "cut JSON": Said(completion().body[:40]),
    "HTML": Said(b"<!doctype html><html>Bad gateway</html>", headers=(HTML,)),
    "no object": Said(b"[1, 2]"),
    "not UTF-8": Said(b'{"choices": "\xff"}'),
    "NaN": Said(b'{"choices": NaN}'),
    "deep": Said(b"[" * 100_000),
    "long number": Said(b'{"usage": ' + b"9" * 5_000 + b"}"),
    "no choices": changed(choices=[]),
    "null choices": changed(choices=None),
    "choices of another type": changed(choices={"0": 1}),
    "choice of another type": changed(choices=["hello"]),
    "no message": with_choice(message=None),
    "message of another type": with_choice(message="hello"),
    "content of another type": with_choice(message={"content": 7}),
    "a finish reason of another type": with_choice(finish_reason=3),
    "usage of another type": changed(usage=[]),
    "negative usage": changed(usage={"prompt_tokens": -1}),
    "usage in fractions": changed(usage={"prompt_tokens": 1.5}),
    "tool calls of another type": with_choice(message={"content": None, "tool_calls": "search"}),
    "tool call without a name": with_choice(message={"tool_calls": [{"function": {"arguments": "{}"}}]}),
    "many tool calls": with_choice(
        message={"tool_calls": [{"function": {"name": "a", "arguments": ""}}] * 200}
    ),
    "token ids of another type": with_choice(token_ids=["a"]),
    "logprobs of another type": with_choice(logprobs={"content": [{"logprob": "low"}]}),
    "packed": Said(b"\x1f\x8b", headers=((b"content-encoding", b"gzip"),)),
}


@pytest.mark.parametrize("said", MALFORMED.values(), ids=MALFORMED)
def test_an_answer_that_is_none_is_asked_for_again(said):
    with FakeEndpoint(said).open() as endpoint:
        [reply] = endpoint.ask([asking()])
    assert (reply.text, reply.retries) == ("re: Say hello.", 1)
    with (
        FakeEndpoint(otherwise=lambda _: said).open(attempts=2) as endpoint,
        pytest.raises(UnansweredRequestError) as error,
    ):
        endpoint.ask([asking()])
    assert len(one_line(error)) < 400


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@given(st.data())
def test_any_json_is_an_answer_or_none(data):
    """Put any value in the place of any part of an answer: it is read, or refused as malformed."""
    call = {"id": "c", "type": "function", "function": {"name": "go", "arguments": "{}"}}
    logprobs = {"content": [{"token": "a", "logprob": -1}]}
    table = json.loads(completion(tool_calls=[call], logprobs=logprobs, token_ids=[1]).body)
    places = list(parts(table))
    holder, key = data.draw(st.sampled_from(places))
    holder[key] = data.draw(VALUES)
    with suppress(MalformedAnswerError):
        answer = read_answer_body(json.dumps(table).encode())
        assert f"{answer.text}{answer.finish_reason}{answer.served_model}{answer.reasoning}".encode()


def parts(value):
    """Yield the places within a JSON value."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from parts(value[key])


def test_an_answer_without_end_is_cut_off(monkeypatch):
    monkeypatch.setattr("agentgym.endpoint.transport.MAX_ANSWER_SIZE", 1_000)
    with (
        FakeEndpoint(otherwise=lambda _: completion("a" * 2_000)).open(attempts=1) as endpoint,
        pytest.raises(UnansweredRequestError, match="more than 1,000 bytes"),
    ):
        endpoint.ask([asking()])
    with (
        FakeEndpoint(otherwise=lambda _: refusal(503, "a" * 2_000)).open(attempts=1) as endpoint,
        pytest.raises(UnansweredRequestError),
    ):
        endpoint.ask([asking()])


def test_an_answer_that_was_cut_off_by_its_limit_says_so():
    with FakeEndpoint(completion("so lo", finish="length")).open() as endpoint:
        [reply] = endpoint.ask([asking()])
    assert (reply.text, reply.finish_reason) == ("so lo", "length")


def test_filtered_content():
    with FakeEndpoint(completion("", finish="content_filter")).open() as endpoint:
        with pytest.raises(ContentFilteredError, match="kept its answer back") as error:
            endpoint.ask([asking(label="episode 1")])
        assert one_line(error).startswith("episode 1: ")
        assert reply_text(endpoint)  # that request only
    policy = refusal(
        400, "The response was filtered due to the content management policy.", code="content_filter"
    )
    with FakeEndpoint(policy).open() as endpoint, pytest.raises(ContentFilteredError):
        endpoint.ask([asking()])


OVERFLOWS = [
    (
        400,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        {},
    ),
    (400, "too long", {"code": "context_length_exceeded"}),
    (400, "The decoder prompt (length 9000) is longer than the maximum model length of 4096.", {}),
    (
        400,
        "the request exceeds the available context size, try increasing it",
        {"type": "exceed_context_size_error"},
    ),
    (422, "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000", {}),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000", {}),
    (400, "prompt is too long: 210000 tokens > 200000 maximum", {}),
    (400, "input length and `max_tokens` exceed context limit: 199000 + 2000 > 200000", {}),
    (400, "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).", {}),
    (400, "The input (5000 tokens) is longer than the model's context length (4096 tokens).", {}),
    (400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length", {}),
    (400, "Please reduce the length of the messages or completion.", {"param": "messages"}),
    (
        400,
        "The number of tokens to keep from the initial prompt is greater than the context length",
        {},
    ),
    (413, "", {}),
    (
        400,
        "max_tokens is too large: 5000. This model's maximum context length is 4096 tokens",
        {"param": "max_tokens"},
    ),
]


@pytest.mark.parametrize(("status", "message", "error"), OVERFLOWS)
def test_a_full_context(status, message, error):
    fake = FakeEndpoint(refusal(status, message, **error))
    with fake.open() as endpoint:
        with pytest.raises(ContextOverflowError) as raised:
            endpoint.ask([asking(label="episode 2")])
        assert one_line(raised).startswith("episode 2: tiny at http://endpoint.test/v1 has no room")
        assert len(fake.bodies) == 1
        assert reply_text(endpoint)
        assert endpoint.left_out == {}


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_key_stops_at_once(status, monkeypatch):
    monkeypatch.setenv("WRONG_API_KEY", "not-the-right-one")
    fake = FakeEndpoint(otherwise=lambda _: refusal(status, "Incorrect API key provided"))
    with fake.open(key_env="WRONG_API_KEY") as endpoint:
        with pytest.raises(KeyRefusedError, match="refuses the key in WRONG_API_KEY") as error:
            endpoint.ask([asking()])
        assert one_line(error)
        with pytest.raises(KeyRefusedError):
            endpoint.ask([asking("Another.")])
    assert len(fake.bodies) == 1  # what cannot fare better is not sent
    assert fake.pauses == []


def test_an_endpoint_that_wants_a_key_says_how_to_name_it():
    with FakeEndpoint(refusal(401)).open() as endpoint, pytest.raises(KeyRefusedError, match="in key_env"):
        endpoint.ask([asking()])


@pytest.mark.parametrize(
    "said",
    [
        refusal(402, "pay"),
        refusal(429, "You exceeded your current quota", code="insufficient_quota"),
    ],
)
def test_an_account_with_nothing_left_stops(said):
    with FakeEndpoint(said).open() as endpoint, pytest.raises(BudgetSpentError, match="fill it up"):
        endpoint.ask([asking()])


@pytest.mark.parametrize("status", [301, 307, 404, 405])
def test_a_wrong_address_stops(status):
    said = refusal(status, "The model `tiny` does not exist", {"location": "http://elsewhere.test/v1"})
    fake = FakeEndpoint(said)
    with fake.open() as endpoint, pytest.raises(EndpointError, match="mend url or model"):
        endpoint.ask([asking()])
    assert len(fake.bodies) == 1  # nothing is sent to where the server points


def test_another_refusal_is_that_of_one_request():
    with FakeEndpoint(refusal(400, "roles must alternate")).open() as endpoint:
        with pytest.raises(
            UnansweredRequestError, match=r"refuses the request \(400: roles must alternate\)"
        ):
            endpoint.ask([asking()])
        assert reply_text(endpoint)


REFUSED = [
    ("temperature", {"message": "Unsupported value: 'temperature' does not support 0 with this model."}),
    ("temperature", {"message": "no", "param": "temperature"}),
    ("seed", {"message": "Unrecognized request argument supplied: seed"}),
    ("seed", {"message": "Unexpected fields in the request: {'seed'}"}),
    ("stop", {"message": "Unsupported parameter: 'stop' is not supported with this model."}),
    ("top_p", {"message": "top_p is deprecated"}),
    ("response_format", {"message": "This response_format type is unavailable now"}),
]


@pytest.mark.parametrize(("name", "error"), REFUSED)
def test_a_refused_parameter_is_left_out_once_and_for_all(name, error):
    fake = FakeEndpoint(otherwise=lambda body: refusal(400, **error) if name in body else completion())
    sampling = ChatSampling(temperature=0.5, seed=1, stop=("\n",), top_p=0.9)
    with fake.open() as endpoint:
        replies = [
            endpoint.ask([asking(text, sampling, response_schema={"type": "object"})])[0]
            for text in ("one", "two")
        ]
        assert list(endpoint.left_out) == [name]
    assert [reply.retries for reply in replies] == [0, 0]
    assert [name in body for body in fake.bodies] == [True, False, False]


def test_validation_errors_name_the_parameter_by_its_place():
    detail = [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "type": "extra_forbidden"}]
    fake = FakeEndpoint(Said(json.dumps({"detail": detail}).encode(), 422))
    with fake.open() as endpoint:
        assert reply_text(endpoint, asking("Hello.", ChatSampling(seed=3)))
        assert endpoint.left_out == {"seed": "seed: Extra inputs are not permitted"}


def test_max_tokens_goes_by_its_newer_name():
    def answer(body):
        if "max_tokens" in body:
            message = (
                "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
            )
            return refusal(400, message, param="max_tokens", code="unsupported_parameter")
        return completion()

    fake = FakeEndpoint(otherwise=answer)
    with fake.open() as endpoint:
        assert reply_text(endpoint, asking("one", ChatSampling(max_tokens=9)))
        assert reply_text(endpoint, asking("two", ChatSampling(max_tokens=9)))
    assert [body.get("max_completion_tokens") for body in fake.bodies] == [None, 9, 9]


def test_several_refused_parameters_are_found_one_by_one():
    def answer(body):
        found = [
            name for name in ("max_tokens", "max_completion_tokens", "temperature", "seed") if name in body
        ]
        return refusal(400, f"Unknown parameter: '{found[0]}'.") if found else completion("bare")

    fake = FakeEndpoint(otherwise=answer)
    with fake.open() as endpoint:
        assert reply_text(endpoint, asking("one", ChatSampling(seed=1))) == "bare"
        assert set(endpoint.left_out) == {"max_tokens", "max_completion_tokens", "temperature", "seed"}


def test_tools_are_never_left_out():
    tool = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
    with (
        FakeEndpoint(refusal(400, "Unsupported parameter: 'tools'")).open() as endpoint,
        pytest.raises(EndpointError, match="takes no tools"),
    ):
        endpoint.ask([asking(tools=(tool,))])


def test_fields_that_a_refusal_names_are_names():
    for param, fields in (("seed", ("seed",)), ("", ()), (7, ()), (None, ()), (["seed"], ())):
        body = json.dumps({"error": {"message": "no", "param": param}}).encode()
        assert read_refusal(400, body, {}, 0.0).fields == fields
    places = [{"loc": ["body", "seed"], "msg": "no"}, {"loc": ["body"], "msg": "no"}, {"loc": 7}]
    assert read_refusal(422, json.dumps({"detail": places}).encode(), {}, 0.0).fields == ("seed",)


def test_refusals_in_any_form_are_read():
    for body in (
        b"",
        b"<html>",
        b"nope",
        b'{"error": "nope"}',
        b'{"error": []}',
        b"7",
        b'{"detail": "nope"}',
        b"\xff",
    ):
        read = read_refusal(500, body, {}, 0.0)
        assert read.status == 500
        assert "\n" not in read.line
    assert read_refusal(500, b'{"detail": "nope"}', {}, 0.0).line == "nope"
    assert len(read_refusal(500, b"a" * 100_000, {}, 0.0).line) < 400
