"""Paper search as the rest of the package sees it."""

import math

from agentgym.core.suite_spec import DataSource, Measure, PromptDefaults, ScreenHints, SuiteSpec
from agentgym.core.tools import Tool, ToolParameter

_ACCURACY = (
    ("precision", "share of the papers found that answer the query"),
    ("recall", "share of the papers that answer the query that were found"),
    ("f1", "harmonic mean of precision and recall"),
)

MEASURES = (
    *(Measure(name=name, about=about) for name, about in _ACCURACY),
    *(
        Measure(name=f"{name}_at_{cut}", about=f"{about}, of the best {cut}")
        for cut in (100, 50, 25)
        for name, about in _ACCURACY
    ),
    *(
        Measure(name=f"{unit}", about=f"{unit} made", bounds=(0.0, math.inf), unit=unit, better="neither")
        for unit in ("searches", "expansions")
    ),
)

TOOLS = (
    Tool(
        "search",
        "Search for papers. Do not repeat a query.",
        (ToolParameter("query", description="What to look for, in a few words."),),
        parallel=True,
    ),
    Tool(
        "expand",
        "Find the papers that cite a paper and those that it cites. Do not expand a paper twice.",
        (ToolParameter("paper_id", description="The id of a paper that has been found."),),
        parallel=True,
    ),
    Tool("stop", "Say that nothing is left to find, which ends the task.", template="stop"),
)

PAPERSEARCH = DataSource(
    name="papersearch",
    folder="papersearch",
    about="papers with citations, and queries for them: IEEE VIS, and those of PaSa",
    upstream="https://huggingface.co/datasets/CarlanLark/pasa-dataset (gated: accept its terms) and "
    "https://sites.google.com/site/vispubdata",
    licence="PaSa's queries CC BY-NC-SA 4.0; vispubdata states none: not to be passed on",
    sets={
        "ieee-vis": ("train", "valid", "test"),
        "autoscholar": ("train", "dev", "test"),
        "realscholar": ("test",),
    },
    expected="ieee_vis_papers.jsonl, papers.jsonl with edges.jsonl, AutoScholarQuery_test.jsonl",
    importer="agentgym.envs.papersearch.data.importer:IMPORTER",
)

SUITE = SuiteSpec(
    name="papersearch",
    prompt=PromptDefaults("papersearch", tiny_history=0),
    measures=MEASURES,
    tiny={"env_options.actions": "candidates", "env_options.max_steps": 12},
    sources=(PAPERSEARCH,),
    tools=TOOLS,
    rules="agentgym.envs.papersearch.rules:make_collector",
    drawing="agentgym.envs.papersearch.drawing:DRAWING",
    oracle_only="agentgym.envs.papersearch.oracle:oracle_texts",
    screen=ScreenHints(goal="Find the papers that the query asks for, then stop.", keeps="Query:"),
)
