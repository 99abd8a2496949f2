"""``python -m trainers.steppo``: `agentgym.recipes.steppo` on the command line."""

from trainers.recipe import main

if __name__ == "__main__":
    main("steppo")
