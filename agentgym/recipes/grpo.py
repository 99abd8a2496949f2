"""GRPO, as GiGPO's, StepPO's and iStar's tables compare with it; and Dr. GRPO on the same tasks."""

from agentgym.recipes import istar_table, steppo_table, verl_agent
from agentgym.recipes.environments import ALFWORLD, EZPOINTS, SOKOBAN, SOTOPIA, VISUAL_SOKOBAN, WEBSHOP
from agentgym.recipes.lines import Lines, Recipe, said

_VERL: Lines = said(
    f"{verl_agent.YAML} (norm_adv_by_std_in_grpo)",
    {"switches.std": True},
)
_GROUPS: Lines = {**steppo_table.OPTIMISATION, **steppo_table.GROUPS, **steppo_table.TOKEN_LOSS, **_VERL}

BY_ENV = {
    **{
        env: {**verl_agent.OPTIMISATION, **_VERL, **verl_agent.TASKS[env]}
        for env in (ALFWORLD, WEBSHOP, SOKOBAN, VISUAL_SOKOBAN, EZPOINTS)
    },
    **{env: {**_GROUPS, **task} for env, task in steppo_table.SEARCH_TASKS.items()},
    SOTOPIA: {**istar_table.OPTIMISATION, **_VERL, **istar_table.SOTOPIA_TASK},
}

RECIPE = Recipe(
    algorithm="grpo",
    paper="Shao et al., 2024, arXiv:2402.03300",
    tables="GiGPO's table; StepPO's for search, iStar's for SOTOPIA",
    by_env=BY_ENV,
    elsewhere={**verl_agent.ELSEWHERE, **_VERL},
)
