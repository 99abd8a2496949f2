r"""Tools: the tool calls that the actions of a suite can be made with, and their JSON schemas.

A tool fills an action's template with its arguments, and finds the arguments in an action again, so that the
same episode can be written as text or as calls.

Example:
    >>> search = Tool("search", "Look for passages.", (ToolParameter("query"),), parallel=True)
    >>> search.action({"query": "two\nlines"})
    'search[two\\nlines]'
    >>> click = Tool("click", "Click on a text.", (ToolParameter("text"),), "click[{text}]")
    >>> call_of((search, click), "click[buy now]")
    ToolCall(name='click', arguments={'text': 'buy now'})
"""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any, Literal, NamedTuple, TypeAlias

from agentgym.core.calls import Call, read_calls, write_calls
from agentgym.errors import UsageError, nearest

ParameterType: TypeAlias = Literal["string", "integer", "number", "boolean"]
"""A type of JSON Schema."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_HINTS: Mapping[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}
_EXAMPLES: Mapping[str, Any] = {"integer": 1, "number": 1.0, "boolean": True}


class ToolCallError(ValueError):
    """A call does not fit the tools there are; the message says why, on one line."""


class ToolCall(NamedTuple):
    """A tool with its arguments."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolParameter:
    """An argument that a tool takes."""

    name: str
    type: ParameterType = "string"
    description: str = ""
    choices: tuple[str, ...] = ()
    """The only values; empty for any. Strings only."""
    default: Any = None
    """Value of an argument that is not given; None where it has to be given."""

    def __post_init__(self) -> None:
        """Check the declaration.

        Raises:
            UsageError: what cannot be the parameter of a function.
        """
        if (
            not self.name.isidentifier()
            or self.type not in _KINDS
            or (self.choices and self.type != "string")
        ):
            raise UsageError(
                f"no parameter is {self.name!r} of type {self.type!r}: give an identifier, one of the types "
                f"{', '.join(_KINDS)}, and choices for strings only"
            )
        try:
            if self.default is not None:
                self.checked(self.default)
        except ToolCallError as error:
            raise UsageError(f"the default {self.default!r} does not fit: {error}") from error

    @property
    def required(self) -> bool:
        """Whether a call has to give it."""
        return self.default is None

    def checked(self, value: Any) -> Any:
        """Return a value that a call gives.

        Raises:
            ToolCallError: it is of another type, or none of the choices.
        """
        kinds = _KINDS[self.type]
        if type(value) not in kinds or (isinstance(value, float) and not math.isfinite(value)):
            raise ToolCallError(f"the argument {self.name!r} is not of type {self.type}")
        if self.choices and value not in self.choices:
            raise ToolCallError(f"the argument {self.name!r} is not one of {', '.join(self.choices)}")
        return value

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of its values."""
        schema: dict[str, Any] = {"type": self.type}
        if self.description:
            schema["description"] = self.description
        if self.choices:
            schema["enum"] = list(self.choices)
        if not self.required:
            schema["default"] = self.default
        return schema

    def slot(self) -> inspect.Parameter:
        """Return it as the parameter of a Python function, with its type hint."""
        hint = Literal[self.choices] if self.choices else _HINTS[self.type]
        default = inspect.Parameter.empty if self.required else self.default
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Parameter(self.name, kind, default=default, annotation=hint)

    def value(self, text: str) -> Any:
        """Return the value that stands in an action as ``text``.

        Raises:
            ToolCallError: none does.
        """
        if self.type == "string":
            return self.checked(text)
        if self.type == "boolean":
            value: Any = {"true": True, "false": False}.get(text)
        else:
            try:
                value = int(text) if re.fullmatch(r"-?[0-9]{1,300}", text) else float(text)
            except ValueError:
                value = None
        return self.checked(value)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool whose calls are actions of one kind."""

    name: str
    description: str
    parameters: tuple[ToolParameter, ...] = ()
    template: str = ""
    """The action, with the parameters as ``{name}`` and braces doubled, filled as it is. Empty for the form
    ``name[text]`` of `agentgym.core.calls`, in which any text comes through: the tool then takes one
    string."""
    parallel: bool = False
    """Whether it may be called several times in one response, also beside others; only without template."""
    untagged: bool = False
    """Whether a response without any call is a call of this tool, with the whole response as its text."""

    def __post_init__(self) -> None:
        """Check the declaration.

        Raises:
            UsageError: what cannot be called or filled.
        """
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"no tool is called {self.name!r}: use at most 64 letters, digits, _ and -")
        names = [parameter.name for parameter in self.parameters]
        slots = [slot for _, slot in self._parts() if slot is not None]
        if self.template and (sorted(slots) != sorted(names) or len(set(names)) < len(names)):
            raise UsageError(
                f"the tool {self.name!r} takes {', '.join(names) or 'nothing'}, so its template has to hold "
                f"each once, as {{name}}; it is {self.template!r}"
            )
        if not self.template and not (self.takes_text and self.parameters[0].required):
            raise UsageError(f"the tool {self.name!r} takes no single string: give it a template")
        if (self.parallel and self.template) or (self.untagged and not self.takes_text):
            raise UsageError(
                f"the tool {self.name!r}: parallel goes without a template, untagged with a single string"
            )

    @property
    def takes_text(self) -> bool:
        """Whether it takes a single string, of any content."""
        return [(each.type, each.choices) for each in self.parameters] == [("string", ())]

    def action(self, arguments: Mapping[str, Any]) -> str:
        """Return the action that a call with these arguments is.

        Raises:
            ToolCallError: an argument is missing, unknown, of another type or none of the choices.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in arguments:
            if name not in known:
                raise ToolCallError(f"a call of {self.name} with an unknown argument {name!r:.60}")
        texts = {}
        for name, parameter in known.items():
            if name not in arguments and parameter.required:
                raise ToolCallError(f"a call of {self.name} without the argument {name!r}")
            try:
                texts[name] = _text(parameter.checked(arguments.get(name, parameter.default)))
            except ToolCallError as error:
                raise ToolCallError(f"a call of {self.name}: {error}") from None
        if not self.template:
            return write_calls([Call(self.name, *texts.values())])
        return "".join(words + ("" if slot is None else texts[slot]) for words, slot in self._parts())

    def arguments(self, action: str) -> dict[str, Any] | None:
        """Return the arguments with which a call is this action; None where no call is.

        Where slots divide an action in several ways, each takes the shortest text from the left.
        """
        if not self.template:
            calls = read_calls(action, (self.name,))
            found = None if calls is None or len(calls) > 1 else {self.parameters[0].name: calls[0].text}
        else:
            pattern = "".join(
                re.escape(words) + ("" if slot is None else f"(?P<{slot}>.*?)")
                for words, slot in self._parts()
            )
            match = re.fullmatch(pattern, action, re.DOTALL)
            found = None if match is None else match.groupdict()
        if found is None:
            return None
        try:
            arguments = {each.name: each.value(found[each.name]) for each in self.parameters}
            return arguments if self.action(arguments) == action else None
        except ToolCallError:
            return None

    def example(self) -> str:
        """Return an action that shows the form of a call, with the parameters' names for texts."""
        return self.action(
            {
                each.name: each.choices[0] if each.choices else _EXAMPLES.get(each.type, f"<{each.name}>")
                for each in self.parameters
            }
        )

    def schema(self) -> dict[str, Any]:
        """Return the function's JSON schema, in the form that OpenAI's interface and chat templates take.

        Example:
            >>> Tool("look", "Look around.", template="look").schema()["function"]["parameters"]
            {'type': 'object', 'properties': {}, 'required': []}
        """
        parameters = {
            "type": "object",
            "properties": {each.name: each.schema() for each in self.parameters},
            "required": [each.name for each in self.parameters if each.required],
        }
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}

    def method(self, play: Callable[[Any, dict[str, Any]], str]) -> Callable[..., str]:
        """Return a method that is this tool, for trainers that read tools from functions.

        It has a signature with type hints and a Google docstring that describes each argument, from which
        such as transformers' ``get_json_schema`` make what `schema` returns.

        Args:
            play: ``play(self, arguments)`` is called with the arguments by name.

        Example:
            >>> tool = Tool("click", "Click on a text.", (ToolParameter("text"),), "click[{text}]")
            >>> click = tool.method(lambda self, given: f"played {tool.action(given)}")
            >>> Page = type("Page", (), {"click": click})
            >>> Page().click(text="buy now"), str(inspect.signature(Page().click))
            ('played click[buy now]', '(text: str) -> str')
        """
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        slots = [inspect.Parameter("self", kind), *(each.slot() for each in self.parameters)]
        signature = inspect.Signature(slots, return_annotation=str)

        def called(this: Any, *values: Any, **arguments: Any) -> str:
            named = signature.bind_partial(this, *values).arguments
            del named["self"]
            return play(this, named | arguments)

        described = "".join(
            f"\n    {each.name}: {each.description or f'The {each.name}.'}" for each in self.parameters
        )
        called.__name__ = called.__qualname__ = self.name
        called.__doc__ = self.description + (f"\n\nArgs:{described}" if described else "")
        called.__signature__ = signature  # type: ignore[attr-defined]
        called.__annotations__ = {slot.name: slot.annotation for slot in slots[1:]} | {"return": str}
        return called

    def _parts(self) -> list[tuple[str, str | None]]:
        """Return the template as words, each with the slot after it."""
        try:
            parts = list(Formatter().parse(self.template))
        except ValueError as error:
            raise UsageError(
                f"the template of the tool {self.name!r}: {error}: double such braces"
            ) from error
        if any(spec or conversion for _, _, spec, conversion in parts):
            raise UsageError(f"the template of the tool {self.name!r} has a format: write slots as {{name}}")
        return [(words, slot) for words, slot, _, _ in parts]


