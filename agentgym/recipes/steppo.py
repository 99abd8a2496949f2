"""StepPO (Wang et al., 2026): a critic of steps, one ratio a step."""

from agentgym.recipes import steppo_table
from agentgym.recipes.lines import Line, Lines, Recipe, said

_CORE = "StepPO's code: arft/core_algos.py"

OWN: Lines = {
    **steppo_table.OPTIMISATION,
    **steppo_table.SINGLE,
    **steppo_table.CRITIC,
    **said("StepPO, Equation 7", {"objective.ratio": "step_geomean"}),
    **said(steppo_table.STEP_SCRIPT, {"objective.clip_low": 3e-4, "objective.clip_high": 4e-4}),
    "objective.aggregation": Line(
        "step-mean",
        steppo_table.STEP_SCRIPT,
        "trajectory-mean (Equation 8)",
        "what the authors' code minimises, beside its clip",
    ),
    **said(steppo_table.STEPPO, {"switches.gamma": 0.99, "switches.lam": 1.0}),
    "switches.whiten": Line(
        True, _CORE, "in no equation", "the authors' code whitens, and the clip is meant for that scale"
    ),
    "switches.truncation": Line("zero", _CORE),
}

RECIPE = Recipe(
    algorithm="steppo",
    paper="Wang et al., 2026, arXiv:2604.18401",
    tables="its own",
    by_env={env: {**OWN, **task} for env, task in steppo_table.TASKS.items()},
    elsewhere={**OWN, **steppo_table.ELSEWHERE},
)
