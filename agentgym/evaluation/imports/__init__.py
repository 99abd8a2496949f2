"""Runs of other projects: their logs are parsed, replayed, compared, and converted to runs."""
