"""GiGPO (Feng et al., 2025): its own table, and StepPO's for search."""

from agentgym.recipes import steppo_table, verl_agent
from agentgym.recipes.environments import (
    ALFWORLD,
    EZPOINTS,
    SEARCHQA,
    SOKOBAN,
    VISUAL_SOKOBAN,
    WEBSHOP,
)
from agentgym.recipes.lines import Line, Lines, Recipe, said

BY_STATE: Lines = {
    "switches.match": Line(
        "state",
        "this package: hashes of states",
        "exact texts of observations",
        "two states that read alike are two",
    )
}
"""For papers that group by the text of observations."""

OWN: Lines = {
    **verl_agent.PRODUCT_RATIO,
    **said(verl_agent.GIGPO, {"switches.gamma": 0.95, "switches.weight": 1.0}),
    **BY_STATE,
}

WITH_STD: Lines = said(verl_agent.script("gigpo_trainer/run_alfworld"), {"switches.std": True})
WITHOUT_STD: Lines = said(verl_agent.script("gigpo_dynamic_trainer/run_webshop"), {"switches.std": False})

_SEARCH: Lines = said(
    verl_agent.script("gigpo_trainer/run_search"),
    {"switches.std": True, "switches.match": "similar", "switches.threshold": 0.9},
)

_STEPPO: Lines = {
    **steppo_table.OPTIMISATION,
    **steppo_table.GROUPS,
    **steppo_table.TOKEN_LOSS,
    **said("StepPO's code: examples/alfworld/run_gigpo.sh", {"switches.weight": 1.0, "switches.std": True}),
    **said(steppo_table.STEPPO, {"switches.gamma": 0.99}),
    **BY_STATE,
}

RECIPE = Recipe(
    algorithm="gigpo",
    paper="Feng et al., 2025, arXiv:2505.10978",
    tables="its own; StepPO's for HotpotQA and paper search",
    by_env={
        ALFWORLD: {**verl_agent.OPTIMISATION, **OWN, **WITH_STD, **verl_agent.ALFWORLD_TASK},
        **{
            env: {**verl_agent.OPTIMISATION, **OWN, **WITHOUT_STD, **verl_agent.TASKS[env]}
            for env in (WEBSHOP, SOKOBAN, VISUAL_SOKOBAN, EZPOINTS)
        },
        SEARCHQA: {**verl_agent.OPTIMISATION, **OWN, **verl_agent.SEARCH_TASK, **_SEARCH},
        **{env: {**_STEPPO, **task} for env, task in steppo_table.SEARCH_TASKS.items()},
    },
    elsewhere={**verl_agent.ELSEWHERE, **OWN, **WITH_STD},
)
