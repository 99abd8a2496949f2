"""Redaction: what looks like a secret does not reach a file."""

import pytest

from agentgym.errors import UsageError
from agentgym.evaluation.log.redaction import Redaction, Redactor
from tests.pace import within

SECRETS = {
    "API key": [
        "sk-ant-api03-Abcdefghijklmnop_qrstuvwx",
        "sk-proj-0123456789abcdefghij",
        "hf_abcdefghijklmnopqrstuvwxyz",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA-0123456789_abcdefghijklmnopqrs",
    ],
    "access token": [
        "ghp_0123456789abcdefghijABCDEFGHIJ",
        "github_pat_0123456789abcdefghij",
        "xoxb-1234567890-abc",
    ],
    "authorization header": ["Authorization: Bearer 0123", '"authorization": "Basic dXNlcjpwYXNz"'],
    "bearer token": ["bearer abcdefgh.ijklmnop-qrst"],
    "JSON web token": ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2"],
    "named secret": ["api_key = 'abcd1234efgh'", "PASSWORD=correcthorse", '"client-secret":"0123456789"'],
    "private key": ["-----BEGIN RSA PRIVATE KEY-----\nMIIE\n\nabc\n-----END RSA PRIVATE KEY-----"],
    "URL password": ["https://user:passw0rd@example.org/x"],
}


@pytest.mark.parametrize(("name", "secret"), [(name, one) for name, many in SECRETS.items() for one in many])
def test_secrets_are_replaced_by_the_name_of_their_kind(name, secret):
    redactor = Redactor(environ={})
    said = redactor.redact(f"The shelf says: {secret}\nYou are in a kitchen.")
    assert f"[redacted: {name}]" in said
    assert secret not in said
    assert said.endswith("\nYou are in a kitchen.")
    assert redactor.report() == (Redaction(name, 1),)
    assert redactor.report() == ()


def test_what_games_say_stays():
    said = (
        "search[key ring for girls] you see a keychain 1, a desk-lamp, a token of love: $5.00. "
        "task-1, sk-ip, bearer of news; the secret: look under the bed. http://shop/item"
    )
    redactor = Redactor(environ={})
    assert redactor.redact(said) == said
    assert redactor.report() == ()


def test_a_private_key_without_an_end_goes_to_the_end_of_the_text():
    assert Redactor(environ={}).redact("x -----BEGIN PRIVATE KEY-----\nMIIE") == "x [redacted: private key]"


def test_values_of_environment_variables_are_secrets_by_their_names():
    variables = {
        "MODEL_API_KEY": "plain-looking-value",
        "MY_TOKEN": "plain-looking",
        "HOME": "/home/anna/work",
        "SHORT_KEY": "abc",
    }
    redactor = Redactor(environ=variables)
    said = redactor.redact("plain-looking-value plain-looking /home/anna/work abc")
    assert said == "[redacted: $MODEL_API_KEY] [redacted: $MY_TOKEN] /home/anna/work abc"


def test_patterns_of_the_user_are_named_by_number_not_by_what_they_say():
    redactor = Redactor([r"ticket-\d+", "Anna"], environ={})
    assert redactor.redact("Anna has ticket-42, ticket-7") == (
        "[redacted: pattern 2] has [redacted: pattern 1], [redacted: pattern 1]"
    )
    assert redactor.report() == (Redaction("pattern 1", 2), Redaction("pattern 2", 1))


@pytest.mark.parametrize(
    ("pattern", "message"), [("(", "is not a regular expression"), ("x*", "matches the empty string")]
)
def test_a_useless_pattern_is_refused(pattern, message):
    with pytest.raises(UsageError, match=message):
        Redactor([pattern])


@pytest.mark.parametrize(
    "unit",
    [
        "sk-",
        "eyJaaaaaaaaa.",
        "eyJ-",
        "-----BEGIN PRIVATE KEY-----",
        "authorization: ",
        "bearer ",
        "password=",
        "://a:",
        "api_",
        "ghp_0",
        "-----BEGIN ",
    ],
)
def test_redaction_is_linear(unit):
    text = unit * (160_000 // len(unit))
    within(200, Redactor(environ={}).redact, text)  # measured: 9; the square of its length would take minutes
