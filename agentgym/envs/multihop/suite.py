"""The multi-hop question suites as the rest of the package sees them."""

from __future__ import annotations

from agentgym.core.suite_spec import DataSource, Measure, PromptDefaults, ScreenHints, SuiteSpec
from agentgym.envs.multihop.forms import FORMS, tools_of
from agentgym.envs.multihop.sources import HOTPOTQA, MUSIQUE, SEARCHQA, TWOWIKI

MEASURES = (
    Measure(name="em", about="exact match of the normalised answer"),
    Measure(name="f1", about="token F1 of the answer"),
    Measure(name="support", about="share of the supporting passages that were found"),
    Measure(
        name="searches",
        about="searches made",
        bounds=(0.0, float("inf")),
        unit="searches",
        better="neither",
    ),
    Measure(
        name="passages",
        about="distinct passages read",
        bounds=(0.0, float("inf")),
        unit="passages",
        better="neither",
    ),
)
"""Measures of every suite here."""


def _suite(source: DataSource) -> SuiteSpec:
    return SuiteSpec(
        name=source.name,
        prompt=PromptDefaults("multihop", tiny_history=0),
        tiny={"env_options.actions": "candidates", "env_options.k": 2, "env_options.corpus": "own"},
        measures=MEASURES,
        sources=(source,),
        tools=tools_of(FORMS["steppo"], "end"),
        rules="agentgym.envs.multihop.rules:make_lexical",
        drawing="agentgym.envs.multihop.drawing:DRAWING",
        oracle_only="agentgym.envs.multihop.oracle:oracle_texts",
        screen=ScreenHints(
            goal="Search for passages as search[query], then give the answer as answer[text].",
            keeps="Question:",
        ),
    )


HOTPOTQA_SUITE = _suite(HOTPOTQA)
TWOWIKI_SUITE = _suite(TWOWIKI)
MUSIQUE_SUITE = _suite(MUSIQUE)
SEARCHQA_SUITE = _suite(SEARCHQA)
