"""Dr. GRPO on the tasks of the tables that compare with GRPO: no paper on agents has a row of it."""

from agentgym.recipes import grpo
from agentgym.recipes.lines import Line, Lines, Recipe

_WHERE = "Dr. GRPO, Section 3.2"

OWN: Lines = {
    "switches.std": Line(False, _WHERE),
    "objective.aggregation": Line("seq-mean-token-sum", _WHERE),
    "objective.kl_coefficient": Line(0.0, "Dr. GRPO: no divergence"),
}

RECIPE = Recipe(
    algorithm="dr_grpo",
    paper="Liu et al., 2025, arXiv:2503.20783",
    tables="none has it: GRPO's lines, with Dr. GRPO's own",
    by_env={env: {**lines, **OWN} for env, lines in grpo.BY_ENV.items()},
    elsewhere={**grpo.RECIPE.elsewhere, **OWN},
)
