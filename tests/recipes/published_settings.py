"""What papers and their public code print about their runs, typed in by hand: the judge of the recipes.

Of rows that give one setting of a run the last counts.
"""

from __future__ import annotations

from typing import Any

from tests.recipes.published_istar import ISTAR_ROWS
from tests.recipes.published_later import LATER_ROWS
from tests.recipes.published_rows import BOARDS, G2PO, GIGPO, GRAPHGPO, HGPO, ISTAR, SAMPO, SPO3, STEPPO, Row
from tests.recipes.published_steppo import STEPPO_ROWS

VERL_AGENT_ENVS = ("ALFWorld", "WebShop", *BOARDS, "EZPoints")
STEPPO_ENVS = ("ALFWorld", "WebShop", "HotpotQA", "PaperSearch")
SEARCHES = ("HotpotQA", "PaperSearch")

PICTURES = ("VisualSokoban", "EZPoints")
TEXT_GAMES = ("ALFWorld", "WebShop")

RUNS = {
    GIGPO: {
        "gigpo": (*VERL_AGENT_ENVS, "SearchQA"),
        "grpo": VERL_AGENT_ENVS,
        "dr_grpo": VERL_AGENT_ENVS,
        "ppo": TEXT_GAMES,
        "rloo": TEXT_GAMES,
        "dapo": TEXT_GAMES,
    },
    HGPO: {"hgpo": TEXT_GAMES},
    G2PO: {"g2po": TEXT_GAMES},
    SAMPO: {"sampo": TEXT_GAMES},
    GRAPHGPO: {
        "graphgpo": (*TEXT_GAMES, *BOARDS),
        "gigpo": (*TEXT_GAMES, "VisualSokoban"),
        "grpo": (*TEXT_GAMES, "VisualSokoban"),
        "ppo": TEXT_GAMES,
        "rloo": TEXT_GAMES,
    },
    SPO3: dict.fromkeys(("spo3", "hgpo", "gigpo", "grpo", "rloo", "ppo"), TEXT_GAMES),
    STEPPO: {
        **dict.fromkeys(
            ("steppo", "ppo", "reinforce_pp", "reinforce_pp_baseline", "gspo", "grpo", "rloo", "gigpo"),
            STEPPO_ENVS,
        ),
        "dr_grpo": SEARCHES,
    },
    ISTAR: {
        "istar": ("WebShop", "VisualSokoban", "Sotopia"),
        "prime": ("WebShop",),
        "gigpo": ("WebShop", "VisualSokoban"),
        "ppo": ("WebShop", "Sotopia"),
        "dr_grpo": ("Sotopia",),
        **dict.fromkeys(("grpo", "rloo", "reinforce_pp"), ("WebShop", "VisualSokoban", "Sotopia")),
    },
}
"""Whose table -> algorithm -> environments: every run that has a recipe."""


VERL = (GIGPO, HGPO, GRAPHGPO, SPO3, ISTAR, G2PO, SAMPO)
"""Tables made with verl-agent."""

TABLE = (
    # ---- every run -----------------------------------------------------------------------------
    Row(None, None, None, {"prompting.temperature": 1.0}, "GiGPO App. D; StepPO App. B.4; iStar"),
    Row(None, None, None, {"learner.learning_rate": 1e-6}, "GiGPO App. D; StepPO App. B.4"),
    Row(None, None, None, {"learner.dtype": "bfloat16"}, "verl: ppo_trainer.yaml"),
    Row(None, None, None, {"objective.kl": "k3"}, "kl_loss_type=low_var_kl in the run scripts"),
    Row(None, None, None, {"objective.ratio": "token"}, "verl: core_algos.py; the papers print products"),
    Row(None, None, None, {"prompting.choice": "free"}, "prompts of verl-agent and StepPO"),
    Row(None, None, None, {"evaluation.every": 5}, "test_freq=5 in the run scripts"),
    Row(None, None, None, {"learner.weight_decay": 0.01}, "verl: ppo_trainer.yaml"),
    Row(None, None, None, {"learner.old_log_probs": "auto"}, "verl: recomputed, without importance weights"),
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
    Row(None, ("grpo",), None, {"algorithm_options.std": True}, "norm_adv_by_std_in_grpo"),
    Row(
        (GIGPO, GRAPHGPO, SPO3),
        ("ppo",),
        None,
        {
            "rollout.tasks": 128,
            "rollout.group_size": 1,
            "learner.critic_learning_rate": 1e-5,
            "learner.value_clip": 0.5,
            "algorithm_options.gamma": 1.0,
            "algorithm_options.lam": 1.0,
            "algorithm_options.truncation": "zero",
        },
        "GiGPO D.1; verl-agent: examples/ppo_trainer/run_alfworld.sh, ppo_trainer.yaml, core_algos.py",
    ),
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
        VERL,
        ("gigpo",),
        None,
        {"algorithm_options.gamma": 0.95, "algorithm_options.weight": 1.0},
        "GiGPO App. D; run scripts",
    ),
    Row(VERL, ("gigpo",), VERL_AGENT_ENVS, {"algorithm_options.match": "state"}, "papers: texts"),
    Row(
        VERL,
        ("gigpo",),
        ("ALFWorld", "SearchQA"),
        {"algorithm_options.std": True},
        "run scripts: mean_std_norm",
    ),
    Row(
        VERL,
        ("gigpo",),
        ("WebShop", *BOARDS, "EZPoints"),
        {"algorithm_options.std": False},
        "run scripts: mean_norm",
    ),
    *LATER_ROWS,
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
