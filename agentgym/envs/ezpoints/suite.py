"""EZPoints as the rest of the package sees it."""

from agentgym.core.suite_spec import PromptDefaults, ScreenHints, SuiteSpec
from agentgym.core.tools import Tool, ToolParameter

TOKEN = ToolParameter("token", choices=(*map(str, range(1, 11)), "+", "*", "="))

SUITE = SuiteSpec(
    name="ezpoints",
    prompt=PromptDefaults("ezpoints", tiny_history=0),
    tiny={"iterations": 40, "learner.minibatches": 6},
    screen=ScreenHints(goal="Write a formula a token at a time, each card once; = hands it in."),
    rules="agentgym.envs.ezpoints.rules:make_calculator",
    distance="agentgym.envs.ezpoints.oracle:goal_distance",
    drawing="agentgym.envs.ezpoints.drawing:DRAWING",
    tools=(Tool("write", "Write the next number or sign; = hands the formula in.", (TOKEN,), "{token}"),),
)
