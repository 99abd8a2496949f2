"""Replies of a language model or its server: one reader of texts, messages and streams.

`read_text` finds thoughts and tool calls in a text in any of the conventions of model families;
`calls_of_message` and `StreamedCalls` find them in messages and streams of OpenAI's form; `fitted` makes the
arguments of a call those that a tool takes. Whatever cannot be read is a problem, on one line.
"""

from agentgym.reading.fitting import fitted
from agentgym.reading.messages import StreamedCalls, arguments_text, calls_of_message, read_message
from agentgym.reading.syntaxes import RawCall, UnreadableError
from agentgym.reading.text import Reading, read_text

__all__ = [
    "RawCall",
    "Reading",
    "StreamedCalls",
    "UnreadableError",
    "arguments_text",
    "calls_of_message",
    "fitted",
    "read_message",
    "read_text",
]
