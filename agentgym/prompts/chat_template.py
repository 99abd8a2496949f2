"""Chat templates of model directories, rendered within limits.

A chat template is a program in Jinja's language, by whoever made the directory. The sandbox, which is that of
`transformers`, keeps it from reaching anything but its arguments. What is added here keeps it from running
forever or filling the memory: every turn of a loop, call, operation and piece of text is paid for out of a
budget, and what could make much out of little is measured before it is done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache, wraps
from types import BuiltinMethodType
from typing import Any

import jinja2
from jinja2 import meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from agentgym.core.types import Message
from agentgym.errors import UsageError, nearest

MAX_TEMPLATE_SIZE = 1 << 18
"""Characters of a template at most."""

BUDGET = 1 << 24
"""What rendering may cost at most: about one for each character that is made, for short loops far less."""

_ITEMS = 100_000
"""Members of a list, nested ones counted, at most."""

_TEXT_METHODS = """
    capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit islower isnumeric
    isspace istitle isupper join lower lstrip partition removeprefix removesuffix replace rfind rindex
    rpartition rsplit rstrip split splitlines startswith strip swapcase title upper
"""
_METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset(_TEXT_METHODS.split()),
    dict: frozenset(("get", "items", "keys", "values")),
    list: frozenset(("count", "index")),
    tuple: frozenset(("count", "index")),
}
"""Methods of plain values that a template may call: none that makes much out of little."""

_NAMES_OF_FILTERS = """
    abs capitalize count d default dictsort e escape first float forceescape groupby indent int items join
    last length list lower map max min reject rejectattr replace reverse safe select selectattr sort string
    title tojson trim unique upper
"""
_FILTERS = frozenset(_NAMES_OF_FILTERS.split())
_TIME_FORMAT = re.compile(r"(?:[^%]|%-?[A-Za-z%])*")
_WIDE = re.compile(r"\*|[0-9]{3}")
"""A width or precision, of ``%`` formats, that may be large."""


class TemplateLimitError(ValueError):
    """A template would take too long, or too much memory."""


class _Meter:
    """What is left of the budget of one rendering."""

    def __init__(self, left: int):
        self.left = left

    def pay(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise TemplateLimitError("it makes too many turns, or too much text")


_METER: ContextVar[_Meter] = ContextVar("meter")


def _pay(cost: int) -> None:
    _METER.get().pay(cost)


def _measured(value: Any) -> Any:
    """Pay for a value that an operation gave, whatever is in it; return it."""
    if isinstance(value, str | bytes):
        _pay(1 + len(value))
    elif isinstance(value, int) and value.bit_length() > 256:
        raise TemplateLimitError("it makes a number of more than 256 bits")
    else:
        _pay(_weight(value) if isinstance(value, list | tuple | dict | range) else 1)
    return value


def _weight(value: Any) -> int:
    """Return how many members a container has, those of its members counted, each time that they come."""
    weight, open_ends = 0, [value]
    while open_ends:
        each = open_ends.pop()
        if isinstance(each, str | bytes):
            weight += len(each) // 64
        elif isinstance(each, list | tuple | range):
            weight += len(each)
            if weight <= _ITEMS and not isinstance(each, range):
                open_ends += each
        elif isinstance(each, dict):
            weight += len(each)
            if weight <= _ITEMS:
                open_ends += each.values()
                open_ends += each.keys()
        if weight > _ITEMS:
            raise TemplateLimitError(f"it makes a list of more than {_ITEMS:,} members")
    return 1 + weight


class _Turns(list[Any]):
    """What a loop goes through; each turn is paid for."""

    def __init__(self, members: Iterable[Any], cost: int):
        super().__init__(members)
        self._cost = cost

    def __iter__(self) -> Iterator[Any]:
        for member in super().__iter__():
            _pay(self._cost)
            yield member


class _TemplateNamespace(Namespace):
    """Jinja's ``namespace``, without names that begin with an underscore, and of constant text."""

    def __init__(*args: Any, **attributes: Any) -> None:
        self, *rest = args
        Namespace.__init__(self, *rest, **attributes)
        for name in dict(*rest, **attributes):
            _check_name(name)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        Namespace.__setitem__(self, name, value)

    def __repr__(self) -> str:
        return "<namespace>"


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace has no attribute {name!r}")


