"""What stands in for inspect_ai under the bridge to it."""

import importlib
import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from unittest import mock


class Store(dict):
    set = dict.__setitem__


class ToolError(Exception):
    pass


def record(**fixed):
    return lambda **given: SimpleNamespace(**fixed, **given)


def named(made, **about):
    """Return a decorator that notes what it was given on what it decorates."""

    def decorate(function):
        def wrapped(*args, **options):
            return function(*args, **options)

        wrapped.about = about
        made.append(wrapped)
        return wrapped

    return decorate


class Tools:
    """The current sample's store, and the calls of a model's last message."""

    def __init__(self):
        self.store = Store()

    async def execute(self, messages, tools):
        (call,) = messages[-1].tool_calls or [None]
        if call is None:
            return SimpleNamespace(messages=[])
        (tool,) = (each for each in tools if each.name == call.name)
        try:
            said = await tool.run(**call.arguments)
        except ToolError as error:
            said = f"error: {error}"
        return SimpleNamespace(messages=[SimpleNamespace(role="tool", text=said)])


def tool_definition(run, name, description, parameters, max_output):
    about = SimpleNamespace(
        run=run, name=name, description=description, parameters=parameters, max_output=max_output
    )
    return SimpleNamespace(as_tool=lambda: about)


@contextmanager
def standing_in(package=""):
    """Import the bridge over stand-ins for inspect_ai, which begins the names of tasks with a package."""
    tools, made = Tools(), []
    stands = {
        "inspect_ai": {"Task": record(), "task": lambda name: named(made, name=name)},
        "inspect_ai.dataset": {"MemoryDataset": list, "Sample": record()},
        "inspect_ai.model": {
            "ChatMessageSystem": record(role="system"),
            "ChatMessageUser": record(role="user"),
            "execute_tools": tools.execute,
        },
        "inspect_ai.scorer": {
            "Score": record(),
            "mean": lambda: "mean",
            "stderr": lambda: "stderr",
            "scorer": lambda metrics, name: named(made, metrics=metrics, name=name),
        },
        "inspect_ai.solver": {"solver": lambda name: named(made, name=name)},
        "inspect_ai.tool": {
            "ToolDef": tool_definition,
            "ToolError": ToolError,
            "ToolParam": record(),
            "ToolParams": record(),
        },
        "inspect_ai.util": {
            "registry_info": lambda each: SimpleNamespace(name=package + each.about["name"]),
            "store": lambda: tools.store,
        },
    }
    modules = {name: ModuleType(name) for name in stands}
    for name, module in modules.items():
        vars(module).update(stands[name])
    with mock.patch.dict(sys.modules, modules):
        sys.modules.pop("agentgym.bridges.inspect_ai", None)
        module = importlib.import_module("agentgym.bridges.inspect_ai")
        yield SimpleNamespace(module=module, tools=tools, installed=bool(package), made=made)
        sys.modules.pop("agentgym.bridges.inspect_ai", None)
