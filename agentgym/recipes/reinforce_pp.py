"""REINFORCE++, as StepPO's tables compare with it."""

from agentgym.recipes import steppo_table
from agentgym.recipes.lines import Lines, Recipe, said

_OWN: Lines = {
    **steppo_table.OPTIMISATION,
    **steppo_table.GROUPS,
    **steppo_table.TOKEN_LOSS,
    **steppo_table.KL_IN_LOSS,
    **said(steppo_table.STEPPO, {"switches.gamma": 0.99}),
}

RECIPE = Recipe(
    algorithm="reinforce_pp",
    paper="Hu et al., 2025, arXiv:2501.03262",
    tables="StepPO's table",
    by_env=steppo_table.token_level(_OWN),
    elsewhere={**_OWN, **steppo_table.TOKENS, **steppo_table.ELSEWHERE},
)
