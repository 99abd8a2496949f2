"""Ranks on several machines that die in the middle of a training run."""
