"""Diagnostics of single runs: what the papers draw beside learning curves."""
