"""Verification of runs: verdicts, packed runs and submissions."""
