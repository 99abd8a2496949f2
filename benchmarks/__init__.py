"""Benchmarks of the checkout: suites, speed, parity. Never imported by the package."""
