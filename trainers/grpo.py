"""``python -m trainers.grpo``: `agentgym.recipes.grpo` on the command line."""

from trainers.recipe import main

if __name__ == "__main__":
    main("grpo")
