"""REINFORCE++-baseline: what StepPO's public code has a script of, and iStar's tables call REINFORCE++."""

from agentgym.recipes import istar_table, steppo_table
from agentgym.recipes.environments import SOTOPIA, VISUAL_SOKOBAN
from agentgym.recipes.lines import Lines, Recipe

_GROUPS: Lines = {
    **steppo_table.OPTIMISATION,
    **steppo_table.GROUPS,
    **steppo_table.TOKEN_LOSS,
    **steppo_table.KL_IN_LOSS,
}

RECIPE = Recipe(
    algorithm="reinforce_pp_baseline",
    paper="Hu et al., 2025, arXiv:2501.03262",
    tables="StepPO's public code; iStar's table for VisualSokoban and SOTOPIA",
    by_env={
        **{env: {**_GROUPS, **task} for env, task in steppo_table.TASKS.items()},
        **{env: {**istar_table.OPTIMISATION, **istar_table.TASKS[env]} for env in (VISUAL_SOKOBAN, SOTOPIA)},
    },
    elsewhere={**_GROUPS, **steppo_table.ELSEWHERE},
)
