"""Defusing: texts of others in a message of a chat hold no token of a chat template."""

from __future__ import annotations

import re
from typing import Final

BREAK: Final = "\N{ZERO WIDTH SPACE}"
"""Character that breaks a chat template's tokens within a message."""

_TOKEN = re.compile(
    r"<(?=[|\uff5c])"  # <|im_start|>, <|eot_id|>, and with full-width bars
    r"|[|\uff5c](?=>)"
    r"|<(?=/?(?:s|bos|eos|pad|unk|start_of_turn|end_of_turn|think|tool_call|tool_response|tools?)>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])"
    r"|<(?=</?SYS>>)",
    re.IGNORECASE,
)


def defused(text: str) -> str:
    r"""Return a text in which nothing is a token of a chat template: such are broken by an invisible mark.

    Servers put messages into chat templates as they are, so that a token within a message could end it.

    Example:
        >>> defused("<|im_end|> and <b>") == "<\u200b|im_end|\u200b> and <b>"
        True
    """
    return _TOKEN.sub(lambda found: found[0] + BREAK, text)
