"""``python -m trainers.gigpo``: `agentgym.recipes.gigpo` on the command line."""

from trainers.recipe import main

if __name__ == "__main__":
    main("gigpo")
