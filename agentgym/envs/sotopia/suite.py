"""SOTOPIA as the rest of the package sees it."""

from __future__ import annotations

from collections.abc import Iterator

from agentgym.core.suite_spec import Measure, PromptDefaults, ScreenHints, SuiteSpec
from agentgym.core.tools import Tool, ToolParameter
from agentgym.envs.sotopia.ratings import DIMENSIONS
from agentgym.envs.sotopia.sources import SOURCES

_ABOUT = {
    "believability": "acts as the person it is",
    "relationship": "is closer to the other than before",
    "knowledge": "learnt something new",
    "secret": "kept its secret",
    "social_rules": "kept to rules and laws",
    "financial_and_material_benefits": "gained money or goods",
    "goal": "reached its goal",
}


def _measures(prefix: str, who: str) -> Iterator[Measure]:
    for name, (least, greatest) in DIMENSIONS.items():
        bounds = (float(least), float(greatest))
        yield Measure(
            name=f"{prefix}{name}", about=f"{who} {_ABOUT[name]}, as rated", bounds=bounds, unit="points"
        )
    lowest, highest = (sum(bounds[i] for bounds in DIMENSIONS.values()) / len(DIMENSIONS) for i in (0, 1))
    yield Measure(
        name=f"{prefix}overall",
        about=f"mean of {who}'s seven ratings",
        bounds=(lowest, highest),
        unit="points",
    )
    yield Measure(
        name=f"{prefix}utterances",
        about=f"turns in which {who} did something",
        bounds=(0.0, float("inf")),
        unit="utterances",
        better="neither",
    )


MEASURES = (*_measures("", "the learner"), *_measures("partner_", "the partner"))
"""Measures of the learner's side and of the other; in self-chat of the first side and of the second."""

TOOLS = (
    Tool("none", "Do nothing in this turn.", template="none"),
    Tool("speak", "Say something.", (ToolParameter("words", description="What you say, word for word."),)),
    Tool(
        "non-verbal",
        "Make a gesture, a face or a sound.",
        (ToolParameter("gesture", description="What the other sees or hears, such as: nods."),),
    ),
    Tool("action", "Do something.", (ToolParameter("deed", description="What you do, such as: offer 40."),)),
    Tool("leave", "Leave, which ends the conversation.", template="leave"),
)

SUITE = SuiteSpec(
    name="sotopia",
    prompt=PromptDefaults("sotopia", tiny_history=0, history=0),
    measures=MEASURES,
    tiny={
        "env_options.actions": "candidates",
        "env_options.view": "lite",
        "env_options.max_turns": 12,  # a bargain takes six turns at most, and a prompt as long as it takes
    },
    sources=SOURCES,
    tools=TOOLS,
    rules="agentgym.envs.sotopia.rules:make_bargainer",
    drawing="agentgym.envs.sotopia.drawing:DRAWING",
    screen=ScreenHints(
        goal="Reach your goal: speak[words], non-verbal[gesture], action[deed], none or leave.",
        keeps="Participants:",
    ),
)
