"""Redaction of secrets: API keys, tokens and headers leave a text before it is written to a file."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from agentgym.errors import UsageError

_HINTED: Mapping[str, tuple[str, str]] = {
    "private key": (
        "-----begin",
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]{0,40}-----|\Z)",
    ),
    "authorization header": (
        "authorization",
        r"(?i:(?<!\w)(?:proxy-)?authorization)[\"']?[ \t]{0,4}[:=][ \t]{0,4}[^\r\n,;}]+",
    ),
    "bearer token": ("bearer", r"(?i:(?<!\w)bearer)[ \t]{1,4}[\w.~+/=-]{16,}"),
    "API key": (
        "sk- pk- rk- hf_ aiza akia asia",
        r"(?<![\w-])(?:(?:sk|pk|rk)-[\w-]{16,}|hf_\w{20,}|AIza[\w-]{30,}|(?:AKIA|ASIA)\w{16})",
    ),
    "access token": (
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xox",
        r"(?<![\w-])(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,})",
    ),
    "JSON web token": ("eyj", r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,}"),
    "named secret": (
        "key token secret password",
        r"(?i:(?:api|access|auth|secret|client)[_-]?(?:key|token|secret)|password)"
        r"[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?[\w.~+/=-]{8,}",
    ),
    "URL password": ("://", r"(?<=://)[^\s/:@]{1,64}:[^\s/@]{1,64}@"),
}
"""Words and a pattern by name: each match contains one of the words in small letters, which is tested first
for speed. Patterns run in linear time: a run of characters is entered at its beginning alone, and an
unbounded repetition is followed by a character outside it."""

_SECRET_NAME = re.compile(r"(?a:\w*_)?(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)")
_MIN_VALUE_LENGTH = 8
"""Least characters of a variable's value: a shorter one may be an ordinary word."""


@dataclass(frozen=True, slots=True)
class Redaction:
    """Number of replacements of a pattern."""

    pattern: str
    """Name of the pattern, never the pattern itself, since a user's own may contain the secret."""
    count: int


class Redactor:
    r"""Replaces what looks like a secret by ``[redacted: NAME]``.

    The built-in patterns are the keys of well-known services, authorization headers, private keys,
    assignments to names such as ``api_key``, passwords in URLs, and the values of this process's environment
    variables whose names end in KEY, TOKEN, SECRET, PASSWORD or CREDENTIALS.

    Example:
        >>> redactor = Redactor([r"ticket-\d+"], environ={})
        >>> redactor.redact("Authorization: Bearer abc, see ticket-42")
        '[redacted: authorization header], see [redacted: pattern 1]'
    """

    def __init__(self, patterns: Iterable[str] = (), *, environ: Mapping[str, str] | None = None):
        """Compile the patterns; secrets are values of ``environ`` (default: `os.environ`)."""
        variables = os.environ if environ is None else environ
        self._patterns = [
            *_of_variables(variables),
            *((name, tuple(hints.split()), re.compile(text)) for name, (hints, text) in _HINTED.items()),
            *((f"pattern {number}", ("",), _compiled(text)) for number, text in enumerate(patterns, start=1)),
        ]
        self._counts: Counter[str] = Counter()

    def redact(self, text: str) -> str:
        """Return a text without its secrets."""
        lowered = text.casefold()
        for name, hints, pattern in self._patterns:
            if any(hint in lowered for hint in hints):
                text, count = pattern.subn(f"[redacted: {name}]", text)
                if count:
                    self._counts[name] += count
        return text

    def report(self) -> tuple[Redaction, ...]:
        """Return the redactions since the last report, by name."""
        found = tuple(Redaction(name, count) for name, count in sorted(self._counts.items()))
        self._counts.clear()
        return found


def _of_variables(variables: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...], re.Pattern[str]]]:
    """Yield the values that are secrets, longest first: one may contain another."""
    for name, value in sorted(variables.items(), key=lambda item: (-len(item[1]), item[0])):
        if _SECRET_NAME.fullmatch(name) and len(value) >= _MIN_VALUE_LENGTH:
            yield f"${name}", (value.casefold(),), re.compile(re.escape(value))


def _compiled(text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise UsageError(f"--redact {text!r} is not a regular expression: {error}") from error
    if pattern.search(""):
        raise UsageError(f"--redact {text!r} matches the empty string: name at least one character")
    return pattern
