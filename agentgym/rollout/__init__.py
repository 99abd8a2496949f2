"""Rollouts: the worker for groups of episodes, dispatch of its queries, and environments over processes."""
