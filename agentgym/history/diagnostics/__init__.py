"""Diagnostics of single runs: the papers' figures beside learning curves."""
