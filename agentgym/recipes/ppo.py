"""PPO with a critic of tokens, as StepPO's and iStar's tables compare with it."""

from agentgym.recipes import istar_table, steppo_table
from agentgym.recipes.environments import SOTOPIA
from agentgym.recipes.lines import Lines, Recipe, said

_OWN: Lines = {
    **steppo_table.OPTIMISATION,
    **steppo_table.SINGLE,
    **steppo_table.CRITIC,
    **steppo_table.TOKEN_LOSS,
    **said(steppo_table.STEPPO, {"switches.gamma": 0.99, "switches.lam": 1.0}),
    **said("StepPO's code: arft/core_algos.py", {"switches.truncation": "zero"}),
}

_ISTAR: Lines = {
    **istar_table.OPTIMISATION,
    **said(
        "iStar's code: examples/ppo_trainer/run_webshop.sh",
        {
            "rollout.tasks": 128,
            "rollout.group_size": 1,
            "learner.critic_learning_rate": 1e-5,
        },
    ),
    **said(
        "iStar's code: verl/trainer/config/ppo_trainer.yaml",
        {
            "switches.gamma": 1.0,
            "switches.lam": 1.0,
        },
    ),
}

RECIPE = Recipe(
    algorithm="ppo",
    paper="Schulman et al., 2017, arXiv:1707.06347",
    tables="StepPO's table; iStar's for SOTOPIA",
    by_env={
        **steppo_table.token_level(_OWN),
        SOTOPIA: {**_ISTAR, **istar_table.SOTOPIA_TASK},
    },
    elsewhere={**_OWN, **steppo_table.TOKENS, **steppo_table.ELSEWHERE},
)
