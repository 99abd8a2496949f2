"""What papers and their public code print about their runs, typed in by hand: the judge of the recipes.

Of rows that give one setting of a run the last counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

GIGPO, STEPPO, ISTAR = "GiGPO", "StepPO", "iStar"

BOARDS = ("Sokoban", "VisualSokoban")
VERL_AGENT_ENVS = ("ALFWorld", "WebShop", *BOARDS, "EZPoints")
STEPPO_ENVS = ("ALFWorld", "WebShop", "HotpotQA", "PaperSearch")
SEARCHES = ("HotpotQA", "PaperSearch")

RUNS = {
    GIGPO: {
        "gigpo": (*VERL_AGENT_ENVS, "SearchQA"),
        "grpo": VERL_AGENT_ENVS,
        "dr_grpo": VERL_AGENT_ENVS,
        "rloo": ("ALFWorld", "WebShop"),
        "dapo": ("ALFWorld", "WebShop"),
        "hgpo": ("ALFWorld", "WebShop"),
        "graphgpo": ("ALFWorld", "WebShop", *BOARDS),
        "spo3": ("ALFWorld", "WebShop"),
    },
    STEPPO: {
        "steppo": STEPPO_ENVS,
        "ppo": STEPPO_ENVS,
        "reinforce_pp": STEPPO_ENVS,
        "reinforce_pp_baseline": STEPPO_ENVS,
        "gspo": STEPPO_ENVS,
        "grpo": SEARCHES,
        "dr_grpo": SEARCHES,
        "rloo": SEARCHES,
        "gigpo": SEARCHES,
    },
    ISTAR: {
        "istar": ("WebShop", "VisualSokoban", "Sotopia"),
        "prime": ("WebShop",),
        "grpo": ("Sotopia",),
        "dr_grpo": ("Sotopia",),
        "ppo": ("Sotopia",),
        "rloo": ("VisualSokoban", "Sotopia"),
        "reinforce_pp_baseline": ("VisualSokoban", "Sotopia"),
    },
}
"""Whose table -> algorithm -> environments: every run that has a recipe."""


class Row(NamedTuple):
    """Settings that one place prints; None stands for all."""

    tables: tuple[str, ...] | None
    algorithms: tuple[str, ...] | None
    envs: tuple[str, ...] | None
    settings: dict[str, Any]
    where: str


VERL = (GIGPO, ISTAR)
JUDGE = {
    "endpoint": "https://api.openai.com/v1",
    "key_env": "OPENAI_API_KEY",
    "model": "gpt-4o",
    "temperature": 0.0,
}

TABLE = (
    # ---- every run -----------------------------------------------------------------------------
    Row(None, None, None, {"prompting.temperature": 1.0}, "GiGPO App. D; StepPO App. B.4; iStar"),
    Row(None, None, None, {"learner.learning_rate": 1e-6}, "GiGPO App. D; StepPO App. B.4"),
    Row(None, None, None, {"learner.dtype": "bfloat16"}, "verl: ppo_trainer.yaml"),
    Row(
        None, None, None, {"learner.gradient_checkpointing": True}, "run scripts of verl-agent, StepPO, iStar"
    ),
    Row(None, None, None, {"objective.kl": "k3"}, "kl_loss_type=low_var_kl in the run scripts"),
    Row(None, None, None, {"objective.ratio": "token"}, "verl: core_algos.py; the papers print products"),
    Row(None, None, None, {"prompting.choice": "free"}, "prompts of verl-agent and StepPO"),
    Row(None, None, None, {"evaluation.every": 5}, "test_freq=5 in the run scripts"),
    Row(
        None,
        None,
        None,
        {"rollout.tasks": 16, "rollout.group_size": 8},
        "GiGPO App. D; StepPO App. B.4; iStar",
    ),
    # ---- verl-agent ----------------------------------------------------------------------------
    Row(VERL, None, None, {"iterations": 150, "objective.kl_coefficient": 0.01}, "GiGPO App. D"),
    Row(VERL, None, None, {"prompting.history": 2, "prompting.answer": "think-action"}, "GiGPO App. D"),
    Row(
        VERL,
        None,
        None,
        {"evaluation.temperature": 0.4, "evaluation.tasks": 128},
        "GiGPO App. D; val_batch_size",
    ),
    Row(VERL, None, None, {"switches.penalty": 0.1}, "GiGPO App. D"),
    Row(
        VERL,
        None,
        None,
        {
            "learner.entropy_coefficient": 0.001,
            "objective.aggregation": "token-mean",
            "objective.clip_low": 0.2,
            "objective.clip_high": 0.2,
            "objective.dual_clip": 3.0,
        },
        "verl-agent: ppo_trainer.yaml",
    ),
    Row(
        VERL,
        None,
        ("ALFWorld",),
        {
            "env_options.reward": "sparse10",
            "env_options.dataset": "official",
            "env_options.dialect": "current",
            "env_options.show_help": False,
            "env_options.max_steps": 50,
            "prompting.wording": "alfworld",
            "prompting.budget": 2048,
            "prompting.max_tokens": 512,
            "learner.minibatch_steps": 256,
            "evaluation.split": "valid_seen",
        },
        "GiGPO App. D; verl-agent: env_manager.py",
    ),
    Row(
        VERL,
        None,
        ("WebShop",),
        {
            "split": "upstream-train",
            "env_options.reward": "sparse10",
            "env_options.dataset": "webshop/small",
            "env_options.goals": "synthetic",
            "env_options.observation": "gigpo",
            "env_options.max_steps": 15,
            "prompting.wording": "webshop",
            "prompting.budget": 4096,
            "prompting.max_tokens": 512,
            "learner.minibatch_steps": 64,
            "evaluation.split": "upstream-test",
        },
        "GiGPO App. D; verl-agent: ppo_trainer.yaml (use_small, human_goals), webshop/envs.py",
    ),
    Row(
        VERL,
        None,
        BOARDS,
        {
            "env_options.reward": "sparse10",
            "env_options.dim_room": [6, 6],
            "env_options.num_boxes": 1,
            "env_options.max_steps": 15,
            "prompting.wording": "sokoban",
            "prompting.budget": 1024,
            "prompting.max_tokens": 512,
            "learner.minibatch_steps": 64,
            "evaluation.split": "test",
        },
        "GiGPO App. D; verl-agent: ppo_trainer.yaml",
    ),
    Row(
        VERL, None, ("VisualSokoban",), {"env_options.tile_size": 16}, "verl-agent: run_sokoban.sh, rgb_array"
    ),
    Row(
        VERL,
        None,
        ("EZPoints",),
        {
            "iterations": 100,
            "env_options.rewards": "verl-agent",
            "env_options.observation": "image",
            "env_options.max_steps": 8,
            "prompting.wording": "ezpoints",
            "prompting.budget": 1024,
            "prompting.max_tokens": 512,
            "learner.minibatch_steps": 128,
            "evaluation.split": "test",
        },
        "verl-agent: examples/gigpo_trainer/run_ezpoints.sh",
    ),
    Row(
        VERL,
        None,
        ("SearchQA",),
        {
            "iterations": 662,
            "rollout.tasks": 256,
            "rollout.group_size": 5,
            "env_options.dataset": "searchqa/nq",
            "env_options.form": "search-r1",
            "env_options.corpus": "fullwiki",
            "env_options.search": "remote:http://127.0.0.1:8000",
            "env_options.k": 3,
            "env_options.max_steps": 4,
            "prompting.wording": "multihop-search-r1",
            "prompting.answer": "search-r1",
            "prompting.history": 4,
            "prompting.budget": 4096,
            "prompting.max_tokens": 512,
            "learner.minibatch_steps": 512,
            "objective.kl_coefficient": 0.001,
            "switches.penalty": 0.01,
            "switches.match": "similar",
            "switches.threshold": 0.9,
            "evaluation.split": "test",
            "evaluation.every": 50,
            "evaluation.tasks": 512,
            "evaluation.temperature": 0.0,
        },
        "verl-agent: examples/gigpo_trainer/run_search.sh",
    ),
    # ---- StepPO's table ------------------------------------------------------------------------
    Row(
        (STEPPO,),
        None,
        None,
        {
            "learner.minibatch_steps": 128,
            "learner.entropy_coefficient": 0.0,
            "objective.kl_coefficient": 0.001,
            "objective.clip_low": 3e-4,
            "objective.clip_high": 4e-4,
            "objective.aggregation": "seq-mean-token-mean",
            "objective.dual_clip": 10.0,
            "switches.penalty": 0.0,
            "evaluation.temperature": 0.0,
        },
        "StepPO App. B.4; StepPO's code: examples/run_alfworld_token_adv.sh",
    ),
    Row(
        (STEPPO,),
        None,
        ("ALFWorld",),
        {
            "iterations": 270,
            "env_options.reward": "score+success",
            "env_options.dataset": "official",
            "env_options.dialect": "current",
            "env_options.show_help": False,
            "env_options.max_steps": 20,
            "prompting.wording": "alfworld",
            "prompting.answer": "tool-calls",
            "prompting.history": 2,
            "prompting.budget": 8192,
            "prompting.max_tokens": 4096,
            "evaluation.split": "valid_seen",
            "evaluation.tasks": 140,
        },
        "StepPO Sec. 5.1, App. B.4; StepPO's code: recipe/alfworld",
    ),
    Row(
        (STEPPO,),
        None,
        ("WebShop",),
        {
            "iterations": 900,
            "split": "papers-train",
            "env_options.reward": "score+success",
            "env_options.dataset": "webshop/full",
            "env_options.goals": "human",
            "env_options.observation": "text",
            "env_options.max_steps": 15,
            "prompting.wording": "webshop",
            "prompting.answer": "tool-calls",
            "prompting.history": 2,
            "prompting.budget": 16384,
            "prompting.max_tokens": 4096,
            "switches.penalty": 0.1,
            "evaluation.split": "papers",
            "evaluation.tasks": 500,
        },
        "StepPO Sec. 5.1, App. B.4; StepPO's code: recipe/webshop",
    ),
    Row(
        (STEPPO,),
        None,
        ("HotpotQA",),
        {
            "iterations": 3530,
            "env_options.dataset": "hotpotqa/distractor",
            "env_options.form": "steppo",
            "env_options.corpus": "union",
            "env_options.search": "faiss",
            "env_options.encoder": "bge-large-en-v1.5",
            "env_options.k": 5,
            "env_options.first_search": True,
            "env_options.aliases": False,
            "env_options.max_steps": 5,
            "prompting.wording": "multihop",
            "prompting.answer": "analysis-tools",
            "prompting.history": 0,
            "prompting.budget": 10240,
            "prompting.max_tokens": 1024,
            "evaluation.split": "dev",
            "evaluation.tasks": 500,
        },
        "StepPO Sec. 5.1, App. B.4; StepPO's code: recipe/hotpotqa",
    ),
    Row(
        (STEPPO,),
        None,
        ("PaperSearch",),
        {
            "iterations": 5240,
            "env_options.dataset": "papersearch/autoscholar",
            "env_options.selector": "model:pasa-7b-selector",
            "env_options.max_calls": 5,
            "env_options.k": 10,
            "env_options.max_steps": 5,
            "prompting.wording": "papersearch",
            "prompting.answer": "analysis-tools",
            "prompting.history": 0,
            "prompting.budget": 10240,
            "prompting.max_tokens": 4096,
            "evaluation.split": "test",
            "evaluation.tasks": 50,
        },
        "StepPO Sec. 5.1, App. B.4; StepPO's code: recipe/paper_search",
    ),
    Row(
        (STEPPO,),
        ("steppo", "ppo"),
        None,
        {
            "rollout.tasks": 128,
            "rollout.group_size": 1,
            "learner.critic_learning_rate": 1e-5,
            "switches.gamma": 0.99,
            "switches.lam": 1.0,
            "switches.truncation": "zero",
        },
        "StepPO Sec. 5.1, App. B.4; StepPO's code: arft/core_algos.py",
    ),
    Row((STEPPO,), ("reinforce_pp",), None, {"switches.gamma": 0.99}, "StepPO Sec. 5.1, App. B.4"),
    Row(
        (STEPPO,),
        ("steppo",),
        None,
        {"objective.ratio": "step_geomean", "objective.aggregation": "step-mean", "switches.whiten": True},
        "StepPO Eq. 7; StepPO's code: arft/core_algos.py, run_alfworld_step_adv.sh",
    ),
    Row((STEPPO,), ("gspo",), None, {"objective.ratio": "sequence"}, "GSPO Eq. 7"),
    Row((STEPPO,), ("grpo",), None, {"switches.std": True}, "norm_adv_by_std_in_grpo"),
    Row(
        (STEPPO,),
        ("gigpo",),
        None,
        {"switches.std": True, "switches.weight": 1.0, "switches.gamma": 0.99, "switches.match": "state"},
        "StepPO's code: examples/alfworld/run_gigpo.sh",
    ),
    # ---- iStar's table -------------------------------------------------------------------------
    Row((ISTAR,), None, None, {"iterations": 200, "objective.kl_coefficient": 0.0}, "iStar"),
    Row((ISTAR,), None, None, {"learner.minibatch_steps": 64}, "iStar"),
    Row(
        (ISTAR,),
        None,
        ("VisualSokoban",),
        {"rollout.tasks": 32, "env_options.tile_size": "tiny"},
        "iStar: 32 x 8, one pixel a cell",
    ),
    Row(
        (ISTAR,),
        None,
        ("Sotopia",),
        {
            "iterations": 800,
            "env_options.dataset": "sotopia-pi/profiles",
            "env_options.mode": "self-chat",
            "env_options.judge": JUDGE,
            "env_options.reward": "goal",
            "env_options.max_turns": 20,
            "prompting.wording": "sotopia",
            "prompting.history": 0,
            "prompting.temperature": 0.7,
            "prompting.budget": 6144,
            "prompting.max_tokens": 2048,
            "evaluation.every": 0,
        },
        "iStar: 800 steps, temperature .7, 6144 / 2048",
    ),
    Row(
        (ISTAR,),
        ("istar", "prime"),
        None,
        {
            "learner.learning_rate": 5e-7,
            "reward_model.learning_rate": 1e-6,
            "reward_model.beta": 0.05,
        },
        "iStar",
    ),
    Row(
        (ISTAR,),
        ("istar",),
        None,
        {"switches.alpha": 1.0, "switches.prm_reward": "before", "reward_model.pooling": "sum"},
        "iStar Eq. 2, Algorithm 1",
    ),
    Row((ISTAR,), ("istar",), ("WebShop", "VisualSokoban"), {"switches.base": "rloo"}, "iStar Table 1"),
    Row((ISTAR,), ("istar",), ("Sotopia",), {"switches.base": "grpo"}, "iStar Table 2"),
    Row((ISTAR,), ("grpo",), None, {"switches.std": True}, "norm_adv_by_std_in_grpo"),
    Row(
        (ISTAR,),
        ("prime",),
        None,
        {"switches.beta": 0.05, "switches.process_weight": 5.0, "switches.outcome_weight": 5.0},
        "PRIME",
    ),
    Row(
        (ISTAR,),
        ("ppo",),
        None,
        {
            "rollout.tasks": 128,
            "rollout.group_size": 1,
            "learner.critic_learning_rate": 1e-5,
            "switches.gamma": 1.0,
            "switches.lam": 1.0,
        },
        "iStar's code: examples/ppo_trainer/run_webshop.sh",
    ),
    # ---- algorithms on verl-agent's tasks ------------------------------------------------------
    Row((GIGPO,), ("grpo",), None, {"switches.std": True}, "norm_adv_by_std_in_grpo"),
    Row(
        None,
        ("dr_grpo",),
        None,
        {
            "switches.std": False,
            "objective.aggregation": "seq-mean-token-sum",
            "objective.kl_coefficient": 0.0,
        },
        "Dr. GRPO Sec. 3.2",
    ),
    Row(
        (GIGPO,),
        ("dapo",),
        None,
        {
            "rollout.attempts": 10,
            "rollout.filter_on": "return",
            "objective.clip_high": 0.28,
            "objective.kl_coefficient": 0.0,
            "switches.factor": 1.0,
        },
        "verl-agent: examples/dapo_trainer/run_webshop.sh; DAPO Sec. 2.3, Eq. 11, Eq. 13",
    ),
    Row((GIGPO,), ("gigpo",), None, {"switches.gamma": 0.95, "switches.weight": 1.0}, "GiGPO App. D"),
    Row((GIGPO,), ("gigpo",), VERL_AGENT_ENVS, {"switches.match": "state"}, "papers: texts"),
    Row((GIGPO,), ("gigpo",), ("ALFWorld", "SearchQA"), {"switches.std": True}, "run scripts: mean_std_norm"),
    Row(
        (GIGPO,),
        ("gigpo",),
        ("WebShop", *BOARDS, "EZPoints"),
        {"switches.std": False},
        "run scripts: mean_norm",
    ),
    Row(
        (GIGPO,),
        ("hgpo",),
        None,
        {
            "iterations": 160,
            "switches.gamma": 0.95,
            "switches.history": 2,
            "switches.alpha": 1.0,
            "switches.base_group": False,
            "switches.match": "state",
        },
        "verl-agent: recipe/hgpo",
    ),
    Row((GIGPO,), ("hgpo",), ("ALFWorld",), {"switches.std": True, "prompting.budget": 4096}, "recipe/hgpo"),
    Row(
        (GIGPO,), ("hgpo",), ("WebShop",), {"switches.std": False, "env_options.max_steps": 30}, "recipe/hgpo"
    ),
    Row(
        (GIGPO,),
        ("graphgpo",),
        None,
        {
            "switches.success_reward": 10.0,
            "switches.graph_weight": 1.0,
            "switches.episode_weight": 1.0,
            "switches.std": True,
            "switches.match": "state",
        },
        "GraphGPO App. D, Eq. 5",
    ),
    Row(
        (GIGPO,),
        ("graphgpo",),
        ("ALFWorld",),
        {
            "switches.omega": 0.1,
            "env_options.observation": "augmented",
            "env_options.show_help": True,
            "prompting.wording": "alfworld-account",
        },
        "GraphGPO App. D and prompts",
    ),
    Row(
        (GIGPO,),
        ("graphgpo",),
        ("WebShop",),
        {"switches.omega": 0.2, "env_options.observation": "text_rich", "prompting.budget": 5120},
        "GraphGPO App. D",
    ),
    Row((GIGPO,), ("graphgpo",), BOARDS, {"switches.omega": 0.8}, "GraphGPO App. D"),
    Row(
        (GIGPO,),
        ("spo3",),
        None,
        {
            "iterations": 400,
            "switches.alpha": 50.0,
            "switches.xi": 10,
            "switches.zeta": 0.1,
            "switches.decay": 0.1,
            "switches.largest": 8,
            "switches.schedule": "depth",
            "switches.match": "state",
        },
        "3SPO App. C.4; 3SPO's code: README",
    ),
    Row(
        (GIGPO,),
        ("spo3",),
        ("ALFWorld",),
        {"switches.std": True, "evaluation.every": 50},
        "run_alfworld_1.5B.sh",
    ),
    Row(
        (GIGPO,),
        ("spo3",),
        ("WebShop",),
        {
            "split": "papers-train",
            "env_options.dataset": "webshop/full",
            "env_options.goals": "human",
            "evaluation.split": "papers",
            "switches.std": False,
        },
        "3SPO: the first 500 human goals; run_webshop.sh",
    ),
)
"""What is printed."""

SAYS_NOTHING = {
    "spo3": ("switches.penalty",),
    "prime": ("switches.penalty",),
    "gspo": ("objective.dual_clip",),
    "steppo": ("objective.dual_clip",),
}
"""Settings that rows for all give and that an algorithm has no place for."""


def printed(table: str, algorithm: str, env: str) -> dict[str, Any]:
    """Return every setting that is printed of a run."""
    found: dict[str, Any] = {}
    for row in TABLE:
        if (
            (row.tables is None or table in row.tables)
            and (row.algorithms is None or algorithm in row.algorithms)
            and (row.envs is None or env in row.envs)
        ):
            found |= row.settings
    return {name: value for name, value in found.items() if name not in SAYS_NOTHING.get(algorithm, ())}
