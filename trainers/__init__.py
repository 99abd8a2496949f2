"""Recipes as programs of the checkout: ``python -m trainers.gigpo`` trains by `agentgym.recipes.gigpo`."""
