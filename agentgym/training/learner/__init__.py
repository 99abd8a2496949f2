"""The learner: packed sequences, log-probabilities, losses, gradients and updates."""