ACT = Tool(
    "act",
    "Do one of the possible actions.",
    (ToolParameter("action", description="The action, as it is listed."),),
    "{action}",
)
"""Tool for any action, word for word: the default of suites that declare none."""


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def tool_schemas(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Return the JSON schemas of tools, as `Tool.schema`.

    Raises:
        UsageError: two have the same name.
    """
    if len({tool.name for tool in tools}) < len(tools):
        raise UsageError(f"tools are told apart by name: {', '.join(tool.name for tool in tools)}")
    return [tool.schema() for tool in tools]


def listed_schemas(tools: Sequence[Tool]) -> str:
    """Return the JSON schemas of tools, one a line, in the order of keys that chat templates show."""
    return "\n".join(json.dumps(schema, ensure_ascii=False) for schema in tool_schemas(tools))


def action_of(tools: Sequence[Tool], call: ToolCall) -> str:
    """Return the action that a call is.

    Raises:
        ToolCallError: it is of no such tool, or its arguments do not fit.
    """
    for tool in tools:
        if tool.name == call.name:
            return tool.action(call.arguments)
    known = [tool.name for tool in tools]
    raise ToolCallError(f"a call of an unknown tool {call.name!r:.60}{nearest(call.name[:64], known)}")


def call_of(tools: Sequence[Tool], action: str) -> ToolCall | None:
    """Return the call that an action is, of the first tool that has one; None where none has."""
    for tool in tools:
        arguments = tool.arguments(action)
        if arguments is not None:
            return ToolCall(tool.name, arguments)
    return None
