"""Calls as the chat templates of model families write them, one writer for each convention.

A writer takes calls, each a name and its arguments, and returns what a model says. Where texts stand between
marks as they are, no text can hold those: `ENDS` names them.
"""

import json


def dumped(value):
    """Return JSON as templates write it."""
    return json.dumps(value, ensure_ascii=False)


def quoted(said):
    """Return a text between single quotes, with what Python escapes."""
    return "'" + dumped(said)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"


def calls_in(form, before="", after="", between="\n"):
    """Return the writer that fills a form for each call.

    Args:
        form: with the places NAME and JSON, or a function of a name and arguments.
        before: of all calls.
        after: all calls.
        between: two of them.
    """

    def filled(name, arguments):
        return form.replace("NAME", name).replace("JSON", dumped(arguments))

    make = filled if isinstance(form, str) else form
    return lambda calls: before + between.join(make(*call) for call in calls) + after


def listed(before, after="", names=("name", "arguments")):
    """Return the writer of one list of JSON objects."""
    return lambda calls: before + dumped([dict(zip(names, call, strict=True)) for call in calls]) + after


def pairs(begin, pair, end, before="", after=""):
    """Return the writer of calls whose arguments stand between tags; texts are written as they are."""

    def form(name, arguments):
        values = {key: said if isinstance(said, str) else dumped(said) for key, said in arguments.items()}
        inner = [pair.replace("KEY", key).replace("VALUE", said) for key, said in values.items()]
        return begin.replace("NAME", name) + "".join(inner) + end

    return calls_in(form, before, after)


def gemma(begin, quote, end):
    """Return the writer of Gemma's objects."""

    def value(said):
        return f"{quote}{said}{quote}" if isinstance(said, str) else dumped(said)

    def form(name, arguments):
        inner = ",".join(f"{key}:{value(said)}" for key, said in arguments.items())
        return f"{begin}call:{name}{{{inner}}}{end}"

    return calls_in(form, between="")


def python(before, after, between=", ", text=dumped):
    """Return the writer of Python calls; ``text`` writes a text."""

    def value(said):
        return text(said) if isinstance(said, str) else repr(said)

    def form(name, arguments):
        return f"{name}({', '.join(f'{key}={value(said)}' for key, said in arguments.items())})"

    return calls_in(form, before, after, between)


OBJECT = '{"name": "NAME", "arguments": JSON}'
BAR = chr(0xFF5C)
DSML = f"{BAR}DSML{BAR}"
BEGIN, SEP, END = (f"<{BAR}tool▁{word}{BAR}>" for word in ("call▁begin", "sep", "call▁end"))
AROUND = (f"<{BAR}tool▁calls▁begin{BAR}>", f"<{BAR}tool▁calls▁end{BAR}>")
KIMI = "<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>JSON<|tool_call_end|>"
SOLAR = "<|tool_call:begin|>a1<|tool_call:name|>NAME<|tool_call:args|>JSON<|tool_call:end|>"

WRITERS = {
    "qwen-xml": pairs(
        "<tool_call>\n<function=NAME>\n",
        "<parameter=KEY>\nVALUE\n</parameter>\n",
        "</function>\n</tool_call>",
    ),
    "function-json": calls_in("<function=NAME>JSON</function>"),
    "glm": pairs("<tool_call>NAME", "<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>", "</tool_call>"),
    "hermes": calls_in(f"<tool_call>\n{OBJECT}\n</tool_call>"),
    "gemma": gemma("<|tool_call>", '<|"|>', "<tool_call|>"),
    "function-gemma": gemma("<start_function_call>", "<escape>", "<end_function_call>"),
    "harmony": calls_in(
        "<|start|>assistant<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>JSON<|call|>",
        between="",
    ),
    "harmony-recipient": calls_in(
        "<|channel|>commentary to=NAME <|constrain|>json<|message|>JSON<|call|>", between=""
    ),
    "lfm": python("<|tool_call_start|>[", "]<|tool_call_end|>"),
    "pythonic-tags": python("<|python_start|>[", "]<|python_end|>", text=quoted),
    "olmo": python("<function_calls>", "</function_calls>", "\n"),
    "mistral": calls_in("[TOOL_CALLS]NAME[ARGS]JSON", between=""),
    "mistral-list": listed("[TOOL_CALLS] "),
    "deepseek": calls_in(f"{BEGIN}function{SEP}NAME\n```json\nJSON\n```{END}", *AROUND),
    "deepseek-3.1": calls_in(f"{BEGIN}NAME{SEP}JSON{END}", *AROUND, between=""),
    "deepseek-3.2": pairs(
        f'<{DSML}invoke name="NAME">\n',
        f'<{DSML}parameter name="KEY" string="true">VALUE</{DSML}parameter>\n',
        f"</{DSML}invoke>",
        f"<{DSML}function_calls>\n",
        f"\n</{DSML}function_calls>",
    ),
    "kimi": calls_in(KIMI, "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", ""),
    "invoke": pairs(
        '<invoke name="NAME">\n',
        '<parameter name="KEY">VALUE</parameter>\n',
        "</invoke>",
        "<minimax:tool_call>\n",
        "\n</minimax:tool_call>",
    ),
    "tool-calls-list": calls_in(OBJECT, "<tool_calls>\n", "\n</tool_calls>"),
    "tagged-json": calls_in(f"<tools>\n{OBJECT}\n</tools>"),
    "solar": calls_in(SOLAR, between=""),
    "minicpm": pairs('<function name="NAME">', '<param name="KEY"><![CDATA[VALUE]]></param>', "</function>"),
    "kimi-3": pairs(
        '<|open|>call tool="NAME" index="1"<|sep|>',
        '<|open|>argument key="KEY" type="string"<|sep|>VALUE<|close|>argument<|sep|>',
        "<|close|>call<|sep|>",
    ),
    "granite": listed("<|tool_call|>"),
    "functools": listed("functools"),
    "internlm": calls_in("<|action_start|><|plugin|>\n" + OBJECT + "<|action_end|>"),
    "cohere": listed("<|START_ACTION|>", "<|END_ACTION|>", ("tool_name", "parameters")),
    "nemotron": listed("<TOOLCALL>", "</TOOLCALL>"),
    "llama": calls_in('{"name": "NAME", "parameters": JSON}', "<|python_tag|>", between="; "),
    "json": calls_in('{"name": "NAME", "parameters": JSON}', between="; "),
    "fenced-json": listed("```json\n", "\n```"),
    "python": python("[", "]", text=quoted),
}
ENDS = {
    "qwen-xml": ("</parameter>", "<parameter="),
    "glm": ("</arg_value>", "<arg_key>"),
    "gemma": ('<|"|>',),
    "function-gemma": ("<escape>",),
    "deepseek-3.2": (f"</{DSML}parameter>", f"<{DSML}parameter"),
    "invoke": ("parameter>", "parameter name="),
    "minicpm": ("]]>", "</param>", "<param name="),
    "kimi-3": ("<|close|>argument<|sep|>", "<|open|>argument"),
    "fenced-json": ("```",),
}
"""Marks that no text of a convention can hold as an argument."""
