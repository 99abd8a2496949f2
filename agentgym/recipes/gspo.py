"""GSPO, as StepPO's tables compare with it."""

from agentgym.recipes import steppo_table
from agentgym.recipes.lines import Lines, Recipe, said

_OWN: Lines = {
    **steppo_table.OPTIMISATION,
    **steppo_table.GROUPS,
    **said(
        "GSPO, Section 5.1",
        {
            "objective.ratio": "sequence",
            "objective.aggregation": "seq-mean-token-mean",
            "objective.clip_low": 3e-4,
            "objective.clip_high": 4e-4,
        },
    ),
}

RECIPE = Recipe(
    algorithm="gspo",
    paper="Zheng et al., 2025, arXiv:2507.18071",
    tables="StepPO's table",
    by_env={env: {**_OWN, **task} for env, task in steppo_table.TASKS.items()},
    elsewhere={**_OWN, **steppo_table.ELSEWHERE},
)
