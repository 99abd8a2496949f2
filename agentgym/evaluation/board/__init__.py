"""Leaderboards: scores, statistics, boards, tables and exports."""
