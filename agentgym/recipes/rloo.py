"""RLOO, as GiGPO's, StepPO's and iStar's tables compare with it."""

from agentgym.recipes import istar_table, steppo_table, verl_agent
from agentgym.recipes.environments import ALFWORLD, SOTOPIA, VISUAL_SOKOBAN, WEBSHOP
from agentgym.recipes.lines import Lines, Recipe

_GROUPS: Lines = {
    **steppo_table.OPTIMISATION,
    **steppo_table.GROUPS,
    **steppo_table.TOKEN_LOSS,
    **steppo_table.KL_IN_LOSS,
}

RECIPE = Recipe(
    algorithm="rloo",
    paper="Ahmadian et al., 2024, arXiv:2402.14740",
    tables="GiGPO's table; StepPO's for search, iStar's for VisualSokoban and SOTOPIA",
    by_env={
        **{env: {**verl_agent.OPTIMISATION, **verl_agent.TASKS[env]} for env in (ALFWORLD, WEBSHOP)},
        **{env: {**_GROUPS, **task} for env, task in steppo_table.SEARCH_TASKS.items()},
        **{env: {**istar_table.OPTIMISATION, **istar_table.TASKS[env]} for env in (VISUAL_SOKOBAN, SOTOPIA)},
    },
    elsewhere=verl_agent.ELSEWHERE,
)
