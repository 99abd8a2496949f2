"""Language models behind an endpoint of chat completions, with concurrency, cache, ledger and budgets.

All of it can be imported without the extra ``endpoint``, which is needed where a connection is opened.
"""

from agentgym.endpoint.budget import EndpointBudget, Spending
from agentgym.endpoint.cache import CacheMode
from agentgym.endpoint.chat import (
    ChatMessage,
    ChatReply,
    ChatRequest,
    ChatRole,
    ChatSampling,
    ChatToolCall,
    ImagePart,
)
from agentgym.endpoint.client import Endpoint, open_endpoint
from agentgym.endpoint.errors import (
    BudgetSpentError,
    CacheMissError,
    ContentFilteredError,
    ContextOverflowError,
    EndpointError,
    KeyRefusedError,
    RequestFailedError,
    UnansweredRequestError,
)
from agentgym.endpoint.ledger import LedgerRow, LedgerTotals, read_ledger, total
from agentgym.endpoint.prices import PriceTable, TokenPrice
from agentgym.endpoint.probe import EndpointProbe
from agentgym.endpoint.session import EndpointSession, current_session
from agentgym.endpoint.spec import EndpointSpec

__all__ = [
    "BudgetSpentError",
    "CacheMissError",
    "CacheMode",
    "ChatMessage",
    "ChatReply",
    "ChatRequest",
    "ChatRole",
    "ChatSampling",
    "ChatToolCall",
    "ContentFilteredError",
    "ContextOverflowError",
    "Endpoint",
    "EndpointBudget",
    "EndpointError",
    "EndpointProbe",
    "EndpointSession",
    "EndpointSpec",
    "ImagePart",
    "KeyRefusedError",
    "LedgerRow",
    "LedgerTotals",
    "PriceTable",
    "RequestFailedError",
    "Spending",
    "TokenPrice",
    "UnansweredRequestError",
    "current_session",
    "open_endpoint",
    "read_ledger",
    "total",
]
