"""``python -m trainers.reinforce_pp_baseline``: the recipe of the same name on the command line."""

from trainers.recipe import main

if __name__ == "__main__":
    main("reinforce_pp_baseline")