class _Generation(Extension):
    """The tag ``{% generation %}``, which marks what the assistant says; rendering leaves it out."""

    tags = {"generation"}  # noqa: RUF012 (jinja's)

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_said"), [], [], body).set_lineno(line)

    def _said(self, caller: Callable[[], str]) -> str:
        return caller()


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox of `transformers`, with a budget."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))

    def __init__(self, call: int):
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, loopcontrols],
            optimized=False,  # or constant expressions would be computed while it is compiled
            finalize=_text,
        )
        self._call = call
        """What running a macro's body once costs at most, loops in it apart."""
        self.filters = {name: _metered(self.filters[name]) for name in _FILTERS & self.filters.keys()}
        self.filters |= {
            "join": _join,
            "replace": _replace,
            "format": _format,
            "indent": _metered(_indent(self.filters["indent"])),
            "tojson": _to_json,
            "metered turns": self._turns,
            "metered": _measured,
            "text": _text,
        }
        self.globals = {
            "range": self.globals["range"],
            "dict": lambda *args, **members: dict(*args, **members),
            "namespace": _TemplateNamespace,
            "raise_exception": _raise,
            "strftime_now": _now,
        }

    def _turns(self, members: Iterable[Any], cost: int) -> _Turns:
        listed: list[Any] = []
        for member in members:
            listed.append(member)
            if len(listed) > _ITEMS:
                raise TemplateLimitError(f"it loops over more than {_ITEMS:,} members")
        _pay(len(listed) // 8)
        return _Turns(listed, cost)

    def call(self, context: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        _pay(self._call if isinstance(function, Macro) else 16)
        method = getattr(function, "__wrapped__", function)  # jinja wraps `str.format`
        if isinstance(method, BuiltinMethodType):
            owner = method.__self__
            known = next((_METHODS[kind] for kind in _METHODS if isinstance(owner, kind)), ())
            if method.__name__ not in known:
                raise SecurityError(f"templates do not call {method.__name__!r} here")
            if method.__name__ == "replace":
                return _replace(owner, *args, **kwargs)
            if method.__name__ == "join":
                return _join(args[0] if args else (), str(owner))
        return _measured(super().call(context, function, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        _pay(1)
        if operator == "*":
            for many, times in ((left, right), (right, left)):
                if isinstance(many, str | bytes | list | tuple) and isinstance(times, int):
                    _pay(len(many) * max(times, 0))
        elif operator == "**" and isinstance(left, int) and (not isinstance(right, int) or abs(right) > 256):
            raise TemplateLimitError("it raises to a high power")
        elif operator == "%" and isinstance(left, str) and _WIDE.search(left):
            raise TemplateLimitError("it formats to a large width")
        return _measured(super().call_binop(context, operator, left, right))


def _metered(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def metered(*args: Any, **kwargs: Any) -> Any:
        _pay(1)
        return _measured(function(*args, **kwargs))

    return metered


def _text(value: Any) -> str:
    """Pay for the text of a value."""
    if isinstance(value, list | tuple | dict):
        _pay(_weight(value) * 64)
    text = str(value)
    _pay(len(text))
    return text


def _join(members: Any, d: str = "", attribute: str | int | None = None) -> str:
    listed = list(members) if attribute is None else [member[attribute] for member in members]
    texts = [_text(member) for member in listed]
    _pay(len(str(d)) * len(texts))
    return str(d).join(texts)


def _format(text: Any, *values: Any, **named: Any) -> str:
    if _WIDE.search(str(text)):
        raise TemplateLimitError("it formats to a large width")
    return str(_measured(str(text) % (values or named)))


def _replace(text: Any, old: Any, new: Any, count: int | None = None, **_: Any) -> str:
    whole, before, after = str(text), str(old), str(new)
    _pay(len(whole) + whole.count(before) * len(after))
    return whole.replace(before, after, -1 if count is None else count)


def _indent(function: Callable[..., str]) -> Callable[..., str]:
    @wraps(function)
    def indent(text: str, width: int | str = 4, *args: Any, **kwargs: Any) -> str:
        _pay((str(text).count("\n") + 1) * (width if isinstance(width, int) else len(width)))
        return function(text, width, *args, **kwargs)

    return indent


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    _pay(_weight(value) * 64)
    if (len(indent) if isinstance(indent, str) else indent or 0) > 16:
        raise TemplateLimitError("it indents by more than 16")
    if separators is not None and sum(map(len, separators)) > 16:
        raise TemplateLimitError("its separators are longer than 16")
    text = json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    return str(_measured(text))


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _now(layout: str) -> str:
    if len(layout) > 256 or not _TIME_FORMAT.fullmatch(layout):
        raise TemplateLimitError("it asks for a time in no usual form")
    return datetime.now().strftime(layout)


def _instrument(tree: nodes.Template) -> nodes.Template:
    """Let loops, texts put together, lists, slices and comparisons be paid for."""
    for loop in tree.find_all(nodes.For):
        if loop.recursive:
            raise TemplateLimitError("it has a recursive loop")
        cost = 16 + sum(4 + len(getattr(part, "data", "")) for part in loop.find_all(nodes.Node))
        loop.iter = nodes.Filter(loop.iter, "metered turns", [nodes.Const(cost)], [], None, None)
    for concat in tree.find_all(nodes.Concat):
        concat.nodes = [_filtered(part, "text") for part in concat.nodes]
    for comparison in tree.find_all(nodes.Compare):
        comparison.expr = _filtered(comparison.expr, "metered")
        for operand in comparison.ops:
            operand.expr = _filtered(operand.expr, "metered")
    _wrap_members(tree)
    return tree


def _filtered(node: Any, name: str) -> nodes.Filter:
    metered = nodes.Filter(node, name, [], [], None, None)
    metered.set_lineno(node.lineno)
    return metered


def _wrap_members(node: nodes.Node) -> None:
    """Let what makes or cuts a list within a node be paid for, wherever it stands."""
    for name, value in list(node.iter_fields()):
        if isinstance(value, list):
            setattr(node, name, [_wrapped(each) for each in value])
        else:
            setattr(node, name, _wrapped(value))


def _wrapped(value: Any) -> Any:
    if not isinstance(value, nodes.Node):
        return value
    _wrap_members(value)
    if isinstance(value, nodes.Getitem):
        return _filtered(value, "metered") if isinstance(value.arg, nodes.Slice) else value
    stored = isinstance(value, nodes.Tuple) and value.ctx != "load"
    makes = isinstance(value, nodes.List | nodes.Tuple | nodes.Dict) and not stored
    return _filtered(value, "metered") if makes else value


@lru_cache(maxsize=16)
def compile_template(source: str) -> jinja2.Template:
    """Return a template, ready to be rendered by `render_conversation`.

    Raises:
        TemplateLimitError: it is too long, or loops in a way that is not bounded.
        jinja2.TemplateError: it is no template.
    """
    if len(source) > MAX_TEMPLATE_SIZE:
        raise TemplateLimitError(f"it has more than {MAX_TEMPLATE_SIZE:,} characters")
    environment = _Environment(call=16 + len(source))
    code = environment.compile(_instrument(environment.parse(source)))
    return environment.template_class.from_code(environment, code, environment.make_globals(None))


@dataclass(frozen=True, slots=True)
class ChatSetup:
    """What a chat template is handed beside the user's message."""

    system: str = ""
    """The system message; empty for none."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """JSON schemas of functions, as `agentgym.core.tools.Tool.schema`; empty for none."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further variables of the template, such as ``enable_thinking``."""

    def taken_by(self, source: str, special_tokens: Mapping[str, Any]) -> ChatSetup:
        """Return the part that a template has a place for.

        A system message or tools that it refuses, or renders a chat without, are left out of the result: they
        belong into the user's message.

        Args:
            source: the chat template.
            special_tokens: of the tokenizer, by name.

        Raises:
            UsageError: the template never reads one of the options.
        """
        known = option_names(source) if self.options else frozenset()
        for name in self.options:
            if name not in known:
                raise UsageError(
                    f"the chat template reads no option {name!r}{nearest(name, known)}; "
                    f"its options: {', '.join(sorted(known)) or 'none'}"
                )
        taken = replace(self, system="", tools=())
        if self.system and _shows(source, special_tokens, replace(taken, system=self.system), [self.system]):
            taken = replace(taken, system=self.system)
        names = [str(tool["function"]["name"]) for tool in self.tools]
        if self.tools and _shows(source, special_tokens, replace(taken, tools=self.tools), names):
            taken = replace(taken, tools=self.tools)
        return taken


NO_OPTIONS = frozenset(("messages", "tools", "documents", "add_generation_prompt"))
"""Variables of every chat template, which are no options."""

REFUSALS = (jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a template raises that takes no system message, or no tools."""


def option_names(source: str) -> frozenset[str]:
    """Return the variables that a chat template reads and that are for whoever renders it to set."""
    environment = _Environment(call=1)
    tree = environment.parse(source)
    # jinja also finds what is set in a branch; that is the template's own, unless it is read before
    found = meta.find_undeclared_variables(tree) - _set_before_read(tree)
    own = NO_OPTIONS | environment.globals.keys()
    return frozenset(name for name in found - own if not name.endswith("_token"))


def _set_before_read(tree: nodes.Template) -> frozenset[str]:
    """Return the variables that a template sets before it first reads them, in the order of its text."""
    first: dict[str, str] = {}
    ahead: list[nodes.Node] = [tree]
    while ahead:
        node = ahead.pop()
        if isinstance(node, nodes.Name):
            first.setdefault(node.name, node.ctx)
        members = list(node.iter_child_nodes())
        if isinstance(node, nodes.Assign | nodes.For):  # the value is there before the name
            members[:2] = members[1::-1]
        ahead += reversed(members)
    return frozenset(name for name, use in first.items() if use != "load")


def _shows(source: str, special_tokens: Mapping[str, Any], setup: ChatSetup, expected: Iterable[str]) -> bool:
    """Return whether a template renders what it is handed: the chat differs, and holds what is expected."""
    shown = []
    for tried in (setup, replace(setup, system="", tools=())):
        try:
            shown.append(render_conversation(source, (Message("user", "?"),), special_tokens, tried))
        except TemplateLimitError:
            raise
        except REFUSALS:
            shown.append("")  # some templates are for chats with tools alone
    text, without = shown
    return text not in ("", without) and all(part.strip() in text for part in expected)


@lru_cache(maxsize=16)
def _takes_parts(source: str) -> bool:
    """Return whether a template shows what a user says only in a list of parts, as where pictures come."""
    shown = []
    for content in ("agentgym-part", [{"type": "text", "text": "agentgym-part"}]):
        values = {"messages": [{"role": "user", "content": content}], "bos_token": "", "eos_token": ""}
        try:
            shown.append("agentgym-part" in compile_template(source).render(values))
        except REFUSALS:
            shown.append(False)
    return shown == [False, True]


def render_conversation(
    source: str,
    messages: Sequence[Message | Mapping[str, Any]],
    special_tokens: Mapping[str, Any],
    setup: ChatSetup = ChatSetup(),
) -> str:
    """Return a chat up to where the next answer begins.

    Args:
        source: the chat template.
        messages: of the user and the assistant in turn, the user's first and last; or tables for templates.
        special_tokens: of the tokenizer, by name.
        setup: a system message before it, tools and options.

    Raises:
        Exception: of whatever kind the template raises; a `TemplateLimitError` where it takes too much.
    """
    told = [Message("system", setup.system)] if setup.system else []
    chat = [m if isinstance(m, Mapping) else {"role": m.role, "content": m.text} for m in (*told, *messages)]
    values = {**setup.options, **special_tokens, "messages": chat, "tools": list(setup.tools) or None}
    values |= {"documents": None, "add_generation_prompt": True}
    calls = [each["tool_calls"] for each in chat if "tool_calls" in each]
    given = sum(len(each["content"]) for each in chat) + 64 * _weight([*setup.tools, *calls])
    token = _METER.set(_Meter(BUDGET + 64 * given))
    try:
        if _takes_parts(source):
            values["messages"] = [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in chat]
        return "".join(compile_template(source).generate(values))
    finally:
        _METER.reset(token)
