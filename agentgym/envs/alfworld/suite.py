"""ALFWorld as the rest of the package sees it."""

import re

from agentgym.core.path_measures import path_measures
from agentgym.core.suite_spec import DataSource, PromptDefaults, ScreenHints, SuiteSpec
from agentgym.core.tools import Tool, ToolParameter

ALFWORLD = DataSource(
    name="alfworld",
    folder="alfworld",
    about="household tasks in text: the games of ALFWorld (json_2.1.1)",
    upstream="https://github.com/alfworld/alfworld (alfworld-download)",
    licence="MIT",
    sets={"official": ("train", "valid_seen", "valid_unseen", "valid_train")},
    expected="train/, valid_seen/ or other folders of games, nor archives of them",
    importer="agentgym.envs.alfworld.data.importer:IMPORTER",
)


def _tool(name: str, description: str, template: str) -> Tool:
    slots = re.findall(r"\{(\w+)\}", template)
    return Tool(name, description, tuple(map(ToolParameter, slots)), template)


TOOLS = (
    _tool("go_to", "Walk to a receptacle, such as a shelf.", "go to {receptacle}"),
    _tool("open", "Open a receptacle.", "open {receptacle}"),
    _tool("close", "Close a receptacle.", "close {receptacle}"),
    _tool("take", "Take an object.", "take {object} from {receptacle}"),
    _tool("move", "Put down the object you hold, where games say move.", "move {object} to {receptacle}"),
    _tool("put", "Put down the object you hold, where games say put.", "put {object} in/on {receptacle}"),
    _tool("clean", "Clean the object you hold.", "clean {object} with {receptacle}"),
    _tool("heat", "Heat the object you hold.", "heat {object} with {receptacle}"),
    _tool("cool", "Cool the object you hold.", "cool {object} with {receptacle}"),
    _tool("slice", "Slice an object with a knife you hold.", "slice {object} with {knife}"),
    _tool("use", "Switch on a lamp.", "use {object}"),
    _tool("examine", "Look closely at an object or a receptacle.", "examine {object}"),
    _tool("look", "Look around.", "look"),
    _tool("inventory", "See what you hold.", "inventory"),
    _tool("help", "See which commands there are, where a game has it.", "help"),
)

SUITE = SuiteSpec(
    name="alfworld",
    prompt=PromptDefaults("alfworld", tiny_history=2),
    tiny={"env_options.max_steps": 30, "evaluation.split": "valid_seen"},
    measures=path_measures("the shortest plan known or the planner's"),
    sources=(ALFWORLD,),
    screen=ScreenHints(keeps="Your task is to:"),
    rules="agentgym.envs.alfworld.rules:make_explorer",
    drawing="agentgym.envs.alfworld.drawing:DRAWING",
    tools=TOOLS,
)
