"""PRIME, as iStar's Table 1 compares with it."""

from agentgym.recipes import istar_table, verl_agent
from agentgym.recipes.environments import WEBSHOP
from agentgym.recipes.istar import REWARD_MODEL
from agentgym.recipes.lines import Lines, Recipe, said

OWN: Lines = {
    **REWARD_MODEL,
    **said("PRIME: answers are right or wrong", {"reward_model.outcome": "won"}),
    **said(
        "PRIME: its settings",
        {"switches.beta": 0.05, "switches.process_weight": 5.0, "switches.outcome_weight": 5.0},
    ),
}


def _own(lines: Lines) -> Lines:
    """Leave out the invalid-action penalty: PRIME's outcomes are right or wrong."""
    return {**{name: line for name, line in lines.items() if name != "switches.penalty"}, **OWN}


RECIPE = Recipe(
    algorithm="prime",
    paper="Cui et al., 2025, arXiv:2502.01456",
    tables="iStar's Table 1",
    by_env={WEBSHOP: _own({**istar_table.OPTIMISATION, **istar_table.WEBSHOP_TASK})},
    elsewhere=_own({**verl_agent.ELSEWHERE, **istar_table.OPTIMISATION}),
)
