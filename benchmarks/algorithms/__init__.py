"""Every algorithm on three small environments, one warm start each: ``python -m benchmarks.algorithms``."""
