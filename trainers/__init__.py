"""Recipes: what papers say about how they trained, as presets of the trainer.

``python -m trainers.gigpo --env agentgym/ALFWorld-v0 --model PATH --preset paper --seed 0`` trains as the
paper's table says; ``--preset tiny`` learns something on a laptop. Every setting can be changed by
``--set``. A recipe is data; what is computed is in `agentgym.algos` and `agentgym.training`.
"""
