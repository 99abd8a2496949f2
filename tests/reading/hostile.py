"""Long replies that are hard to read: one kind each of what a pass over a text may trip over."""

from agentgym.reading.conventions import conventions, marks, thoughts
from tests.reading.writers import WRITERS

BAR = chr(0xFF5C)
QUOTE = '<|"|>'
GO = [("go", {"x": "a", "n": 1})]
_CALLS = {f"begin {name}": WRITERS[name]([("go", {})])[:-4] for name in WRITERS}
_SIGNS = {
    f"sign {sign!r}": sign
    for sign in ("a", " ", "\n", "{", "[", "(", '"', "'", "\\", "`", "<", "|", "=", ",", "0")
}
_SYNTAX = {
    "calls of hermes": WRITERS["hermes"](GO),
    "whole xml": WRITERS["qwen-xml"](GO),
    "empty lists": "[]",
    "empty objects": "{}, ",
    "objects": '{"name": "go", "arguments": {}}',
    "keys": '{"a":',
    "escapes": '\\"',
    "fences": "```json\n",
    "python calls": "go(x='a'), ",
    "python begin": "go(x='",
    "python escaped": "go(x='\\', y=\"\\\", ",
    "names": "go" * 40 + "(",
    "blanks before nothing": " \n" * 40 + "x",
    "thought whole": "<think>a</think>",
    "thoughts in turn": "</think><think>",
    "thought and object": '<think></think>{"name": "go", "x": "',
    "channels": "<|channel|>analysis<|message|>",
    "ends in turn": "<|end|><|start|>assistant",
}
_AFTER = {
    "hermes, then": "<tool_call>",
    "hermes object, then": '<tool_call>{"name": "go", "arguments": {}}',
    "xml, then": "<function=go><parameter=x>",
    "glm, then": "<tool_call>go<arg_key>x</arg_key><arg_value>",
    "gemma, then": f"<|tool_call>call:go{{x:{QUOTE}",
    "gemma object, then": "<|tool_call>call:go{x:",
    "gemma list, then": "<|tool_call>call:go{x:[1,",
    "harmony, then": "to=functions.go<|message|>",
    "harmony header, then": "<|start|>assistant<|channel|>commentary to=functions.go",
    "lfm, then": "<|tool_call_start|>[go(x='",
    "lfm list, then": "<|tool_call_start|>[",
    "mistral, then": "[TOOL_CALLS]go",
    "json, then": '{"name": "go", "arguments": {"x": "',
    "object, then": '{"name": "go", "arguments": ',
    "python, then": 'go(x="',
    "thought, then": "<think>",
    "response, then": "Here is my thought process:",
    "kimi, then": '<|open|>call tool="go"',
    "minicpm, then": '<function name="go"><param name="x">',
    "dsml, then": f'<{BAR}DSML{BAR}invoke name="go"><{BAR}DSML{BAR}parameter name="x">',
    "answer, then": "<answer>",
}


def repeated(piece, begin=""):
    """Return who makes a text of a size: a beginning, then a piece again and again."""
    return lambda size: begin + piece * (size // len(piece))


def argument(name, part):
    """Return who makes a call with an argument of a size, of which a part is left."""

    def make(size):
        text = WRITERS[name]([("go", {"x": "a" * size})])
        return text[: int(len(text) * part)]

    return make


BEGINS = {f"marker {each.name}": each.marker for each in conventions()}
BEGINS |= {f"thought {mark}": mark for each in thoughts() for mark in (each.begin, each.end)}
BEGINS |= {f"mark {each}": each for each in (*marks().around, *marks().final, *marks().announcing)}
SIGNS = (" ", "\n", "a", "{", "[", '"', "'", "\\", ",", "a:", "</", "', x='")
KINDS = {
    **{name: repeated(piece) for name, piece in (BEGINS | _CALLS | _SIGNS | _SYNTAX).items()},
    **{
        f"{name} {sign!r}": repeated(sign, begin)
        for name, begin in _AFTER.items()
        for sign in (*SIGNS, begin[-8:])
    },
    **{f"long {name}": argument(name, 1) for name in WRITERS},
    **{f"cut {name}": argument(name, 0.5) for name in WRITERS},
}
"""Kinds of replies, each a function of the size."""
