"""Algorithms: one module each, pure functions that read like their papers."""
