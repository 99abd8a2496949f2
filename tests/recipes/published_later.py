"""What papers print that build on verl-agent, HGPO, GraphGPO and 3SPO, and their public code."""

from tests.recipes.published_rows import BOARDS, GRAPHGPO, HGPO, SPO3, Row

LATER_ROWS = (
    Row((HGPO,), None, None, {"iterations": 160}, "recipe/hgpo: total_epochs=160"),
    Row(
        (HGPO, SPO3),
        ("hgpo",),
        None,
        {
            "algorithm_options.gamma": 0.95,
            "algorithm_options.history": 2,
            "algorithm_options.alpha": 1.0,
            "algorithm_options.base_group": False,
            "algorithm_options.match": "state",
        },
        "verl-agent: recipe/hgpo",
    ),
    Row(
        (HGPO, SPO3),
        ("hgpo",),
        ("ALFWorld",),
        {"algorithm_options.std": True, "prompting.budget": 4096},
        "recipe/hgpo",
    ),
    Row(
        (HGPO, SPO3),
        ("hgpo",),
        ("WebShop",),
        {"algorithm_options.std": False, "env_options.max_steps": 30},
        "recipe/hgpo",
    ),
    Row((SPO3,), ("hgpo",), ("WebShop",), {"env_options.max_steps": 15}, "one number for all methods"),
    Row(
        (GRAPHGPO,),
        None,
        None,
        {"evaluation.every": 10, "rollout.tasks": 16, "rollout.group_size": 8},
        "GraphGPO Fig. 9: recorded every 10 steps; C.4-C.6: 16 groups of 8, 128 environments",
    ),
    Row(
        (GRAPHGPO,),
        ("graphgpo",),
        None,
        {
            "algorithm_options.success_reward": 10.0,
            "algorithm_options.graph_weight": 1.0,
            "algorithm_options.episode_weight": 1.0,
            "algorithm_options.std": True,
            "algorithm_options.match": "state",
            "algorithm_options.edges": "occurrence",
        },
        "GraphGPO C.4-C.6, Sec. 5.1: both weights 1, Eq. 6; Eq. 5 has a set of edges",
    ),
    *(
        Row((GRAPHGPO,), ("graphgpo",), envs, {"algorithm_options.omega": omega}, "GraphGPO C.4-C.6")
        for envs, omega in ((("ALFWorld",), 0.1), (("WebShop",), 0.2), (BOARDS, 0.8))
    ),
    Row((GRAPHGPO,), ("gigpo",), None, {"algorithm_options.std": True}, "GraphGPO Sec. 3.2"),
    Row(
        (GRAPHGPO,),
        ("graphgpo", "gigpo", "grpo"),
        ("ALFWorld",),
        {
            "env_options.observation": "augmented",
            "env_options.show_help": True,
            "prompting.wording": "alfworld-account",
        },
        "GraphGPO C.4 and App. E",
    ),
    Row((GRAPHGPO,), None, ("WebShop",), {"prompting.budget": 5120}, "GraphGPO C.5"),
    Row(
        (GRAPHGPO,),
        ("graphgpo", "gigpo", "grpo"),
        ("WebShop",),
        {"env_options.observation": "text_rich"},
        "GraphGPO C.5; C.3 takes PPO and RLOO over from GiGPO",
    ),
    Row((GRAPHGPO,), None, BOARDS, {"env_options.reward": "sparse10"}, "GraphGPO C.6: 10 or 0"),
    Row(
        (GRAPHGPO,),
        ("ppo",),
        None,
        {"rollout.tasks": 128, "rollout.group_size": 1},
        "GraphGPO C.4, C.5: 128 environments of PPO",
    ),
    Row(
        (SPO3,),
        None,
        ("ALFWorld",),
        {"evaluation.tasks": 140, "iterations": 400, "evaluation.every": 20},
        "3SPO C.2, Table 7; 3SPO's code: run_alfworld_grpo.sh: test_freq=20",
    ),
    Row(
        (SPO3,),
        None,
        ("WebShop",),
        {
            "split": "papers-train",
            "env_options.dataset": "webshop/full",
            "env_options.goals": "human",
            "evaluation.split": "papers",
            "evaluation.tasks": 500,
            "iterations": 400,
            "evaluation.every": 20,
        },
        "3SPO C.2: the first 500 human goals, Table 7",
    ),
    Row(
        (SPO3,),
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
        (SPO3,),
        ("spo3",),
        ("ALFWorld",),
        # 400 batches and one more for trees of unlike length, 400 samples a tree; 50 batches of 50 updates
        {"iterations": 160_400, "algorithm_options.budget": 400, "evaluation.every": 2500},
        "run_alfworld_1.5B.sh: total_epochs=400, test_freq=50, 8 x 50 steps",
    ),
    Row(
        (SPO3,),
        ("spo3",),
        ("WebShop",),
        {
            "iterations": 48_120,
            "algorithm_options.budget": 120,
            "evaluation.every": 3000,
        },
        "3SPO App. C.2: the first 500 human goals; run_webshop.slurm: 400 epochs, test_freq=200, 8 x 15",
    ),
)
"""Of all algorithms in their tables; after verl-agent's own."""
