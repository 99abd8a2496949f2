"""Evaluation: suites, runs, verification, statistics and the leaderboard.

A row is believed because anyone can re-execute it: every number of a table is a pure function of the
result files, and `agentgym.evaluation.verify.verification` re-executes those.
"""
