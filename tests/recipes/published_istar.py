"""What iStar and its public code print about their runs."""

from tests.recipes.published_rows import ISTAR, Row

JUDGE = {
    "endpoint": "https://api.openai.com/v1",
    "key_env": "OPENAI_API_KEY",
    "model": "gpt-4o",
    "temperature": 0.0,
}

ISTAR_ROWS = (
    Row((ISTAR,), None, None, {"iterations": 200, "objective.kl_coefficient": 0.0}, "iStar"),
    Row((ISTAR,), None, None, {"learner.minibatch_steps": 64}, "iStar"),
    Row((ISTAR,), None, ("WebShop",), {"env_options.max_steps": 10}, "iStar's code: run_webshop.sh"),
    Row((ISTAR,), None, None, {"learner.learning_rate": 5e-7}, "iStar C.1: identical for all methods"),
    Row(
        (ISTAR,),
        None,
        ("VisualSokoban",),
        {"rollout.tasks": 32, "env_options.tile_size": "tiny", "env_options.reward": "native"},
        "iStar: 32 x 8, App. B: 10, 1, -1, -0.1; outcomes are not binary (Table 1)",
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
            "reward_model.learning_rate": 1e-6,
            "reward_model.beta": 0.05,
            "reward_model.minibatches": 2,
        },
        "iStar C.1: a batch of 64, of 128 episodes",
    ),
    Row((ISTAR,), ("istar",), ("VisualSokoban",), {"reward_model.minibatches": 4}, "64 of 256 episodes"),
    Row(
        (ISTAR,),
        ("istar",),
        ("WebShop", "VisualSokoban"),
        {"reward_model.outcome": "won", "reward_model.threshold": 0.0},
        "iStar, footnote 2: success rates above 0",
    ),
    Row((ISTAR,), ("istar",), ("Sotopia",), {"reward_model.outcome": "return"}, "iStar, footnote 2"),
    Row((ISTAR,), ("reinforce_pp",), None, {"algorithm_options.gamma": 1.0}, "ppo_trainer.yaml"),
    Row(
        (ISTAR,),
        ("istar",),
        None,
        {
            "algorithm_options.alpha": 1.0,
            "algorithm_options.prm_reward": "before",
            "reward_model.pooling": "sum",
        },
        "iStar Eq. 2, Algorithm 1",
    ),
    Row(
        (ISTAR,),
        ("istar",),
        ("WebShop", "VisualSokoban"),
        {"algorithm_options.base": "rloo"},
        "iStar Table 1",
    ),
    Row(
        (ISTAR,),
        ("istar",),
        ("VisualSokoban",),
        {"reward_model.model": ""},
        "iStar C.1: Qwen2.5-7B-Instruct, which reads no pictures",
    ),
    Row((ISTAR,), ("istar",), ("Sotopia",), {"algorithm_options.base": "grpo"}, "iStar Table 2"),
    Row((ISTAR,), ("istar",), ("Sotopia",), {"reward_model.threshold": 6.0}, "iStar: goal > 6"),
    Row((ISTAR,), ("prime",), None, {"reward_model.outcome": "won"}, "PRIME: binary outcomes"),
    Row(
        (ISTAR,),
        ("prime",),
        None,
        {
            "algorithm_options.beta": 0.05,
            "algorithm_options.process_weight": 5.0,
            "algorithm_options.outcome_weight": 5.0,
        },
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
            "learner.value_clip": 0.5,
            "algorithm_options.gamma": 1.0,
            "algorithm_options.lam": 1.0,
            "algorithm_options.truncation": "zero",
        },
        "iStar's code: examples/ppo_trainer/run_webshop.sh, ppo_trainer.yaml, core_algos.py",
    ),
)
"""Of all algorithms in its tables."""
