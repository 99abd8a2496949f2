"""``python -m trainers.ppo``: `agentgym.recipes.ppo` on the command line."""

from trainers.recipe import main

if __name__ == "__main__":
    main("ppo")
