"""Sokoban as the rest of the package sees it."""

from agentgym.core.path_measures import path_measures
from agentgym.core.suite_spec import DataSource, PromptDefaults, ScreenHints, SuiteSpec, Symbol
from agentgym.core.tools import Tool, ToolParameter

BOXOBAN = DataSource(
    name="boxoban",
    folder="sokoban",
    about="Sokoban levels, 10x10 with 4 boxes",
    upstream="https://github.com/google-deepmind/boxoban-levels",
    licence="Apache-2.0",
    sets={"unfiltered": ("train", "valid", "test"), "medium": ("train", "valid"), "hard": ()},
    expected="unfiltered/, medium/, hard/",
    importer="agentgym.envs.sokoban.data.boxoban:IMPORTER",
)

SCREEN = ScreenHints(
    goal="Push every box onto a target; boxes can be pushed one at a time, not pulled.",
    symbols={
        "@": Symbol("you", "bold bright_green"),
        "$": Symbol("box", "bold bright_yellow"),
        ".": Symbol("target", "bold bright_red"),
        "*": Symbol("box on target", "bold bright_magenta"),
        "+": Symbol("you on target", "bold bright_cyan"),
        "#": Symbol("wall", "bright_black"),
    },
    # the second ones in the action set "full"
    keys={name: (name, f"push {name}") for name in ("up", "down", "left", "right")},
)

_DIRECTION = ToolParameter("direction", choices=("up", "down", "left", "right"))
TOOLS = {
    "agent": (Tool("move", "Take one step, pushing a box that stands there.", (_DIRECTION,), "{direction}"),),
    "full": (
        Tool("push", "Take one step, pushing a box that stands there.", (_DIRECTION,), "push {direction}"),
        Tool("move", "Take one step to a free cell.", (_DIRECTION,), "move {direction}"),
        Tool("wait", "Stay where you are.", template="no operation"),
    ),
}
"""Tools by the environment's option ``actions``."""

SUITE = SuiteSpec(
    name="sokoban",
    prompt=PromptDefaults("sokoban", tiny_history=0),
    # the warm-up is needed: without it the first updates clip a third of their terms and undo the first wins
    tiny={"env_options.dim_room": [6, 6], "env_options.num_boxes": 1, "warmup": 5},
    measures=path_measures("the shortest solution known or the solver's"),
    sources=(BOXOBAN,),
    screen=SCREEN,
    rules="agentgym.envs.sokoban.rules:make_greedy",
    distance="agentgym.envs.sokoban.oracle:goal_distance",
    drawing="agentgym.envs.sokoban.drawing:DRAWING",
    tools=TOOLS["agent"],
)
