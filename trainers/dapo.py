"""``python -m trainers.dapo``: `agentgym.recipes.dapo` on the command line."""

from trainers.recipe import main

if __name__ == "__main__":
    main("dapo")
