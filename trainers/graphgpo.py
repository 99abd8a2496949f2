"""``python -m trainers.graphgpo``: `agentgym.recipes.graphgpo` on the command line."""

from trainers.recipe import main

if __name__ == "__main__":
    main("graphgpo")
