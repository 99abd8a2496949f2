"""WebShop as the rest of the package sees it."""

import math

from agentgym.core.suite_spec import DataSource, Measure, PromptDefaults, SuiteSpec
from agentgym.core.tools import Tool, ToolParameter

WEBSHOP = DataSource(
    name="webshop",
    folder="webshop",
    about="a shop in text: the products, attributes and instructions of WebShop",
    upstream="https://github.com/princeton-nlp/WebShop, whose products are at "
    "https://huggingface.co/datasets/HongbangYuan/webshop: the links of setup.sh are dead",
    licence="MIT; the texts are their sellers'",
    sets={"small": ("train", "valid", "test", "papers"), "full": ("train", "valid", "test", "papers")},
    expected="items_shuffle.json or items_shuffle_1000.json, with items_ins_v2.json",
    importer="agentgym.envs.webshop.data.importer:IMPORTER",
)

_BOUGHT = "0 without a purchase"

MEASURES = (
    Measure(name="attributes", about=f"share of the attributes asked for that the purchase has; {_BOUGHT}"),
    Measure(name="options", about=f"share of the options asked for that were chosen, 1 of none; {_BOUGHT}"),
    Measure(name="price", about=f"whether the purchase is within the price limit; {_BOUGHT}"),
    Measure(name="type", about=f"how much the purchase is of the kind asked for; {_BOUGHT}"),
    Measure(
        name="searches", about="searches made", bounds=(0.0, math.inf), unit="searches", better="neither"
    ),
    Measure(name="pages", about="pages opened", bounds=(0.0, math.inf), unit="pages", better="neither"),
)
"""The terms of the reward as the paper's evaluation reports them, and what was spent."""

SEARCH = Tool("search", "Search the shop.", (ToolParameter("query"),), "search[{query}]")
CLICK = Tool(
    "click",
    "Click on a link, a button or an option of the page that is open.",
    (ToolParameter("text", description="The text to click on, as it is listed."),),
    "click[{text}]",
)

SUITE = SuiteSpec(
    name="webshop",
    prompt=PromptDefaults("webshop", tiny_history=2),
    measures=MEASURES,
    sources=(WEBSHOP,),
    rules="agentgym.envs.webshop.rules:make_shopper",
    drawing="agentgym.envs.webshop.drawing:DRAWING",
    tools=(SEARCH, CLICK),
    oracle_only="agentgym.envs.webshop.oracle:oracle_texts",
    site="agentgym.envs.webshop.site.documents:PAGES",
)
