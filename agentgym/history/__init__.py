"""The history of training runs: metrics, logs, and learning curves drawn from them. Needs no torch."""
