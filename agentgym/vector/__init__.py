"""Vectorised environments, in one process: their contract (`core`) and their forms."""
