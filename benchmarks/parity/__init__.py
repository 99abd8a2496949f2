"""Comparisons with the original implementations, step for step."""
