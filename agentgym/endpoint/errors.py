"""Errors of endpoints, by the caller's reaction.

Three concern one request: the context is full, the answer was filtered, no answer came. The others stop a
run: they would be the same for every request. Messages are one line and hold no key.
"""

from __future__ import annotations

from agentgym.errors import UsageError


class EndpointError(UsageError):
    """An endpoint cannot be used with these settings; the run stops."""


class KeyRefusedError(EndpointError):
    """The endpoint refuses the key, or wants one (401, 403). Stops a run."""


class BudgetSpentError(EndpointError):
    """A call would go beyond the session's budget, or the account's own is spent. Stops a run."""


class CacheMissError(EndpointError):
    """A session that only replays has no answer to a request; the message names its label. Stops a run."""


class RequestFailedError(UsageError):
    """One request has no answer that can be used; others may have."""


class ContextOverflowError(RequestFailedError):
    """The messages, or they and the tokens of an answer, are longer than the model's context."""


class ContentFilteredError(RequestFailedError):
    """The endpoint withheld the answer because of its content."""


class UnansweredRequestError(RequestFailedError):
    """No answer after all attempts, or the endpoint refuses this request as it is."""
