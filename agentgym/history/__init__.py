"""What a training run records of itself, and learning curves drawn from it. Needs no torch."""
