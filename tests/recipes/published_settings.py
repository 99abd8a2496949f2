"""What papers and their public code print about their runs, typed in by hand: the judge of the recipes.

Of rows that give one setting of a run the last counts.
"""

from __future__ import annotations

from typing import Any

from tests.recipes.published_istar import ISTAR_ROWS
from tests.recipes.published_rows import BOARDS, GIGPO, ISTAR, STEPPO, Row
from tests.recipes.published_steppo import STEPPO_ROWS

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
        "g2po": ("ALFWorld", "WebShop"),
        "sampo": ("ALFWorld", "WebShop"),
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


VERL = (GIGPO, ISTAR)

TABLE = (
    # ---- every run -----------------------------------------------------------------------------
    Row(None, None, None, {"prompting.temperature": 1.0}, "GiGPO App. D; StepPO App. B.4; iStar"),
    Row(None, None, None, {"learner.learning_rate": 1e-6}, "GiGPO App. D; StepPO App. B.4"),
    Row(None, None, None, {"learner.dtype": "bfloat16"}, "verl: ppo_trainer.yaml"),
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
    Row(VERL, None, None, {"algorithm_options.penalty": 0.1}, "GiGPO App. D"),
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
            "rollout.tasks": 32,
            "env_options.reward": "native",
            "env_options.dim_room": [6, 6],
            "env_options.num_boxes": 1,
            "env_options.max_steps": 15,
            "prompting.wording": "sokoban",
            "prompting.budget": 1024,
            "prompting.max_tokens": 512,
            "learner.minibatch_steps": 64,
            "evaluation.split": "test",
        },
        "GiGPO App. D.3; verl-agent: run_sokoban.sh: train_data_size=32; sokoban/env.py: gym-sokoban's pay",
    ),
    Row(
        VERL, None, ("VisualSokoban",), {"env_options.tile_size": 16}, "verl-agent: run_sokoban.sh, rgb_array"
    ),
    Row(
        VERL,
        None,
        ("VisualSokoban",),
        {"prompting.pictures": "alone", "prompting.history": 0, "prompting.wording": "sokoban-picture"},
        "GraphGPO Fig. 8; verl-agent: prompts/sokoban.py: <image>, no text of the board, no past turns",
    ),
    Row(
        VERL,
        None,
        ("EZPoints",),
        {"prompting.pictures": "alone", "prompting.history": 0},
        "GiGPO App. D.3: an RGB image and a textual instruction; verl-agent: prompts/gym_cards.py",
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
            "algorithm_options.penalty": 0.01,
            "algorithm_options.match": "similar",
            "algorithm_options.threshold": 0.9,
            "evaluation.split": "test",
            "evaluation.every": 50,
            "evaluation.tasks": 512,
            "evaluation.temperature": 0.0,
        },
        "verl-agent: examples/gigpo_trainer/run_search.sh",
    ),
    *STEPPO_ROWS,
    *ISTAR_ROWS,
    # ---- algorithms on verl-agent's tasks ------------------------------------------------------
    Row((GIGPO,), ("grpo",), None, {"algorithm_options.std": True}, "norm_adv_by_std_in_grpo"),
    Row(
        None,
        ("dr_grpo",),
        None,
        {
            "algorithm_options.std": False,
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
            "objective.kl_coefficient": 0.01,
            "algorithm_options.factor": 0.0,
        },
        "GiGPO App. D.4; verl-agent: examples/dapo_trainer/run_webshop.sh: kl_loss_coef=0.01; DAPO Eq. 11",
    ),
    Row(
        (GIGPO,),
        ("gigpo",),
        None,
        {"algorithm_options.gamma": 0.95, "algorithm_options.weight": 1.0},
        "GiGPO App. D",
    ),
    Row((GIGPO,), ("gigpo",), VERL_AGENT_ENVS, {"algorithm_options.match": "state"}, "papers: texts"),
    Row(
        (GIGPO,),
        ("gigpo",),
        ("ALFWorld", "SearchQA"),
        {"algorithm_options.std": True},
        "run scripts: mean_std_norm",
    ),
    Row(
        (GIGPO,),
        ("gigpo",),
        ("WebShop", *BOARDS, "EZPoints"),
        {"algorithm_options.std": False},
        "run scripts: mean_norm",
    ),
    Row(
        (GIGPO,),
        ("hgpo",),
        None,
        {
            "iterations": 160,
            "algorithm_options.gamma": 0.95,
            "algorithm_options.history": 2,
            "algorithm_options.alpha": 1.0,
            "algorithm_options.base_group": False,
            "algorithm_options.match": "state",
        },
        "verl-agent: recipe/hgpo",
    ),
    Row(
        (GIGPO,),
        ("hgpo",),
        ("ALFWorld",),
        {"algorithm_options.std": True, "prompting.budget": 4096},
        "recipe/hgpo",
    ),
    Row(
        (GIGPO,),
        ("hgpo",),
        ("WebShop",),
        {"algorithm_options.std": False, "env_options.max_steps": 30},
        "recipe/hgpo",
    ),
    Row(
        (GIGPO,),
        ("graphgpo",),
        None,
        {
            "algorithm_options.success_reward": 10.0,
            "algorithm_options.graph_weight": 1.0,
            "algorithm_options.episode_weight": 1.0,
            "algorithm_options.std": True,
            "algorithm_options.match": "state",
        },
        "GraphGPO C.4-C.6, Sec. 5.1: both weights 1, Eq. 6",
    ),
    Row(
        (GIGPO,),
        ("graphgpo",),
        ("ALFWorld",),
        {
            "algorithm_options.omega": 0.1,
            "env_options.observation": "augmented",
            "env_options.show_help": True,
            "prompting.wording": "alfworld-account",
            "evaluation.every": 10,
        },
        "GraphGPO C.4, prompts and Fig. 9: recorded every 10 steps",
    ),
    Row(
        (GIGPO,),
        ("graphgpo",),
        ("WebShop",),
        {
            "algorithm_options.omega": 0.2,
            "env_options.observation": "text_rich",
            "prompting.budget": 5120,
            "evaluation.every": 10,
        },
        "GraphGPO C.5, Fig. 9",
    ),
    Row(
        (GIGPO,),
        ("graphgpo",),
        BOARDS,
        {"algorithm_options.omega": 0.8, "rollout.tasks": 16, "env_options.reward": "sparse10"},
        "GraphGPO C.6: 128 environments, groups of 8; 10 or 0",
    ),
    Row(
        (GIGPO,),
        ("g2po",),
        None,
        {
            "iterations": 100,
            "algorithm_options.gamma": 0.95,
            "algorithm_options.weight": 1.0,
            "algorithm_options.edge_weight": 1.0,
            "algorithm_options.std": True,
            "algorithm_options.match": "state",
        },
        "G2PO's code: g2po_trainer/run_alfworld.sh, core_g2po.py",
    ),
    Row(
        (GIGPO,),
        ("g2po",),
        ("WebShop",),
        {"algorithm_options.std": False, "evaluation.tasks": 256},
        "G2PO's code: g2po_trainer/run_webshop.sh",
    ),
    Row(
        (GIGPO,),
        ("sampo",),
        None,
        {
            "iterations": 200,
            "rollout.attempts": 3,
            "rollout.filter_on": "return",
            "objective.ratio": "sequence",
            "objective.aggregation": "seq-mean-token-mean",
            "objective.clip_low": 0.003,
            "objective.clip_high": 0.004,
            "algorithm_options.gamma": 0.95,
            "algorithm_options.weight": 1.0,
            "algorithm_options.std": True,
            "algorithm_options.match": "state",
            "evaluation.temperature": 0.6,
        },
        "SAMPO's code: embody_agent_trainer/Qwen3-4B/train_sampo.sh",
    ),
    Row(
        (GIGPO,),
        ("sampo",),
        ("WebShop",),
        {
            "iterations": 250,
            "algorithm_options.std": False,
            "learner.minibatch_steps": 128,
            "evaluation.every": 10,
            "evaluation.tasks": 256,
        },
        "SAMPO's code: shop_agent_trainer/Qwen3_4B/train_sampo.sh, config/webshop_.yaml",
    ),
    Row(
        (GIGPO,),
        ("spo3",),
        None,
        {
            "algorithm_options.batches": 400,
            "algorithm_options.alpha": 50.0,
            "algorithm_options.xi": 10,
            "algorithm_options.zeta": 0.1,
            "algorithm_options.decay": 0.1,
            "algorithm_options.largest": 8,
            "algorithm_options.schedule": "depth",
            "algorithm_options.match": "text",
            "algorithm_options.scope": "all",
            "algorithm_options.std": True,
        },
        "3SPO Table 7, Sec. 4.3, App. C.4; 3SPO's code: README, core_3spo.py; scripts: adv_estimator=grpo",
    ),
    Row(
        (GIGPO,),
        ("spo3",),
        ("ALFWorld",),
        # 400 batches and one more for trees of unlike length, 400 samples a tree; 50 batches of 50 updates
        {"iterations": 160_400, "algorithm_options.budget": 400, "evaluation.every": 2500},
        "run_alfworld_1.5B.sh: total_epochs=400, test_freq=50, 8 x 50 steps",
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
            "iterations": 48_120,
            "algorithm_options.budget": 120,
            "evaluation.every": 3000,
        },
        "3SPO App. C.2: the first 500 human goals; run_webshop.slurm: 400 epochs, test_freq=200, 8 x 15",
    ),
)
"""What is printed."""

SAYS_NOTHING = {
    "sampo": ("objective.dual_clip",),
    "prime": ("algorithm_options.penalty",),
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
