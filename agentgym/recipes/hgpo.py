"""HGPO (He et al., 2026): its run scripts, which are part of verl-agent."""

from agentgym.recipes import verl_agent
from agentgym.recipes.environments import ALFWORLD, WEBSHOP
from agentgym.recipes.gigpo import BY_STATE
from agentgym.recipes.lines import Lines, Recipe, said

ALFWORLD_SCRIPT = "verl-agent: recipe/hgpo/run_qwen2.5_1.5b_alfworld_train.sh"
WEBSHOP_SCRIPT = "verl-agent: recipe/hgpo/run_qwen2.5_1.5b_webshop_train.sh"

OWN: Lines = {
    **said(
        ALFWORLD_SCRIPT,
        {
            "iterations": 160,
            "switches.gamma": 0.95,
            "switches.history": 2,
            "switches.alpha": 1.0,
            "switches.base_group": False,
        },
    ),
    **BY_STATE,
}

RECIPE = Recipe(
    algorithm="hgpo",
    paper="He et al., 2026, arXiv:2602.22817",
    tables="its own run scripts",
    by_env={
        ALFWORLD: {
            **verl_agent.OPTIMISATION,
            **verl_agent.ALFWORLD_TASK,
            **OWN,
            **said(ALFWORLD_SCRIPT, {"prompting.budget": 4096, "switches.std": True}),
        },
        WEBSHOP: {
            **verl_agent.OPTIMISATION,
            **verl_agent.WEBSHOP_TASK,
            **OWN,
            **said(WEBSHOP_SCRIPT, {"env_options.max_steps": 30, "switches.std": False}),
        },
    },
    elsewhere={**verl_agent.ELSEWHERE, **OWN, **said(ALFWORLD_SCRIPT, {"switches.std": True})},
)
