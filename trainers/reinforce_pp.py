"""``python -m trainers.reinforce_pp``: `agentgym.recipes.reinforce_pp` on the command line."""

from trainers.recipe import main

if __name__ == "__main__":
    main("reinforce_pp")
