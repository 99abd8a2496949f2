"""``python -m trainers.hgpo``: `agentgym.recipes.hgpo` on the command line."""

from trainers.recipe import main

if __name__ == "__main__":
    main("hgpo")
