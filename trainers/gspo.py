"""``python -m trainers.gspo``: `agentgym.recipes.gspo` on the command line."""

from trainers.recipe import main

if __name__ == "__main__":
    main("gspo")
