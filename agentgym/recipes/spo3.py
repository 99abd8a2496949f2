"""3SPO: its own table."""

from agentgym.recipes import verl_agent
from agentgym.recipes.environments import ALFWORLD, WEBSHOP
from agentgym.recipes.gigpo import BY_STATE
from agentgym.recipes.lines import Lines, Recipe, said

SPO3 = "3SPO, hyper-parameters"
SCRIPT = "3SPO's code: examples/3spo_trainer/run_alfworld_1.5B.sh"

OWN: Lines = {
    **said(SPO3, {"iterations": 400}),
    **said(
        "3SPO's code: README",
        {
            "switches.alpha": 50.0,
            "switches.xi": 10,
            "switches.zeta": 0.1,
            "switches.decay": 0.1,
            "switches.largest": 8,
        },
    ),
    **said("3SPO, Appendix C.4", {"switches.schedule": "depth"}),
    **BY_STATE,
}


def _without_penalty(lines: Lines) -> Lines:
    """Leave out the invalid-action penalty: a rejected action earns nothing for a new state."""
    return {name: line for name, line in lines.items() if name != "switches.penalty"}


RECIPE = Recipe(
    algorithm="spo3",
    paper="2026, arXiv:2606.09961",
    tables="its own",
    by_env={
        ALFWORLD: _without_penalty(
            {
                **verl_agent.OPTIMISATION,
                **verl_agent.ALFWORLD_TASK,
                **OWN,
                **said(SCRIPT, {"switches.std": True, "evaluation.every": 50}),
            }
        ),
        WEBSHOP: _without_penalty(
            {
                **verl_agent.OPTIMISATION,
                **verl_agent.WEBSHOP_TASK,
                **OWN,
                **said(
                    "3SPO: the full catalogue, its human goals, the first 500 to evaluate",
                    {
                        "env_options.dataset": "webshop/full",
                        "env_options.goals": "human",
                        "split": "papers-train",
                        "evaluation.split": "papers",
                    },
                ),
                **said("3SPO's code: examples/3spo_trainer/run_webshop.sh", {"switches.std": False}),
            }
        ),
    },
    elsewhere=_without_penalty({**verl_agent.ELSEWHERE, **OWN, **said(SCRIPT, {"switches.std": True})}),
)
