"""``python -m trainers.rloo``: `agentgym.recipes.rloo` on the command line."""

from trainers.recipe import main

if __name__ == "__main__":
    main("rloo")
