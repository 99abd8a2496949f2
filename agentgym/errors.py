"""Errors that the user can mend: the command line prints their one line and exits with 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UsageError(ValueError):
    """Bad input. The message is one line that names the fix; the command line exits with 2."""


class MissingDataError(UsageError):
    """A data set is not on this machine. The message names the command that fetches it."""


class MissingSuiteError(UsageError):
    """The file of a suite that a run names is not found. The message names the option that says where."""


class MissingPackageError(UsageError):
    """An optional package is not installed. The message names the command that installs it."""


class UnsupportedEnvError(UsageError):
    """An agent does not play an environment. A benchmark leaves its column empty."""


class UntrustedReferenceError(UsageError):
    """A file names code that would have to be imported. The message names the flag that allows it."""


def nearest(word: object, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for the closest of ``known``, or nothing."""
    close = difflib.get_close_matches(str(word), list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
