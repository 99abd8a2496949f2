"""ALFWorld as the rest of the package sees it."""

import re

from agentgym.core.path_measures import path_measures
from agentgym.core.suite_spec import DataSource, PromptDefaults, ScreenHints, SuiteSpec
from agentgym.core.tools import Tool, ToolParameter

_SPLITS = ("train", "valid_seen", "valid_unseen", "valid_train")
_RELEASES = "https://github.com/alfworld/alfworld/releases/download"

ALFWORLD = DataSource(
    name="alfworld",
    folder="alfworld",
    about="household tasks in text: the games of ALFWorld, which say `put X in/on Y` (json_2.1.1)",
    upstream=f"{_RELEASES}/0.2.2/json_2.1.1_tw-pddl.zip",
    licence="MIT",
    sets={"official": _SPLITS},
    expected="train/, valid_seen/ or other folders of games, nor archives of them",
    importer="agentgym.envs.alfworld.data.importer:IMPORTER",
    generation="json_2.1.1",
)

ALFWORLD_MOVE = DataSource(
    name="alfworld-2.1.3",
    folder="alfworld-2.1.3",
    about="the same tasks in the words of ALFWorld since 0.4, `move X to Y` (json_2.1.2 and json_2.1.3)",
    upstream=f"{_RELEASES}/0.4.2/json_2.1.3_tw-pddl.zip, which alfworld-download brings",
    licence="MIT",
    sets={"official": _SPLITS},
    expected=ALFWORLD.expected,
    importer="agentgym.envs.alfworld.data.importer:MOVE_IMPORTER",
    generation="json_2.1.2 or json_2.1.3",
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
    sources=(ALFWORLD, ALFWORLD_MOVE),
    screen=ScreenHints(keeps="Your task is to:"),
    rules="agentgym.envs.alfworld.rules:make_explorer",
    distance="agentgym.envs.alfworld.distance:goal_distance",
    drawing="agentgym.envs.alfworld.drawing:DRAWING",
    tools=TOOLS,
)
